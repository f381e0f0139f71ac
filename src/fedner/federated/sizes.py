"""Batch sizes, weights and rounds from the platforms' public sizes, and from nothing else.

A platform declares a public size n_i, which it may round; |N_i| = N n_i / sum n_j (Ge et al. 2020,
section 3.2) by largest remainder, at least 1.
"""

import math
from collections.abc import Mapping
from typing import Literal

from fedner.errors import FednerError

Batching = Literal["joint", "each"]
Weighting = Literal["size", "sqrt-size", "equal"]


def platform_weights(public_sizes: Mapping[str, int], weighting: Weighting) -> dict[str, float]:
    """Return how much each platform's update counts: public facts alone.

    Args:
        public_sizes: The declared size of each platform.
        weighting: By size, by its square root (between the two others), or all the same.
    """
    if weighting == "equal":
        return dict.fromkeys(public_sizes, 1.0)
    if weighting == "sqrt-size":
        return {name: math.sqrt(size) for name, size in public_sizes.items()}
    return {name: float(size) for name, size in public_sizes.items()}


def planned_batches(
    public_sizes: Mapping[str, int], total: int, batching: Batching
) -> dict[str, int]:
    """Return how many sentences each chosen platform draws in a step, as the study says.

    Args:
        public_sizes: The declared size of each chosen platform.
        total: N: the joint batch, or every platform's own.
        batching: Which of the two.
    """
    if batching == "each":
        return dict.fromkeys(public_sizes, total)
    return batch_sizes(public_sizes, total)


def batch_sizes(public_sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Return how many sentences each platform draws in a step, `total` together.

    Platforms whose share is below one sentence get one; the others share what is left by largest
    remainder, and of equal remainders the platform first by name is rounded up.

    Args:
        public_sizes: The declared size of each platform that takes part.
        total: The joint batch N.

    Raises:
        FednerError: If a size is below 1, or N is below the number of platforms.
    """
    check_sizes(public_sizes)
    if total < len(public_sizes):
        raise FednerError(
            f"joint batch: found {total} sentences for {len(public_sizes)} platforms; expected at "
            "least one for each",
            "Take a larger batch, or draw fewer platforms in each round.",
        )
    sizes = dict(sorted(public_sizes.items()))
    quotas: dict[str, int] = {}
    while True:
        left, weight = total - len(quotas), sum(sizes.values())
        small = [name for name, size in sizes.items() if left * size < weight]
        if not small:
            break
        # A platform raised to one sentence takes from the rest, who may then fall below one too.
        for name in small:
            quotas[name] = 1
            del sizes[name]
    whole = {name: left * size // weight for name, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda name: (-(left * sizes[name] % weight), name))
    for name in by_remainder[: left - sum(whole.values())]:
        whole[name] += 1
    return dict(sorted({**quotas, **whole}.items()))


def rounds_per_epoch(public_sizes: Mapping[str, int], total: int, local_steps: int = 1) -> int:
    """Return how many rounds show every platform's sentences about once, by the public sizes."""
    batches = batch_sizes(public_sizes, total)
    steps = max(-(-size // batches[name]) for name, size in public_sizes.items())
    return -(-steps // local_steps)


def check_sizes(public_sizes: Mapping[str, int]) -> None:
    """Raise unless there is a platform and every declared size is at least 1."""
    if not public_sizes:
        raise FednerError("the federation has no platform", "Name at least one.")
    wrong = {name: size for name, size in public_sizes.items() if size < 1}
    if wrong:
        raise FednerError(
            f"public sizes: found {wrong}; expected at least 1 sentence each",
            "Declare the number of training sentences, rounded if you like, but not to 0.",
        )
