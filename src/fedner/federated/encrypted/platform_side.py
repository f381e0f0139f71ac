"""A platform's side of an encrypted run: four phases a round, each checked before anything leaves.

    1  announces a fresh public key, whether it has the run's key, and a code of its state; signed
    2  checks what all announced; the first that has the run's key (in the first round the first by
       name, which makes it) seals it for those without (`key_giver`)
    3  (`protect`) encrypts its update, if it was chosen for the round
    4  decrypts the sum, rounded, and takes the server's step with it
    5, 6  are 1 and 2 once more, after the last round: copies are compared a last time

The server hands out no weights: `filled` puts those of the platform's own copy of the server into
an order. A platform that missed the fourth phase of some rounds is given their sums later, in the
order of the rounds.

A sum that does not decrypt, or a platform whose copy is another after the same round, ends the key
(`kept_key`), and with it the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedner.federated.aggregate import shared_norm
from fedner.federated.encrypted.announcements import (
    Announcement,
    Held,
    RoundContext,
    RunSecret,
    key_giver,
    make_secret,
    odd_states,
    open_secret,
    read_announcement,
    seal_secret,
)
from fedner.federated.encrypted.ciphertexts import (
    Ciphertexts,
    DecryptionError,
    Row,
    decrypt,
    encrypt,
)
from fedner.federated.encrypted.kept_key import KeptKey
from fedner.federated.encrypted.mirror import Mirror, arithmetic
from fedner.federated.encrypted.phases import (
    ANNOUNCE,
    APPLY,
    CIPHERTEXTS,
    COMPARE,
    HAND_OVER,
    SETTLE,
)
from fedner.federated.encrypted.plan import EncryptionPlan
from fedner.federated.messages import Order, SumMessage, Update
from fedner.federated.secure.identities import Identity
from fedner.federated.secure.keys import KeyPair, make_pair
from fedner.federated.secure.opened import OpenedSums
from fedner.federated.summation import KeyEndedError, SumRefusedError, values_of
from fedner.federated.tensor_bytes import copied_bytes
from fedner.tensors import SharedState

_NO_STATE = b"beginning"


@dataclass(slots=True, repr=False)
class _Round:
    """What a platform holds of one round."""

    context: RoundContext
    channel: KeyPair
    announcement: bytes
    phase: int = ANNOUNCE
    announced: Mapping[str, Announcement] = field(default_factory=dict)


class PlatformSide:
    """A platform's side; a `PlatformSum`."""

    def __init__(
        self,
        plan: EncryptionPlan,
        identity: Identity,
        kept: KeptKey,
        sent: OpenedSums,
        name: str,
    ) -> None:
        """Make the side.

        Args:
            plan: What everybody knows of the run.
            identity: What the platform signs with, and knows others by.
            kept: Where it keeps the run's key.
            sent: Where it keeps which values left.
            name: The platform.
        """
        self._plan, self._identity, self._name = plan, identity, name
        self._kept, self._sent = kept, sent
        self._round: _Round | None = None
        self._mirror: Mirror | None = None
        self._arithmetic: bytes | None = None

    def num_sent(self, order: Order) -> int:
        """Return how often encrypted values of the order's round left before."""
        return self._sent.num_sent(order.study, order.run, order.round)

    def filled(self, order: Order) -> Order:
        """Return an order with the weights of this platform's copy of the server.

        The order of the first round brings the first weights, which are no secret.

        Raises:
            SumRefusedError: If the copy is after another round than the order needs.
        """
        self._begin(order)
        is_round = order.verb == "round"
        needed = order.round - 1 if is_round else order.round
        if self._mirror is None or self._mirror.round != needed:
            raise self._refused(f"its copy of the server is not after round {needed}")
        server = self._mirror.server
        shared = server.shared if is_round else self._mirror.shared
        extra = SharedState({}) if order.verb == "finish" else server.extra
        return replace(order, shared=shared, extra=extra)

    def _begin(self, order: Order) -> None:
        """Begin the copy of the server with the first weights, where the order brings them."""
        if self._mirror is None and order.round == 1 and order.shared:
            self._mirror = Mirror.begun(self._plan.mirror, order.shared)

    def store(self, folder: Path, round_: int) -> None:
        """Store the copy of the server after a round.

        Raises:
            SumRefusedError: If the copy is after another round.
        """
        if self._mirror is None or self._mirror.round != round_:
            raise self._refused(f"its copy of the server is not after round {round_}")
        self._mirror.store(folder)

    def load(self, folder: Path | None, newest: int, initial: SharedState) -> None:
        """Go on from the newest stored copy that is not newer than a round; else from none.

        Args:
            folder: Where copies are stored; None where none are.
            newest: The round.
            initial: Weights of the model's names and shapes.
        """
        self._round = None
        self._mirror = None
        if folder is not None:
            self._mirror = Mirror.restored(self._plan.mirror, initial, folder, newest)

    def finish(self, order: Order) -> None:
        """Let go of the key after the last round: what was recorded of it stays closed."""
        self._round = None
        self._kept.forget(order.study, order.run)

    def phase(self, order: Order) -> SumMessage:
        """Answer a `sum` order.

        Raises:
            SumRefusedError: If it is out of turn, or what it brings is not sound.
        """
        if order.phase in (ANNOUNCE, COMPARE):
            return self._announce(order)
        if order.phase in (HAND_OVER, SETTLE):
            return self._hand_over(order, self._turn(order))
        if order.phase == APPLY:
            return self._apply(order)
        raise self._refused(f"phase {order.phase} is none of its `sum` orders")

    def _announce(self, order: Order) -> SumMessage:
        if set(order.batches) != set(self._plan.scales):
            raise self._refused("the order names other platforms than the study")
        context, channel = _context(self._plan, order), make_pair()
        secret = self._kept.read(order.study, order.run)
        after, state = self._standing()
        if after >= context.round:
            raise self._refused(f"its copy of the server is after round {after} already")
        if self._arithmetic is None:
            self._arithmetic = arithmetic(self._plan.mirror)
        held = Held(after, arithmetic=self._arithmetic)
        if secret is not None:
            code = secret.state_code(context, self._name, state)
            held = held._replace(key=secret.name, state=code)
        announced = Announcement.signed(context, self._name, channel.public, held, self._identity)
        data = announced.to_bytes()
        self._round = _Round(context, channel, data, order.phase)
        return SumMessage(self._name, order.round, order.phase, {self._name: data})

    def _standing(self) -> tuple[int, bytes]:
        """Return after which round the copy of the server is, and its digest."""
        if self._mirror is None:
            return 0, _NO_STATE
        # Before the first round a copy that was begun is no more than one that was not.
        after = self._mirror.round
        return after, self._mirror.digest() if after else _NO_STATE

    def _hand_over(self, order: Order, own: _Round) -> SumMessage:
        if set(order.relayed) != set(order.batches):
            raise self._refused("announcements are missing, or of platforms not in the round")
        if order.relayed.get(self._name) != own.announcement:
            raise self._refused("its own announcement came back changed")
        self._require_enough(order)
        own.announced = {
            name: read_announcement(own.context, name, data, self._identity)
            for name, data in sorted(order.relayed.items())
        }
        self._require_same_arithmetic(own)
        sealed: dict[str, bytes] = {}
        secret = self._kept.read(order.study, order.run)
        if key_giver(own.announced) == self._name:
            if secret is None:
                secret = make_secret(self._plan.parameters)
                self._kept.keep(order.study, order.run, secret)
            sealed = seal_secret(secret, own.channel, own.context, self._name, own.announced)
        if secret is not None:
            self._require_same_states(own, secret)
        return SumMessage(self._name, order.round, order.phase, sealed)

    def _require_enough(self, order: Order) -> None:
        """Refuse a round of which too few are left: its sum would be that of few."""
        if order.phase != HAND_OVER:
            return
        found = len(set(order.batches) & set(self._plan.batches(order.round)))
        if found < self._plan.least:
            raise self._refused(f"{found} platforms announced; expected {self._plan.least} or more")

    def _require_same_arithmetic(self, own: _Round) -> None:
        odd = [
            name for name, each in own.announced.items() if each.held.arithmetic != self._arithmetic
        ]
        if odd:
            raise self._refused(
                f"{', '.join(odd)} would compute other bits than it: another release of torch, or "
                "another kind of processor"
            )

    def _require_same_states(self, own: _Round, secret: RunSecret) -> None:
        odd = odd_states(own.announced, secret, own.context, self._standing())
        if odd:
            self._kept.end(secret)
            raise KeyEndedError(
                f"platform {self._name!r} ends the key of the run: the copies of the server at "
                f"{', '.join(odd)} are others than its own",
                "They were given another sum. Ask who runs the server, then begin another run.",
            )

    def protect(self, order: Order, update: Update) -> SumMessage:
        """Return an update, rounded and encrypted.

        Raises:
            SumRefusedError: If the order is out of turn, there is no key, the update's norm is
                above the study's bound, or nobody counted what it costs.
            NotFiniteError: If a number is not finite.
            OutOfRangeError: If a number is outside of the platform's share of the range.
        """
        self._turn(order)
        if set(order.batches) != set(self._plan.batches(order.round)):
            raise self._refused("the round names other platforms than the study chooses")
        secret = self._secret(order)
        self._require_sound(update)
        row, scale = _row_of(update), self._plan.scales[self._name]
        found = encrypt(secret.key, row * scale, scale)
        digest = sha256(row.tobytes()).hexdigest()
        self._sent.note_sent(order.study, order.run, order.round, digest)
        return SumMessage(
            self._name, order.round, order.phase, tensors=as_tensors(found), event=update.event
        )

    def _secret(self, order: Order) -> RunSecret:
        """Return the run's key: kept here, or sealed in the order for this very round."""
        secret, own = self._kept.read(order.study, order.run), self._round
        if own is None or not own.announced:
            if secret is None:
                raise self._refused("it has no key of this run")
            return secret
        giver = key_giver(own.announced)
        sender = own.announced[giver]
        if secret is not None and (giver == self._name or secret.name == sender.held.key):
            return secret
        if secret is not None and not sender.held.key:
            return secret  # it came before, in this very round
        if set(order.relayed) != {giver}:
            raise self._refused(f"the key of the run did not come from {giver!r}")
        sealed = order.relayed[giver]
        secret = open_secret(
            self._plan.parameters, own.channel, own.context, (giver, sender), self._name, sealed
        )
        self._kept.keep(order.study, order.run, secret)
        return secret

    def _require_sound(self, update: Update) -> None:
        bound = self._plan.norm_bound
        if bound is not None and not shared_norm(update.tensors) <= bound:
            raise self._refused("its update has a norm above participation.norm_bound")
        if self._plan.must_be_charged and update.event is None:
            raise self._refused("an update whose cost nobody counted")

    def _apply(self, order: Order) -> SumMessage:
        """Decrypt the sum of a round and take the server's step with it.

        Args:
            order: Names the round; its batches, whose updates are in the sum. That of the first
                round brings the first weights; one for a platform without the key, the key.

        Raises:
            SumRefusedError: If it is not the sum of the next round, is of too few platforms, does
                not decrypt, or this platform has no key.
        """
        self._begin(order)
        names, mirror = sorted(order.batches), self._mirror
        if mirror is None or order.round != mirror.round + 1:
            raise self._refused(f"the sum of round {order.round} is not that of its next round")
        batches = self._plan.batches(order.round)
        if not set(names) <= set(batches) or len(names) < self._plan.least:
            raise self._refused("the sum is of too few platforms, or of some that were not chosen")
        secret = self._secret(order)
        shapes = _shapes(mirror)
        num_numbers = sum(shape.numel() for shape in shapes.values())
        try:
            row = decrypt(secret.key, read_total(order, num_numbers), num_numbers)
        except DecryptionError as error:
            self._kept.end(secret)
            words = f"platform {self._name!r} ends the key of the run: {error.message}"
            raise KeyEndedError(words, error.hint) from error
        mirror.advance(order.round, _split(row * self._plan.factor, shapes), names, batches)
        if self._round is not None and self._round.context.round == order.round:
            self._round = None  # done; the sum of an earlier round leaves the current one as it is
        return SumMessage(self._name, order.round, order.phase)

    def _turn(self, order: Order) -> _Round:
        """Return the round, if the order is its next phase; a round has each phase once."""
        own = self._round
        if own is None or order.phase != own.phase + 1:
            self._round = None
            raise self._refused(f"phase {order.phase} of round {order.round} is out of turn")
        if own.context != _context(self._plan, order):
            self._round = None
            raise self._refused(f"round {order.round} is another one than it announced for")
        own.phase = order.phase
        return own

    def _refused(self, what: str) -> SumRefusedError:
        return SumRefusedError(f"platform {self._name!r} sends nothing to this sum: {what}")


def _context(plan: EncryptionPlan, order: Order) -> RoundContext:
    """Return what names a round; after the last one copies are compared as before another."""
    is_after = order.phase > APPLY
    return plan.context(replace(order, round=order.round + 1) if is_after else order)


def as_tensors(found: Ciphertexts) -> dict[str, Tensor]:
    """Return ciphertexts as they travel."""
    return {CIPHERTEXTS: copied_bytes(found.data)}


def read_total(order: Order, num_numbers: int) -> Ciphertexts:
    """Return the ciphertexts that an order brings.

    Raises:
        SumRefusedError: If it brings something else.
    """
    total = order.total.get(CIPHERTEXTS)
    if total is None or len(order.total) != 1 or total.dim() != 1:
        raise SumRefusedError(f"the order of round {order.round} brings no encrypted sum")
    return Ciphertexts(num_numbers, total.numpy().tobytes())


def _row_of(update: Update) -> Row:
    """Return all numbers of an update in one row, by the sorted names of `values_of`."""
    values = values_of(update)
    flat = [values[name].detach().cpu().double().reshape(-1).numpy() for name in sorted(values)]
    row: Row = np.concatenate([np.empty(0), *flat])
    return row


def _shapes(mirror: Mirror) -> dict[str, torch.Size]:
    """Return the shapes in a row, by the sorted names of `values_of`."""
    like = values_of(Update("-", 0, mirror.server.shared, mirror.server.extra))
    return {name: like[name].shape for name in sorted(like)}


def _split(row: Row, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    pieces = torch.from_numpy(row).split_with_sizes([each.numel() for each in shapes.values()])
    return {
        name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
    }
