"""What a platform checks of a broadcast before it uses it: the server need not be trusted.

Every order is held against public facts alone (the model's names, shapes and types, the study's
batches and rounds), so that a refusal tells nothing about data. Rows that stand for padding are
never taken from a broadcast: they stay zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch

from fedner.errors import FednerError
from fedner.federated.encoding import type_down, widened
from fedner.federated.messages import MOST_NAME, MOST_NUMBER, Order, all_within, is_name
from fedner.federated.sizes import Batching, planned_batches
from fedner.settings.sections import Encoding
from fedner.tensors import SharedState

# No weight is ever so large; larger ones would drive a platform's private weights to infinity.
MOST_WEIGHT = 1e6
_SHOWN = 5


class OrderRefusedError(FednerError):
    """An order that is not one of the study's."""


class RoundPassedError(FednerError):
    """An order for a round before the newest one that was answered, and not in the record."""


@dataclass(frozen=True, slots=True)
class PublicPlan:
    """What everybody knows of the orders of a run.

    Attributes:
        public_sizes: The declared size of every platform.
        batch_size: N: the joint batch, or every platform's own.
        batching: Which of the two.
        rounds: How many rounds there are; None where nobody said.
    """

    public_sizes: Mapping[str, int]
    batch_size: int
    batching: Batching = "joint"
    rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a platform expects of an order.

    Attributes:
        platform: Its name.
        shared: Its own shared weights: names, shapes and types count.
        fixed_rows: The rows of tables that are never trained, by name.
        has_extra: Whether the algorithm hands out extra tensors, like the shared weights; None
            where nobody said.
        plan: The public plan of the run; None where there is none.
        is_update: Whether an update is asked for, and not scores.
        encoding: How the order of a round brings weights; other orders bring them as they are.
    """

    platform: str
    shared: SharedState
    fixed_rows: Mapping[str, int] = field(default_factory=dict)
    has_extra: bool | None = None
    plan: PublicPlan | None = None
    is_update: bool = True
    encoding: Encoding = "float32"


def checked_order(order: Order, expected: Expected) -> Order:
    """Return the order in the model's types, zeros in the fixed rows, if it is of the study.

    Raises:
        OrderRefusedError: If it is not; all problems are reported together.
    """
    problems = [*_fact_problems(order, expected), *_tensor_problems(order, expected)]
    if problems:
        raise OrderRefusedError(
            f"platform {expected.platform!r} refuses the order: {'; '.join(problems[:_SHOWN])}",
            "Server and platform must have the same study: recipe, embeddings, partition, sizes.",
        )
    rows, like = expected.fixed_rows, expected.shared
    shared, extra = widened(order.shared, like), widened(order.extra, like)
    return replace(order, shared=_without_rows(shared, rows), extra=_without_rows(extra, rows))


def _fact_problems(order: Order, expected: Expected) -> Iterator[str]:
    if not is_name(order.run):
        yield f"its run is no name of 1 to {MOST_NAME} characters"
    most = None if expected.plan is None else expected.plan.rounds
    limit = MOST_NUMBER if most is None else most
    least = 0 if order.verb == "finish" else 1
    if type(order.round) is not int or not least <= order.round <= limit:
        yield f"its round is {order.round!r}; expected a whole number from {least} to {limit}"
    batches = order.batches
    if not _are_sizes(batches):
        yield "its batches are not whole numbers of at least 1 by platform"
    elif expected.is_update and expected.platform not in batches:
        yield f"{expected.platform!r} was not chosen for round {order.round!r}"
    elif expected.plan is not None and batches:
        yield from _plan_problems(batches, expected.plan)


def _are_sizes(batches: object) -> bool:
    return isinstance(batches, Mapping) and all(
        is_name(name) and type(size) is int and 1 <= size <= MOST_NUMBER
        for name, size in batches.items()
    )


def _plan_problems(batches: Mapping[str, int], plan: PublicPlan) -> Iterator[str]:
    unknown = sorted(set(batches) - set(plan.public_sizes))
    if unknown:
        yield f"it names platforms that are not in the study: {unknown[:_SHOWN]}"
        return
    sizes = {name: plan.public_sizes[name] for name in batches}
    planned = planned_batches(sizes, plan.batch_size, plan.batching)
    odd = sorted(name for name in planned if planned[name] != batches[name])
    if odd:
        yield f"its batch for {odd[0]!r} is {batches[odd[0]]}; the study says {planned[odd[0]]}"


def _tensor_problems(order: Order, expected: Expected) -> Iterator[str]:
    encoding = expected.encoding
    yield from _unlike(order.shared, expected.shared, "shared", encoding)
    has_extra = bool(order.extra) if expected.has_extra is None else expected.has_extra
    like = expected.shared if has_extra else SharedState({})
    yield from _unlike(order.extra, like, "extra", encoding)


def _unlike(state: object, like: SharedState, part: str, encoding: Encoding) -> Iterator[str]:
    """Yield in what a state differs from one of the right names, shapes and types."""
    names = set(state) if isinstance(state, Mapping) else {part}
    if not isinstance(state, Mapping) or names != set(like):
        odd = sorted(map(repr, names ^ set(like)))
        yield f"its {part} tensors differ from those of the model in {', '.join(odd[:_SHOWN])}"
        return
    problems = [
        f"its {part} {name!r} {problem}"
        for name in like
        if (problem := _unlike_one(state[name], like[name], encoding)) is not None
    ]
    yield from problems
    if not problems and not all_within(state, MOST_WEIGHT):
        yield f"its {part} tensors hold numbers that are not finite, or above {MOST_WEIGHT:g}"


def _unlike_one(tensor: object, own: torch.Tensor, encoding: Encoding) -> str | None:
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return "is no tensor"
    if tensor.shape != own.shape:
        return f"has shape {tuple(tensor.shape)}; expected {tuple(own.shape)}"
    expected = type_down(own.dtype, encoding)
    if tensor.dtype != expected:
        return f"is of {tensor.dtype}; expected {expected}"
    return None


@torch.no_grad()
def _without_rows(state: SharedState, rows: Mapping[str, int]) -> SharedState:
    """Return the state with zeros in some rows; what has zeros there already is not copied."""
    cleaned = dict(state)
    for name, row in rows.items():
        if name in cleaned and bool(cleaned[name][row].any()):
            cleaned[name] = cleaned[name].detach().clone()
            cleaned[name][row].zero_()
    return SharedState(cleaned)
