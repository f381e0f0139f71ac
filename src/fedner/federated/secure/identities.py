"""Who signed: what a platform signs with, and how others know that it did.

Across machines these are the platforms' own keys, whose fingerprints stand in the roster
(`runs.deployment`). In a simulation they follow from the study, since nobody there could be told
apart from anybody else: they show that signatures are made and checked, and protect nobody.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedner.federated.secure.wire import packed


class Identity(Protocol):
    """A platform's own signature, and its view of the others'."""

    @property
    def public(self) -> bytes:
        """The public key, as others are shown it."""

    def sign(self, data: bytes) -> bytes:
        """Return this platform's signature."""

    def is_signed(self, name: str, public: bytes, data: bytes, signature: bytes) -> bool:
        """Whether a platform signed some data with a key that is known to be its own."""


MakeIdentity = Callable[[str], Identity]


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedIdentity:
    """A key that follows from the study and the platform's name.

    Attributes:
        study: The digest of the study.
        name: The platform.
    """

    study: str
    name: str

    @property
    def public(self) -> bytes:
        """The public key."""
        return _simulated_public(self.study, self.name)

    def sign(self, data: bytes) -> bytes:
        """Return this platform's signature."""
        return _simulated_key(self.study, self.name).sign(data)

    def is_signed(self, name: str, public: bytes, data: bytes, signature: bytes) -> bool:
        """Whether a platform of the simulation signed some data."""
        if public != _simulated_public(self.study, name):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
        except InvalidSignature:
            return False
        return True


@lru_cache(maxsize=1024)
def _simulated_public(study: str, name: str) -> bytes:
    return _simulated_key(study, name).public_key().public_bytes_raw()


@lru_cache(maxsize=1024)
def _simulated_key(study: str, name: str) -> Ed25519PrivateKey:
    seed = sha256(packed("fedner simulated identity", study, name)).digest()
    return Ed25519PrivateKey.from_private_bytes(seed)
