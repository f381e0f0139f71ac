"""Keys of one round: X25519, HKDF-SHA-256 and AES-256-GCM of `cryptography`.

Every key is derived for one purpose, one sum and one ordered pair of platforms, so that no key
and no key stream is used twice. Nothing here outlives a round.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedner.errors import FednerError
from fedner.federated.secure.wire import packed
from fedner.federated.summation import SumRefusedError

KEY_BYTES = 32
_NONCE = bytes(12)  # a key encrypts one message
Purpose = Literal["pair mask", "self mask", "shares", "run key", "state"]


class Context(Protocol):
    """Which sum it is; different sums have different bytes."""

    def to_bytes(self) -> bytes:
        """Return it in bytes."""


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """An X25519 key pair, as raw bytes.

    Attributes:
        private: Stays at the platform, and in shares among all.
        public: Announced.
    """

    private: bytes
    public: bytes


def make_pair() -> KeyPair:
    """Return a fresh key pair, of the operating system's entropy."""
    return pair_of(X25519PrivateKey.generate().private_bytes_raw())


def pair_of(private: bytes) -> KeyPair:
    """Return the pair of a private key."""
    key = X25519PrivateKey.from_private_bytes(private)
    return KeyPair(private, key.public_key().public_bytes_raw())


def agreed(private: bytes, public: bytes) -> bytes:
    """Return the secret that two pairs have in common.

    Raises:
        SumRefusedError: If the public key is one with which everybody agrees on zeros.
    """
    try:
        key = X25519PrivateKey.from_private_bytes(private)
        return key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise SumRefusedError("a public key of another platform that is none") from error


def derived(secret: bytes, purpose: Purpose, context: Context, *names: str) -> bytes:
    """Return a key of a secret, for one purpose, sum and tuple of platforms."""
    info = packed(purpose, context.to_bytes(), *names)
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(secret)


def pair_key(own: KeyPair, public: bytes, context: Context, one: str, other: str) -> bytes:
    """Return the key of the mask that two platforms have in common: the same for both."""
    return derived(agreed(own.private, public), "pair mask", context, *sorted((one, other)))


def sealed_for(
    own: KeyPair,
    public: bytes,
    context: Context,
    sender: str,
    recipient: str,
    data: bytes,
    purpose: Purpose = "shares",
) -> bytes:
    """Return a message that only the recipient can open."""
    key = derived(agreed(own.private, public), purpose, context, sender, recipient)
    return AESGCM(key).encrypt(_NONCE, data, packed(sender, recipient))


def opened_from(
    own: KeyPair,
    public: bytes,
    context: Context,
    sender: str,
    recipient: str,
    data: bytes,
    purpose: Purpose = "shares",
) -> bytes:
    """Return the message that `sealed_for` closed.

    Raises:
        FednerError: If it is of somebody else, for somebody else, or altered.
    """
    key = derived(agreed(own.private, public), purpose, context, sender, recipient)
    try:
        return AESGCM(key).decrypt(_NONCE, data, packed(sender, recipient))
    except InvalidTag as error:
        raise FednerError(f"what {sender!r} sealed ({purpose}) was altered in transit") from error
