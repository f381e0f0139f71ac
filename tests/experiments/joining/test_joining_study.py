"""The whole study, tiny: partners, and cells with all their arms."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_study import NEWCOMERS, shrink, tasks, tiny_world

from fedner.experiments.joining import cells, study
from fedner.experiments.joining.arms import Together, _sources, crew_of, type_vectors
from fedner.experiments.joining.study import (
    ALL,
    CellTask,
    Point,
    received,
)
from fedner.experiments.joining.world import World

MAIN = {"described alone", "ELMoNER alone", "local-only", "joined", "averaged", "kept"}
TUNED = {"fresh head", "placebo", "random vectors", "private heads"}
FIXED = {"taking part", "centralized"}
FEW = {
    "taking part size",
    "taking part equal",
    "weighting size",
    "weighting equal",
    "weighting sqrt-size",
}


@pytest.fixture(scope="module")
def patched() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        yield


@pytest.fixture(scope="module")
def world(patched: None) -> World:
    return tiny_world()


@pytest.fixture(scope="module")
def folder(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the partners of all arms share, for the seeds of the tiny tasks."""
    out = tmp_path_factory.mktemp("study")
    done = set()
    for task in study.partner_tasks():
        for seed in {1, 4, 6} & set(task.seeds):
            study.run_partners(world, replace(task, seeds=(seed,)), out)
            done.add((task.arm, seed))
    assert ("placebo", 6) in done
    return out


@pytest.fixture(scope="module")
def points(world: World, folder: Path) -> list[Point]:
    return [each for task in tasks() for each in cells.run_cells(world, task, folder)]


def arms(points: list[Point], size: int, seed: int) -> set[str]:
    found = Counter(
        (each.arm, each.newcomer) for each in points if (each.size, each.seed) == (size, seed)
    )
    assert set(found.values()) == {1}
    by_newcomer = [{arm for arm, name in found if name == each} for each in NEWCOMERS]
    assert by_newcomer[0] == by_newcomer[1]
    return by_newcomer[0]


def test_every_cell_has_its_arms(points: list[Point]) -> None:
    assert arms(points, 9, 1) == MAIN | TUNED | FIXED | FEW
    assert arms(points, 9, 4) == MAIN | TUNED | FIXED
    assert arms(points, 9, 6) == MAIN | {"placebo"}
    assert arms(points, 6, 1) == MAIN
    assert arms(points, ALL, 1) == MAIN
    zero = {"joined", "placebo", "random vectors"}
    assert arms(points, 0, 1) == zero | {"weighting size", "weighting equal"}
    assert arms(points, 0, 4) == zero


def test_points_say_how_they_were_chosen(points: list[Point], world: World) -> None:
    for each in points:
        assert 0.0 <= each.f1 <= 100.0
        if each.size == 0:
            assert (each.selection, each.sentences) == (None, 0)
        elif each.size == ALL:
            assert each.sentences == len(world.corpora[each.newcomer].parts(1)[0])
        else:
            assert each.sentences == each.size
        if each.arm in FIXED | FEW:
            assert each.selection is None
    for newcomer in NEWCOMERS:
        own = {
            each.arm: each
            for each in points
            if (each.newcomer, each.size, each.seed) == (newcomer, 9, 1)
        }
        alone = max(own["described alone"], own["ELMoNER alone"], key=lambda each: each.selection)
        assert own["local-only"].f1 == alone.f1
        assert own["local-only"].setting == alone.setting
        kept = own[own["kept"].setting]
        assert (own["kept"].f1, own["kept"].selection) == (kept.f1, kept.selection)
        best = max(own[arm].selection for arm in ("joined", "averaged", "local-only"))
        assert own["kept"].selection == best


def test_a_cell_comes_out_the_same_whichever_arms_are_asked_for(
    points: list[Point], world: World, folder: Path
) -> None:
    task = tasks()[0]
    again = cells.run_cells(world, task, folder, ["placebo", "centralized", "joined"])
    assert {each.arm for each in again} == {"placebo", "centralized", "joined"}
    assert all(each in points for each in again)
    assert cells.run_cells(world, task, folder, []) == []


def test_missing_arms_are_those_that_any_newcomer_lacks(points: list[Point]) -> None:
    task = CellTask(NEWCOMERS, 9, 6)
    assert cells.missing_arms(task, points) == ()
    assert set(cells.missing_arms(task, [])) == MAIN | {"placebo"}
    fewer = [p for p in points if (p.arm, p.newcomer) != ("placebo", "btc-e")]
    assert cells.missing_arms(task, fewer) == ("placebo",)
    assert cells.missing_arms(replace(task, newcomers=("ade",)), fewer) == ()


def test_what_is_received_is_the_shared_part(world: World, folder: Path) -> None:
    whole = received(world, folder, "received", "ade", 1)
    assert "emissions.outside.weight" in whole
    private = received(world, folder, "private heads", "ade", 1)
    assert all(name.startswith("bilstm.") for name in private), "heads stay at home"
    other = received(world, folder, "received", "btc-e", 1)
    name = "emissions.outside.weight"
    assert not torch.equal(whole[name], other[name])
    assert not torch.equal(whole[name], received(world, folder, "placebo", "ade", 1)[name])


def test_random_vectors_have_the_norm_of_descriptions_and_no_meaning(world: World) -> None:
    job = Together("ade", 1, vectors="random")
    drawn = [type_vectors(world, name, job) for name in ("ade", "twimed")]
    assert torch.equal(drawn[0], type_vectors(world, "ade", job))
    assert not torch.equal(drawn[0], drawn[1]), "each platform's each type has its own"
    norm = world.vectors["ade"][0].norm()
    torch.testing.assert_close(drawn[0].norm(dim=1), norm.expand(3))
    assert type_vectors(world, "ade", Together("ade", 1)) is world.vectors["ade"]


def test_a_crew_is_everyone_else_and_a_newcomer_that_takes_part(world: World) -> None:
    job = Together("ade", 1, weighting="size")
    assert "ade" not in [name for name, _ in crew_of(world, job)]
    own = world.numbers("ade", world.corpora["ade"].parts(1)[0][:9])
    taking = replace(job, own=own)
    name, held = crew_of(world, taking)[-1]
    assert (name, held.tolist()) == ("ade", own.tolist())
    weights = [float(source.weight_M) for source in _sources(world, [taking], 3)]
    sizes = [len(each) for _, each in crew_of(world, taking)]
    assert weights == pytest.approx([size / sum(sizes) for size in sizes])
