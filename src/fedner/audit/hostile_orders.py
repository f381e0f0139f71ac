"""Orders that a malicious server may send to learn more than the study says.

A round below 1 books a slice twice, weights that are no numbers make private weights none either,
a batch of one shows a single sentence, other tensors ask for private ones (SCIENCE: point 19). Each
is given to the check that every platform makes before it uses an order. The suite is permanent.
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from fedner.audit.finding import DEFENCES, Finding, in_order, unchanged
from fedner.audit.observation import Target
from fedner.federated.messages import Order
from fedner.federated.orders import (
    MOST_WEIGHT,
    Expected,
    OrderRefusedError,
    PublicPlan,
    checked_order,
)
from fedner.federated.sizes import planned_batches
from fedner.tensors import SharedState, map_shared

ATTACK = "hostile orders"
MEASURE = "how many hostile orders were taken"
_SAME_CHECK = "orders are checked by the same code"
_NAME, _OTHER, _ROUNDS, _BATCH = "audited", "another", 10, 32

Check = Callable[[Order, Expected], Order]


def _filled(order: Order, value: float) -> Order:
    return replace(
        order, shared=map_shared(lambda each: torch.full_like(each, value), order.shared)
    )


def _without_first(order: Order) -> Order:
    return replace(order, shared=SharedState(dict(list(order.shared.items())[1:])))


# Each makes a hostile order of an honest one.
CHANGES: dict[str, Callable[[Order], Order]] = {
    "round 0": lambda order: replace(order, round=0),
    "round -1": lambda order: replace(order, round=-1),
    "a round beyond the study": lambda order: replace(order, round=_ROUNDS + 1),
    "weights that are no numbers": lambda order: _filled(order, float("nan")),
    "infinite weights": lambda order: _filled(order, float("inf")),
    "huge weights": lambda order: _filled(order, 2.0 * MOST_WEIGHT),
    "fewer tensors": _without_first,
    "a private tensor": lambda order: replace(
        order, shared=SharedState({**order.shared, "not.shared": torch.ones(2)})
    ),
    "another shape": lambda order: replace(
        order, shared=map_shared(lambda each: each.flatten()[:1].clone(), order.shared)
    ),
    "extra tensors": lambda order: replace(order, extra=order.shared),
    "a batch of one": lambda order: replace(order, batches={_NAME: 1}),
    "a stranger": lambda order: replace(order, batches={**order.batches, "stranger": 1}),
    "nobody chosen": lambda order: replace(order, batches={}),
    "a run that is no name": lambda order: replace(order, run="a\x1b[2J"),
}


def audit_hostile_orders(target: Target) -> list[Finding]:
    """Return the row of the table for hostile orders."""
    order, expected = _honest(target)
    accepted = taken(order, expected, checked_order)
    # A platform that believes everything is the planted leak; one that refuses honest orders too
    # has shown nothing.
    credulous = taken(order, expected, lambda given, _expected: given)
    is_open = _is_taken(order, expected, checked_order)
    power = len(credulous) / len(CHANGES) if is_open else 0.0
    note = f"taken: {', '.join(accepted)}" if accepted else f"all {len(CHANGES)} were refused"
    number = float(len(accepted))
    cell = Finding(
        ATTACK, "none", MEASURE, "run", number, number, None, 0.0, power, 0.0, note=note
    )  # fmt: skip
    same = [unchanged(ATTACK, each, MEASURE, "none", _SAME_CHECK) for each in DEFENCES[1:]]
    return in_order([cell, *same])


def _honest(target: Target) -> tuple[Order, Expected]:
    """Return an order of the study, and what the platform expects of it."""
    weights = dict(target.tagger.named_parameters())
    shared = SharedState({name: weights[name].detach().clone() for name in target.shared})
    sizes = {_NAME: max(1, len(target.sentences)), _OTHER: max(1, len(target.sentences))}
    plan = PublicPlan(sizes, _BATCH, rounds=_ROUNDS)
    order = Order("run", 1, shared, batches=planned_batches(sizes, _BATCH, "joint"))
    return order, Expected(_NAME, shared, target.padding_rows, has_extra=False, plan=plan)


def taken(order: Order, expected: Expected, check: Check) -> list[str]:
    """Return the hostile changes of an order that a check lets pass."""
    return [
        name for name, change in CHANGES.items() if _is_taken(change(order), expected, check)
    ]  # fmt: skip


def _is_taken(order: Order, expected: Expected, check: Check) -> bool:
    try:
        check(order, expected)
    except OrderRefusedError:
        return False
    return True
