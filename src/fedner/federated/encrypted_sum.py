"""Encrypted sums: the coordinator adds up ciphertexts, and neither the sum nor the weights are its.

Papers: Cheon et al. 2017, "Homomorphic encryption for arithmetic of approximate numbers" (CKKS), in
the release of SEAL that `tenseal` has; Li and Micciancio 2021, "On the security of homomorphic
encryption on approximate numbers". One platform makes the key of a run and seals it for each other
platform (X25519, AES-256-GCM, signed with the platforms' certificates). Every platform sends
Enc(w_u x_u); the coordinator adds up; every platform decrypts the sum, rounds it to whole numbers,
and takes the server's step with it on a copy of its own (`encrypted.mirror`). Copies are compared
before each round and after the last.

Phases: 1 announcements, 2 keys, 3 encrypted values (the `round` order), 4 the sum; 5 and 6, after
the last round, are 1 and 2 again (`encrypted.platform_side`).

Guarantee: a server that works alone, and lies as it likes, learns of updates, sums and weights
nothing but their number. That rests on the platforms' signatures: in a simulation they protect
nobody.

Edge cases: every platform has the key. One that works together with the server reads every single
update: the secure sum resists so many, encryption none. A server can alter a sum without reading
it; platforms that were given different ones notice before the next round, and the key is ended.

What differs from the paper: nothing approximate is left (`encrypted.parameters`).
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedner.federated.summation import PlatformSum, Summation

if TYPE_CHECKING:  # `cryptography` and `tenseal` are extras
    from fedner.federated.algorithms.algorithm import Server
    from fedner.federated.blind import BlindRounds
    from fedner.federated.encrypted.parameters import CkksParameters
    from fedner.federated.encrypted.plan import EncryptionPlan
    from fedner.federated.secure.identities import MakeIdentity

NAME = "encrypted"
BEFORE, AFTER = 2, 3
_SPARE = 1.14  # what the compression of SEAL leaves over, of 48 bits
KEYS = "encryption"


def encrypted_sum(
    plan: "EncryptionPlan", identities: "MakeIdentity", folder: Path | None = None
) -> Summation:
    """Return encrypted sums.

    Args:
        plan: What everybody knows of them.
        identities: Returns what a platform signs with, of its name.
        folder: Where a platform keeps the key of the run, and which values left; None keeps that in
            memory.

    Raises:
        FednerError: `cryptography` or `tenseal` is not installed.
    """
    require_encryption()
    return Summation(
        NAME,
        partial(_at_platform, plan, identities, folder),
        before=BEFORE,
        after=AFTER,
        tells_cost=True,
        blind=partial(_blind, plan),
    )


def ciphertext_bytes(parameters: "CkksParameters", num_numbers: int) -> int:
    """Return about how many bytes an encrypted update, or a sum of some, has."""
    per_number = 2 * parameters.degree * parameters.modulus_bits / 8 / parameters.slots
    num_filled = -(-num_numbers // parameters.slots) * parameters.slots
    return round(num_filled * per_number * _SPARE)


def require_encryption() -> None:
    """Raise if what an encrypted sum needs is not installed."""
    from fedner.federated.encrypted.keys import require_tenseal
    from fedner.federated.secure_sum import require_cryptography

    require_cryptography()
    require_tenseal()


def _at_platform(
    plan: "EncryptionPlan", identities: "MakeIdentity", folder: Path | None, name: str
) -> PlatformSum:
    from fedner.federated.encrypted.kept_key import KeptKey
    from fedner.federated.encrypted.platform_side import PlatformSide
    from fedner.federated.secure.opened import FILE, OpenedSums

    sent = OpenedSums(None if folder is None else folder / FILE)
    return PlatformSide(plan, identities(name), KeptKey(plan.parameters, folder), sent, name)


def _blind(plan: "EncryptionPlan", first: "Server", folder: Path | None) -> "BlindRounds":
    from fedner.federated.encrypted.kept_totals import KeptTotals
    from fedner.federated.encrypted.keys import keyless_context
    from fedner.federated.encrypted.rounds import EncryptedRounds

    return EncryptedRounds(plan, keyless_context(plan.parameters), first, KeptTotals(folder))
