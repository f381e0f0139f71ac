"""The secure sum: the coordinator learns the sum of all updates, and of no single one anything.

Paper: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning"
(CCS), the protocol against active adversaries. With fresh keys in every round, platform u sends

    y_u = x_u + PRG(b_u) + sum over v > u of PRG(s_uv) - sum over v < u of PRG(s_uv)   mod 2**bits

where x_u is its update on a grid (`grid`), b_u its own seed and s_uv the secret that it has in
common with v. In the sum the pair masks cancel. Shares of each b_u and of each mask key are dealt
among all: with t of them the coordinator takes away the self masks of the survivors, and the pair
masks of those who dropped out after they had dealt.

Phases: 1 keys, 2 shares, 3 masked values (the `round` order), 4 signed list of survivors, 5 shares
opened. X25519, HKDF-SHA-256, AES-256-CTR and AES-256-GCM are those of `cryptography`.

Guarantee: of n platforms c may work together with the server, which may lie. Whatever they do, of
the others they learn the sum of at least `SumTerms.least_survivors` updates, each round for one
list, or nothing. That rests on the platforms' signatures: in a simulation they protect nobody.

Edge cases: sums without differential privacy still tell about their summands what a sum tells. A
platform that sends wrong shares stops the round; one that sends a wrong update spoils it, up to
`participation.norm_bound`, which only an honest platform checks: nobody can look.

What differs from the paper: the seed of a self mask is committed to in phase 1, and a mask key is
held against its public key, so that wrong shares are noticed; keys are bound to study, run, round
and terms; what may be opened is kept on the disk, over all rounds (`secure.opened`).
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedner.errors import FednerError
from fedner.federated.grid import Grid
from fedner.federated.summation import PlatformSum, ServerSum, Summation

if TYPE_CHECKING:  # `cryptography` is an extra
    from fedner.federated.messages import Order
    from fedner.federated.secure.identities import MakeIdentity
    from fedner.federated.secure.plan import SumPlan

NAME = "secure"
BEFORE, AFTER = 2, 2
# The mean of updates, to 11 digits behind the point; up to 2**27 over the number of platforms.
GRID = Grid(2.0**-36, 64)


def secure_sum(
    plan: "SumPlan", identities: "MakeIdentity", record: Path | None = None
) -> Summation:
    """Return a secure sum.

    Args:
        plan: What everybody knows of it.
        identities: Returns what a platform signs with, of its name.
        record: The file in which a platform keeps which sums it opened; None keeps that in memory,
            for simulations.

    Raises:
        FednerError: `cryptography` is not installed.
    """
    require_cryptography()
    at_platform = partial(_at_platform, plan, identities, record)
    return Summation(NAME, at_platform, partial(_at_server, plan), BEFORE, AFTER, tells_cost=True)


def require_cryptography() -> None:
    """Raise if what a secure sum needs is not installed."""
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        raise FednerError(
            "the secure sum needs the package cryptography",
            "Install it: pip install 'fedner[secure]'.",
        )


def mean_scales(weights: Mapping[str, float]) -> tuple[dict[str, float], float]:
    """Return what updates are multiplied by for their weighted sum, and the sum by afterwards.

    Each weighs at most 1 on the grid, so that its range does not depend on the platforms' sizes.
    """
    whole = sum(weights[name] for name in sorted(weights))
    return {name: weight / whole for name, weight in weights.items()}, whole


def _at_platform(
    plan: "SumPlan", identities: "MakeIdentity", record: Path | None, name: str
) -> PlatformSum:
    from fedner.federated.secure.opened import OpenedSums
    from fedner.federated.secure.platform_side import PlatformSide

    return PlatformSide(plan, identities(name), OpenedSums(record), name)


def _at_server(plan: "SumPlan", order: "Order") -> ServerSum:
    from fedner.federated.secure.server_side import ServerSide

    return ServerSide(plan, order)
