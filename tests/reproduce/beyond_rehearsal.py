"""Runs all cells of a study in one process, on built-in platforms."""

from dataclasses import dataclass
from pathlib import Path

from fedner.reproduce.bench import Bench
from fedner.reproduce.inputs import rehearsal_context, stored
from fedner.reproduce.locating import platforms_for
from fedner.reproduce.reproduction import (
    Cell,
    Estimate,
    Figure,
    Inputs,
    Reproduction,
    Row,
    Shown,
    Table,
)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a rehearsal came to."""

    inputs: Inputs
    cells: list[Cell]
    rows: list[Row]
    shown: Shown


def rehearse(study: Reproduction, out: Path, repeats: int = 1) -> Rehearsed:
    """Run every cell of every stage, and show the rows."""
    chosen = platforms_for(study, None, (), is_built_in=True)
    context = rehearsal_context(out)
    inputs = stored(
        Inputs(chosen, "hashed", context, out, repeats=repeats, first_seed=1, is_rehearsal=True)
    )
    bench, cells, rows = Bench(inputs), list[Cell](), list[Row]()
    for stage in study.stages:
        for cell in stage(inputs, rows):
            cells.append(cell)
            found = study.run(cell, bench)
            assert found, cell.key
            assert all(row.factors.items() >= cell.factors.items() for row in found), cell.key
            rows += found
    assert len({cell.key for cell in cells}) == len(cells)
    assert not list((out / "under-way").glob("*"))
    return Rehearsed(inputs, cells, rows, study.show(rows, inputs))


def table_named(shown: Shown, name: str) -> Table:
    """Return a table by its name."""
    return next(each for each in shown.tables if each.name == name)


def figure_named(shown: Shown, name: str) -> Figure:
    """Return a figure by its name."""
    return next(each for each in shown.figures if each.name == name)


def assert_whole(shown: Shown) -> None:
    """Every row, every curve and no missing entry."""
    assert shown.tables
    for table in shown.tables:
        assert table.rows, table.name
        for row in table.rows:
            assert len(row) == len(table.columns), (table.name, row)
            assert all(each is not None for each in row), (table.name, row)
    for figure in shown.figures:
        for panel in figure.panels:
            assert panel.series, figure.name
            for series in panel.series:
                assert len(series.points) == len(panel.marks), (figure.name, series.label)
                assert all(each is not None for each in series.points), (figure.name, series.label)


def mean_of(entry: object) -> float:
    """Return the mean of an entry that must have one."""
    assert isinstance(entry, Estimate)
    return entry.mean
