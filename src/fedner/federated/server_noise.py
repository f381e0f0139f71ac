"""Noise at the server: added once, to the sum of what the platforms clipped.

The trusted server of the 2021 paper (Jana and Biemann). Platforms send clipped sums without noise;
the server adds N(0, (multiplier * clip)^2) to their sum and divides by the joint expected size. A
unit lies on one platform, so it moves the sum by at most the clip.

Who must be trusted: the server, with every platform's clipped sums, and the channel to it. Whoever
sees only the broadcasts sees noised values. A platform that does not clip harms its own units only.
Who takes part in a round is public; of unit "platform" what a platform sent is protected.

A sum is noised once. Noised anew after a crash, with the first result already broadcast, it would
be two releases, and the platforms' ledgers know of one. So in deployment every round is stored
before the next one is broadcast (`run` sees to it), and a run begun anew has another name
(`runs.privacy`), so that no ledger answers it with an old sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from fedner.federated.aggregate import Rule, WeightedMean
from fedner.federated.dp_steps import without_rows
from fedner.privacy.entropy import Source, SystemEntropy
from fedner.privacy.noise import (
    Clipped,
    clip,
    divide,
    gaussian,
    received_sum,
    rounded_like,
    sum_of_disjoint,
)
from fedner.tensors import SharedState, map_shared


@dataclass(frozen=True, slots=True)
class ServerNoise:
    """How the server noises the sum of a round.

    Attributes:
        max_grad_norm: What the platforms clipped at.
        noise_multiplier: Standard deviation of the noise over that bound.
        is_whole: Whether the unit is the platform: then the server clips every update itself.
        num_slices: Slices of an incremental schedule.
        source: Where the noise comes from.
        padding_rows: Rows of tables that are never trained.
    """

    max_grad_norm: float
    noise_multiplier: float
    is_whole: bool = False
    num_slices: int = 1
    source: Source = field(default_factory=SystemEntropy)
    padding_rows: Mapping[str, int] = field(default_factory=dict)

    def rule(self, round_: int, weights: SharedState) -> Rule:
        """Return the rule that aggregates the clipped sums of a round, for steps of `weights`."""
        return partial(NoisedSum, self, round_, weights)

    def divisors(
        self, batches: Mapping[str, int], public_sizes: Mapping[str, int]
    ) -> dict[str, float]:
        """Return the expected size of every platform's sum; together they are what is divided by.

        Args:
            batches: The expected units of each chosen platform.
            public_sizes: The declared units of all.
        """
        if self.is_whole:
            return dict.fromkeys(public_sizes, 1.0)
        return {
            name: min(float(batches.get(name, 1)), size / self.num_slices)
            for name, size in public_sizes.items()
        }


@dataclass(slots=True)
class NoisedSum:
    """The sum of clipped sums plus noise, over the sum of the weights: a `Fold`.

    Attributes:
        noise: How it is noised.
        round: Names the noise of a simulation.
        weights: The shared weights: the result is rounded to their precision. Sums come in float64,
            since in float32 a large one would lose more than its bound allows.
    """

    noise: ServerNoise
    round: int
    weights: SharedState
    _total: Clipped | None = None
    _expected: float = 0.0

    def add(self, state: SharedState, weight: float) -> None:
        """Add one platform's clipped sum, whose expected size is `weight`."""
        own = map_shared(lambda tensor: tensor.double(), state)
        bound = self.noise.max_grad_norm
        part = clip(own, bound) if self.noise.is_whole else received_sum(own, bound)
        if self._total is None:
            self._total = part
        else:
            self._total = sum_of_disjoint([self._total, part])
        self._expected += weight

    def result(self) -> SharedState:
        """Return the noised mean."""
        if self._total is None:
            return WeightedMean().result()  # raises: there is nothing to aggregate
        source = self.noise.source.at("server", "round", self.round)
        noised = divide(gaussian(self._total, self.noise.noise_multiplier, source), self._expected)
        value = rounded_like(noised, self.weights)
        return SharedState(without_rows(value, self.noise.padding_rows))
