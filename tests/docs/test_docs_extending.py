"""docs/custom-reader.md and docs/custom-engine.md: their files run, and stand in the pages."""

import json
import runpy
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "federated"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engines"))

import pytest
from linear_platform import initial, random_platform
from parity import check_parity

import fedner
from fedner.corpus import inspect
from fedner.corpus.readers import READERS
from fedner.federated.answering import answers
from fedner.federated.messages import Failure, Order

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTE = "Severe <ADE>nausea</ADE> after\n<Drug>aspirin</Drug> since May.\n"


def loaded(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "snippets" / f"{name}.py"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "1.tagged").write_text(NOTE)
    (folder / "2.tagged").write_text("No <ADE>rash</Drug> and </ADE> <ADE></ADE> <Drug>x.\n")
    return folder


@pytest.mark.parametrize("name", ["reader", "engine"])
def test_the_file_stands_in_its_page(name: str) -> None:
    code = (DOCS / "snippets" / f"custom_{name}.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```\n" in (DOCS / f"custom-{name}.md").read_text(encoding="utf-8")


def test_the_reader_places_mentions_and_reports_what_it_cannot(notes: Path) -> None:
    reader = loaded("custom_reader")["INLINE"]
    with pytest.raises(fedner.FednerError, match="4 problems"):
        fedner.read(notes, reader)
    (notes / "2.tagged").unlink()
    (document,) = fedner.read(notes, reader)
    assert document.text == "Severe nausea after\naspirin since May.\n"
    found = [(span.label, span.text_in(document.text)) for span in document.spans]
    assert found == [("ADE", "nausea"), ("Drug", "aspirin")]
    assert inspect(notes, reader).recognition.format == "inline"


def test_every_command_knows_the_reader_of_the_page(
    notes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dict(READERS)
    (notes / "2.tagged").unlink()
    monkeypatch.setattr(sys, "argv", ["x", "data", "inspect", str(notes), "--json"])
    try:
        with pytest.raises(SystemExit) as done:
            runpy.run_path(str(DOCS / "snippets" / "custom_reader.py"), run_name="__main__")
    finally:
        READERS.clear()
        READERS.update(before)
    assert not done.value.code
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["mentions"]) == ("inline", {"ADE": 1, "Drug": 1})


def test_the_engine_gives_the_same_bits(tmp_path: Path) -> None:
    folders = loaded("custom_engine")["Folders"]
    check_parity(partial(folders, folder=tmp_path / "letters"), tmp_path)


def test_a_late_platform_and_a_broken_one_are_failures_of_their_own(tmp_path: Path) -> None:
    def broken(_order: Order) -> None:
        raise OSError("gone")

    broken.close = lambda: None  # type: ignore[attr-defined]
    made = answers(random_platform, None, tmp_path, finish=lambda *_: None, study="ab")
    both = {"alpha": broken}
    engine = loaded("custom_engine")["Folders"](
        lambda name: both.get(name) or made(name), ["alpha", "beta"], tmp_path / "letters"
    )
    order = Order("test", 1, initial(), study="ab", verb="begin")
    replies = list(engine.ask({"alpha": order, "beta": order}))
    assert replies[0] == Failure("alpha", 1, "worker-died")
    assert replies[1].platform == "beta"
    engine.close()


def test_the_program_of_the_engines_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (DOCS / "snippets" / "custom_engine.py").read_text(encoding="utf-8")
    quick = code.replace('"rounds": 20', '"rounds": 1, "finetune_epochs": 1')
    assert quick != code
    (tmp_path / "quick.py").write_text(quick)
    monkeypatch.setattr(sys, "argv", ["quick.py", str(tmp_path / "run")])
    runpy.run_path(str(tmp_path / "quick.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["case-reports", "forum-posts"]
    assert (tmp_path / "run" / "letters" / "forum-posts" / "reply").is_file()
    assert not (tmp_path / "run" / "coordinator" / "platforms").exists()
