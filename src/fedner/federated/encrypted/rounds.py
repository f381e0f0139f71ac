"""Rounds of a coordinator that has no weights.

It hands on what platforms announce, adds up ciphertexts, and gives the sum to all platforms: also
to those who were not chosen for the round, and later to those who missed it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedner.errors import FednerError
from fedner.federated.algorithms.algorithm import Server
from fedner.federated.asking import ask_alike, ask_for, require_quorum
from fedner.federated.blind import HandedOut
from fedner.federated.encrypted.kept_totals import KeptTotal, KeptTotals
from fedner.federated.encrypted.keys import KeylessContext
from fedner.federated.encrypted.phases import ANNOUNCE, APPLY, COMPARE, ENCRYPT, HAND_OVER, SETTLE
from fedner.federated.encrypted.plan import EncryptionPlan
from fedner.federated.encrypted.platform_side import as_tensors
from fedner.federated.encrypted.server_side import ServerSide, announced, require_one_arithmetic
from fedner.federated.engine import Engine
from fedner.federated.messages import (
    Order,
    Reply,
    SumMessage,
    Verb,
    failure,
    nothing_shared,
    payload_bytes,
    reply_problem,
)
from fedner.federated.record import Missing, missing
from fedner.federated.round import RoundRules
from fedner.federated.screening import Accepted, Screen
from fedner.federated.summation import Relayed, relayed_entries
from fedner.tensors import SharedState

Add = Callable[[SumMessage], None]
MISSED_TOO_MUCH = "sums-missed"


@dataclass(frozen=True, slots=True)
class _Adding:
    """An engine whose encrypted values are added up as they come: one is in memory at a time.

    Attributes:
        engine: The engine.
        add: Takes a message of values.
    """

    engine: Engine
    add: Add

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms of the engine."""
        return self.engine.platforms

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        """Give the engine's replies, without the values."""
        for reply in self.engine.ask(orders, timeout):
            order = orders.get(reply.platform) if isinstance(reply, SumMessage) else None
            if order is None or not isinstance(reply, SumMessage):
                yield reply
                continue
            try:
                _require_sound(reply, order)
                self.add(reply)
            except FednerError:
                yield failure(reply.platform, order.round, "malformed")
            else:
                yield replace(reply, tensors={})

    def close(self) -> None:
        """The engine is the caller's."""


def _require_sound(reply: SumMessage, order: Order) -> None:
    is_of_round = (reply.round, reply.phase) == (order.round, order.phase)
    if not is_of_round or reply.entries or reply_problem(reply) is not None:
        raise FednerError(f"what {reply.platform!r:.60} sent does not answer the order")


@dataclass(slots=True)
class _Asking:
    """Asks platforms within one round, and notes who is missing.

    Attributes:
        engine: Who is asked.
        order: The order of the round.
        rules: How many must answer, and in what time.
        gone: Who did not.
    """

    engine: Engine
    order: Order
    rules: RoundRules
    gone: list[Missing] = field(default_factory=list)

    def sum_order(self, phase: int, names: Sequence[str]) -> Order:
        """Return the `sum` order of a phase, which brings no tensor."""
        batches, nothing = dict.fromkeys(names, 1), nothing_shared()
        return replace(
            self.order, verb="sum", phase=phase, batches=batches, shared=nothing, extra=nothing
        )

    def ask(
        self,
        order: Order,
        names: Sequence[str],
        relayed: Relayed | None = None,
        *,
        add: Add | None = None,
        is_optional: bool = False,
    ) -> dict[str, SumMessage]:
        """Give platforms an order, each with what was relayed to it; return what came.

        Args:
            order: The order.
            names: Who gets it.
            relayed: By recipient, then sender.
            add: Takes values as they come.
            is_optional: Whether the round goes on without them.

        Raises:
            FednerError: If too few answered.
        """
        told = relayed or {}
        orders = ask_alike(names, order)
        orders |= {
            name: replace(order, relayed=dict(told[name])) for name in names if told.get(name)
        }
        engine = self.engine if add is None else _Adding(self.engine, add)
        quorum = 0 if is_optional else self.rules.quorum
        answers = ask_for(SumMessage, engine, orders, self.rules.timeout, quorum)
        self.gone += answers.missing
        known = set(self.engine.platforms)
        came = {
            name: reply
            for name, reply in answers.replies.items()
            if reply.phase == order.phase and set(reply.entries) <= known
        }
        self.note_gone(sorted(answers.replies.keys() - came), "malformed", order.verb)
        return came

    def note_gone(self, names: Sequence[str], code: str, verb: Verb = "sum") -> None:
        """Note who is missing, and why."""
        found = (failure(name, self.order.round, code) for name in names)
        self.gone += [missing(each, verb) for each in found]

    def require_quorum(
        self, came: Sequence[str], num_asked: int, what: str, refused: Sequence[str] = ()
    ) -> None:
        """Raise if too few are left; without a quorum everybody must be in the sum."""
        quorum = num_asked if self.rules.quorum is None else self.rules.quorum
        what = f"round {self.order.round}, {what}"
        require_quorum(len(came), num_asked, self.gone, quorum, what, refused)


@dataclass(slots=True)
class EncryptedRounds:
    """The coordinator of an encrypted run; a `BlindRounds`.

    Attributes:
        plan: What everybody knows of the run.
        keyless: Public parameters of the encryption.
        first: The server before the first round: its weights are no secret.
        totals: Where sums are kept.
        goes_on_from: By platform, the oldest round that it may go on from.
    """

    plan: EncryptionPlan
    keyless: KeylessContext
    first: Server
    totals: KeptTotals
    goes_on_from: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin anew: sums that were kept are dropped."""
        self.totals.drop_until(max(self.totals.rounds(), default=0))

    def take(self, engine: Engine, order: Order, screen: Screen, rules: RoundRules) -> HandedOut:
        """Take a round.

        Raises:
            FednerError: If too few answered.
        """
        screen.begin()
        asking = _Asking(engine, order, rules)
        ready, keys = self._brought_together(asking, ANNOUNCE, HAND_OVER, order.round - 1)
        chosen = [name for name in sorted(order.batches) if name in ready]
        asking.require_quorum(chosen, len(order.batches), "announcements")
        total = self.totals.read(order.run, order.round)
        if total is None:
            total = self._summed(asking, chosen, keys, screen)
            self.totals.keep(order.run, order.round, total)
        elif not self.plan.must_be_charged:
            # Taken again after a crash, with the same sum: platforms train on, nothing is added.
            self._summed(asking, chosen, keys, screen)
        apply = self._apply_order(order, total)
        asking.ask(apply, ready, keys)
        return HandedOut(tuple(asking.gone), payload_bytes(apply))

    def settle(self, engine: Engine, order: Order, rules: RoundRules) -> Sequence[Missing]:
        """Bring all platforms to the last round and let them compare their copies.

        Raises:
            FednerError: If too few answered, as where copies differ.
        """
        asking = _Asking(engine, order, rules)
        self._brought_together(asking, COMPARE, SETTLE, order.round)
        return asking.gone

    def note_stored(self, stored: Mapping[str, Sequence[int]], names: Sequence[str]) -> None:
        """Drop sums that nobody can need any more.

        Args:
            stored: By platform, from which rounds it can go on.
            names: All platforms.
        """
        self.goes_on_from |= {name: min(each, default=0) for name, each in stored.items()}
        self.totals.drop_until(min(self.goes_on_from.get(name, 0) for name in names))

    def _brought_together(
        self, asking: "_Asking", first: int, second: int, after: int
    ) -> tuple[list[str], Relayed]:
        """Take the phases in which platforms meet, and give missed sums to those behind.

        Returns:
            Who is after the round; and the sealed keys, by recipient.
        """
        came = asking.ask(asking.sum_order(first, asking.engine.platforms), asking.engine.platforms)
        found = announced(came)
        asking.note_gone(sorted(came.keys() - found), "malformed")
        asking.require_quorum(list(found), len(asking.engine.platforms), "announcements")
        require_one_arithmetic(found)
        if not any(each.held.key for each in found.values()):
            self.begin()  # those of a key that nobody here has: all let go of it at the end
        entries = {name: came[name].entries[name] for name in found}
        told = dict.fromkeys(found, entries)
        came = asking.ask(asking.sum_order(second, list(found)), list(found), told)
        keys = relayed_entries(came)
        behind = {name: found[name].held.after for name in came}
        return self._caught_up(asking, behind, after, keys), keys

    def _caught_up(
        self, asking: "_Asking", behind: dict[str, int], after: int, keys: Relayed
    ) -> list[str]:
        """Give platforms the sums that they missed; return who has all."""
        run = asking.order.run
        for missed in range(min(behind.values(), default=after) + 1, after + 1):
            names = [name for name, each in behind.items() if each == missed - 1]
            total = self.totals.read(run, missed) if names else None
            if total is None:
                asking.note_gone(names, MISSED_TOO_MUCH)
                continue
            order = self._apply_order(replace(asking.order, round=missed), total)
            for name in asking.ask(order, names, keys, is_optional=True):
                behind[name] = missed
        return [name for name, each in behind.items() if each == after]

    def _apply_order(self, order: Order, total: KeptTotal) -> Order:
        return replace(
            order,
            verb="sum",
            phase=APPLY,
            batches=dict.fromkeys(total.names, 1),
            shared=self._first_weights(order),
            extra=nothing_shared(),
            total=total.tensors,
        )

    def _first_weights(self, order: Order) -> SharedState:
        return self.first.shared if order.round == 1 else nothing_shared()

    def _summed(
        self, asking: "_Asking", chosen: Sequence[str], keys: Relayed, screen: Screen
    ) -> KeptTotal:
        """Ask for encrypted updates and return their sum."""
        order = asking.order
        held = (*self.first.shared.values(), *self.first.extra.values())
        num_numbers = sum(each.numel() for each in held)
        side = ServerSide(self.keyless, order.round, num_numbers, self.plan.least)

        def add(message: SumMessage) -> None:
            if screen.takes_cost(message, order.batches[message.platform]):
                side.add(message)
                size = payload_bytes(message)
                screen.accepted[message.platform] = Accepted(None, None, size)

        work = replace(
            order,
            phase=ENCRYPT,
            shared=self._first_weights(order),
            extra=nothing_shared(),
        )
        asking.ask(work, chosen, keys, add=add)
        refused = [f"{each.platform}: refused, {each.message}" for each in screen.refusals]
        asking.require_quorum(list(screen.accepted), len(chosen), "values", refused)
        names, total = side.total()
        return KeptTotal(names, as_tensors(total))
