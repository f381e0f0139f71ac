"""One round: the order goes out, what comes back becomes one sum.

In the clear, updates are screened and folded one by one in canonical order, so that one of them is
in memory at a time. A summation in phases (`summation`) hides them: then the total alone is seen,
whose norms nobody can judge, and who dropped out in which phase is recorded by name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

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
from fedner.federated.messages import (
    Order,
    Reply,
    SumMessage,
    failure,
    payload_bytes,
    reply_problem,
)
from fedner.federated.opened_totals import OpenedTotal, OpenedTotals
from fedner.federated.record import Missing, missing
from fedner.federated.screening import Accepted, Screen
from fedner.federated.summation import (
    PLAIN,
    Relayed,
    ServerSum,
    Summation,
    Totals,
    divided_total,
    parts_of,
)
from fedner.tensors import SharedState, map_shared

Note = Callable[[Mapping[str, SumMessage]], None]


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
        opened: Where hidden sums are kept that were opened; None keeps none.
    """

    weights: Mapping[str, float]
    batches: Callable[[Sequence[str]], Mapping[str, int]]
    rule: Rule = WeightedMean
    quorum: int | None = None
    timeout: float | None = None
    summation: Summation = PLAIN
    scales: Mapping[str, float] = field(default_factory=dict)
    opened: OpenedTotals | None = None


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
class _Noting:
    """An engine that tells of sound messages as they come.

    Attributes:
        engine: The engine.
        note: Called with all that came so far, by platform.
        is_sound: Which messages count.
    """

    engine: Engine
    note: Note
    is_sound: Callable[[SumMessage], bool]

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms of the engine."""
        return self.engine.platforms

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        """Give the engine's replies."""
        came: dict[str, SumMessage] = {}
        for reply in self.engine.ask(orders, timeout):
            if isinstance(reply, SumMessage) and self._counts(reply, orders):
                came[reply.platform] = reply
                self.note(came)
            yield reply

    def _counts(self, reply: SumMessage, orders: Mapping[str, Order]) -> bool:
        is_of_form = reply_problem(reply) is None and reply.platform in orders
        return is_of_form and self.is_sound(reply)

    def close(self) -> None:
        """The engine is the caller's."""


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
        kept = None if self.rules.opened is None else self.rules.opened.read(self.order)
        self.screen.begin()
        for phase in range(1, summation.before + 1):
            came = self._phase(phase, names)
            if kept is not None:
                if not set(kept.names) <= set(came):
                    return Taken(self._combined(kept), tuple(self.gone))
                came = self._only(came, kept.names)
            self.relayed, names = side.relay(phase, came), list(came)
        values = self._values(summation.before + 1, names)
        batches = self.rules.batches(names)
        values = {
            name: each
            for name, each in values.items()
            if self.screen.takes_cost(each, batches[name])
        }
        self._require_quorum(values, len(names), f"round {self.order.round}, values")
        self.relayed = side.relay(summation.before + 1, values)
        opened = self._opened(side, values)
        for name, value in values.items():
            self.screen.accepted[name] = Accepted(None, None, payload_bytes(value))
        return Taken(self._combined(opened), tuple(self.gone))

    def _opened(self, side: ServerSum, values: Mapping[str, SumMessage]) -> OpenedTotal:
        """Take the phases after the values and return what they open.

        The sum is kept as soon as enough came: who is gone by then is waited for, and meanwhile the
        job may end.
        """
        summation, names = self.rules.summation, list(values)
        after: dict[int, Mapping[str, SumMessage]] = {}
        early: list[OpenedTotal] = []
        for phase in range(summation.before + 2, summation.num_phases + 1):
            note = None
            if phase == summation.num_phases:
                note = partial(self._open_early, side, values, dict(after), early)
            after[phase] = self._phase(phase, names, note)
            self.relayed, names = side.relay(phase, after[phase]), list(after[phase])
        return early[0] if early else self._kept(side.total(values, after), values)

    def _open_early(
        self,
        side: ServerSum,
        values: Mapping[str, SumMessage],
        after: Mapping[int, Mapping[str, SumMessage]],
        early: list[OpenedTotal],
        came: Mapping[str, SumMessage],
    ) -> None:
        """Open the sum with the shares that came so far, where they are enough and sound."""
        if early or not side.can_open(came):
            return
        try:
            total = side.total(values, {**after, self.rules.summation.num_phases: came})
        except FednerError:
            return  # wrong ones among them: all that come may do
        early.append(self._kept(total, values))

    def _kept(self, totals: Totals, values: Mapping[str, SumMessage]) -> OpenedTotal:
        opened = OpenedTotal(tuple(sorted(values)), totals)
        if self.rules.opened is not None:
            self.rules.opened.keep(self.order, opened)
        return opened

    def _only(self, came: Mapping[str, SumMessage], names: Sequence[str]) -> dict[str, SumMessage]:
        """Return what came of those for whom the round was opened before; note the others."""
        left_out = [name for name in came if name not in names]
        found = [failure(name, self.order.round, "sum-left-out") for name in left_out]
        self.gone += [missing(each, "sum") for each in found]
        return {name: came[name] for name in names}

    def _phase(
        self, phase: int, names: Sequence[str], note: Note | None = None
    ) -> dict[str, SumMessage]:
        """Send `sum` orders and return what came of the right form."""
        batches = {name: self.order.batches[name] for name in names}
        nothing = SharedState({})
        order = replace(
            self.order, verb="sum", phase=phase, batches=batches, shared=nothing, extra=nothing
        )
        return self._asked(order, names, lambda _: True, note)

    def _values(self, phase: int, names: Sequence[str]) -> dict[str, SumMessage]:
        """Send the `round` order and return the hidden values that came."""
        order = replace(self.order, phase=phase, batches=dict(self.rules.batches(names)))
        expected = {f"tensors/{name}": each.shape for name, each in order.shared.items()}
        expected |= {f"extra/{name}": each.shape for name, each in order.extra.items()}

        def fits(reply: SumMessage) -> bool:
            return {name: each.shape for name, each in reply.tensors.items()} == expected

        return self._asked(order, names, fits)

    def _asked(
        self,
        order: Order,
        names: Sequence[str],
        fits: Callable[[SumMessage], bool],
        note: Note | None = None,
    ) -> dict[str, SumMessage]:
        orders = ask_alike(names, order)
        orders |= {
            name: replace(order, relayed=dict(self.relayed[name]))
            for name in names
            if self.relayed.get(name)
        }
        rules, known = self.rules, set(self.order.batches)

        def is_sound(reply: SumMessage) -> bool:
            is_known = reply.phase == order.phase and set(reply.entries) <= known
            return is_known and reply.round == order.round and fits(reply)

        engine = self.engine if note is None else _Noting(self.engine, note, is_sound)
        answers = ask_for(SumMessage, engine, orders, rules.timeout, rules.quorum)
        self.gone += answers.missing
        came = {name: reply for name, reply in answers.replies.items() if is_sound(reply)}
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
    def _combined(self, opened: OpenedTotal) -> Combined:
        """Divide the total by the weights of those who are in it, or let the rule noise it."""
        weights, names = self.rules.weights, opened.names
        total, extra = parts_of(opened.totals)
        total = map_shared(lambda all_, own: all_.to(own.device), total, self.order.shared)
        weight = sum(weights[name] for name in names)
        if self.rules.rule is WeightedMean:
            tensors = divided_total(total, weight, self.order.shared)
        else:
            fold = self.rules.rule()
            fold.add(total, weight)
            tensors = fold.result()
        joint = sum(self.order.batches.values())
        share = share_of(names, weights)
        spread = divided_total(extra, weight, self.order.extra)
        return Combined(tensors, spread, names, share, joint)
