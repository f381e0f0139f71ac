"""Doccano: its three shapes, its way of counting, and what is malformed."""

import json
from pathlib import Path

import pytest
from format_fixtures import ASPIRIN, NAUSEA, TEXT, doccano

from fedner.corpus.document import Corpus, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import doccano as reader
from fedner.corpus.reading import read, recognise

SPANS = (Span.of(*NAUSEA, "ADE"), Span.of(*ASPIRIN, "Drug"))


def read_records(
    folder: Path, *records: object, as_array: bool = False
) -> tuple[Corpus, ProblemLog]:
    path = folder / "a.json"
    lines = [json.dumps(record) for record in records]
    path.write_text("[\n" + ",\n".join(lines) + "\n]" if as_array else "\n".join(lines))
    log = ProblemLog()
    return read(path, "doccano", lenient=True, log=log), log


def test_units_of_javascript_are_converted(tmp_path: Path) -> None:
    log = ProblemLog()
    first, second = read(doccano(tmp_path), log=log)
    assert (first.id, first.text, first.spans) == ("1", TEXT, SPANS)
    assert (second.id, second.spans) == ("2", ())
    assert log.remarks == {reader.REMARK_UNITS: 1}


def test_characters_are_kept_where_only_they_meet_words(tmp_path: Path) -> None:
    labels = [[*NAUSEA, "ADE"], [*ASPIRIN, "Drug"]]
    corpus, log = read_records(tmp_path, {"id": 1, "text": TEXT, "label": labels})
    assert corpus.documents[0].spans == SPANS
    assert log.remarks == {reader.REMARK_CHARACTERS: 1}


def test_the_relation_export_and_the_old_ones(tmp_path: Path) -> None:
    text = "Rash after aspirin"
    entity = {"id": 7, "label": "ADE", "start_offset": 0, "end_offset": 4}
    shapes = [
        {"id": 1, "text": text, "entities": [entity], "relations": [], "Comments": []},
        {"id": 2, "text": text, "labels": [[0, 4, "ADE"]]},
        {"id": 3, "data": text, "label": [[0, 4, "ADE"]]},
        {"id": 4, "text": text, "annotations": [entity | {"label": 3, "user": 1}], "meta": {}},
    ]
    for number, shape in enumerate(shapes):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps(shape) + "\n")
        assert recognise(path).format == "doccano"
        label = "3" if number == 3 else "ADE"
        assert read(path).documents[0].spans == (Span.of(0, 4, label),)


def test_an_array_over_many_lines(tmp_path: Path) -> None:
    record = {"id": 1, "text": "Rash", "label": [[0, 4, "ADE"]]}
    corpus, log = read_records(tmp_path, record, record | {"id": 2}, 5, as_array=True)
    assert [document.id for document in corpus] == ["1", "2"]
    assert [(problem.kind, problem.line) for problem in log.problems] == [("malformed line", 4)]


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ([0, 99, "X"], "offset outside the text"),
        ([2, 2, "X"], "zero-length span"),
        ([0, 2], "malformed line"),
        ([0, "2", "X"], "malformed line"),
        ([0, True, "X"], "malformed line"),
        ([0, 2, ""], "malformed line"),
        ([0, 2, None], "malformed line"),
        ("X", "malformed line"),
        ([0, 10**30, "X"], "malformed line"),
    ],
)
def test_what_is_wrong_with_a_label(tmp_path: Path, label: object, kind: str) -> None:
    corpus, log = read_records(tmp_path, {"id": 1, "text": "Rash", "label": [label, [0, 4, "ADE"]]})
    assert corpus.documents[0].spans == (Span.of(0, 4, "ADE"),)
    assert log.counts == {kind: 1}
    assert len(log.skipped_mentions) == 1


@pytest.mark.parametrize(
    "record",
    [
        {"id": 1, "text": 5, "label": []},
        {"id": 1, "text": "x"},
        {"id": [], "text": "x", "label": []},
        {"id": 1, "text": "\ud800", "label": []},
        {"id": 1, "text": "x", "label": {}},
        "text",
    ],
)
def test_a_bad_record_costs_only_itself(tmp_path: Path, record: object) -> None:
    corpus, log = read_records(tmp_path, record, {"id": 2, "text": "x", "label": []})
    assert [document.id for document in corpus] == ["2"]
    assert log.counts == {"malformed line": 1}
    assert log.problems[0].line == 1
