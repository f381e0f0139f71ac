"""F1 against epsilon: rehearsed whole, means by split, and points of earlier sessions."""

import json
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.experiments.joining.private_study import ARMS, FEDERATIONS, NEWCOMERS, platforms
from fedner.reproduce.bench import Bench
from fedner.reproduce.catalogue import CATALOGUE
from fedner.reproduce.inputs import rehearsal_context
from fedner.reproduce.joining_world import world_for
from fedner.reproduce.privacy_utility import earlier_cells
from fedner.reproduce.privacy_utility.cells import ALL, RELEASED
from fedner.reproduce.privacy_utility.showing import NOT_APPLICABLE, by_split
from fedner.reproduce.reproduction import Estimate, Factor, Inputs, Row
from fedner.reproduce.running import Run, run_study

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

STUDY = CATALOGUE["privacy-utility"]


def opened(out: Path) -> Inputs:
    return Inputs((), "hashed", rehearsal_context(out / "cache"), out, is_rehearsal=True)


def test_every_row_and_every_curve_is_there(tmp_path: Path) -> None:
    inputs = opened(tmp_path)
    shown = STUDY.show(run_study(Run(STUDY, inputs)), inputs)
    assert [len(table.rows) for table in shown.tables] == [
        len(FEDERATIONS) * len(ARMS),
        len(FEDERATIONS) * 2,
        len(NEWCOMERS) * 4,
    ]
    assert all(entry is not None for table in shown.tables for row in table.rows for entry in row)
    (figure,) = shown.figures
    assert [panel.title for panel in figure.panels] == list(FEDERATIONS)
    for panel in figure.panels:
        assert [each.label for each in panel.series] == list(ARMS)
        assert all(point is not None for each in panel.series for point in each.points)


def test_without_rows_everything_is_missing(tmp_path: Path) -> None:
    shown = STUDY.show([], opened(tmp_path))
    entries = {entry for table in shown.tables for row in table.rows for entry in row[1:]}
    assert entries == {None, NOT_APPLICABLE}


def test_stand_ins_of_a_rehearsal_have_no_sentence_in_common(tmp_path: Path) -> None:
    world = world_for(Bench(opened(tmp_path)), platforms())
    assert world.is_rehearsal
    assert tuple(world.corpora) == platforms()
    texts = [tuple(s.tokens) for each in world.corpora.values() for s in each.sentences]
    assert len(texts) - len(set(texts)) < 0.1 * len(texts)
    assert world_for(Bench(opened(tmp_path)), platforms()) is world, "opened once in a process"


def test_without_corpora_it_says_what_to_get(tmp_path: Path) -> None:
    inputs = Inputs((), "words", "context", tmp_path)
    with pytest.raises(FednerError, match="no corpora") as caught:
        STUDY.stages[0](inputs, [])
    assert "--data" in caught.value.hint


def row(split: int, noise: int, f1: float, arm: str = "central") -> Row:
    factors: dict[str, Factor] = {
        "part": RELEASED,
        "federation": "btc",
        "arm": arm,
        "epsilon": 3.0,
        "platform": ALL,
    }
    return Row({**factors, "repeat": split, "noise_seed": noise}, {"strict_f1": f1})


def test_a_split_counts_once_however_many_seeds_met_it() -> None:
    rows = [row(1, 1, 60.0), row(1, 2, 62.0), row(2, 1, 71.0)]
    assert by_split(rows, arm="central") == {1: 61.0, 2: 71.0}


def test_distances_pair_splits_and_seeds(tmp_path: Path) -> None:
    rows = [row(1, 1, 70.0), row(1, 2, 90.0), row(2, 1, 71.0)]
    rows += [row(1, 1, 69.0, "local"), row(2, 1, 68.0, "local"), row(3, 1, 10.0, "local")]
    table = STUDY.show(rows, opened(tmp_path)).tables[1]
    (line,) = [each for each in table.rows if each[0] == "btc: local"]
    found = line[2]
    assert isinstance(found, Estimate)
    assert (found.mean, found.num) == (-2.0, 2)


def test_earlier_points_are_cells_of_the_study(tmp_path: Path) -> None:
    released = {"study": "released", "federation": "btc", "start": "public", "epsilon": 3.0}
    newcomer = {**released, "study": "newcomer", "federation": "ade"}
    alone = {**newcomer, "study": "alone", "start": "scratch", "epsilon": 0.0}
    points = [
        *({**released, "split": 1, "noise_seed": seed, "f1": 70.0 + seed} for seed in (1, 2)),
        *({**newcomer, "split": seed, "noise_seed": seed, "f1": 50.0} for seed in (1, 2, 3)),
        {**alone, "split": 2, "noise_seed": 0, "f1": 40.0},
    ]
    path = tmp_path / "dp.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in points))
    found = {cell.key: rows for cell, rows, _ in earlier_cells(path)}
    inputs = Inputs((), "words", "context", tmp_path, root=tmp_path, repeats=3)
    assert found.keys() < {cell.key for cell in STUDY.stages[0](inputs, [])}
    assert [
        each.measures["strict_f1"] for each in found["released/btc/central/epsilon-3/repeat-1"]
    ] == [
        71.0,
        72.0,
    ]
    assert len(found["newcomer/ade/public/epsilon-3/repeats-1-3"]) == 3
    assert found["alone/ade/repeat-2"][0].factors["repeat"] == 2
    noise = {"federation": "btc", "arm": "local", "epsilon": 1.0, "split": 3, "noise_seed": 1}
    path.write_text(json.dumps({**noise, "f1": 60.0}))
    assert [cell.key for cell, _, _ in earlier_cells(path)] == [
        "released/btc/local/epsilon-1/repeat-3"
    ]
    path.write_text('{"arm": "local"}')
    with pytest.raises(FednerError, match="without 'federation'"):
        list(earlier_cells(path))
    with pytest.raises(FednerError, match="no points"):
        list(earlier_cells(tmp_path / "none"))
