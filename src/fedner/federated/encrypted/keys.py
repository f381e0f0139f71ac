"""The secret of a run: a CKKS key that platforms have in common, and the server's view without it.

All platforms decrypt, so the key encrypts too (symmetric encryption: less noise than with a public
key, and a third of the time). `KeylessContext` is what the server adds with: it holds public
parameters and nothing else, and cannot be made from a key.

SEAL takes its randomness from the operating system.
"""

from dataclasses import dataclass
from typing import Any

from fedner.errors import FednerError
from fedner.federated.encrypted.parameters import CkksParameters

MOST_KEY_BYTES = 1 << 20
_NOTHING = {
    "save_public_key": False,
    "save_secret_key": False,
    "save_galois_keys": False,
    "save_relin_keys": False,
}


@dataclass(frozen=True, slots=True)
class KeylessContext:
    """Public parameters in the form of `tenseal`, without any key.

    Attributes:
        parameters: The parameters.
        context: The context of `tenseal`.
    """

    parameters: CkksParameters
    context: Any


@dataclass(frozen=True, slots=True, repr=False)
class RunKey:
    """The key of a run: stays with the platforms.

    Attributes:
        parameters: The parameters.
        context: The context of `tenseal`, with the secret key.
    """

    parameters: CkksParameters
    context: Any

    def to_bytes(self) -> bytes:
        """Return the secret key in bytes, to be sealed for another platform or kept here."""
        data: bytes = self.context.serialize(**{**_NOTHING, "save_secret_key": True})
        return data


def require_tenseal() -> None:
    """Raise if what an encrypted sum needs is not installed."""
    from importlib.util import find_spec

    if find_spec("tenseal") is None:
        raise FednerError(
            "encrypted sums need the package tenseal",
            "Install it: pip install 'fedner[encryption]'.",
        )


def make_run_key(parameters: CkksParameters) -> RunKey:
    """Return a fresh key."""
    return RunKey(parameters, _fresh_context(parameters))


def keyless_context(parameters: CkksParameters) -> KeylessContext:
    """Return what sums ciphertexts and cannot decrypt them.

    `tenseal` makes no context without a key: the one that it makes here never encrypted anything,
    and is gone when this returns.
    """
    import tenseal

    return KeylessContext(parameters, tenseal.context_from(_public_bytes(parameters)))


def key_from_bytes(parameters: CkksParameters, data: bytes) -> RunKey:
    """Return a key that another platform made.

    Raises:
        FednerError: If it is none, or one of other parameters.
    """
    require_tenseal()
    import tenseal

    if len(data) > MOST_KEY_BYTES:
        raise FednerError(f"a key of {len(data)} bytes; expected at most {MOST_KEY_BYTES}")
    try:
        context = tenseal.context_from(data)
        has_key, stated = context.has_secret_key(), context.serialize(**_NOTHING)
    except Exception as error:
        raise FednerError("a key of a run that cannot be read") from error
    if not has_key or stated != _public_bytes(parameters):
        raise FednerError("a key of a run with other parameters than the study's, or without a key")
    return RunKey(parameters, context)


def _public_bytes(parameters: CkksParameters) -> bytes:
    data: bytes = _fresh_context(parameters).serialize(**_NOTHING)
    return data


def _fresh_context(parameters: CkksParameters) -> Any:
    require_tenseal()
    import tenseal

    return tenseal.context(
        tenseal.SCHEME_TYPE.CKKS,
        parameters.degree,
        coeff_mod_bit_sizes=list(parameters.prime_bits),
        encryption_type=tenseal.ENCRYPTION_TYPE.SYMMETRIC,
        n_threads=1,
    )
