"""Noise at the server: added once, to the sum of what the platforms clipped.

What is received, divided by and noised is the mechanism's (`unit_central`, `platform_central`).
Here the sum is folded, one update at a time.

A sum is noised once. Noised anew after a crash, with the first result already broadcast, it would
be two releases, and the platforms' ledgers know of one. So in deployment every round is stored
before the next one is broadcast (`run` sees to it), and a run begun anew has another name
(`runs.privacy`), so that no ledger answers it with an old sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from fedner.errors import FednerError
from fedner.federated.aggregate import Rule, WeightedMean
from fedner.federated.sizes import Weighting, platform_weights
from fedner.privacy.entropy import Source, SystemEntropy
from fedner.privacy.mechanisms import Mechanism, NoiseTerms, PlatformPrivacy, SumRelease
from fedner.privacy.noise import Clipped, sum_of_disjoint
from fedner.tensors import SharedState, map_shared


@dataclass(frozen=True, slots=True)
class ServerNoise:
    """How the server noises the sum of a round.

    Attributes:
        mechanism: What it does with updates and their sum.
        max_grad_norm: What the platforms clipped at.
        noise_multiplier: Standard deviation of the noise over that bound.
        num_slices: Slices of an incremental schedule.
        source: Where the noise comes from.
        padding_rows: Rows of tables that are never trained.
    """

    mechanism: Mechanism
    max_grad_norm: float
    noise_multiplier: float
    num_slices: int = 1
    source: Source = field(default_factory=SystemEntropy)
    padding_rows: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.release  # raises where there is none

    @property
    def release(self) -> SumRelease:
        """What the mechanism does at the server."""
        if self.mechanism.on_sum is None:
            raise FednerError(
                f"mechanism {self.mechanism.name!r} adds no noise at the server",
                "The platforms add its noise: run without noise at the server.",
            )
        return self.mechanism.on_sum

    @property
    def terms(self) -> NoiseTerms:
        """What a release of noise needs of this."""
        return NoiseTerms(self.max_grad_norm, self.noise_multiplier, self.padding_rows)

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
        return self.release.divisors(batches, public_sizes, self.num_slices)

    def scales(
        self, batches: Mapping[str, int], public_sizes: Mapping[str, int], weighting: Weighting
    ) -> dict[str, float]:
        """Return what the sums of a round are multiplied by before they are added up.

        Sums over units weigh by the units that are in them; that is weighting "size", and nothing
        is scaled. For another weighting platform i, of weight w_i and expected size E_i, counts
        w_i / E_i a unit, and the largest of these is brought to 1.

        Guarantee:
            No scale is above 1, so that no unit moves the scaled sum by more than the bound. They
            follow from public facts: the noise stays what it was.

        Args:
            batches: The expected units of each chosen platform.
            public_sizes: The declared units of all.
            weighting: How much platforms count.
        """
        if weighting == "size" or not self.mechanism.samples_units:
            return {}
        expected = self.divisors(batches, public_sizes)
        weights = platform_weights(public_sizes, weighting)
        per_unit = {name: weights[name] / expected[name] for name in batches}
        most = max(per_unit.values())
        return {name: min(1.0, each / most) for name, each in per_unit.items()}


def server_noise(privacy: PlatformPrivacy) -> ServerNoise | None:
    """Return the server's part of how a platform is protected; None where it has none."""
    if not privacy.mechanism.releases_sum:
        return None
    return ServerNoise(
        privacy.mechanism,
        privacy.max_grad_norm,
        privacy.noise_multiplier,
        privacy.num_slices,
        privacy.source,
        privacy.padding_rows,
    )


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
        part = self.noise.release.received(own, self.noise.max_grad_norm)
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
        noise = self.noise
        value = noise.release.noised(noise.terms, self._total, self._expected, self.weights, source)
        return SharedState(dict(value))
