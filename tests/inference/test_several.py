"""Several inputs as one: ids of their own, nothing twice, what is left out in one list."""

import io
from pathlib import Path

import pytest

from fedner.corpus.problems import InputProblemsError
from fedner.errors import FednerError
from fedner.inference.several import open_inputs
from fedner.inference.tables import Columns


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("east", "west"):
        Path(folder).mkdir()
        Path(folder, "1.txt").write_text(f"Rash in the {folder}.")
        Path(folder, "scan.txt").write_bytes(b"\x89PNG\r\n\x1a\n")
    Path("letter.txt").write_text("Fever.")
    return tmp_path


def ids(*paths: str) -> list[str]:
    return [each.id for each in open_inputs([Path(path) for path in paths]).documents]


def test_ids_begin_with_the_name_of_their_input(home: Path) -> None:
    assert ids("east") == ["1"]
    assert ids("east", "west", "letter.txt") == ["east/1", "west/1", "letter"]
    assert ids("east/1.txt", "west/1.txt") == ["east/1", "west/1"], "one name: the path as given"
    assert ids("east/1.txt", "letter.txt") == ["1", "letter"]
    Path("deep/east").mkdir(parents=True)
    Path("deep/east/1.txt").write_text("Rash.")
    assert ids("east", "deep/east") == ["east/1", "deep/east/1"]


def test_files_counts_and_what_is_left_out_are_of_all(home: Path) -> None:
    opened = open_inputs([Path("east"), Path("west"), Path("letter.txt")])
    assert opened.total == 3
    assert {each.source for each in opened.documents} == {
        "east/1.txt",
        "west/1.txt",
        "letter.txt",
    }
    assert [each.path.as_posix() for each in opened.left_out] == ["east/scan.txt", "west/scan.txt"]
    assert len(opened.files) == 3


def test_what_turns_out_unreadable_is_left_out_once(home: Path) -> None:
    opened = open_inputs([Path("east"), Path("west")])
    Path("west/1.txt").write_bytes(b"\x00")
    assert [each.id for each in opened.documents] == ["east/1"]
    names = [each.path.as_posix() for each in opened.left_out]
    assert names == ["east/scan.txt", "west/scan.txt", "west/1.txt"]


def test_nothing_is_read_twice(home: Path) -> None:
    for twice in (("east", "./east"), ("-", "-")):
        with pytest.raises(FednerError, match="more than once"):
            ids(*twice)
    with pytest.raises(FednerError, match="is inside"):
        ids("east", "east/1.txt")


def test_tables_and_standard_input_beside_each_other(home: Path) -> None:
    Path("a.csv").write_text("key,note\n1,Rash.\n")
    Path("b.csv").write_text("key,note\n1,Fever.\n2,\n")
    stdin = io.BytesIO(b"key,note\n1,Nausea.\n")
    paths = [Path("a.csv"), Path("b.csv"), Path("-")]
    opened = open_inputs(paths, stdin=stdin, columns=Columns("note", "key"))
    found = {each.id: each.text for each in opened.documents}
    assert found == {"a.csv/1": "Rash.", "b.csv/1": "Fever.", "-/1": "Nausea."}
    assert opened.total is None
    assert [each.path.name for each in opened.left_out] == ["b.csv:3"]


def test_broken_corpora_among_them_are_refused_unless_leniently(home: Path) -> None:
    Path("a.jsonl").write_text('{"id": "1", "text": "Rash."}\n{"id"\n')
    paths = [Path("a.jsonl"), Path("letter.txt")]
    with pytest.raises(InputProblemsError):
        list(open_inputs(paths).documents)
    opened = open_inputs(paths, lenient=True)
    assert [each.id for each in opened.documents] == ["a.jsonl/1", "letter"]
    assert opened.log.total == 1
