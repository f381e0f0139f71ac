"""Whether a platform answers an order: its policy, by public facts alone, before any work.

What needs the platform itself (shapes, batches, rounds in order) is checked in `federated.orders`.
"""

from collections.abc import Mapping

from fedner.federated.encrypted.phases import APPLY
from fedner.federated.messages import VERBS, Order, order_problem
from fedner.runs.policy.process_limits import memory_refusal
from fedner.runs.policy.refusal import refusal_of
from fedner.runs.site import Site
from fedner.runs.study_policy import crossing_problems, is_accepted_tensor
from fedner.runs.sums import is_signed

# The orders that bring the shared weights; others bring no tensor.
_WITH_WEIGHTS = ("round", "evaluate", "finish")


def order_refusal(
    site: Site,
    order: Order,
    *,
    run: str | None = None,
    hours: float = 0.0,
    num_left: int | None = None,
) -> str | None:
    """Return the code with which a platform refuses an order; None where it answers.

    Args:
        site: The platform.
        order: What another party asks for.
        run: The run that the platform takes part in; None where nobody said.
        hours: Since the first order of the run, by the platform's own clock.
        num_left: How many more orders of this kind may be answered for the study; None where nobody
            counts.
    """
    if order.verb not in VERBS:
        return "order-verb"
    if order_problem(order) is not None:
        return "order-refused"
    if order.study != site.study.digest:
        return "order-study"
    if run is not None and order.run != run:
        return "order-run"
    for problem in crossing_problems(site.study, site.own):
        return refusal_of(problem).code
    return _tensor_refusal(site, order) or _extent_refusal(site, order, hours, num_left)


def _tensor_refusal(site: Site, order: Order) -> str | None:
    shared = site.blueprint.partition.shared
    if not all(is_accepted_tensor(name, site.own) for name in shared):
        return "policy-tensors"
    is_encrypted = site.study.transport.encryption is not None
    has_weights = _has_first_weights(order) if is_encrypted else order.verb in _WITH_WEIGHTS
    expected = set(shared) if has_weights else set()
    if set(order.shared) != expected or not set(order.extra) <= expected:
        return "order-tensors"
    is_hidden = is_signed(site.study)
    if order.verb == "sum" and not is_hidden:
        return "order-refused"
    if order.relayed and not (is_hidden and order.verb in ("sum", "round")):
        return "order-tensors"
    has_total = is_encrypted and order.verb == "sum" and order.phase == APPLY
    return "order-tensors" if bool(order.total) != has_total else None


def _has_first_weights(order: Order) -> bool:
    """Whether an order of an encrypted run brings weights: the first ones, and no others."""
    is_first = order.verb == "round" or (order.verb == "sum" and order.phase == APPLY)
    return is_first and order.round == 1


def _extent_refusal(site: Site, order: Order, hours: float, num_left: int | None) -> str | None:
    policy = site.own.policy
    if policy.max_rounds is not None and order.round > policy.max_rounds:
        return "policy-rounds"
    if policy.max_hours is not None and hours > policy.max_hours:
        return "policy-hours"
    if order.verb == "round" and _num_others(order.batches, site) < policy.min_others:
        return "policy-others"
    if num_left is not None and num_left <= 0:
        return "policy-updates"
    return memory_refusal(site.own)


def _num_others(batches: Mapping[str, int], site: Site) -> int:
    """Return how many other platforms of the study an order says are in the sum."""
    return len({*batches} & {*site.study.names} - {site.name})
