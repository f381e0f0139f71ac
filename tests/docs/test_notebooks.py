"""The notebooks of the documentation run from top to bottom, and are kept with what they print."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    return [each for each in json.loads(path.read_text())["cells"] if each["cell_type"] == "code"]


def by_name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=by_name)
def test_it_is_kept_whole_small_and_without_a_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 150_000
    for place in ("/" + "tmp/", "/home/", "/" + "root/", "/" + "work/"):
        assert place not in text, "what is printed names no folder of a machine"
    assert [each["execution_count"] for each in cells(path)] == [
        number + 1 for number in range(len(cells(path)))
    ], "run from top to bottom"
    outputs = [output for each in cells(path) for output in each["outputs"]]
    assert any("image/png" in each.get("data", {}) for each in outputs)
    assert not [each for each in outputs if each["output_type"] == "error"]
    assert not [each for each in outputs if each.get("name") == "stderr"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=by_name)
# Jupyter's own sockets and loops warn of themselves.
@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
@pytest.mark.filterwarnings("default::RuntimeWarning", "default::UserWarning")
def test_it_runs(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the extra docs: make notebooks")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra docs: make notebooks")
    pytest.importorskip("ipykernel", reason="needs the extra docs: make notebooks")
    pytest.importorskip("matplotlib", reason="needs the extra docs: make notebooks")
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    done = nbclient.NotebookClient(notebook, timeout=600, resources=where).execute()
    drawn = [
        "image/png" in output.get("data", {})
        for cell in done.cells
        for output in cell.get("outputs", [])
    ]
    assert any(drawn)
    assert not list(tmp_path.iterdir()), "it leaves nothing where it runs"
