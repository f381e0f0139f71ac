"""One round: the order goes out, what comes back becomes one sum.

In the clear, updates are screened and folded one by one in canonical order, so that one of them is
in memory at a time. A summation in phases (`summation`) hides them: then the total alone is seen,
whose norms nobody can judge, and who dropped out in which phase is recorded by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import (
    Combined,
    Rule,
    WeightedMean,
    combine,
    in_canonical_order,
    share_of,
)
from fedner.federated.asking import ask_alike, ask_for, require_quorum
from fedner.federated.encoding import order_down
from fedner.federated.engine import Engine
from fedner.federated.messages import Order, SumMessage, failure, payload_bytes
from fedner.federated.record import Missing, missing
from fedner.federated.screening import Accepted, Screen
from fedner.federated.summation import PLAIN, Relayed, ServerSum, Summation, parts_of
from fedner.tensors import SharedState, map_shared


@dataclass(frozen=True, slots=True)
class RoundRules:
    """How the replies of a round are taken.

    Attributes:
        weights: The weight of every platform of the federation.
        rule: How updates are folded.
        quorum: How many platforms must have answered; None wants all.
        timeout: Seconds that the replies of one order may take.
        summation: How updates become one sum.
        batches: Returns the batches of those who take part.
        scales: What the updates of some platforms are multiplied by; in the clear only.
    """

    weights: Mapping[str, float]
    batches: Callable[[Sequence[str]], Mapping[str, int]]
    rule: Rule = WeightedMean
    quorum: int | None = None
    timeout: float | None = None
    summation: Summation = PLAIN
    scales: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a round.

    Attributes:
        combined: The aggregate.
        missing: Who did not answer.
    """

    combined: Combined
    missing: tuple[Missing, ...]


def take_round(engine: Engine, order: Order, screen: Screen, rules: RoundRules) -> Taken:
    """Send an order to the platforms that its batches name, and combine what comes.

    Raises:
        FednerError: If too few answered, or an update was refused and that stops.
    """
    if rules.summation.at_server is None:
        return _plain_round(engine, order, screen, rules)
    return _PhasedRound(engine, order, screen, rules).take(rules.summation.at_server(order))


def _plain_round(engine: Engine, order: Order, screen: Screen, rules: RoundRules) -> Taken:
    chosen = sorted(order.batches)
    asked = ask_alike(chosen, order_down(order, screen.encoding))
    replies = in_canonical_order(engine.ask(asked, rules.timeout), chosen)
    joint = sum(order.batches.values())
    combined: Combined | None = None
    try:
        updates = screen.accepted_updates(replies, order)
        combined = combine(updates, rules.weights, rules.rule, joint, rules.scales)
    except FednerError:
        if screen.accepted or not (screen.failures or screen.refusals):
            raise
    gone = tuple(missing(each, "round") for each in screen.failures)
    refused = [f"{each.platform}: refused, {each.message}" for each in screen.refusals]
    what = f"round {order.round}"
    require_quorum(len(screen.accepted), len(chosen), gone, rules.quorum, what, refused)
    if combined is None:
        raise FednerError(f"{what}: no update was taken")
    return Taken(combined, gone)


@dataclass(slots=True)
class _PhasedRound:
    """A round whose summation has phases."""

    engine: Engine
    order: Order
    screen: Screen
    rules: RoundRules
    gone: list[Missing] = field(default_factory=list)
    relayed: Relayed = field(default_factory=dict)

    def take(self, side: ServerSum) -> Taken:
        """Take all phases and return the total."""
        summation, names = self.rules.summation, sorted(self.order.batches)
        self.screen.begin()
        for phase in range(1, summation.before + 1):
            came = self._phase(phase, names)
            self.relayed, names = side.relay(phase, came), list(came)
        values = self._values(summation.before + 1, names)
        values = {name: each for name, each in values.items() if self.screen.takes_cost(each)}
        self._require_quorum(values, len(names), f"round {self.order.round}, values")
        self.relayed = side.relay(summation.before + 1, values)
        after = {}
        names = list(values)
        for phase in range(summation.before + 2, summation.num_phases + 1):
            after[phase] = self._phase(phase, names)
            self.relayed, names = side.relay(phase, after[phase]), list(after[phase])
        for name, value in values.items():
            self.screen.accepted[name] = Accepted(None, None, payload_bytes(value))
        return Taken(self._combined(side, values, after), tuple(self.gone))

    def _phase(self, phase: int, names: Sequence[str]) -> dict[str, SumMessage]:
        """Send `sum` orders and return what came of the right form."""
        batches = {name: self.order.batches[name] for name in names}
        nothing = SharedState({})
        order = replace(
            self.order, verb="sum", phase=phase, batches=batches, shared=nothing, extra=nothing
        )
        return self._asked(order, names, lambda _: True)

    def _values(self, phase: int, names: Sequence[str]) -> dict[str, SumMessage]:
        """Send the `round` order and return the hidden values that came."""
        order = replace(self.order, phase=phase, batches=dict(self.rules.batches(names)))
        expected = {f"tensors/{name}": each.shape for name, each in order.shared.items()}
        expected |= {f"extra/{name}": each.shape for name, each in order.extra.items()}

        def fits(reply: SumMessage) -> bool:
            return {name: each.shape for name, each in reply.tensors.items()} == expected

        return self._asked(order, names, fits)

    def _asked(
        self, order: Order, names: Sequence[str], fits: Callable[[SumMessage], bool]
    ) -> dict[str, SumMessage]:
        orders = ask_alike(names, order)
        orders |= {
            name: replace(order, relayed=dict(self.relayed[name]))
            for name in names
            if self.relayed.get(name)
        }
        rules = self.rules
        answers = ask_for(SumMessage, self.engine, orders, rules.timeout, rules.quorum)
        self.gone += answers.missing
        known = set(self.order.batches)
        came = {
            name: reply
            for name, reply in answers.replies.items()
            if reply.phase == order.phase and set(reply.entries) <= known and fits(reply)
        }
        odd = [failure(name, order.round, "malformed") for name in answers.replies.keys() - came]
        self.gone += [missing(each, order.verb) for each in sorted(odd, key=lambda f: f.platform)]
        self._require_quorum(came, len(names), f"round {order.round}, phase {order.phase}")
        return came

    def _require_quorum(self, came: Mapping[str, SumMessage], num_asked: int, what: str) -> None:
        refused = [f"{each.platform}: refused, {each.message}" for each in self.screen.refusals]
        # Without a quorum everybody must be in the sum.
        quorum = num_asked if self.rules.quorum is None else self.rules.quorum
        require_quorum(len(came), num_asked, self.gone, quorum, what, refused)

    @torch.no_grad()
    def _combined(
        self,
        side: ServerSum,
        values: Mapping[str, SumMessage],
        after: Mapping[int, Mapping[str, SumMessage]],
    ) -> Combined:
        """Divide the total by the weights of those who are in it, or let the rule noise it."""
        weights, names = self.rules.weights, sorted(values)
        total, extra = parts_of(side.total(values, after))
        total = map_shared(lambda all_, own: all_.to(own.device), total, self.order.shared)
        weight = sum(weights[name] for name in names)
        if self.rules.rule is WeightedMean:
            tensors = _divided(total, weight, self.order.shared)
        else:
            fold = self.rules.rule()
            fold.add(total, weight)
            tensors = fold.result()
        joint = sum(self.order.batches.values())
        share = share_of(names, weights)
        spread = _divided(extra, weight, self.order.extra)
        return Combined(tensors, spread, tuple(names), share, joint)


def _divided(total: SharedState, weight: float, like: SharedState) -> SharedState:
    return map_shared(
        lambda all_, own: (all_.double() / weight).to(own.device, own.dtype), total, like
    )
