"""A platform's side of a secure sum: five phases, each checked before anything leaves.

    1  announces fresh public keys, signed
    2  checks everybody's keys; shares its two secrets among all, sealed for each
    3  (`protect`) adds masks to its update on the grid
    4  signs the list of those whose values came
    5  checks that enough platforms signed the same list; notes the list on the disk; gives, of
       each survivor, its share of the self mask, and of each who dropped out, of the mask key

Of no platform both are given, so that no single update can be unmasked. Secrets live in memory
until the round is opened or the next one begins.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.aggregate import shared_norm
from fedner.federated.grid import Words
from fedner.federated.messages import Order, SumMessage, Update
from fedner.federated.secure.bundles import Bundle, Vouched, list_bytes, read_bundle, transcript
from fedner.federated.secure.identities import Identity
from fedner.federated.secure.keys import (
    KeyPair,
    derived,
    make_pair,
    opened_from,
    pair_key,
    sealed_for,
)
from fedner.federated.secure.masks import Mask, add_masks
from fedner.federated.secure.opened import OpenedSums, SumLine
from fedner.federated.secure.plan import OF_DROPPED, OF_SURVIVOR, SumPlan
from fedner.federated.secure.shares import SHARE_BYTES, split_secret
from fedner.federated.secure.wire import Context, digest, names_bytes
from fedner.federated.summation import SumRefusedError, values_of

ANNOUNCE, SHARE, MASK, SIGN, REVEAL = range(1, 6)
_MOST_SEEN = 100_000


@dataclass(slots=True, repr=False)
class _Round:
    """The secrets and the lists of one round."""

    context: Context
    channel: KeyPair
    mask: KeyPair
    seed: bytes
    bundle: bytes
    phase: int = ANNOUNCE
    vouched: Mapping[str, Vouched] = field(default_factory=dict)
    own_shares: bytes = b""
    sealed: Mapping[str, bytes] = field(default_factory=dict)
    members: Sequence[str] = ()
    survivors: Sequence[str] = ()
    values: str = ""
    is_charged: bool = False

    @property
    def signed_list(self) -> bytes:
        """What survivors sign."""
        seen = transcript({name: each.data for name, each in self.vouched.items()})
        return list_bytes(self.context, seen, self.members, self.survivors)


class PlatformSide:
    """A platform's side; a `PlatformSum`."""

    def __init__(self, plan: SumPlan, identity: Identity, opened: OpenedSums, name: str) -> None:
        """Make the side.

        Args:
            plan: What everybody knows of the sum.
            identity: What the platform signs with, and knows others by.
            opened: What it keeps of its sums.
            name: The platform.
        """
        self._plan, self._identity, self._opened, self._name = plan, identity, opened, name
        self._round: _Round | None = None
        self._seen: dict[bytes, None] = {}  # public keys of earlier rounds, oldest first

    def num_sent(self, order: Order) -> int:
        """Return how often masked values of the order's round left before."""
        return self._opened.num_sent(order.study, order.run, order.round)

    def phase(self, order: Order) -> SumMessage:
        """Answer a `sum` order.

        Raises:
            SumRefusedError: If it is out of turn, or what it brings is not sound.
        """
        if order.phase == ANNOUNCE:
            return self._announce(order)
        if order.phase == SHARE:
            return self._share(order, self._turn(order))
        if order.phase == SIGN:
            return self._sign(order, self._turn(order))
        if order.phase == REVEAL:
            return self._reveal(order, self._turn(order))
        raise self._refused(f"phase {order.phase} is none of its `sum` orders")

    def _announce(self, order: Order) -> SumMessage:
        terms, plan = self._plan.terms, self._plan
        known = set(plan.scales)
        if not set(order.batches) <= known or self._name not in order.batches:
            raise self._refused("the round names platforms that are not in the study, or not it")
        if len(order.batches) != terms.num_platforms:
            raise self._refused(
                f"the round has {len(order.batches)} platforms; the study asks "
                f"{terms.num_platforms}"
            )
        context = plan.context(order.study, order.run, order.round)
        channel, mask, seed = make_pair(), make_pair(), secrets.token_bytes(32)
        bundle = Bundle.signed(
            context, self._name, channel.public, mask.public, seed, self._identity
        )
        data = bundle.to_bytes()
        self._round = _Round(context, channel, mask, seed, data)
        return self._message(order, {self._name: data})

    def _share(self, order: Order, own: _Round) -> SumMessage:
        self._require_many(order.batches, "announced keys")
        if set(order.relayed) != set(order.batches):
            raise self._refused("keys are missing, or of platforms that are not in the round")
        if order.relayed.get(self._name) != own.bundle:
            raise self._refused("its own keys came back changed")
        vouched = {
            name: read_bundle(own.context, name, data, self._identity)
            for name, data in sorted(order.relayed.items())
        }
        self._require_fresh(vouched)
        own.vouched = vouched
        own.sealed = {}
        points = {name: each for each, name in enumerate(sorted(vouched), 1)}
        threshold = self._plan.terms.threshold
        of_mask = split_secret(own.mask.private, list(points.values()), threshold)
        of_seed = split_secret(own.seed, list(points.values()), threshold)
        entries = {}
        for name, point in points.items():
            data = of_mask[point] + of_seed[point]
            if name == self._name:
                own.own_shares = data
                continue
            public = vouched[name].channel
            entries[name] = sealed_for(own.channel, public, own.context, self._name, name, data)
        return self._message(order, entries)

    def protect(self, order: Order, update: Update) -> SumMessage:
        """Return an update on the grid, masked.

        Raises:
            SumRefusedError: If the order is out of turn, the update's norm is above the study's
                bound, or nobody counted what it costs.
            NotFiniteError: If a number is not finite.
            OutOfRangeError: If a number does not fit the grid.
        """
        own = self._turn(order)
        members = sorted(order.batches)
        self._require_many(members, "shared their secrets")
        if self._name not in members:
            raise self._refused("the members of the round are without it")
        has_all = set(order.relayed) == set(members) - {self._name}
        if not has_all or not set(members) <= set(own.vouched):
            raise self._refused("shares are missing, or of platforms without keys")
        self._require_sound(update)
        values = dict(sorted(values_of(update).items()))
        words = self._encoded(list(values.values()))
        own.members, own.sealed = members, dict(order.relayed)
        own.values = sha256(words.tobytes()).hexdigest()
        own.is_charged = update.event is not None
        add_masks(words, self._masks(own))
        self._opened.note_sent(order.study, order.run, order.round, own.values)
        tensors = _split(words, values)
        return SumMessage(self._name, order.round, order.phase, tensors=tensors, event=update.event)

    def _require_sound(self, update: Update) -> None:
        bound = self._plan.norm_bound
        if bound is not None and not shared_norm(update.tensors) <= bound:
            raise self._refused("its update has a norm above participation.norm_bound")
        if self._plan.must_be_charged and update.event is None:
            raise self._refused("an update whose cost nobody counted")

    def _encoded(self, tensors: Sequence[Tensor]) -> Words:
        flat = [tensor.detach().cpu().reshape(-1).numpy() for tensor in tensors]
        row = np.concatenate([np.empty(0), *flat]) * self._plan.scales[self._name]
        return self._plan.grid.encode(row, self._plan.terms.num_platforms)

    def _masks(self, own: _Round) -> list[Mask]:
        """Return the masks of an update: its own, and one for each pair."""
        masks = [Mask(derived(own.seed, "self mask", own.context, self._name), 1)]
        for name in own.members:
            if name != self._name:
                key = pair_key(own.mask, own.vouched[name].mask, own.context, self._name, name)
                masks.append(Mask(key, 1 if self._name < name else -1))
        return masks

    def _sign(self, order: Order, own: _Round) -> SumMessage:
        survivors = sorted(order.batches)
        self._require_many(survivors, "sent values")
        if not set(survivors) <= set(own.members) or self._name not in survivors:
            raise self._refused("the list of survivors has others than the members of the round")
        own.survivors = survivors
        return self._message(order, {self._name: self._identity.sign(own.signed_list)})

    def _reveal(self, order: Order, own: _Round) -> SumMessage:
        self._require_signed(order.relayed, own)
        line = SumLine(
            "opened",
            order.study,
            order.run,
            order.round,
            own.values,
            digest("survivors", names_bytes(own.survivors)).hex(),
        )
        self._opened.note_opened(line, is_charged=own.is_charged)
        entries = {name: self._share_of(own, name) for name in own.members}
        self._round = None  # nothing of it is needed, or can be asked for, again
        return self._message(order, {name: data for name, data in entries.items() if data})

    def _require_signed(self, signatures: Mapping[str, bytes], own: _Round) -> None:
        if not set(signatures) <= set(own.survivors) or self._name not in signatures:
            raise self._refused("signatures of others than the survivors")
        if len(signatures) < self._plan.terms.threshold:
            raise self._refused(
                f"{len(signatures)} platforms signed the list of survivors; expected at least "
                f"{self._plan.terms.threshold}"
            )
        data = own.signed_list
        for name, signature in signatures.items():
            public = own.vouched[name].identity
            if not self._identity.is_signed(name, public, data, signature):
                raise self._refused(f"{name!r} signed another list of survivors")

    def _share_of(self, own: _Round, name: str) -> bytes:
        """Return the one share of a member that may be given; nothing where it came damaged."""
        if name == self._name:
            data = own.own_shares
        else:
            public, sealed = own.vouched[name].channel, own.sealed[name]
            try:
                data = opened_from(own.channel, public, own.context, name, self._name, sealed)
            except FednerError:
                return b""  # the shares of others may suffice
        if len(data) != 2 * SHARE_BYTES:
            return b""
        if name in own.survivors:
            return OF_SURVIVOR + data[SHARE_BYTES:]
        return OF_DROPPED + data[:SHARE_BYTES]

    def _turn(self, order: Order) -> _Round:
        """Return the round, if the order is its next phase; a round has each phase once."""
        own = self._round
        is_next = own is not None and order.phase == own.phase + 1
        if own is None or not is_next:
            self._round = None
            raise self._refused(f"phase {order.phase} of round {order.round} is out of turn")
        if own.context != self._plan.context(order.study, order.run, order.round):
            self._round = None
            raise self._refused(f"round {order.round} is another one than it has keys of")
        own.phase = order.phase
        return own

    def _require_many(self, names: Mapping[str, int] | Sequence[str], did: str) -> None:
        least = self._plan.terms.least_survivors
        if len(names) < least:
            raise self._refused(f"{len(names)} platforms {did}; expected at least {least}")

    def _require_fresh(self, vouched: Mapping[str, Vouched]) -> None:
        """Raise if a key stands twice, or was used in an earlier round; remember all."""
        keys = [key for each in vouched.values() for key in (each.channel, each.mask)]
        if len(set(keys)) != len(keys) or any(key in self._seen for key in keys):
            raise self._refused("a public key is used twice, or was used in an earlier round")
        self._seen.update(dict.fromkeys(keys))
        while len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]

    def _message(self, order: Order, entries: Mapping[str, bytes]) -> SumMessage:
        return SumMessage(self._name, order.round, order.phase, entries)

    def _refused(self, what: str) -> SumRefusedError:
        return SumRefusedError(f"platform {self._name!r} sends nothing to this sum: {what}")


def _split(words: Words, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a row of words as tensors of the shapes of others."""
    row = torch.from_numpy(words.view(f"i{words.itemsize}"))
    pieces = row.split_with_sizes([tensor.numel() for tensor in like.values()])
    return {
        name: piece.view(tensor.shape)
        for (name, tensor), piece in zip(like.items(), pieces, strict=True)
    }
