"""Units protected by a trusted server: clipped at the platforms, noised once ("unit-central").

Paper: Jana and Biemann 2021 (differentially private federated tagging); central DP-SGD.

Platforms send the clipped sum of the shared part without noise. The server adds N(0, (multiplier *
C)^2) to the sum over all platforms and divides by the joint expected size. A unit lies on one
platform, so it moves the sum by at most C; one noise serves everybody, so that the same epsilon
costs less accuracy than with noise of each platform. The private part stays at home, and its noise
is always the platform's own.

Guarantee: (epsilon, delta) under adding or removing one unit, for whoever sees only what the server
hands out; one Poisson-subsampled Gaussian release a round.

Whom to trust: the server, with every platform's clipped sums, and the channel to it. A platform
that does not clip gives up the protection of its own units and of nobody else's.

Weights. Sums over units weigh platforms by the units in them. Where a study weighs them otherwise
("sqrt-size", "equal"), each platform's sum is first multiplied by a public number of at most 1
(`server_noise.scales`): a unit moves the scaled sum by at most C, and the noise stays what it was.

Edge cases: one local step only, since a second one would stand on shared weights that nobody
noised; updates must be gradients, since only those are sums over units. A sum is noised once: in
deployment every round is stored before the next begins. No noised scores: they would be asked for
before the server has stored what it noised, and noised anew after a crash that would be two
releases.
"""

from collections.abc import Iterator, Mapping

from fedner.privacy.entropy import Source
from fedner.privacy.mechanisms.mechanism import (
    Asked,
    ClippedStep,
    Mechanism,
    NoiseTerms,
    PlatformPrivacy,
    SumRelease,
    without_rows,
)
from fedner.privacy.mechanisms.unit_local import unit_event, unit_problems
from fedner.privacy.noise import (
    Clipped,
    divide,
    gaussian,
    part_of,
    received_sum,
    require_finite,
    rounded_like,
)
from fedner.settings import SettingProblem
from fedner.tensors import State

TRUST = (
    "The server must be trusted: it sees every platform's clipped sums before it adds the noise. "
    "Who sees only the shared weights sees noised values."
)


def sum_problems(asked: Asked) -> Iterator[SettingProblem]:
    """Yield what noise on a sum cannot be combined with, whatever the unit."""
    if asked.aggregation != "mean":
        yield SettingProblem(
            "participation.aggregation", f"{asked.aggregation!r} with noise on the sum", "mean",
            "The noise is on a sum.",
        )  # fmt: skip


def noised_mean(
    terms: NoiseTerms, total: Clipped, expected: float, weights: State, source: Source
) -> State:
    """Return a clipped sum with noise, over its expected size, in the precision of the weights."""
    noised = divide(gaussian(total, terms.noise_multiplier, source), expected)
    return without_rows(rounded_like(noised, weights), terms.padding_rows)


def _problems(asked: Asked) -> Iterator[SettingProblem]:
    yield from unit_problems(asked)
    yield from sum_problems(asked)
    if asked.has_scores:
        yield SettingProblem(
            "privacy.scores", "scores with noise at the server", "noise at the platforms",
            "They would be asked for before the server has stored what it noised; noised anew "
            "after a crash, that would be two releases.",
        )  # fmt: skip
    yield from gradient_problems(asked, "unit-central")


def gradient_problems(asked: Asked, name: str) -> Iterator[SettingProblem]:
    """Yield what a sum over units cannot be made of, for the mechanism of a name."""
    if asked.sends != "gradients":
        yield SettingProblem(
            "privacy.mechanism",
            f"{name!r} with {asked.algorithm}, whose updates are {asked.sends}",
            "unit-local or platform-central, or updates that are gradients",
            "Between local steps the shared weights would move along gradients that nobody noised. "
            "FedAvg of one plain SGD step is fedner with an SGD server.",
        )  # fmt: skip
        return
    if asked.steps > 1:
        yield SettingProblem(
            "algorithm.local_steps", f"{asked.steps} with noise on the sum", "1",
            "The second step would stand on shared weights that nobody noised.",
        )  # fmt: skip
    if asked.loss_reading == "sum":
        yield SettingProblem(
            "algorithm.loss", "'sum' with noise on the sum", "mean",
            "The server divides by the joint expected size itself.",
        )  # fmt: skip


def _on_gradient(privacy: PlatformPrivacy, step: ClippedStep) -> State:
    """Return the clipped shared sum as it is, and the private part as in `unit_local`."""
    names = tuple(step.clipped.value)
    sums = part_of(step.clipped, [name for name in step.shared if name in names]).value
    require_finite(sums)
    own = part_of(step.clipped, [name for name in names if name not in step.shared])
    noised = divide(gaussian(own, privacy.noise_multiplier, step.source), step.expected)
    value = {**sums, **rounded_like(noised, step.weights)}
    return without_rows(value, privacy.padding_rows)


def expected_sizes(
    batches: Mapping[str, int], public_sizes: Mapping[str, int], num_slices: int
) -> dict[str, float]:
    """Return the expected number of units in every platform's sum."""
    return {
        name: min(float(batches.get(name, 1)), size / num_slices)
        for name, size in public_sizes.items()
    }


UNIT_CENTRAL = Mechanism(
    "unit-central",
    unit_event,
    _problems,
    TRUST,
    on_gradient=_on_gradient,
    on_sum=SumRelease(received_sum, expected_sizes, noised_mean),
)
