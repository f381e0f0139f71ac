"""Rounds of a secure sum among platforms whose updates are given: no model, no training."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from fedner.federated.answering import logged_failure
from fedner.federated.messages import Order, Reply, SumMessage, Update, failure
from fedner.federated.opened_totals import OpenedTotals
from fedner.federated.round import RoundRules, Taken, take_round
from fedner.federated.screening import NormRule, Screen
from fedner.federated.secure.identities import SimulatedIdentity
from fedner.federated.secure.plan import SumPlan
from fedner.federated.secure.platform_side import PlatformSide
from fedner.federated.secure_sum import GRID, mean_scales, secure_sum
from fedner.federated.summation import PlatformSum, Summation
from fedner.privacy.sum_terms import SumTerms
from fedner.tensors import SharedState

STUDY = "5" * 64
Drops = Mapping[int, Collection[str]]
Alter = Callable[[str, Order], Order | None]


def named(number: int) -> list[str]:
    return [f"p{each:02d}" for each in range(number)]


def plan_for(
    names: Sequence[str], colluding: int = 1, quorum: int | None = None, **options: object
) -> SumPlan:
    scales, factor = mean_scales({name: 1.0 + place for place, name in enumerate(names)})
    terms = SumTerms(len(names), colluding, quorum)
    plan = SumPlan(terms, GRID, scales, factor)
    return replace(plan, **options)  # type: ignore[arg-type]


def summation_for(plan: SumPlan, record: Path | None = None) -> Summation:
    return secure_sum(plan, partial(SimulatedIdentity, STUDY), record)


def random_update(name: str, seed: int = 0, size: int = 5) -> Update:
    generator = torch.Generator().manual_seed(sum(map(ord, name)) + 1000 * seed)
    shared = SharedState(
        {
            "a": torch.randn(size, generator=generator),
            "b": torch.randn(2, 3, generator=generator) * 100,
        }
    )
    return Update(name, 1, shared)


def order_of(names: Sequence[str], round_: int = 1, run: str = "run", size: int = 5) -> Order:
    weights = SharedState({"a": torch.zeros(size), "b": torch.zeros(2, 3)})
    return Order(run, round_, weights, batches=dict.fromkeys(names, 1), study=STUDY)


@dataclass
class Federation:
    """An engine whose platforms do nothing but sum; some drop out, some orders are altered.

    Attributes:
        summation: The secure sum.
        updates: What each platform puts in.
        drops: Who is gone from which phase on.
        alter: What a lying server makes of an order; None drops it.
        replies: All that came.
    """

    summation: Summation
    updates: Mapping[str, Update]
    drops: Drops = field(default_factory=dict)
    alter: Alter = lambda _name, order: order
    sides: dict[str, PlatformSum] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)
    orders: list[tuple[str, Order]] = field(default_factory=list)

    @property
    def platforms(self) -> Sequence[str]:
        return sorted(self.updates)

    def close(self) -> None:
        pass

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        del timeout
        for name, order in orders.items():
            reply = self.answered(name, order)
            self.replies.append(reply)
            yield reply

    def answered(self, name: str, given: Order) -> Reply:
        gone = {
            each for phase, names in self.drops.items() for each in names if phase <= given.phase
        }
        order = self.alter(name, given)
        if name in gone or order is None:
            return failure(name, given.round, "platform-gone")
        self.orders.append((name, order))
        try:
            if order.verb == "sum":
                return self.side(name).phase(order)
            return self.side(name).protect(order, replace(self.updates[name], round=order.round))
        except Exception as error:  # noqa: BLE001 - as a platform does
            return logged_failure(error, name, order)

    def side(self, name: str) -> PlatformSide:
        if name not in self.sides:
            self.sides[name] = self.summation.at_platform(name)
        return self.sides[name]  # type: ignore[return-value]

    def take(
        self, order: Order, quorum: int | None = None, opened: OpenedTotals | None = None
    ) -> Taken:
        weights = {name: 1.0 + place for place, name in enumerate(self.platforms)}
        rules = RoundRules(
            weights,
            lambda names: dict.fromkeys(names, 1),
            quorum=quorum,
            summation=self.summation,
            opened=opened,
        )
        return take_round(self, order, Screen(NormRule()), rules)


def plain_mean(updates: Mapping[str, Update], survivors: Collection[str]) -> dict[str, Tensor]:
    weights = {name: 1.0 + place for place, name in enumerate(sorted(updates))}
    whole = sum(weights[name] for name in survivors)
    found: dict[str, Tensor] = {}
    for name in sorted(survivors):
        for key, tensor in updates[name].tensors.items():
            found[key] = found.get(key, 0) + tensor.double() * weights[name] / whole
    return found


def masked(replies: Sequence[Reply]) -> dict[str, SumMessage]:
    found = [each for each in replies if isinstance(each, SumMessage) and each.tensors]
    return {each.platform: each for each in found}
