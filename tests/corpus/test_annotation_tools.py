"""Into Label Studio, Doccano and INCEpTION and back: annotations, and predictions to correct."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.document import Corpus, Document, Segment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import utf16
from fedner.corpus.reading import read_recognised
from fedner.corpus.writers import WRITERS, WriteOptions
from fedner.errors import FednerError
from fedner.inference.found_files import Output, found_line, write_found
from fedner.inference.notes import LeftOut
from fedner.inference.reading import Mention, Predicted

TEXT = "Took aspirin 😀 twice.\nThen nausea & <rash>."
DRUG, NAUSEA, RASH = Span.of(5, 12, "Drug"), Span.of(27, 33, "ADE"), Span.of(37, 41, "ADE")
CORPUS = Corpus(
    "notes",
    ("ADE", "Drug"),
    (
        Document("ward/note 1", TEXT, (DRUG, NAUSEA, RASH), patient="p-7"),
        Document("note-2", "Nothing new.", ()),
    ),
)
TOOLS = ("label-studio", "doccano", "xmi")


def place(tmp_path: Path, tool: str) -> Path:
    return tmp_path / {"label-studio": "tasks.json", "doccano": "notes.jsonl", "xmi": "xmi"}[tool]


def content(corpus: Corpus) -> dict[str, tuple[str, set[Span]]]:
    return {each.id: (each.text, set(each.spans)) for each in corpus}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_corpus_comes_back_from_each_tool(tmp_path: Path, tool: str) -> None:
    path = place(tmp_path, tool)
    written = WRITERS[tool].write(path, CORPUS, WriteOptions())
    assert (written.documents, written.mentions) == (2, 3)
    recognition, back = read_recognised(path)
    assert recognition.format == tool
    assert content(back) == content(CORPUS)


@pytest.mark.parametrize("tool", ["label-studio", "doccano"])
def test_patients_come_back_under_their_key(tmp_path: Path, tool: str) -> None:
    path = place(tmp_path, tool)
    WRITERS[tool].write(path, CORPUS, WriteOptions())
    options = ReadOptions(own={"patient_column": "patient"})
    _, back = read_recognised(path, tool, options=options, lenient=True)
    assert {each.id: each.patient for each in back}["ward/note 1"] == "p-7"


def test_sentences_and_tokens_go_to_inception_and_back(tmp_path: Path) -> None:
    parts = (Segment(0, 4, (0,), (4,)), Segment(5, 11, (5,), (11,)))
    one = Corpus("n", ("ADE",), (Document("a", "Sick nausea", (Span.of(5, 11, "ADE"),), parts),))
    WRITERS["xmi"].write(tmp_path / "out", one, WriteOptions())
    _, back = read_recognised(tmp_path / "out")
    assert back.documents[0].segments == parts


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_tool_cannot_carry_is_counted(tmp_path: Path, tool: str) -> None:
    split = Span(((0, 4), (11, 17)), "ADE")
    one = Corpus("n", ("ADE",), (Document("a", "pain in my muscle", (split,)),))
    written = WRITERS[tool].write(place(tmp_path, tool), one, WriteOptions())
    assert [(n, "hull" in what) for what, n in written.losses.items()] == [(1, True)]
    _, back = read_recognised(place(tmp_path, tool))
    assert back.documents[0].spans == (Span.of(0, 17, "ADE"),)


def test_windows_line_ends_go_to_inception_and_back(tmp_path: Path) -> None:
    """A line end is written as a reference (&#13;&#10;), which every XML reader keeps."""
    one = Corpus("n", ("ADE",), (Document("a", "a\r\nrash\rb\n", (Span.of(3, 7, "ADE"),)),))
    WRITERS["xmi"].write(tmp_path / "out", one, WriteOptions())
    assert b"a&#13;&#10;rash&#13;b&#10;" in (tmp_path / "out" / "a.xmi").read_bytes()
    _, back = read_recognised(tmp_path / "out")
    assert content(back) == content(one)


def test_a_text_that_xml_cannot_hold_is_refused(tmp_path: Path) -> None:
    one = Corpus("n", (), (Document("a", "a\x0bb", ()),))
    with pytest.raises(FednerError, match="which XML"):
        WRITERS["xmi"].write(tmp_path / "out", one, WriteOptions())
    assert not (tmp_path / "out").exists()


@given(st.text(st.sampled_from("a😀é\n"), max_size=8))
def test_offsets_in_units_and_back(text: str) -> None:
    there, back = utf16.from_characters(text), utf16.to_characters(text)
    for offset in range(len(text) + 1):
        assert len(text[:offset].encode("utf-16-le")) // 2 == there(offset)
        assert back(there(offset)) == offset


def predictions(tmp_path: Path, tool: str) -> tuple[Path, list[LeftOut]]:
    """Write what a tagger found in the notes."""
    path, left_out = place(tmp_path, tool), []
    found = tmp_path / "found.jsonl"
    lines = [
        Predicted(
            each,
            tuple(
                Mention(span.start, span.end, span.label, span.text_in(each.text), 0.25 * at)
                for at, span in enumerate(each.spans, 1)
            ),
        )
        for each in CORPUS
    ]
    found.write_text("".join(map(found_line, lines)), encoding="utf-8")
    with found.open("rb") as stream:
        write_found(tool, stream, Output(path, CORPUS.labels, 0o600, left_out))
    return path, left_out


def test_predictions_are_no_annotations_until_somebody_accepts_them(tmp_path: Path) -> None:
    path, _ = predictions(tmp_path, "label-studio")
    log = ProblemLog()
    _, unread = read_recognised(path, log=log)
    assert len(unread) == 0
    tasks = json.loads(path.read_text())
    made = tasks[0]["predictions"][0]
    assert [each["score"] for each in made["result"]] == [0.25, 0.5, 0.75]
    assert made["score"] == 0.25, "tasks are sorted by the least sure mention"
    # As the tool exports it after somebody accepted the first two regions and submitted.
    for number, task in enumerate(tasks, 1):
        result = task["predictions"][0]["result"][:2]
        task |= {"id": number, "annotations": [{"id": 9, "was_cancelled": False, "result": result}]}
    path.write_text(json.dumps(tasks))
    _, back = read_recognised(path)
    assert content(back)["ward/note 1"] == (TEXT, {DRUG, NAUSEA})
    assert content(back)["note-2"][1] == set()


@pytest.mark.parametrize("tool", ["doccano", "xmi"])
def test_predictions_are_labels_to_correct_in_other_tools(tmp_path: Path, tool: str) -> None:
    path, left_out = predictions(tmp_path, tool)
    _, back = read_recognised(path)
    assert content(back) == content(CORPUS)
    assert left_out == []
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}


def test_doccano_gets_offsets_as_javascript_counts(tmp_path: Path) -> None:
    WRITERS["doccano"].write(tmp_path / "notes.jsonl", CORPUS, WriteOptions())
    first = json.loads((tmp_path / "notes.jsonl").read_text().splitlines()[0])
    assert first["label"] == [[5, 12, "Drug"], [28, 34, "ADE"], [38, 42, "ADE"]]
