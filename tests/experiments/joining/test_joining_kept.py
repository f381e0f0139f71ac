"""A cell of every own sentence goes on with the trainings that ended before it was stopped."""

from pathlib import Path

import pytest
import tiny_study

from fedner.experiments.joining import cells, study
from fedner.experiments.joining.study import ALL, CellTask


def test_a_stopped_cell_trains_only_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiny_study.shrink(monkeypatch)
    world = tiny_study.tiny_world()
    study.run_partners(world, study.PartnerTask("received", False, (1,)), tmp_path / "out")
    task = CellTask(("ade",), ALL, 1)
    undisturbed = cells.run_cells(world, task, tmp_path / "out")
    for folder in (tmp_path / "out" / "trainings").iterdir():
        if folder.name.endswith("joined"):
            (folder / "final.safetensors").unlink()
    real, trained = cells.train_alone, []

    def counted(*args: object, **named: object) -> object:
        trained.append(args[2])
        return real(*args, **named)

    monkeypatch.setattr(cells, "train_alone", counted)
    assert cells.run_cells(world, task, tmp_path / "out") == undisturbed
    assert len(trained) == 1
    assert len(trained[0]) == 1


def test_small_cells_store_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tiny_study.shrink(monkeypatch)
    world = tiny_study.tiny_world()
    study.run_partners(world, study.PartnerTask("received", False, (1,)), tmp_path)
    cells.run_cells(world, CellTask(("ade",), 6, 1), tmp_path)
    assert not (tmp_path / "trainings").exists()
