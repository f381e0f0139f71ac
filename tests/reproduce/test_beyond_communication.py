"""`communication`: what is chosen by probes, what crosses, and earlier points."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from beyond_rehearsal import Rehearsed, assert_whole, figure_named, mean_of, rehearse, table_named

from fedner.errors import FednerError
from fedner.reproduce.beyond.communication import (
    ENCODINGS,
    LOCAL_STEPS,
    PROBE,
    PROBED_SEED,
    RATES,
    TAGGER,
    Way,
    best_rate,
    link_tables,
    probes,
    trainings,
)
from fedner.reproduce.beyond.communication_tables import COMMUNICATION
from fedner.reproduce.beyond.earlier import import_points
from fedner.reproduce.reproduction import Row
from fedner.reproduce.store import add_cell, begin, read_cells, read_study

POINT = {
    "federation": "medical",
    "algorithm": "fedavg",
    "local_steps": 2,
    "encoding": "int8",
    "learning_rate": 0.003,
    "seed": 1,
    "steps": 800,
    "rounds": 400,
    "strict": 73.5,
    "up": 1000,
    "down": 2000,
    "seconds": 60.0,
}


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(COMMUNICATION, tmp_path_factory.mktemp("communication"))


def _row(part: str, steps: int, rate: float, f1: float, repeat: int = 1, **more: float) -> Row:
    way = Way(steps, str(more.pop("encoding", "float32")), rate)
    measures = {"strict_f1": f1, "rounds": 4.0, "bytes_up": 1e6, "bytes_down": 1e6, **more}
    return Row({**way.factors(part, repeat), "platform": "mean"}, measures)


def test_a_rehearsal_has_every_row_and_every_curve(rehearsed: Rehearsed) -> None:
    figure = figure_named(rehearsed.shown, "communication")
    curves = figure.panels[0].series
    numbers = {each.label: sum(point is not None for point in each.points) for each in curves}
    assert numbers == {**dict.fromkeys(ENCODINGS, 4), "whole encoder": 1, "adapters": 1}
    assert_whole(replace(rehearsed.shown, figures=rehearsed.shown.figures[1:]))
    table = table_named(rehearsed.shown, "communication")
    assert [row[:2] for row in table.rows] == [
        (str(steps), encoding) for steps in LOCAL_STEPS for encoding in ENCODINGS
    ]


def test_smaller_numbers_and_adapters_send_less(rehearsed: Rehearsed) -> None:
    def up(**factors: object) -> float:
        held = [
            row.measures["bytes_up"]
            for row in rehearsed.rows
            if row.factors.items() >= factors.items() and row.factors["platform"] == "mean"
        ]
        return held[0] or 0.0

    whole = up(part=TAGGER, local_steps=1, encoding="float32")
    assert up(part=TAGGER, local_steps=1, encoding="bfloat16") == whole / 2
    assert 3 < whole / up(part=TAGGER, local_steps=1, encoding="int8") < 4
    assert up(way="whole encoder") > 3 * up(way="adapters")


def test_every_k_takes_as_many_local_steps(rehearsed: Rehearsed) -> None:
    real = replace(rehearsed.inputs, is_rehearsal=False)
    for steps in LOCAL_STEPS:
        found = link_tables(real, Way(steps, "int8", 0.003))
        assert found["training"]["rounds"] * found["algorithm"]["local"]["steps"] == 800
        assert found["algorithm"]["local"]["optimizer"]["learning_rate"] == 0.003
        assert found["transport"] == {"encoding": "int8"}
        assert found["training"]["finetune_epochs"] == 0


def test_the_rate_is_chosen_by_a_seed_that_is_in_no_row(rehearsed: Rehearsed) -> None:
    inputs = replace(rehearsed.inputs, is_rehearsal=False, repeats=3, context="none")
    asked = probes(inputs, [])
    assert {cell.factors["repeat"] for cell in asked} == {PROBED_SEED}
    assert len(asked) == len(LOCAL_STEPS) * len(RATES)
    rows = [_row(PROBE, 2, 0.001, 50.0), _row(PROBE, 2, 0.003, 60.0), _row(PROBE, 2, 0.009, 60.0)]
    rows += [_row(TAGGER, 2, 0.009, 99.0)]
    assert best_rate(rows, 2) == 0.003
    with pytest.raises(FednerError, match="K = 8"):
        best_rate(rows, 8)
    found = trainings(inputs, rows)
    assert {cell.factors["local_steps"] for cell in found} == {2}, "the others are not probed yet"
    assert {cell.factors["learning_rate"] for cell in found} == {0.003}
    assert PROBED_SEED not in {cell.factors["repeat"] for cell in found}
    assert len(found) == 3 * len(ENCODINGS), "no encoder that can be trained"


def test_probes_are_in_no_table(rehearsed: Rehearsed) -> None:
    rows = [_row(PROBE, 1, 0.003, 90.0, repeat=PROBED_SEED), _row(TAGGER, 1, 0.003, 50.0)]
    rows += [_row(TAGGER, 2, 0.003, 48.0, bytes_up=5e5, bytes_down=5e5)]
    table = table_named(COMMUNICATION.show(rows, rehearsed.inputs), "communication")
    first, later = table.rows[0], table.rows[len(ENCODINGS)]
    assert mean_of(first[3]) == 50.0
    assert mean_of(later[4]) == -2.0
    assert later[7] == "50.0%"
    assert first[8] == "0.267"
    assert table.rows[1][3] is None, "what was not run is missing"


def test_without_a_trainable_encoder_its_rows_are_missing(rehearsed: Rehearsed) -> None:
    inputs = replace(rehearsed.inputs, is_rehearsal=False, context="none")
    shown = COMMUNICATION.show([], inputs)
    assert all(each is None for row in shown.tables[1].rows for each in row[1:])
    assert "Hugging Face" in shown.notes[-1]


def test_earlier_points_become_cells(rehearsed: Rehearsed, tmp_path: Path) -> None:
    points = tmp_path / "points.json"
    probe = {**POINT, "seed": PROBED_SEED, "encoding": "float32"}
    other = {**POINT, "algorithm": "fedner"}
    points.write_text(json.dumps({"options": {}, "points": [POINT, probe, other]}))
    out = tmp_path / "out"
    begin(out, {"study": "communication"}, {"repeats": 1}, {"date": "now"}, resume=False)
    assert import_points(out, points, "an H200") == 2
    assert import_points(out, points, "an H200") == 0, "once"
    stored = read_cells(out)
    inputs = replace(rehearsed.inputs, is_rehearsal=False, context="none")
    rows = [row for each in stored.values() for row in each.rows]
    assert best_rate(rows, 2) == 0.003
    wanted = {cell.key for cell in (*probes(inputs, []), *trainings(inputs, rows))}
    assert set(stored) <= wanted, "the study does not run them again"
    assert "an H200" in read_study(out)["sessions"][-1]["machine"]


def test_only_points_are_imported(rehearsed: Rehearsed, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    begin(out, {"study": "communication"}, {"repeats": 1}, {}, resume=False)
    (tmp_path / "none.json").write_text("[]")
    with pytest.raises(FednerError, match="holds no points"):
        import_points(out, tmp_path / "none.json", "")
    begin(other, {"study": "schemes"}, {"repeats": 1}, {}, resume=False)
    with pytest.raises(FednerError, match="no earlier points"):
        import_points(other, tmp_path / "none.json", "")
    add_cell(out, rehearsed.cells[0], rehearsed.rows[:1], 1.0)
    assert len(read_cells(out)) == 1
