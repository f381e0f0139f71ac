"""What platforms announce and sign: fresh public keys in the first phase, lists in the fourth."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedner.errors import FednerError
from fedner.federated.secure.identities import Identity
from fedner.federated.secure.keys import KEY_BYTES
from fedner.federated.secure.wire import Context, digest, names_bytes, packed, unpacked
from fedner.federated.summation import SumRefusedError

_PARTS = 5


class Bundle(NamedTuple):
    """What a platform announces.

    Attributes:
        identity: The public key that it signs with.
        channel: The public key that shares for it are sealed with.
        mask: The public key that masks are agreed on with.
        commitment: The digest of its self mask's seed, which is opened later.
        signature: Its signature of sum, name and keys.
    """

    identity: bytes
    channel: bytes
    mask: bytes
    commitment: bytes
    signature: bytes

    @classmethod
    def signed(
        cls,
        context: Context,
        name: str,
        channel: bytes,
        mask: bytes,
        seed: bytes,
        identity: Identity,
    ) -> "Bundle":
        """Return a platform's own bundle."""
        commitment = commitment_of(seed)
        data = _signed_bytes(context, name, channel, mask, commitment)
        return cls(identity.public, channel, mask, commitment, identity.sign(data))

    def to_bytes(self) -> bytes:
        """Return it as it travels."""
        return packed(*self)


class Vouched(NamedTuple):
    """A bundle whose signature was checked.

    Attributes:
        identity: The public key that its platform signs with.
        channel: The public key that shares for it are sealed with.
        mask: The public key that masks are agreed on with.
        data: The bundle as it came.
    """

    identity: bytes
    channel: bytes
    mask: bytes
    data: bytes


def commitment_of(seed: bytes) -> bytes:
    """Return the digest of a self mask's seed."""
    return digest("self mask seed", seed)


def _signed_bytes(
    context: Context, name: str, channel: bytes, mask: bytes, commitment: bytes
) -> bytes:
    return packed("keys", context.to_bytes(), name, channel, mask, commitment)


def parsed(data: bytes) -> Bundle:
    """Return a bundle from its bytes, unchecked.

    Raises:
        FednerError: If they are none.
    """
    bundle = Bundle(*unpacked(data, _PARTS))
    if {len(bundle.channel), len(bundle.mask), len(bundle.commitment)} != {KEY_BYTES}:
        raise FednerError("keys of another length")
    return bundle


def read_bundle(context: Context, name: str, data: bytes, identity: Identity) -> Vouched:
    """Return a platform's bundle, if it signed it for this very sum.

    Raises:
        SumRefusedError: If it did not.
    """
    try:
        bundle = parsed(data)
    except FednerError as error:
        raise SumRefusedError(f"the keys of {name!r} cannot be read: {error.message}") from error
    stated = _signed_bytes(context, name, bundle.channel, bundle.mask, bundle.commitment)
    if not identity.is_signed(name, bundle.identity, stated, bundle.signature):
        raise SumRefusedError(f"the keys of {name!r} are not signed by it for this round")
    return Vouched(bundle.identity, bundle.channel, bundle.mask, data)


def transcript(bundles: Mapping[str, bytes]) -> bytes:
    """Return the digest of all announced keys."""
    parts = [part for name in sorted(bundles) for part in (name, bundles[name])]
    return digest("transcript", *parts)


def list_bytes(
    context: Context, seen: bytes, members: Sequence[str], survivors: Sequence[str]
) -> bytes:
    """Return what survivors sign: sum, keys, who was masked for, and whose values came."""
    parts = (names_bytes(members), names_bytes(survivors))
    return packed("survivors", context.to_bytes(), seen, *parts)
