"""Units protected by their own platform: DP-SGD with noise from the platform ("unit-local").

Paper: Abadi et al. 2016, "Deep learning with differential privacy".

In every step each unit (sentence, document or patient) takes part with the same probability; its
gradient is clipped at C, and the platform releases

    (sum of clipped gradients + N(0, (multiplier * C)^2)) / expected number of units

to its own algorithm. Everything after it (steps, means, differences of weights, control variates,
moments) is post-processing, so any algorithm fits and the server need not be trusted.

Guarantee: (epsilon, delta) under adding or removing one unit, for whoever sees all that the
platform transmits; one Poisson-subsampled Gaussian release a step.

What is protected is the *joint* gradient. A shared gradient depends on the private weights, and
those were stepped on the same data. So of every unit the shared and the private gradient are
clipped together, both are noised, and the private optimizer sees the noised part alone ("joint").
Also valid: the private part is frozen while updates are transmitted ("frozen"). Not valid is noise
on the shared part only ("clear"): removing one unit changes the private weights and through them
the shared gradient of every other unit, so that no clipping of single units bounds the change.

Edge cases: an empty sample is released like any other. A unit that lies on two platforms is clipped
by each: its cost adds up. Losses of the gold tags alone have per-unit gradients.
"""

from collections.abc import Iterator

from fedner.privacy.events import GaussianRelease
from fedner.privacy.mechanisms.mechanism import (
    Asked,
    ClippedStep,
    Mechanism,
    PlatformPrivacy,
    without_rows,
)
from fedner.privacy.noise import divide, gaussian, rounded_like
from fedner.settings import SettingProblem
from fedner.tensors import State

TRUST = (
    "Every platform added its own noise, from its operating system's entropy, before anything was "
    "sent; the server need not be trusted. How long an answer takes is not covered."
)


def unit_event(privacy: PlatformPrivacy, batch: int, steps: int, turn: int) -> GaussianRelease:
    """Return the event of steps over Poisson samples of units."""
    return GaussianRelease(
        noise_multiplier=privacy.noise_multiplier,
        sampling_probability=privacy.probability(batch),
        unit=privacy.unit,
        max_norm=privacy.max_grad_norm,
        public_units=privacy.public_units,
        steps=steps,
        slice=privacy.slice(turn),
        max_sentences=privacy.max_sentences,
        is_simulation=privacy.source.is_simulation,
        discrete=privacy.discrete(),
    )


def unit_problems(asked: Asked) -> Iterator[SettingProblem]:
    """Yield what per-unit clipping cannot be combined with, wherever the noise is added."""
    if asked.is_marginal:
        yield SettingProblem(
            "partition.unannotated", "'marginal' with privacy", "outside",
            "Per-unit gradients are those of the gold tags.",
        )  # fmt: skip
    if asked.has_scores and asked.private_part == "frozen":
        yield SettingProblem(
            "privacy.scores", "scores with a frozen private part", "no such table",
            "While updates are transmitted, the private part knows nothing yet.",
        )  # fmt: skip


def _on_gradient(privacy: PlatformPrivacy, step: ClippedStep) -> State:
    noised = gaussian(step.clipped, privacy.noise_multiplier, step.source)
    mean = rounded_like(divide(noised, step.expected), step.weights)
    return without_rows(mean, privacy.padding_rows)


UNIT_LOCAL = Mechanism("unit-local", unit_event, unit_problems, TRUST, on_gradient=_on_gradient)
