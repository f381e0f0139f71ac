"""Shamir's shares of 32 bytes: any t of them give the secret, fewer tell nothing.

Paper: Shamir 1979, "How to share a secret". The secret is the value at 0 of a polynomial of degree
t - 1 with random coefficients over the integers modulo the prime 2**256 + 297; the share of point
x is its value there. A share is 33 bytes, most significant first.
"""

import secrets
from collections.abc import Mapping, Sequence

from fedner.errors import FednerError

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def split_secret(secret: bytes, points: Sequence[int], threshold: int) -> dict[int, bytes]:
    """Return the share of each point.

    Args:
        secret: 32 bytes.
        points: Different whole numbers from 1 up.
        threshold: How many shares give the secret back.

    Raises:
        FednerError: If there are fewer points than the threshold, or points that are no such.
    """
    is_sound = len(set(points)) == len(points) and all(0 < x < PRIME for x in points)
    if len(secret) != SECRET_BYTES or not is_sound or not 1 <= threshold <= len(points):
        raise FednerError(
            f"shares: found {len(points)} points, threshold {threshold} and a secret of "
            f"{len(secret)} bytes; expected different points, at least as many as the threshold, "
            f"and {SECRET_BYTES} bytes"
        )
    first = int.from_bytes(secret, "big")
    coefficients = [first, *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return {x: _value(coefficients, x).to_bytes(SHARE_BYTES, "big") for x in points}


def _value(coefficients: Sequence[int], x: int) -> int:
    """Return the polynomial's value, by Horner's rule."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


def join_shares(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the secret of at least `threshold` shares, by point.

    Raises:
        FednerError: If there are too few, or they are not of one secret.
    """
    if len(shares) < threshold:
        raise FednerError(f"found {len(shares)} shares of a secret; expected {threshold}")
    points = sorted(shares)[:threshold]
    total = 0
    for x in points:
        share = int.from_bytes(shares[x], "big")
        if len(shares[x]) != SHARE_BYTES or share >= PRIME:
            raise FednerError("not a valid share")
        total += share * _weight(x, points)
    secret = total % PRIME
    if secret >= 2 ** (8 * SECRET_BYTES):
        raise FednerError("shares of different secrets")
    return secret.to_bytes(SECRET_BYTES, "big")


def _weight(x: int, points: Sequence[int]) -> int:
    """Return Lagrange's weight of a point at 0."""
    above, below = 1, 1
    for other in points:
        if other != x:
            above = above * other % PRIME
            below = below * (other - x) % PRIME
    return above * pow(below, -1, PRIME) % PRIME
