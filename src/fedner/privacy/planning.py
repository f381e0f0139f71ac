"""Planning a DP run before any data are touched: noise for an epsilon, or epsilon for a noise.

Steps are whole epochs of `ceil(examples / batch_size)` Poisson samples, each with probability
`batch / examples`. With several platforms the examples are shared out equally and every platform
draws its own batch and adds its own noise: then sampling probability, steps and so epsilon are
those of one platform, and the smallest platform is the worst off.
"""

import functools
import math
from dataclasses import asdict, dataclass
from typing import Any

from fedner.errors import FednerError
from fedner.privacy.accountant import (
    AccountantName,
    composed_pld,
    discretisation,
    noise_for,
    pld_epsilon,
    rdp_epsilon,
    require_delta,
)
from fedner.privacy.budget import delta_problem, delta_warning

_MAX_POINTS = 40


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Epsilon after so many epochs."""

    epoch: int
    rdp: float
    pld: float


@dataclass(frozen=True, slots=True)
class PrivacyPlan:
    """What a run would spend on each platform.

    Attributes:
        noise_multiplier: Standard deviation of the noise over the clipping bound.
        rdp: Epsilon by Rényi accounting.
        pld: Epsilon by privacy-loss distributions.
        delta: The delta of both.
        rdp_noise_multiplier: Where a target was given, the noise that reaches it by Rényi
            accounting.
        target_epsilon: The target, if one was given; `noise_multiplier` reaches it by `pld`.
        examples: Examples (units) in all.
        platforms: How many platforms share them.
        examples_per_platform: What the smallest platform has.
        batch_size: The expected batch of a platform.
        epochs: Passes over the data.
        sampling_probability: Batch over examples of a platform.
        steps: Noised steps of a platform.
        curve: Epsilon by epoch, up to the last one.
        warnings: What should be thought about before the run.
    """

    noise_multiplier: float
    rdp: float
    pld: float
    delta: float
    rdp_noise_multiplier: float | None
    target_epsilon: float | None
    examples: int
    platforms: int
    examples_per_platform: int
    batch_size: int
    epochs: int
    sampling_probability: float
    steps: int
    curve: tuple[CurvePoint, ...]
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return asdict(self)


def plan(
    *,
    examples: int,
    batch_size: int,
    epochs: int,
    delta: float,
    noise_multiplier: float | None = None,
    target_epsilon: float | None = None,
    platforms: int = 1,
    with_curve: bool = True,
) -> PrivacyPlan:
    """Return what a run would spend, or what noise it needs.

    Exactly one of `noise_multiplier` and `target_epsilon` is given.

    >>> import fedner
    >>> numbers = {"examples": 1000, "batch_size": 100, "epochs": 2, "delta": 1e-4}
    >>> plan = fedner.privacy.plan(noise_multiplier=2.0, **numbers)
    >>> plan.steps, round(plan.pld, 1)
    (20, 0.9)

    Raises:
        FednerError: If a number makes no sense, naming each one that does not, or if delta is
            more than one over the units of a platform.
    """
    require_delta(delta)
    _require(examples, batch_size, epochs, platforms, noise_multiplier, target_epsilon)
    share = examples // platforms
    warning = _checked_delta(delta, share)
    probability = min(1.0, batch_size / share)
    steps_per_epoch = math.ceil(share / batch_size)
    steps = steps_per_epoch * epochs

    def needed(accountant: AccountantName, target: float) -> float:
        return noise_for(
            target,
            sampling_probability=probability,
            steps=steps,
            delta=delta,
            accountant=accountant,
        )

    multiplier = needed("pld", target_epsilon) if target_epsilon is not None else noise_multiplier
    if multiplier is None:
        raise FednerError(
            "Neither a noise multiplier nor a target epsilon was given.", "Give one of the two."
        )
    total = {(multiplier, probability): steps}
    end = CurvePoint(epochs, rdp_epsilon(total, delta), pld_epsilon(total, delta))
    curve = _curve(multiplier, probability, steps_per_epoch, end, delta) if with_curve else (end,)
    return PrivacyPlan(
        noise_multiplier=multiplier,
        rdp=end.rdp,
        pld=end.pld,
        delta=delta,
        rdp_noise_multiplier=None if target_epsilon is None else needed("rdp", target_epsilon),
        target_epsilon=target_epsilon,
        examples=examples,
        platforms=platforms,
        examples_per_platform=share,
        batch_size=batch_size,
        epochs=epochs,
        sampling_probability=probability,
        steps=steps,
        curve=curve,
        warnings=() if warning is None else (warning,),
    )


def _checked_delta(delta: float, units: int) -> str | None:
    """Refuse a delta that promises nothing to so many units; return what is still to be said."""
    problem = delta_problem(delta, units)
    if problem is not None:
        raise FednerError(f"Refused: {problem}.", f"Take a delta of at most {0.1 / units:.2g}.")
    return delta_warning(delta, units)


def _curve(
    noise: float, probability: float, steps_per_epoch: int, end: CurvePoint, delta: float
) -> tuple[CurvePoint, ...]:
    """Return epsilon at evenly spaced epochs, each composed from the one before."""
    stride = math.ceil(end.epoch / _MAX_POINTS)
    epochs = range(stride, end.epoch, stride)
    if noise == 0:
        return (*(CurvePoint(epoch, math.inf, math.inf) for epoch in epochs), end)
    step = (noise, probability)
    interval = discretisation({step: steps_per_epoch * end.epoch})
    points, so_far = [], None
    for epoch in epochs:
        if probability == 1:
            so_far = composed_pld(noise, 1.0, steps_per_epoch * epoch, interval)
        else:
            part = _stride_pld(noise, probability, steps_per_epoch * stride, interval)
            so_far = part if so_far is None else so_far.compose(part)
        rdp = rdp_epsilon({step: steps_per_epoch * epoch}, delta)
        points.append(CurvePoint(epoch, rdp, float(so_far.get_epsilon_for_delta(delta))))
    return (*points, end)


@functools.lru_cache(maxsize=2)
def _stride_pld(noise: float, probability: float, count: int, interval: float) -> Any:
    return composed_pld(noise, probability, count, interval)


def _require(
    examples: int,
    batch_size: int,
    epochs: int,
    platforms: int,
    noise_multiplier: float | None,
    target_epsilon: float | None,
) -> None:
    problems = [
        f"{name} is {value}, expected at least {least}"
        for name, value, least in (
            ("examples", examples, max(1, platforms)),
            ("batch_size", batch_size, 1),
            ("epochs", epochs, 1),
            ("platforms", platforms, 1),
        )
        if value < least
    ]
    if (noise_multiplier is None) == (target_epsilon is None):
        problems.append("exactly one of noise_multiplier and epsilon is needed")
    if noise_multiplier is not None and not 0 <= noise_multiplier < math.inf:
        problems.append(f"noise_multiplier is {noise_multiplier}, expected a number from 0 up")
    if problems:
        raise FednerError(
            "The privacy plan makes no sense: " + "; ".join(problems) + ".",
            "`fedner privacy plan --help` explains each number.",
        )
