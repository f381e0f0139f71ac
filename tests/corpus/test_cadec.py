"""The CADEC reader, on a folder laid out and damaged as the original distribution is."""

from pathlib import Path

import pytest

from fedner.corpus.document import Document, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import READERS, brat, cadec, standoff
from fedner.corpus.readers.options import NoOptions

POST = "I feel a bit drowsy & have a little blurred vision.\n\nMy legs were weak and painful.  \n"


def read(path: Path) -> tuple[dict[str, Document], ProblemLog]:
    log = ProblemLog()
    documents = list(cadec.READER.stream(path, log, NoOptions()))
    assert len({document.id for document in documents}) == len(documents)
    return {document.id: document for document in documents}, log


def add(root: Path, name: str, annotation: str, text: str = POST) -> None:
    for folder in ("text", "original", "sct", "meddra"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "text" / f"{name}.txt").write_bytes(text.encode())
    (root / "original" / f"{name}.ann").write_bytes(annotation.encode())
    (root / "meddra" / f"{name}.ann").write_text("TT1\t10028596 9 19\tbit drowsy\n")
    (root / "sct" / f"{name}.ann").write_text("TT1\t271782001 | Drowsy | 9 19\tbit drowsy\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small CADEC with the quirks of the real one."""
    folder = tmp_path / "cadec"
    add(
        folder,
        "ARTHROTEC.1",
        "T1\tADR 9 19\tbit drowsy\n"
        "#1\tAnnotatorNotes T1\tsure\n"
        "T2\tADR 29 50\tlittle blurred vision\n"
        "T3\tADR 56 60;66 70\tlegs weak\n"
        "T4\tADR 75 82;56 60\tlegs  painful \n"
        "#5\tAnnotatorNotes T4\tfragments out of order\n",
    )
    add(folder, "ARTHROTEC.10", "")
    add(folder, "LIPITOR.2", "T1\tADR 10 19\tbit drowsy\nT2\tDrug 900 907\tLipitor\n")
    return folder


def test_reads_posts_with_discontinuous_and_overlapping_mentions(root: Path) -> None:
    documents, log = read(root)
    assert list(documents) == ["ARTHROTEC.1", "ARTHROTEC.10", "LIPITOR.2"]
    first = documents["ARTHROTEC.1"]
    assert (first.text, first.patient, first.segments) == (POST, None, None)
    assert first.source == "text/ARTHROTEC.1.txt"
    assert first.spans == (
        Span.of(9, 19, "ADR"),
        Span.of(29, 50, "ADR"),
        Span(((56, 60), (66, 70)), "ADR"),
        Span(((56, 60), (75, 82)), "ADR"),
    )
    assert documents["ARTHROTEC.10"].spans == ()
    assert log.remarks == {"standoff notes (left out)": 2, standoff.REMARK_WHITE_SPACE: 1}


def test_wrong_offsets_are_kept_where_valid_and_counted_where_not(root: Path) -> None:
    documents, log = read(root)
    assert documents["LIPITOR.2"].spans == (Span.of(10, 19, "ADR"),)
    assert log.counts == {"offset and quote differ": 1, "offset outside the text": 1}
    assert log.kept == 1
    assert log.skipped_mentions == [("LIPITOR.2", "Drug", ((900, 907),))]
    assert {problem.file for problem in log.problems} == {str(root / "original/LIPITOR.2.ann")}
    assert [problem.line for problem in log.problems] == [1, 2]


def test_twins_are_looked_for_in_the_other_folder(root: Path) -> None:
    (root / "text" / "ARTHROTEC.1.txt").unlink()
    (root / "original" / "ARTHROTEC.10.ann").unlink()
    documents, log = read(root)
    assert list(documents) == ["LIPITOR.2"]
    assert log.counts["missing twin file"] == 2
    labels = [label for name, label, _ in log.skipped_mentions if name == "ARTHROTEC.1"]
    assert labels == ["ADR"] * 4


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_root_may_lie_deeper_and_have_any_name(root: Path, tmp_path: Path, depth: int) -> None:
    moved = tmp_path / "download" / "CADEC.v2" / "posts"
    moved.parent.mkdir(parents=True)
    root.rename(moved)
    resources = tmp_path / "download" / "__MACOSX"
    add(resources / "cadec", "._ARTHROTEC.1", "\x05\x16")
    add(moved, "._ARTHROTEC.1", "\x05\x16")
    path = [moved, moved.parent, moved.parent.parent][depth]
    assert str(moved) in (cadec.READER.recognise(path) or "")
    assert len(read(path)[0]) == 3


def test_is_not_taken_for_brat_nor_brat_for_it(root: Path, tmp_path: Path) -> None:
    assert cadec.READER.recognise(root)
    assert brat.READER.recognise(root) is None
    folder = tmp_path / "brat"
    folder.mkdir()
    (folder / "a.txt").write_text(POST)
    (folder / "a.ann").write_text("T1\tADR 9 19\tbit drowsy\n")
    assert cadec.READER.recognise(folder) is None
    assert brat.READER.recognise(folder)
    assert list(READERS).index("cadec") < list(READERS).index("brat")


def test_recognises_by_content(tmp_path: Path) -> None:
    for name in ("text", "original"):
        (tmp_path / name).mkdir()
    assert cadec.READER.recognise(tmp_path) is None
    (tmp_path / "original" / "a.ann").write_text("nothing of the kind\n")
    assert cadec.READER.recognise(tmp_path) is None
    (tmp_path / "original" / "b.ann").write_text("")
    assert cadec.READER.recognise(tmp_path)
    assert cadec.READER.recognise(tmp_path / "original" / "b.ann") is None
    assert cadec.READER.recognise(tmp_path / "nowhere") is None


def test_a_path_that_the_system_refuses_is_not_recognised(tmp_path: Path) -> None:
    assert cadec.READER.recognise(tmp_path / ("x" * 5_000)) is None


def test_what_is_no_cadec_folder_is_said(tmp_path: Path) -> None:
    documents, log = read(tmp_path)
    assert (documents, dict(log.counts)) == ({}, {"not a corpus": 1})
    for name in ("text", "original"):
        (tmp_path / name).mkdir()
    documents, log = read(tmp_path)
    assert (documents, dict(log.counts)) == ({}, {"not a corpus": 1})


def test_declares_the_types_of_the_corpus(root: Path) -> None:
    assert cadec.declared_labels(root) == ("ADR", "Disease", "Drug", "Finding", "Symptom")
    assert cadec.READER.sentences == "line"
