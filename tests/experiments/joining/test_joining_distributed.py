"""Who adds the noise, tiny: shares on the sum, noise of each platform, tasks and table."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny_study
import torch

from fedner.experiments.joining import distributed_study, private_study, running
from fedner.experiments.joining.distributed_study import CENTRAL, LOCAL, TOGETHER, NoisePoint
from fedner.experiments.joining.private_study import DpPoint, Recipe
from fedner.experiments.joining.stacked_private import PrivatePlan, opened_sum
from fedner.experiments.joining.world import World
from fedner.privacy.noise_shares import grid_step
from fedner.privacy.sum_terms import SumTerms

NAMES = tiny_study.NEWCOMERS
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


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    tiny_study.shrink(monkeypatch)
    for module in (private_study, distributed_study):
        monkeypatch.setattr(module, "FEDERATIONS", {"medical": NAMES})
        monkeypatch.setattr(module, "SPLITS", (1,))
        monkeypatch.setattr(module, "FROM_PUBLIC", Recipe(16, 1, 0.01, 0.9))
    monkeypatch.setattr(private_study, "PUBLIC", {"medical": NAMES})
    monkeypatch.setattr(private_study, "PUBLIC_STEPS", 2)
    return tiny_study.tiny_world()


def test_each_task_gives_its_points_once(world: World, tmp_path: Path) -> None:
    wanted = distributed_study.tasks()
    assert [task.arm for task in wanted[:6:3]] == [TOGETHER, CENTRAL]
    assert len({task.name for task in wanted}) == len(wanted)
    points: list[NoisePoint] = []
    for arm in (TOGETHER, CENTRAL, LOCAL):
        task = next(each for each in wanted if each.arm == arm)
        task = replace(task, arm=replace(arm, colluding=0))  # there are two platforms
        assert not task.is_done(points)
        points += distributed_study.run_task(world, task, tmp_path)
        assert task.is_done(points)
        assert not replace(task, seeds=(1, 2, 3)).is_done(points)
    assert [each.noise_seed for each in points] == [1, 2] * 3
    path = tmp_path / distributed_study.POINTS
    running.add(path, points)
    assert running.stored(path, NoisePoint) == points
    assert len(distributed_study.table(points).splitlines()) == 2 + 3


def test_terms_by_arm() -> None:
    assert CENTRAL.terms(6) is LOCAL.terms(6) is None
    found = [arm.terms(6) for arm in (TOGETHER, *distributed_study.OTHER_TERMS)]
    assert [each.least_honest for each in found if each is not None] == [5, 6, 3]


def test_central_points_come_from_the_study_before(tmp_path: Path) -> None:
    kept = DpPoint("released", "btc", "public", 3.0, 2, 4, 70.0)
    others = [
        replace(kept, start="scratch"),
        replace(kept, study="newcomer"),
        replace(kept, epsilon=0.0),
    ]
    running.add(tmp_path / private_study.DP_POINTS, [kept, *others])
    assert distributed_study.central_points(tmp_path) == [
        NoisePoint("btc", "central", 3.0, 2, 4, 70.0)
    ]


def test_the_table_pairs_by_split_and_seed() -> None:
    central = [NoisePoint("btc", "central", 3.0, split, 1, 70.0 + split) for split in (1, 2)]
    shared = [NoisePoint("btc", TOGETHER.name, 3.0, split, 1, 69.5 + split) for split in (2, 3)]
    rows = distributed_study.table([*central, *shared]).splitlines()
    assert "| 71.50 ± 0.71 |  | 2 |" in rows[2]
    assert "| 72.00 ± 0.71 | -0.50 | 2 |" in rows[3]
