"""What platforms announce and sign before an encrypted round: a fresh key, and where they stand.

Every platform shows a public key that the run's key can be sealed with, which key it has, after
which round its copy of the server's state is, and a code of that copy. The code is keyed by the
secret of the run and by the platform's name. So platforms compare, and the server, which hands
codes on, can neither make one up, nor test a guess of the weights, nor see whether two copies are
the same: of a server that gave two platforms different sums the answer would tell the noise.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from fedner.errors import FednerError
from fedner.federated.encrypted.keys import RunKey, key_from_bytes, make_run_key
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.secure.identities import Identity
from fedner.federated.secure.keys import (
    KEY_BYTES,
    KeyPair,
    derived,
    opened_from,
    sealed_for,
)
from fedner.federated.secure.wire import digest, packed, unpacked
from fedner.federated.summation import SumRefusedError

_PARTS = 7
_MOST_ARITHMETIC = 32  # bytes


@dataclass(frozen=True, slots=True)
class RoundContext:
    """Which encrypted sum it is: in every signature and every derived key.

    Attributes:
        study: The digest of the study.
        run: The run.
        round: The round.
        parameters: Those of the encryption, in one line.
    """

    study: str
    run: str
    round: int
    parameters: str

    def to_bytes(self) -> bytes:
        """Return it in bytes."""
        return packed("fedner encrypted sum/1", self.study, self.run, self.round, self.parameters)


@dataclass(frozen=True, slots=True, repr=False)
class RunSecret:
    """The key of a run, with the bytes that platforms know it by.

    Attributes:
        data: The bytes that were sealed: the same at every platform.
        key: The key in them.
    """

    data: bytes
    key: RunKey

    @property
    def name(self) -> bytes:
        """Names the key; tells nothing of it."""
        return digest("run key", self.data)

    def state_code(self, context: RoundContext, name: str, state: bytes) -> bytes:
        """Return what a platform shows of the digest of its state before a round."""
        secret = derived(self.data, "state", context, name)
        return hmac.new(secret, state, sha256).digest()


def make_secret(parameters: CkksParameters) -> RunSecret:
    """Return a fresh secret."""
    key = make_run_key(parameters)
    return RunSecret(key.to_bytes(), key)


def secret_from_bytes(parameters: CkksParameters, data: bytes) -> RunSecret:
    """Return a secret that another platform made, or that was kept here.

    Raises:
        FednerError: If it is none, or one of other parameters.
    """
    return RunSecret(data, key_from_bytes(parameters, data))


class Held(NamedTuple):
    """Where a platform stands.

    Attributes:
        after: The round after which its copy of the server's state is.
        key: The name of the run's key that it has; empty where it has none.
        state: The code of its state; empty where it has no key.
        arithmetic: The digest of what it computes of fixed numbers (`mirror.arithmetic`).
    """

    after: int = 0
    key: bytes = b""
    state: bytes = b""
    arithmetic: bytes = b""


class Announcement(NamedTuple):
    """What a platform announces.

    Attributes:
        identity: The public key that it signs with.
        channel: The public key that the run's key is sealed for it with.
        held: Where it stands.
        signature: Its signature of all that.
    """

    identity: bytes
    channel: bytes
    held: Held
    signature: bytes

    @classmethod
    def signed(
        cls, context: RoundContext, name: str, channel: bytes, held: Held, own: Identity
    ) -> "Announcement":
        """Return a platform's own announcement.

        Args:
            context: The round.
            name: The platform.
            channel: Its public key of this round.
            held: Where it stands.
            own: What it signs with.
        """
        signature = own.sign(_signed_bytes(context, name, channel, held))
        return cls(own.public, channel, held, signature)

    def to_bytes(self) -> bytes:
        """Return it as it travels."""
        return packed(self.identity, self.channel, *self.held, self.signature)


def _signed_bytes(context: RoundContext, name: str, channel: bytes, held: Held) -> bytes:
    return packed("announcement", context.to_bytes(), name, channel, *held)


def parsed_announcement(data: bytes) -> Announcement:
    """Return an announcement from its bytes, unchecked.

    Raises:
        FednerError: If they are none.
    """
    identity, channel, after, key, state, arithmetic, signature = unpacked(data, _PARTS)
    lengths = {len(key), len(state)}
    if len(channel) != KEY_BYTES or lengths not in ({0}, {KEY_BYTES}):
        raise FednerError("keys of another length")
    if len(arithmetic) > _MOST_ARITHMETIC:
        raise FednerError("a digest of another length")
    held = Held(int.from_bytes(after, "big"), key, state, arithmetic)
    return Announcement(identity, channel, held, signature)


def read_announcement(
    context: RoundContext, name: str, data: bytes, identity: Identity
) -> Announcement:
    """Return a platform's announcement, if it signed it for this very round.

    Raises:
        SumRefusedError: If it did not.
    """
    try:
        found = parsed_announcement(data)
    except FednerError as error:
        raise SumRefusedError(f"what {name!r} announced cannot be read: {error.message}") from error
    if found.held.after >= context.round:
        raise SumRefusedError(f"{name!r} is after round {found.held.after}, later than this one")
    stated = _signed_bytes(context, name, found.channel, found.held)
    if not identity.is_signed(name, found.identity, stated, found.signature):
        raise SumRefusedError(f"what {name!r} announced is not signed by it for this round")
    return found


def key_giver(announced: Mapping[str, Announcement]) -> str:
    """Return whose key is the run's: who seals it for all others that have it not.

    Where nobody has a key it is the first by name, which makes one. A platform that made one and
    was gone before it could hand it over has another key than those who went on: the key with the
    most rounds behind it counts, then the one that most have, then that of the first by name.
    """
    holders: dict[bytes, list[str]] = {}
    for name, each in sorted(announced.items()):
        if each.held.key:
            holders.setdefault(each.held.key, []).append(name)
    if not holders:
        return min(announced)

    def rank(names: list[str]) -> tuple[int, int]:
        return max(announced[name].held.after for name in names), len(names)

    most = max(map(rank, holders.values()))
    return min(names[0] for names in holders.values() if rank(names) == most)


def odd_states(
    announced: Mapping[str, Announcement],
    secret: RunSecret,
    context: RoundContext,
    own: tuple[int, bytes],
) -> list[str]:
    """Return the platforms with the same key whose state after the same round is another.

    Args:
        announced: What everybody announced.
        secret: The secret of the run.
        context: The round.
        own: After which round one's own state is, and its digest.
    """
    after, state = own
    return sorted(
        name
        for name, each in announced.items()
        if each.held.key == secret.name
        and each.held.after == after
        and not hmac.compare_digest(each.held.state, secret.state_code(context, name, state))
    )


def seal_secret(
    secret: RunSecret,
    own: KeyPair,
    context: RoundContext,
    sender: str,
    announced: Mapping[str, Announcement],
) -> dict[str, bytes]:
    """Return the secret, sealed for each platform that has another or none, by name."""
    return {
        name: sealed_for(own, each.channel, context, sender, name, secret.data, "run key")
        for name, each in sorted(announced.items())
        if each.held.key != secret.name and name != sender
    }


def open_secret(
    parameters: CkksParameters,
    own: KeyPair,
    context: RoundContext,
    sender: tuple[str, Announcement],
    recipient: str,
    data: bytes,
) -> RunSecret:
    """Return the secret that another platform sealed.

    Raises:
        FednerError: If it is of somebody else, for somebody else, altered, of other parameters, or
            another than the sender has announced.
    """
    name, announced = sender
    found = opened_from(own, announced.channel, context, name, recipient, data, "run key")
    secret = secret_from_bytes(parameters, found)
    if announced.held.key and announced.held.key != secret.name:
        raise FednerError(f"{name!r} sealed another key than it announced")
    return secret
