"""The whole study, tiny: partners, cells with all their arms, and the command that runs them."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_study
import torch
from tiny_study import NEWCOMERS, shrink, tasks, tiny_world

from fedner.experiments.joining import cells, report, running, statistics, study, zero_shot
from fedner.experiments.joining.arms import Together, _sources, crew_of, type_vectors
from fedner.experiments.joining.study import (
    ALL,
    CellTask,
    PartnerTask,
    Point,
    received,
)
from fedner.experiments.joining.world import World
from fedner.tensor_files import read_tensors

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


# The command itself: real processes, a world that opens in a moment.
COMMAND = ("--data", "none", "--words", "none", "--context", "none", "--device", "cpu")


def command(out: Path, *more: str) -> list[str]:
    return [*COMMAND, "--out", str(out), "--jobs", "2", *more]


@pytest.fixture(scope="module")
def small_command(patched: None) -> Iterator[None]:
    """A study of two joint trainings, one seed of unseen types and three cells."""
    partners = [PartnerTask(arm, False, (6,)) for arm in ("received", "placebo")]
    chosen = [CellTask(("ade",), size, seed) for size, seed in ((9, 6), (6, 6), (4, 6))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "NEWCOMERS", ("ade",))
        patch.setattr(study, "partner_tasks", lambda: partners)
        patch.setattr(study, "cell_tasks", lambda: chosen)
        patch.setattr(running, "UNSEEN_SEEDS", (1,))
        patch.setattr(report, "SIZES", (4, 6, 9))
        patch.setattr(report, "MIDDLE", 9)
        patch.setattr(statistics, "RESAMPLES", 50)
        patch.setattr(report, "_RESAMPLES", 50)
        yield


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_inputs_that_are_not_there_are_reported_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert running.main(command(tmp_path / "out")) == 2
    said = capsys.readouterr().err
    assert "--data none, --words none, --context none" in said
    assert not (tmp_path / "out").exists()


def test_a_point_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    one, other = Point("ade", 25, 1, "joined", 50.0), Point("btc-e", 25, 1, "joined", 60.0)
    running._add_points(path, [one])
    running._add_points(path, [replace(one, f1=51.0), other])
    assert running.stored(path, Point) == [one, other]


def test_the_command_runs_all_and_goes_on_where_it_was_stopped(
    small_command: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert running.main(command(tmp_path, "--seconds", "0"), tiny_study.opened) == 0
    assert not (tmp_path / "points.jsonl").exists(), "nothing begins when the time is over"
    capsys.readouterr()
    assert running.main(command(tmp_path), tiny_study.opened) == 0
    printed = capsys.readouterr().out
    assert "to do: 2 joint trainings, 1 of unseen types, 3 of cells" in printed
    assert "trained together: placebo-medical-6-6" in printed
    assert "| left out everywhere | platform | type | F1 |" in printed
    assert "| own sentences | alone | joined |" in printed
    assert (tmp_path / "joining.svg").is_file()
    whole = lines_of(tmp_path / "points.jsonl")
    assert Counter(each["size"] for each in whole) == {9: 7, 6: 6, 4: 6}
    unseen = (tmp_path / "unseen.jsonl").read_text()
    assert len(unseen.splitlines()) == sum(map(len, zero_shot.groups().values()))

    # Stopped earlier: one arm, one cell and one member are missing. The rest is not run again.
    left = [each for each in whole if each["size"] != 4 and each["arm"] != "placebo"]
    (tmp_path / "points.jsonl").write_text("".join(json.dumps(each) + "\n" for each in left))
    member = study.member_path(tmp_path, "placebo", "ade", 6)
    before, _ = read_tensors(member, study.KIND, study.VERSION)
    member.unlink()
    kept = study.member_path(tmp_path, "received", "ade", 6)
    stamp = kept.stat().st_mtime_ns
    assert running.main(command(tmp_path), tiny_study.opened) == 0
    printed = capsys.readouterr().out
    assert "to do: 1 joint trainings, 0 of unseen types, 2 of cells" in printed
    assert "ade-9-6: 1 points of 1 arms" in printed
    assert kept.stat().st_mtime_ns == stamp
    after, _ = read_tensors(member, study.KIND, study.VERSION)
    assert all(torch.equal(after[name], each) for name, each in before.items())
    again = lines_of(tmp_path / "points.jsonl")
    assert sorted(map(str, again)) == sorted(map(str, whole)), "none twice, all the same"
    assert (tmp_path / "unseen.jsonl").read_text() == unseen

    opened = (tmp_path / "opened.txt").read_text()
    assert running.main(command(tmp_path, "--no-picture"), tiny_study.opened) == 0
    assert (tmp_path / "opened.txt").read_text() == opened, "nothing to do: no process starts"
    assert "| own sentences | alone | joined |" in capsys.readouterr().out


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
import tiny_study
from fedner.experiments.joining import running, study
if __name__ == "__main__":
    study.NEWCOMERS = ("ade",)
    study.partner_tasks = lambda: [study.PartnerTask("received", False, (6,))]
    study.cell_tasks = lambda: [study.CellTask(("ade",), size, 6) for size in (4, 5, 6)]
    running.UNSEEN_SEEDS = ()
    sys.exit(running.main({arguments!r}, tiny_study.slowly_opened))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="needs Linux")
@pytest.mark.slow  # it waits for real processes, and a busy machine makes it wait too long
def test_ctrl_c_stops_cleanly_and_keeps_what_is_found(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal; none leaves a trace or stays behind."""
    script = tmp_path / "study.py"
    paths = [str(Path(__file__).parent)]
    arguments = command(tmp_path)
    script.write_text(SCRIPT.format(paths=paths, arguments=arguments))
    running_study = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    found = tmp_path / "points.jsonl"
    begun = time.monotonic()
    # Two cells are done, one process is at the third, another one has nothing to do.
    while num_lines(found) < 12 and time.monotonic() - begun < 60:
        time.sleep(0.05)
    os.killpg(running_study.pid, signal.SIGINT)
    printed, errors = running_study.communicate(timeout=30)
    assert running_study.returncode == running.INTERRUPTED, errors
    assert errors.strip() == "stopped; the same command goes on from here"
    assert "| newcomer |" in printed
    assert len(lines_of(found)) == 12
    begun = time.monotonic()
    while living(running_study.pid) and time.monotonic() - begun < 20:
        time.sleep(0.05)
    assert not living(running_study.pid)


HALF_BEGUN = """
    import os, signal
    from multiprocessing import context
    begin = context.SpawnProcess.start
    def start(self):
        begin(self)
        os.kill(os.getpid(), signal.SIGINT)
    context.SpawnProcess.start = start
"""


@pytest.mark.slow  # it starts real processes
def test_ctrl_c_while_a_process_of_the_pool_begins(tmp_path: Path) -> None:
    """The moment in which the process lives and the pool does not know it yet."""
    script, paths = tmp_path / "study.py", [str(Path(__file__).parent)]
    text = SCRIPT.format(paths=paths, arguments=command(tmp_path))
    main = 'if __name__ == "__main__":\n'
    script.write_text(text.replace(main, main + HALF_BEGUN))
    study_ = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _, errors = study_.communicate(timeout=60)
    assert study_.returncode == running.INTERRUPTED, errors
    assert errors.strip() == "stopped; the same command goes on from here"
    begun = time.monotonic()
    while living(study_.pid) and time.monotonic() - begun < 20:
        time.sleep(0.05)
    assert not living(study_.pid)


def test_a_caller_that_wants_no_more_ends_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for what is under way: Ctrl-C may come while a caller stores something."""
    ended: list[object] = []
    end = running._end
    monkeypatch.setattr(running, "_end", lambda pool: (ended.append(pool), end(pool)))
    options = argparse.Namespace(jobs=1, seconds=60.0, out=Path())
    run = running.Run(options, tiny_study.opened, time.monotonic())
    with pytest.raises(RuntimeError, match="stored"), running._pool(run):
        raise RuntimeError("stored")
    assert len(ended) == 1
    with running._pool(run):
        pass
    assert len(ended) == 1


def num_lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.is_file() else 0


def living(group: int) -> list[str]:
    """Return the processes of a group that have not ended, as Linux lists them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, number = path.read_text().rpartition(") ")[2].split()[:3]
            if int(number) == group and state != "Z":
                found.append(path.parent.name)
    return found
