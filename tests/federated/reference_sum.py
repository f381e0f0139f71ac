"""The masks and shares of a secure sum, written a second time in the plainest way.

HKDF by `hmac` (RFC 5869), counter mode by single blocks in ECB mode, X25519 by its ladder over
Python's integers (RFC 7748), Shamir's shares by Lagrange's formula in fractions.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

PRIME = 115792089237316195423570985008687907853269984665640564039457584007913129640233
FIELD = 2**255 - 19


def joined(*parts: bytes) -> bytes:
    found = b""
    for part in parts:
        found += len(part).to_bytes(4, "big")
        found += part
    return found


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def context(study: str, run: str, round_: int, n: int, c: int, grid: str) -> bytes:
    parts = (b"fedner secure sum/1", study.encode(), run.encode(), number(round_))
    return joined(*parts, number(n), number(c), grid.encode())


def hkdf(secret: bytes, info: bytes) -> bytes:
    extracted = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def stream(key: bytes, num_bytes: int) -> bytes:
    """Counter mode, block after block."""
    encryptor = Cipher(AES(key), ECB()).encryptor()  # noqa: S305 - the counter is ours
    found = b""
    for block in range(-(-num_bytes // 16)):
        found += encryptor.update(block.to_bytes(16, "big"))
    return found[:num_bytes]


def mask(key: bytes, count: int, bits: int = 64) -> list[int]:
    width = bits // 8
    data = stream(key, count * width)
    return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


def x25519(private: bytes, public: bytes) -> bytes:
    """The ladder of RFC 7748, section 5."""
    scalar = int.from_bytes(private, "little")
    scalar &= ~(7 | (128 << 8 * 31))
    scalar |= 64 << 8 * 31
    u = int.from_bytes(public, "little") & (2**255 - 1)
    x2, z2, x3, z3, swap = 1, 0, u, 1, 0
    for place in reversed(range(255)):
        bit = scalar >> place & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % FIELD, b * b % FIELD, d * a % FIELD, c * b % FIELD
        x3, z3 = (da + cb) ** 2 % FIELD, u * (da - cb) ** 2 % FIELD
        x2, z2 = aa * bb % FIELD, (aa - bb) * (aa + 121665 * (aa - bb)) % FIELD
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, FIELD - 2, FIELD) % FIELD).to_bytes(32, "little")


def public_of(private: bytes) -> bytes:
    return x25519(private, (9).to_bytes(32, "little"))


def pair_key(private: bytes, public: bytes, sum_: bytes, one: str, other: str) -> bytes:
    low, high = sorted((one.encode(), other.encode()))
    return hkdf(x25519(private, public), joined(b"pair mask", sum_, low, high))


def self_key(seed: bytes, sum_: bytes, name: str) -> bytes:
    return hkdf(seed, joined(b"self mask", sum_, name.encode()))


def secret_of(shares: Mapping[int, bytes]) -> bytes:
    """Lagrange's formula at 0 with exact fractions, taken to the field at the end."""
    total = 0
    for x, share in shares.items():
        weight = prod(
            (Fraction(-other, x - other) for other in shares if other != x), start=Fraction(1)
        )
        inverse = pow(weight.denominator, PRIME - 2, PRIME)
        total += int.from_bytes(share, "big") * weight.numerator * inverse
    return (total % PRIME).to_bytes(32, "big")


def masked_sum_of(
    words: Mapping[str, Sequence[int]], privates: Mapping[str, bytes], seeds: Mapping[str, bytes],
    sum_: bytes, name: str, bits: int = 64,
) -> list[int]:  # fmt: skip
    """What one platform sends: its words, its own mask, and those of all pairs."""
    count = len(words[name])
    found = [
        a + b
        for a, b in zip(
            words[name], mask(self_key(seeds[name], sum_, name), count, bits), strict=True
        )
    ]
    for other in words:
        if other != name:
            key = pair_key(privates[name], public_of(privates[other]), sum_, name, other)
            sign = 1 if name < other else -1
            found = [a + sign * b for a, b in zip(found, mask(key, count, bits), strict=True)]
    return [each % 2**bits for each in found]
