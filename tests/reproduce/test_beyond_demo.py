"""`demo`: every seed of the demonstration is shown, and a joining that was stopped begins again."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from beyond_rehearsal import assert_whole, figure_named, mean_of, rehearse, table_named

from fedner.reproduce.beyond.demo import (
    ALONE,
    DEMO,
    JOINED,
    KEPT,
    LABELS,
    _rows_of,
    cells,
    seed_of,
    show,
)
from fedner.reproduce.reproduction import Cell, Inputs, Row
from fedner.runs.joining.record import RECEIVED, Joined
from few_settings import few_settings

FOUND = {
    1: ({RECEIVED: 30.0, ALONE: 20.0, JOINED: 45.0, KEPT: 45.0}, "joined", 80.0),
    2: ({RECEIVED: 30.0, ALONE: 40.0, JOINED: 35.0, KEPT: 40.0}, "local-only", 90.0),
    3: ({RECEIVED: 30.0, ALONE: 20.0, JOINED: 40.0, KEPT: 38.0}, "average", 85.0),
}


def rows() -> list[Row]:
    found = []
    for repeat, (scores, which, seconds) in FOUND.items():
        for tagger, f1 in scores.items():
            is_kept = tagger == KEPT
            more = {"which": which} if is_kept else {}
            measures = {"strict_f1": f1, **({"processor_seconds": seconds} if is_kept else {})}
            found.append(Row({"repeat": repeat, "tagger": tagger, **more}, measures))
    return found


def inputs(tmp_path: Path) -> Inputs:
    return Inputs((), "hashed", "none", tmp_path, repeats=3)


def test_the_tables_have_every_seed_the_mean_and_the_worst(tmp_path: Path) -> None:
    shown = show(rows(), inputs(tmp_path))
    first, second, _ = table_named(shown, "demo-seeds").rows
    assert [mean_of(each) for each in first[1:5]] == [30.0, 20.0, 45.0, 45.0]
    assert (first[0], first[5], mean_of(first[6])) == ("21", "joined", 25.0)
    assert (second[5], mean_of(second[6])) == ("local-only", 0.0)
    gains = table_named(shown, "demo-gains")
    (kept, of_kept, worst), (joined, of_joined, worst_joined) = gains.rows
    assert (kept, worst, joined, worst_joined) == ("kept", "+0.0", "joined", "-5.0")
    assert mean_of(of_kept) == pytest.approx(43 / 3)
    assert mean_of(of_joined) == pytest.approx(40 / 3)
    assert "at most 90 s" in gains.notes[0]
    alone, kept_bars = figure_named(shown, "demo").panels[0].series
    assert (alone.label, kept_bars.label) == (LABELS[ALONE], LABELS[KEPT])
    assert [mean_of(each) for each in kept_bars.points] == [45.0, 40.0, 38.0]


def test_what_is_kept_has_the_score_of_its_tagger() -> None:
    scores = {RECEIVED: 0.3, ALONE: 0.2, JOINED: 0.45}
    results = {name: score_of(value) for name, value in scores.items()}
    joined = cast("Joined", SimpleNamespace(results=results, kept=JOINED))
    *others, kept = _rows_of(Cell("repeat-1", {"repeat": 1}), joined, 80.0)
    assert {row.factors["tagger"]: row.measures["strict_f1"] for row in others} == {
        RECEIVED: 30.0, ALONE: 20.0, JOINED: 45.0,
    }  # fmt: skip
    assert kept.factors == {"repeat": 1, "tagger": KEPT, "which": JOINED}
    assert kept.measures == {"strict_f1": 45.0, "processor_seconds": 80.0}


def score_of(value: float) -> SimpleNamespace:
    """Return as much of a tagger's results as rows are made of."""
    return SimpleNamespace(intervals=SimpleNamespace(strict=SimpleNamespace(value=value)))


def test_a_seed_that_was_not_run_is_missing(tmp_path: Path) -> None:
    shown = show([row for row in rows() if row.factors["repeat"] != 2], inputs(tmp_path))
    assert table_named(shown, "demo-seeds").rows[1] == ("22", *[None] * 6)
    assert figure_named(shown, "demo").panels[0].series[0].points[1] is None


def test_seeds_are_none_that_settings_were_chosen_on(tmp_path: Path) -> None:
    seeds = {seed_of(repeat) for repeat in range(1, DEMO.repeats + 1)}
    assert not seeds & {1, 11, 12, 13, *range(101, 106)}
    assert [each.key for each in cells(inputs(tmp_path), [])] == [
        "repeat-1",
        "repeat-2",
        "repeat-3",
    ]


def test_a_rehearsal_runs_the_demonstration_also_after_a_stop(tmp_path: Path) -> None:
    stopped = tmp_path / "under-way" / "repeat-1" / "social-posts"
    stopped.mkdir(parents=True)
    (stopped / "tagger.json").write_text("{")
    with few_settings():
        rehearsed = rehearse(DEMO, tmp_path)
    assert_whole(rehearsed.shown)
    by_tagger = {str(row.factors["tagger"]): row for row in rehearsed.rows}
    kept = by_tagger[KEPT]
    assert kept.measures["strict_f1"] == by_tagger[str(kept.factors["which"])].measures["strict_f1"]
