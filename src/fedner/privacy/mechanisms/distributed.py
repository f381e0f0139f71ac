"""Units protected by noise that all platforms add together under a secure sum ("distributed").

Papers: Kairouz, Liu and Steinke 2021, "The distributed discrete Gaussian mechanism for federated
learning with secure aggregation"; the noise is that of Canonne, Kamath and Steinke 2020.

In a round each platform clips every unit's gradient at C, adds them up, rounds the sum to a grid
and adds a discrete Gaussian of its own: a share of the noise. Only the sum over platforms is opened
(`federated.secure`), and it has the noise of `unit-central`, though nobody added it or could take
it off. The server divides it by the joint expected size.

    sent_i = round(sum of clipped gradients / step) + N_Z(0, share^2)         whole numbers

What the noise is made for (`noise_shares`): the least number of platforms that survive in an opened
sum, less those that may collude with the server. What it costs: `discrete_bound`.

Rounding. The papers round each client's own vector at random and draw again until its norm is
small: there a client is the unit. Here a unit is one of many in a sum, whose share of the rounding
nobody can bound that way. So the sum goes to the nearest grid point, and one unit more or less
moves what is rounded by at most C + step * sqrt(d): the triangle inequality, half a step on each
coordinate of both sums. That is re-checked on every sum before the noise. The step is small enough
that it costs a thousandth. A coordinate beyond the range of the grid is set to its end, which
brings no two sums further apart.

Private tensors and a head's residual stay at home, with full noise of the platform's own, made for
the same bound C + step * sqrt(d), since shared and private gradient are clipped together.

Guarantee: (epsilon, delta) under adding or removing one unit, for the server and up to c colluding
platforms, who see every opened sum; one Poisson-subsampled release a round.

Whom to trust: that no more than c platforms collude with the server, and that all others draw their
noise. A platform alone has less noise than its epsilon says: in deployment this is refused without
a secure sum.

Edge cases: those of `unit-central`: one local step, gradients, float32. Weights of platforms are
their sizes. A platform that fails sends noise alone: its share is in the sum.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.privacy.discrete_bound import DiscreteNoise
from fedner.privacy.discrete_noise import discrete_gaussian
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
from fedner.privacy.mechanisms.unit_central import expected_sizes, gradient_problems, sum_problems
from fedner.privacy.mechanisms.unit_local import unit_event, unit_problems
from fedner.privacy.noise import (
    Clipped,
    Noised,
    divide,
    gaussian,
    part_of,
    received_sum,
    require_finite,
    rounded_like,
)
from fedner.privacy.noise_shares import box, largest_count
from fedner.settings import SettingProblem
from fedner.tensors import State

TRUST = (
    "Every platform added a share of the noise before a secure sum hid what it sent. No more "
    "platforms than the study says may collude with the server, and the others must draw their "
    "share; then neither the server nor a platform sees a sum without its noise."
)


def _problems(asked: Asked) -> Iterator[SettingProblem]:
    yield from unit_problems(asked)
    yield from sum_problems(asked)
    yield from gradient_problems(asked, "distributed")
    if asked.weighting != "size":
        yield SettingProblem(
            "algorithm.weighting", f"{asked.weighting!r} with distributed noise", "size",
            "Updates that nobody sees cannot be scaled, and shares of noise would be scaled too.",
        )  # fmt: skip


def discrete(clipped: Clipped, noise: DiscreteNoise, source: Source) -> Noised:
    """Return a clipped sum on the grid, with one share of discrete noise.

    Guarantee:
        Whole multiples of the step. Together with as many further shares as `noise` says, one
        release of the Gaussian mechanism with its multiplier at most.

    Args:
        clipped: What clipping returned.
        noise: The noise on the sum.
        source: Where the share comes from.

    Raises:
        FednerError: If a value is not finite, there are more numbers than the noise was made for,
            or rounding moved one by more than half a step.
    """
    require_finite(clipped.value)
    found = sum(each.numel() for each in clipped.value.values())
    if found > noise.coordinates:
        raise FednerError(
            f"a sum of {found} numbers; the noise was made for {noise.coordinates}",
            "Platforms and server must have the same model.",
        )
    limit, value = largest_count(noise, clipped.bound), {}
    for name, tensor in clipped.value.items():
        count = rounded(tensor, noise.step, box(clipped.bound))
        own = discrete_gaussian(
            count.numel(), noise.deviation, source.at("noise", name), count.device
        )
        count.add_(own.view(count.shape)).clamp_(-limit, limit)
        value[name] = count.double().mul_(noise.step)
    return Noised(value, noise.deviation * noise.step, source.is_simulation)


def rounded(tensor: Tensor, step: float, most: int) -> Tensor:
    """Return the nearest whole numbers of steps, none larger than the most.

    Raises:
        FednerError: If one was moved by more than half a step.
    """
    # A division by a power of two is exact.
    scaled = tensor.detach().double().div(step).clamp_(-most, most)
    nearest = scaled.round()
    if nearest.numel() and float((nearest - scaled).abs().max()) > 0.5:
        raise FednerError(
            "a sum was moved by more than half a step when it was rounded",
            "This is a fault in the arithmetic of this machine: please report it.",
        )
    return nearest.to(torch.int64)


def _on_gradient(privacy: PlatformPrivacy, step: ClippedStep) -> State:
    """Return the shared sum with a share of noise, and the private part with noise of its own."""
    noise = privacy.discrete()
    if noise is None:
        raise FednerError("distributed noise without the facts of its sum")
    names, bound = tuple(step.clipped.value), privacy.max_grad_norm
    shared = part_of(step.clipped, [name for name in step.shared if name in names])
    sums = discrete(shared, noise, step.source)
    own = part_of(step.clipped, [name for name in names if name not in step.shared])
    wider = noise.sensitivity(bound) * noise.step / bound
    noised = gaussian(own, privacy.noise_multiplier * wider, step.source)
    mean = rounded_like(divide(noised, step.expected), step.weights)
    return without_rows({**sums.value, **mean}, privacy.padding_rows)


def _mean(
    terms: NoiseTerms, total: Clipped, expected: float, weights: State, source: Source
) -> State:
    """Return the opened sum over its expected size: its noise is in it."""
    opened = Noised(total.value, 0.0, source.is_simulation)
    mean = rounded_like(divide(opened, expected), weights)
    return without_rows(mean, terms.padding_rows)


DISTRIBUTED = Mechanism(
    "distributed",
    unit_event,
    _problems,
    TRUST,
    on_gradient=_on_gradient,
    on_sum=SumRelease(received_sum, expected_sizes, _mean),
    shares_noise=True,
)
