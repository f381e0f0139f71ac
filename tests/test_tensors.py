"""Sums over named tensors: the same bits as tensor by tensor, and the same on a GPU."""

import pytest
import torch
from torch import Tensor

from fedner.federated.aggregate import WeightedMean, shared_norm
from fedner.federated.ema import averaged
from fedner.federated.messages import all_finite
from fedner.models.partition import Partition
from fedner.tensors import SharedState, add_scaled, converted, copy_into, divided

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ),
]
SHAPES = {"a": (300, 40), "b": (7,), "c": (), "d": (0, 3), "e": (20, 3, 5)}


def state(seed: int, device: str = "cpu") -> SharedState:
    generator = torch.Generator().manual_seed(seed)
    named = {
        name: torch.randn(shape, generator=generator).to(device) for name, shape in SHAPES.items()
    }
    return Partition(tuple(named), ()).shared_state(named)


def require_equal(found: dict[str, Tensor], expected: dict[str, Tensor], device: str) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        if device == "cpu":
            assert torch.equal(found[name], value), name
        else:
            assert torch.allclose(found[name], value, rtol=1e-6), name


@pytest.mark.parametrize("device", DEVICES)
def test_the_mean_has_the_bits_of_tensor_by_tensor(device: str) -> None:
    mean, weights = WeightedMean(), (3.0, 5.0, 0.1)
    states = [state(seed, device) for seed in range(3)]
    for each, weight in zip(states, weights, strict=True):
        mean.add(each, weight)
    expected = {}
    for name in SHAPES:
        total = states[0][name].double() * weights[0]
        total.add_(states[1][name].double(), alpha=weights[1])
        total.add_(states[2][name].double(), alpha=weights[2])
        expected[name] = (total / (3.0 + 5.0 + 0.1)).float()
    require_equal(mean.result(), expected, device)
    require_equal(mean.result(), expected, device)  # asking changes nothing


@pytest.mark.parametrize("device", DEVICES)
def test_norms_and_averages_have_the_bits_of_tensor_by_tensor(device: str) -> None:
    one, other = state(1, device), state(2, device)
    norms = [torch.linalg.vector_norm(one[name], dtype=torch.float64) for name in sorted(one)]
    expected = float(torch.linalg.vector_norm(torch.stack(norms)))
    assert shared_norm(one) == pytest.approx(expected, rel=0 if device == "cpu" else 1e-12)
    share = 0.1 / (1 - 0.9**4)
    ema = averaged(one, other, 3, 0.9)
    require_equal(ema, {name: one[name].lerp(other[name], share) for name in one}, "")
    assert averaged({}, other, 0, 0.9)["a"] is not other["a"]


@pytest.mark.parametrize("device", DEVICES)
def test_copies_stand_by_themselves(device: str) -> None:
    one, other = state(1, device), state(2, device)
    wide = converted(one, dict.fromkeys(one, torch.float64))
    require_equal(wide, {name: each.double() for name, each in one.items()}, "cpu")
    copy_into(other, one)
    require_equal(one, other, "cpu")
    one["a"].zero_()
    assert other["a"].any()
    sums = {name: each.double() for name, each in one.items()}
    add_scaled(sums, other, 2.0)
    assert torch.allclose(sums["a"], 2 * other["a"].double())
    assert divided(sums, 2.0, dict.fromkeys(sums, torch.float32))["a"].dtype == torch.float32


def test_nothing_is_copied_from_nothing() -> None:
    copy_into({}, {})
    add_scaled({}, {}, 1.0)
    assert converted({}, {}) == divided({}, 2.0, {}) == averaged({}, {}, 3, 0.9) == {}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_one_number_that_is_not_finite_is_found(bad: float, device: str) -> None:
    one = state(1, device)
    assert all_finite(one)
    one["e"][3, 1, 2] = bad
    assert not all_finite(one)
