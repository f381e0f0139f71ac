"""Noise that platforms add together, tiny: all shares are in the opened sum."""

import pytest
import torch

from fedner.experiments.joining.stacked_private import PrivatePlan, opened_sum
from fedner.privacy.noise_shares import grid_step
from fedner.privacy.sum_terms import SumTerms

BOUND = 2.0


def plan_of(noise: float) -> PrivatePlan:
    return PrivatePlan(1, 0.5, [noise, 2 * noise], [0.01, 0.01], BOUND, [1, 2])


def sums_of(num_platforms: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    shapes = {"a": (2, 40, 50), "b": (2, 300)}
    return [
        {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        for _ in range(num_platforms)
    ]


def test_without_noise_the_opened_sum_is_the_sum_up_to_rounding() -> None:
    sums, terms = sums_of(3), SumTerms(3)
    found = opened_sum(sums, plan_of(0.0), terms, 0)
    for name, value in found.items():
        plain = torch.stack([each[name] for each in sums]).sum(0)
        assert 0 < float((value - plain).abs().max()) <= 1.5 * grid_step(BOUND) + 1e-6


@pytest.mark.parametrize("terms", [SumTerms(3), SumTerms(6, 1, 4), SumTerms(4, 0)])
def test_all_shares_are_in_the_opened_sum(terms: SumTerms) -> None:
    sums = [
        {name: each * 0 for name, each in part.items()} for part in sums_of(terms.num_platforms)
    ]
    found = opened_sum(sums, plan_of(1.5), terms, 0)
    for model, noise in enumerate((1.5, 3.0)):
        values = torch.cat([each[model].flatten() for each in found.values()]).double()
        sigma = noise * BOUND * (terms.num_platforms / terms.least_honest) ** 0.5
        ratio = float(values.square().mean()) / sigma**2
        assert abs(ratio - 1) < 5 * (2 / len(values)) ** 0.5
    assert not torch.equal(found["a"], opened_sum(sums, plan_of(1.5), terms, 1)["a"])
    assert torch.equal(found["a"], opened_sum(sums, plan_of(1.5), terms, 0)["a"])
