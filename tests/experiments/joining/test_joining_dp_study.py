"""What DP costs, tiny: released models, newcomers of noised partners, and with what they begin."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny_study
import torch

from fedner.experiments.joining import cells, private, private_study
from fedner.experiments.joining.arms import Member
from fedner.experiments.joining.corpora import MEDICAL
from fedner.experiments.joining.private import PrivateJob
from fedner.experiments.joining.private_study import (
    ARMS,
    BY_ALL,
    CENTRAL,
    LOCAL,
    SCRATCH,
    Joining,
    Recipe,
    Released,
    Scale,
)
from fedner.experiments.joining.world import World

NAMES = tiny_study.NEWCOMERS
TINY = Recipe(16, 1, 0.01, 0.9)
SCALE = Scale(TINY, TINY, TINY, 2, 2, (1, 2, 3))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    tiny_study.shrink(monkeypatch)
    monkeypatch.setattr(private_study, "FEDERATIONS", {"medical": NAMES})
    monkeypatch.setattr(private_study, "PUBLIC", {"medical": NAMES})
    monkeypatch.setattr(private_study, "OWN_SENTENCES", 6)
    return tiny_study.tiny_world()


@pytest.mark.parametrize("arm", ARMS.values(), ids=lambda arm: arm.name)
def test_a_released_model_has_every_seed_of_noise_and_platform(
    world: World, tmp_path: Path, arm: private_study.Arm
) -> None:
    arm = replace(arm, colluding=0)  # there are two platforms
    found = private_study.score_released(world, Released("medical", arm, 3.0, 2), SCALE, tmp_path)
    assert list(found) == [1, 2, 3]
    assert all(set(scores) == {*NAMES, "all"} for scores in found.values())
    plain = private_study.score_released(world, Released("medical", arm, 0.0, 2), SCALE, tmp_path)
    assert list(plain) == [1]


def test_who_adds_the_noise_reaches_the_training(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = []
    held = private.train_privately

    def watched(*args: object, **named: object) -> object:
        given.append((named["place"], named["terms"], named["initial"] is not None))
        return held(*args, **named)

    monkeypatch.setattr(private, "train_privately", watched)
    for arm in (SCRATCH, CENTRAL, LOCAL, replace(BY_ALL, colluding=0)):
        private_study.score_released(world, Released("medical", arm, 3.0, 1), SCALE, tmp_path)
    assert [(place, begun) for place, _, begun in given] == [
        ("central", False),
        ("central", True),
        ("local", True),
        ("distributed", True),
    ]
    assert [terms is not None for _, terms, _ in given] == [False, False, False, True]


def test_terms_are_those_of_a_secure_sum() -> None:
    assert CENTRAL.terms(6) is LOCAL.terms(6) is None
    found = [arm.terms(6) for arm in (BY_ALL, replace(BY_ALL, colluding=0))]
    assert [each.least_honest for each in found if each is not None] == [5, 6]


def test_models_begin_with_the_public_one(world: World) -> None:
    initial = private.public_model(world, NAMES, (), 2)
    split = private.split_of(world, NAMES, 1)
    still = private.train_plainly(
        world, [split] * 2, [1, 2], steps=0, batch_size=4, initial=initial
    )
    for member in still:
        for name, weight in member.items():
            torch.testing.assert_close(weight, initial[name])


def test_a_public_model_is_trained_once(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = Released("medical", CENTRAL, 0.0, 1)
    before = private_study.score_released(world, task, SCALE, tmp_path)
    monkeypatch.setattr(private, "public_model", None)
    assert private_study.score_released(world, task, SCALE, tmp_path) == before


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
    alone = private_study.score_by_itself(world, NAMES[0], 1)
    assert alone == cells.score_alone(world, NAMES[0], 6, 1)
    task = Joining(NAMES[0], "scratch", 3.0, (1, 2))
    noised = private_study.score_newcomers(world, task, SCALE, tmp_path)
    assert list(noised) == [(1, 1), (2, 2), (1, 3)]
    plain = private_study.score_newcomers(world, replace(task, epsilon=0.0), SCALE, tmp_path)
    assert list(plain) == [(1, 1), (2, 2)]


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
        task = Joining("ade", start, 3.0, (1,))
        private_study.score_newcomers(world, task, SCALE, tmp_path)
    others = tuple(name for name in reversed(MEDICAL) if name != "ade")
    assert given == [(("psytar",), True), (others, False)]
    received = []

    def noted(_world: World, _name: str, _size: int, _split: int, gift: Member) -> float:
        received.append(gift)
        return 0.0

    monkeypatch.setattr(private_study, "score_received", noted)
    task = Joining("ade", private_study.PUBLIC_ONLY, 0.0, (1, 2))
    private_study.score_newcomers(world, task, SCALE, tmp_path)
    public = private_study.public_model(world, "medical", tmp_path)
    for gift in received:
        for name, weight in gift.items():
            torch.testing.assert_close(weight, public[name])
    assert len(received) == 2


def test_a_rehearsal_tries_one_setting_for_one_epoch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    held = cells.train_alone

    def watched(world_: World, kind: object, jobs: list[object], **named: object) -> object:
        tried.append((len(jobs), named["epochs"]))
        return held(world_, kind, jobs, **named)

    monkeypatch.setattr(cells, "train_alone", watched)
    monkeypatch.setattr(cells, "schedule", lambda _size: (2, 5))
    cells.score_alone(world, NAMES[0], 6, 1)
    cells.score_alone(replace(world, is_rehearsal=True), NAMES[0], 6, 1)
    folds = cells.NUM_FOLDS
    assert tried == [(2 * folds, 2), (1, 2)] * 2 + [(folds, 1), (1, 1)] * 2
