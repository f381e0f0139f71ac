"""The table of slow links: a run each way, small, and the rows that come of it."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.experiments import jobs, slow_links
from fedner.experiments.jobs import as_they_end, side_by_side, store
from fedner.experiments.slow_links import (
    ENCODINGS,
    LOCAL_STEPS,
    POINTS,
    PROBED_SEED,
    LinkJob,
    Point,
    Way,
    best_rate,
    finished,
    main,
    medical_files,
    run,
    table,
)

TINY = ("platforms.0.num_sentences=40", "platforms.1.num_sentences=40", "model.hidden=4")
POINT = Point("demo", "fedner", 1, "float32", 0.003, 1, 8, 8, 50.0, 10**6, 10**6, 1.0)


def test_a_run_each_way_says_what_crossed(tmp_path: Path) -> None:
    ways = Way("demo", "fedner", 1, "float32"), Way("demo", "fedner", 2, "int8")
    plain, small = (run(LinkJob(way, 0.003, 1, 4, tmp_path / way.encoding, TINY)) for way in ways)
    assert (plain.way, small.way) == ways
    assert (plain.rounds, small.rounds) == (4, 2)
    assert plain.up == plain.down
    assert plain.down == 4 * small.down, "half as many rounds of half as many bytes"
    assert 6 < plain.up / small.up < 8
    assert not list(tmp_path.iterdir()), "a finished run leaves its point alone"


def test_the_algorithm_is_the_same_for_every_k() -> None:
    for name in ("fedner", "fedavg"):
        tables = {
            slow_links._algorithm(Way("demo", name, steps, "int8"), 0.01).replace(
                f"steps={steps}", "steps=K"
            )
            for steps in LOCAL_STEPS
        }
        assert len(tables) == 1


def test_rows_are_means_over_seeds_and_paired_differences() -> None:
    whole = [replace(POINT, seed=seed, strict=50.0 + seed) for seed in (1, 2, 3)]
    small = [
        replace(each, encoding="int8", strict=each.strict - 1, up=250_000) for each in whole
    ]  # fmt: skip
    lines = table([*small, *whole]).splitlines()
    assert lines[2] == ("| demo | fedner | 1 | float32 | 8 | 52.0 |  | 1.0 | 1.0 | 100.0% | 0.3 |")
    assert lines[3] == (
        "| demo | fedner | 1 | int8 | 8 | 51.0 | -1.0 (-1.0 to -1.0) | 0.2 | 1.0 | 62.5% | 0.2 |"
    )
    assert lines[-1] == "demo, fedner: learning rate 0.003 at K = 1."


def test_the_rate_is_chosen_by_a_seed_that_is_in_no_row() -> None:
    tried = [
        replace(POINT, seed=PROBED_SEED, learning_rate=rate, strict=strict)
        for rate, strict in ((0.001, 40.0), (0.003, 60.0), (0.009, 55.0))
    ]
    best_elsewhere = replace(POINT, learning_rate=0.001, strict=90.0)
    other = replace(tried[2], local_steps=2, strict=99.0)
    assert best_rate([*tried, best_elsewhere, other], POINT.way) == 0.003
    assert "55.0" not in table([*tried, POINT])
    with pytest.raises(FednerError, match="K = 1"):
        best_rate([best_elsewhere], POINT.way)


def test_what_is_finished_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A study that was stopped runs the rest, and comes to the same table."""
    ran: list[LinkJob] = []

    def point_of(job: LinkJob) -> Point:
        way = asdict(job.way)
        held = {"learning_rate": job.learning_rate, "seed": job.seed, "steps": job.steps}
        return replace(POINT, **way, **held, strict=50 + 100 * job.learning_rate)

    def ends(_run: object, jobs: list[LinkJob], _number: int) -> list[tuple[LinkJob, Point]]:
        ran.extend(jobs)
        return [(job, point_of(job)) for job in jobs]

    monkeypatch.setattr(slow_links, "as_they_end", ends)
    words = ["--out", str(tmp_path), "--seeds", "2"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    first = len(ran)
    assert first == 3 * len(LOCAL_STEPS) + 2 * len(LOCAL_STEPS) * len(ENCODINGS)
    assert {job.way.algorithm for job in ran} == {"fedavg"}
    points = finished(tmp_path / POINTS)
    assert len(points) == first
    store(tmp_path / POINTS, points[:-2], {})
    assert main(words) == 0
    assert len(ran) == first + 2
    assert capsys.readouterr().out == shown
    assert {each.learning_rate for each in points if not each.is_probe} == {0.009}
    assert json.loads((tmp_path / POINTS).read_text())["options"]["seeds"] == "2"


def test_medical_platforms_need_their_folder(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="without its corpora"):
        main(["--out", str(tmp_path), "--federation", "medical"])
    assert "model.recipe=CNN-CLSTM-CRF" in medical_files(tmp_path, None, None)
    given = medical_files(tmp_path, tmp_path / "words", tmp_path / "encoder")
    assert f"embeddings.words='{tmp_path / 'words'}'" in given
    assert f"embeddings.context='{tmp_path / 'encoder'}'" in given
    assert not any("recipe" in each for each in given)


def test_jobs_come_as_they_end_here_or_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(number: int) -> int:
        time.sleep(0.2 if number == 3 else 0)
        return 2 * number

    monkeypatch.setattr(jobs, "_pool", ThreadPoolExecutor)
    assert list(as_they_end(twice, [3, 1], 1)) == [(3, 6), (1, 2)]
    assert list(as_they_end(twice, [3, 1], 2)) == [(1, 2), (3, 6)]
    assert list(side_by_side(twice, [3, 1], 2)) == [6, 2]
