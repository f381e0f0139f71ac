"""Who signs in hidden sums across machines: the platforms' own keys, which the roster names.

A platform shows its public key with its first message of a round. The roster, signed by the
authority and held against the platform's pins when the job was admitted, has the fingerprint of
each: so neither the server nor another platform can announce keys or sign a list in its name.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from fedner.errors import FednerError
from fedner.federated.encrypted_sum import KEYS
from fedner.federated.secure.identities import Identity
from fedner.federated.secure.opened import FILE
from fedner.runs.deployment.announcing import Announced
from fedner.runs.deployment.approvals import verified_roster
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.deployment.identity import fingerprint, read_key
from fedner.runs.deployment.pins import roster_fingerprints
from fedner.runs.deployment.places import run_folder
from fedner.runs.deployment.taking_part import installed
from fedner.runs.sums import OwnPart

_HASH = hashes.SHA256()


@dataclass(frozen=True, slots=True, repr=False)
class HomeIdentity:
    """The key of a platform's home, and the fingerprints of all platforms.

    Attributes:
        key: The private key.
        fingerprints: By platform, from the roster.
    """

    key: rsa.RSAPrivateKey
    fingerprints: Mapping[str, str]

    @property
    def public(self) -> bytes:
        """The public key, as the fingerprint counts it."""
        return self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def sign(self, data: bytes) -> bytes:
        """Return this platform's signature."""
        return self.key.sign(data, _padding(), _HASH)

    def is_signed(self, name: str, public: bytes, data: bytes, signature: bytes) -> bool:
        """Whether a platform signed some data with the key that the roster names."""
        if self.fingerprints.get(name) != hashlib.sha256(public).hexdigest():
            return False
        try:
            key = serialization.load_der_public_key(public)
            if not isinstance(key, rsa.RSAPublicKey):
                return False
            key.verify(signature, data, _padding(), _HASH)
        except (InvalidSignature, ValueError, UnsupportedAlgorithm):
            return False
        return True


def _padding() -> padding.PSS:
    return padding.PSS(mgf=padding.MGF1(_HASH), salt_length=32)


def own_part(home: Path, job: Announced, name: str) -> OwnPart:
    """Return what a platform brings to the secure or encrypted sums of a job.

    Args:
        home: The platform's home.
        job: What the job brought, admitted by the platform.
        name: The platform.

    Raises:
        FednerError: The roster does not name this home's key.
    """
    place = PlatformHome(home)
    approval = installed(place)
    members = approval.roster
    if job.roster:
        members = verified_roster(job.roster, approval, "the job's roster").members
    key, known = read_key(place.key), roster_fingerprints(members)
    if known.get(name) != fingerprint(key):
        raise FednerError(
            f"the roster has another key of {name!r} than {place.key}",
            "Ask the coordinator for an approval of this home's key, and install it.",
        )

    def identity(asked: str) -> Identity:
        if asked != name:
            raise FednerError(f"this home is of {name!r}, not of {asked!r}")
        return HomeIdentity(key, known)

    return OwnPart(identity, home / FILE, run_folder(home, job.run) / KEYS)
