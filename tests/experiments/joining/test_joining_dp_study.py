"""What DP costs, tiny: released models, newcomers of noised partners, and the table."""

from pathlib import Path

import pytest
import tiny_study
import torch

from fedner.experiments.joining import cells, private, private_study, running, study
from fedner.experiments.joining.arms import Member
from fedner.experiments.joining.corpora import MEDICAL
from fedner.experiments.joining.private import PrivateJob
from fedner.experiments.joining.private_study import DpPoint, DpTask, Recipe
from fedner.experiments.joining.study import CellTask
from fedner.experiments.joining.world import World

NAMES = tiny_study.NEWCOMERS


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    tiny_study.shrink(monkeypatch)
    monkeypatch.setattr(private_study, "FEDERATIONS", {"medical": NAMES})
    monkeypatch.setattr(private_study, "PUBLIC", {"medical": NAMES})
    monkeypatch.setattr(private_study, "SPLITS", (1, 2))
    monkeypatch.setattr(private_study, "NOISE_SEEDS", (1, 2, 3))
    for name in ("PLAIN_STEPS", "PUBLIC_STEPS"):
        monkeypatch.setattr(private_study, name, 2)
    monkeypatch.setattr(private_study, "OWN_SENTENCES", 6)
    for name in ("SCRATCH", "FROM_PUBLIC", "PARTNERS"):
        monkeypatch.setattr(private_study, name, Recipe(16, 1, 0.01, 0.9))
    return tiny_study.tiny_world()


def test_a_released_model_has_every_split_and_seed_of_noise(world: World, tmp_path: Path) -> None:
    found = []
    for task in private_study.tasks():
        if (task.study, task.start, task.epsilon) == ("released", "scratch", 3.0):
            assert not task.is_done(found)
            found += private_study.run_task(world, task, tmp_path)
            assert task.is_done(found)
    assert {(each.split, each.noise_seed) for each in found} == {
        (split, noise) for split in (1, 2) for noise in (1, 2, 3)
    }
    plain = private_study.run_task(world, DpTask("released", "medical", "public", 0.0, 2), tmp_path)
    assert [(each.split, each.noise_seed) for each in plain] == [(2, 1)]


def test_models_begin_with_the_public_one(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    initial = private.public_model(world, NAMES, (), 2)
    split = private.split_of(world, NAMES, 1)
    still = private.train_plainly(
        world, [split] * 2, [1, 2], steps=0, batch_size=4, initial=initial
    )
    for member in still:
        for name, weight in member.items():
            torch.testing.assert_close(weight, initial[name])
    given, decays = [], []
    held = private.train_privately

    def watched(*args: object, **named: object) -> object:
        given.append(named["initial"])
        decays.append(named["ema_decay"])
        return held(*args, **named)

    monkeypatch.setattr(private, "train_privately", watched)
    for start in ("public", "scratch"):
        private_study.run_task(world, DpTask("released", "medical", start, 3.0, 1), tmp_path)
    assert given[0] is not None
    assert given[1] is None
    assert decays == [0.9, 0.9]


def test_a_public_model_is_trained_once(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = DpTask("released", "medical", "public", 0.0, 1)
    before = private_study.run_task(world, task, tmp_path)
    monkeypatch.setattr(private, "public_model", None)
    assert private_study.run_task(world, task, tmp_path) == before


def test_the_noise_is_that_of_the_smallest_federation(world: World) -> None:
    splits = [private.split_of(world, NAMES, seed) for seed in (1, 2)]
    least = min(sum(map(len, each.own)) for each in splits)
    how = private.strength(3.0, least, 16, 1)
    assert how.noise_multiplier > private.strength(8.0, least, 16, 1).noise_multiplier
    assert how.probability == pytest.approx(16 / least)
    assert how.steps == -(-least // 16)


def test_newcomers_meet_all_splits_and_are_compared_with_themselves(
    world: World, tmp_path: Path
) -> None:
    plain = private_study.run_task(world, DpTask("newcomer", NAMES[0], "scratch", 0.0), tmp_path)
    alone = [each for each in plain if each.study == "alone"]
    assert [each.split for each in alone] == [1, 2]
    assert alone[0].f1 == cells.score_alone(world, NAMES[0], 6, 1)
    noised = private_study.run_task(world, DpTask("newcomer", NAMES[0], "scratch", 3.0), tmp_path)
    assert [(each.split, each.noise_seed) for each in noised] == [(1, 1), (2, 2), (1, 3)]


def test_partners_of_a_public_beginning_are_those_of_the_federation(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(private_study, "FEDERATIONS", {"medical": ("ade", "psytar")})
    given = []
    held = private.train_privately

    def watched(world_: World, jobs: list[PrivateJob], *args: object, **named: object) -> object:
        given.append((jobs[0].split.names, named["initial"] is not None))
        return held(world_, jobs, *args, **named)

    monkeypatch.setattr(private, "train_privately", watched)
    for start in ("public", "scratch"):
        found = private_study.run_task(world, DpTask("newcomer", "ade", start, 3.0), tmp_path)
        assert {(each.study, each.start) for each in found} == {("newcomer", start)}
    others = tuple(name for name in reversed(MEDICAL) if name != "ade")
    assert given == [(("psytar",), True), (others, False)]
    plain = private_study.run_task(world, DpTask("newcomer", "ade", "public", 0.0), tmp_path)
    assert {each.study for each in plain} == {"newcomer"}
    received = []

    def noted(_world: World, _name: str, _size: int, _split: int, gift: Member) -> float:
        received.append(gift)
        return 0.0

    monkeypatch.setattr(private_study, "score_received", noted)
    task = DpTask("newcomer", "ade", private_study.PUBLIC_ONLY, 0.0)
    assert task in private_study.tasks()
    private_study.run_task(world, task, tmp_path)
    public = private_study.public_model(world, "medical", tmp_path)
    for gift in received:
        for name, weight in gift.items():
            torch.testing.assert_close(weight, public[name])
    assert len(received) == 2


def test_the_table_compares_scores_and_gains() -> None:
    def point(study_name: str, epsilon: float, f1: float) -> DpPoint:
        return DpPoint(study_name, "ade", "scratch", epsilon, 1, 1, f1)

    shown = private_study.table(
        [
            point("released", 0.0, 80.0),
            point("released", 3.0, 72.0),
            point("alone", 0.0, 50.0),
            point("newcomer", 0.0, 70.0),
            point("newcomer", 3.0, 62.0),
            point("newcomer", 3.0, 66.0),
        ]
    ).splitlines()
    rows = {tuple(row.split(" | ")[i] for i in (0, 3)): row for row in shown[2:]}
    assert "| 90.0% | 1 |" in rows["| released", "3"]
    assert "| 64.00 | 70.0% of the gain | 2 |" in rows["| newcomer", "3"]
    assert "| 50.00 |  | 1 |" in rows["| alone", "none"]


def test_a_split_counts_once_however_many_seeds_met_it() -> None:
    found = [(1, 60.0), (1, 62.0), (2, 71.0)]
    points = [DpPoint("newcomer", "ade", "public", 3.0, split, 1, f1) for split, f1 in found]
    assert private_study.mean_over_splits(points) == pytest.approx(66.0)
    assert "| 66.00 |" in private_study.table(points)


def test_only_joint_trainings_that_missing_arms_receive_are_needed() -> None:
    task = CellTask(("ade",), 25, 2)
    needed = running.needed_partners([(task, ("local-only", "joined"))])
    assert [(each.arm, each.is_btc, 2 in each.seeds) for each in needed] == [
        ("received", False, True)
    ]
    middle = CellTask(("btc-e",), study.MIDDLE, 7)
    needed = running.needed_partners([(middle, ("placebo",))])
    assert [(each.arm, each.is_btc, 7 in each.seeds) for each in needed] == [
        ("placebo", True, True)
    ]
    every = running.needed_partners([(each, cells.arms_of(each)) for each in study.cell_tasks()])
    assert every == study.partner_tasks()
