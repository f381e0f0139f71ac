r"""The Gaussian mechanism: noise takes only what clipping returned.

Dwork and Roth (2014), section 3.5.3 and appendix A; DP-SGD: Abadi et al. (2016). For a sum of
contributions, each of Euclidean norm at most C (one per unit), the release is

    sum + N(0, (multiplier * C)^2) on every coordinate.

`Clipped` carries the bound C from the clipping to the noise, and `Noised` carries the noise to
whoever may see it: the private optimizer and the wire take nothing else.

Floating point. Mironov (2012) reads the protected value off the low bits of a noised double, since
a float generator reaches only some of the doubles and those differ from input to input. Here the
noise is made and added in double precision, from 63 random bits of radius and 32 of angle, and the
*sum* is rounded to a grid that is the same for every input: multiples of the power of two next
below `sigma / 65,536`. A cell of the grid holds thousands of reachable values, so there are no low
bits left to read. Rounding is post-processing and adds less than a billionth of sigma's variance.
The largest noise is 9.4 sigma; the mass beyond is 2^-63 a coordinate.

Where it is made. Random bits come from the operating system, on an accelerator from a cipher that
the system keys for every draw (`keystream`): they are made where the sum is, and the host never
waits but for one look, at the end, whether all was finite.

What is not covered: this is an approximation of the ideal mechanism, not an exact sampler of a
discrete Gaussian; and the time a step takes is not hidden. Sums of clipped gradients arrive in
float64 and exceed their bound by less than a millionth (Casacuberta et al. 2022 show what float32
sums lose); what was noised may be rounded to float32 (`rounded_like`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.privacy.entropy import SeededSimulation, Source
from fedner.privacy.keystream import random_int32
from fedner.tensors import State, norm

_GRID_BITS = 16
# Normals made at a time: what stays in a core's cache; on an accelerator, few launches.
_CPU_BLOCK = 1 << 17
_DEVICE_BLOCK = 1 << 22
_WITHOUT_SIGN = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Clipped:
    """A sum of contributions, one per unit, each of norm at most `bound` over all tensors together.

    Only clipping functions make one (`clip`, `sum_of_disjoint`, `part_of`, `received_sum`, and
    `dpsgd` for per-unit gradients); a test reads the source to see to it.

    Attributes:
        value: The sum, as named tensors.
        bound: The Euclidean norm that no unit's contribution exceeds.
    """

    value: State
    bound: float


@dataclass(frozen=True, slots=True)
class Noised:
    """What the mechanism released: safe to step on, to keep and to send.

    Attributes:
        value: The noised sum, as named tensors.
        standard_deviation: The noise on every coordinate.
        is_simulation: Whether the noise came from a seed; such a run protects nobody.
    """

    value: State
    standard_deviation: float
    is_simulation: bool


def clip(state: State, bound: float) -> Clipped:
    """Scale a whole update down to norm `bound`: the clipping of unit "platform".

    Guarantee:
        The result's norm is at most `bound`, whatever the input holds.

    Edge cases:
        A zero update stays zero. An update whose norm is not finite becomes zero: an error at this
        place would tell the server something about the data.
    """
    _require_bound(bound)
    size = norm(state)
    if not math.isfinite(size):
        return Clipped({name: torch.zeros_like(tensor) for name, tensor in state.items()}, bound)
    factor = 1.0 if size <= bound else bound / size
    return Clipped({name: tensor * factor for name, tensor in state.items()}, bound)


def sum_of_disjoint(parts: Sequence[Clipped]) -> Clipped:
    """Return the sum of clipped sums over disjoint sets of units: micro-batches, or platforms.

    Guarantee:
        If no unit contributes to two parts, the sum is clipped at the same bound. That units are
        not split over parts is the caller's to see to.

    Raises:
        FednerError: If there is no part, or bounds or names differ.
    """
    bounds = sorted({part.bound for part in parts})
    if len(bounds) != 1:
        raise FednerError(
            f"Adding {len(parts)} clipped sums: found the bounds {bounds}; expected a single one.",
            "Clip every part at the same bound.",
        )
    names = set(parts[0].value)
    if any(set(part.value) != names for part in parts):
        raise FednerError("Adding clipped sums: the parts name different tensors.")
    total = {name: tensor.clone() for name, tensor in parts[0].value.items()}
    for part in parts[1:]:
        for name, tensor in part.value.items():
            total[name].add_(tensor)
    return Clipped(total, bounds[0])


def part_of(clipped: Clipped, names: Iterable[str]) -> Clipped:
    """Return some of the tensors of a clipped sum: a part of a vector has no larger norm.

    If the parts of one sum are noised independently with the same multiplier and bound, that is one
    release of the whole sum: each coordinate of the joint vector has its noise.
    """
    return Clipped({name: clipped.value[name] for name in names}, clipped.bound)


def received_sum(state: State, bound: float) -> Clipped:
    """Return a sum that came from another machine, whose units that machine clipped at `bound`.

    Guarantee:
        None beyond the sender's word: nobody can see in a sum how its terms were clipped. A sender
        that does not clip gives up the protection of its own units, and of nobody else's.
    """
    _require_bound(bound)
    return Clipped(dict(state), bound)


def gaussian(clipped: Clipped, multiplier: float, source: Source) -> Noised:
    """Add Gaussian noise of standard deviation `multiplier * clipped.bound` to every coordinate.

    Guarantee:
        One release of the Gaussian mechanism with this noise multiplier under adding or removing
        one unit; record it as one `events.GaussianRelease`.

    Edge cases:
        The sum of an empty sample is zero and is noised like any other. A multiplier of 0 adds
        nothing: the accountant says infinity. A value that is not finite is an error: clipping
        never returns one.

    Args:
        clipped: What clipping returned.
        multiplier: The noise multiplier.
        source: Where the noise comes from. A simulation gives the same noise again for the same
            path: name every step (`source.at("step", 3)`).
    """
    if not isinstance(clipped, Clipped):
        raise FednerError(
            f"Noise was asked for a {type(clipped).__name__}; expected what clipping returned.",
            "Clip first (dpsgd.clipped_sum or noise.clip): noise without a bound proves nothing.",
        )
    if not (math.isfinite(multiplier) and multiplier >= 0):
        raise FednerError(f"The noise multiplier is {multiplier}; expected a number from 0 up.")
    _require_bound(clipped.bound)
    _require_real(clipped.value)
    deviation = multiplier * clipped.bound
    noised = _noised_one_by_one if source.is_simulation else _noised_together
    value = noised(clipped.value, deviation, source)
    require_finite(value)
    return Noised(value, deviation, source.is_simulation)


def divide(noised: Noised, expected_size: float) -> Noised:
    """Return the noised mean: the noised sum over the *expected* number of units.

    The realised number of a Poisson sample is private; dividing by it would be another release.
    """
    if not (math.isfinite(expected_size) and expected_size > 0):
        raise FednerError(f"The expected size is {expected_size}; expected a number above 0.")
    value = {name: tensor / expected_size for name, tensor in noised.value.items()}
    return Noised(value, noised.standard_deviation / expected_size, noised.is_simulation)


def rounded_like(noised: Noised, weights: State) -> State:
    """Return noised values in the precision of the weights that they step: post-processing."""
    return {name: tensor.to(weights[name].dtype) for name, tensor in noised.value.items()}


def signal_to_noise(clipped: Clipped, multiplier: float) -> float:
    """Return the norm of the sum over the expected norm of the noise: for the platform's own eyes.

    It depends on the data and is not protected: never send or log it where others read.
    """
    num_coordinates = sum(tensor.numel() for tensor in clipped.value.values())
    noise = multiplier * clipped.bound * math.sqrt(num_coordinates)
    return norm(clipped.value) / noise if noise else math.inf


def _require_real(value: State) -> None:
    odd = [name for name, tensor in value.items() if not tensor.is_floating_point()]
    if odd:
        raise FednerError(
            f"The clipped sum of {odd[0]} is of {value[odd[0]].dtype}; expected real numbers.",
            "This is a fault in the clipping: please report it.",
        )


def require_finite(value: State) -> None:
    """Raise if what was noised was not finite: noise never is, and it makes nothing finite."""
    # One look for all tensors lets a device run on; what is not a number is both least and largest.
    ends = [end for each in value.values() if each.numel() for end in torch.aminmax(each)]
    if ends and not bool(torch.stack([end.double() for end in ends]).isfinite().all()):
        raise FednerError(
            "A clipped sum holds a value that is not a finite real number.",
            "This is a fault in the clipping: please report it.",
        )


def _noised_one_by_one(value: State, deviation: float, source: Source) -> State:
    """Noise each tensor from a stream of its own name, as simulations do."""
    return {
        name: _noised(tensor, deviation, source.at("noise", name)) for name, tensor in value.items()
    }


def _noised_together(value: State, deviation: float, source: Source) -> State:
    """Noise all tensors of one kind and place as one row: few launches on an accelerator."""
    result = dict(value)
    kinds = {(tensor.device, tensor.dtype) for tensor in value.values()}
    for kind in kinds:
        names = [name for name, each in value.items() if (each.device, each.dtype) == kind]
        rows = [value[name].detach().reshape(-1) for name in names]
        noised = _noised(rows[0] if len(rows) == 1 else torch.cat(rows), deviation, source)
        parts = torch.split(noised, [len(row) for row in rows])
        result |= {n: part.view(value[n].shape) for n, part in zip(names, parts, strict=True)}
    return result


def _noised(tensor: Tensor, deviation: float, source: Source) -> Tensor:
    if deviation == 0 or tensor.numel() == 0:
        return tensor.clone()
    if isinstance(source, SeededSimulation):
        return _simulated(tensor, deviation, source)
    grid = _grid(deviation)
    flat = tensor.detach().reshape(-1)
    released = torch.empty_like(flat)
    size = _CPU_BLOCK if tensor.device.type == "cpu" else _DEVICE_BLOCK
    for start in range(0, len(flat), size):
        block = flat[start : start + size]
        # In cells of the grid: a division by a power of two is exact.
        total = system_normals(len(block), tensor.device).mul_(deviation / grid)
        total.add_(block, alpha=1 / grid)
        released[start : start + size] = total.round_().mul_(grid)
    return released.reshape(tensor.shape)


def _simulated(tensor: Tensor, deviation: float, source: SeededSimulation) -> Tensor:
    generator = torch.Generator(tensor.device).manual_seed(source.stream_seed())
    drawn = torch.randn(tensor.shape, generator=generator, device=tensor.device)
    grid = _grid(deviation)
    total = drawn.to(tensor.dtype).mul_(deviation).add_(tensor.detach())
    return total.div_(grid).round_().mul_(grid)


def system_normals(count: int, device: torch.device | str = "cpu") -> Tensor:
    """Return independent standard normals in float64 from bits that nobody can repeat.

    Box and Muller (1958): the radius from 63 random bits, the angle from 32.
    """
    num_pairs = (count + 1) // 2
    words = random_int32(3 * num_pairs, torch.device(device))
    radius_bits, angle_bits = words[: 2 * num_pairs].view(torch.int64), words[2 * num_pairs :]
    # The middle of each cell: never 0, and as fine near 0, where the tail is, as 63 bits allow.
    radius = radius_bits.bitwise_and(_WITHOUT_SIGN).double().add_(0.5).mul_(2.0**-63)
    _root_of_minus_two_logs(radius)
    angle = angle_bits.double().add_(0.5).mul_(math.tau * 2.0**-32)
    normals = torch.empty(2 * num_pairs, dtype=torch.float64, device=device)
    torch.cos(angle, out=normals[:num_pairs]).mul_(radius)
    torch.sin(angle, out=normals[num_pairs:]).mul_(radius)
    return normals[:count]


def _root_of_minus_two_logs(values: Tensor) -> None:
    if values.device.type != "cpu":
        values.log_().mul_(-2.0).sqrt_()
        return
    array = values.numpy()  # the same memory; numpy takes half of torch's time here
    np.log(array, out=array)
    array *= -2.0
    np.sqrt(array, out=array)


def _grid(deviation: float) -> float:
    return float(2.0 ** (math.floor(math.log2(deviation)) - _GRID_BITS))


def _require_bound(bound: float) -> None:
    if not (math.isfinite(bound) and bound > 0):
        raise FednerError(f"The clipping bound is {bound}; expected a number above 0.")
