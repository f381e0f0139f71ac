"""Label Studio: both exports, both ways of counting, several annotators, and what is malformed."""

import json
from pathlib import Path
from typing import Any

import pytest
from format_fixtures import ASPIRIN, NAUSEA, TEXT, label_studio

from fedner.corpus.document import Corpus, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import label_studio as reader
from fedner.corpus.reading import read, recognise


def region(start: Any, end: Any, label: Any = "ADE", **more: Any) -> dict[str, Any]:
    return {"type": "labels", "value": {"start": start, "end": end, "labels": [label], **more}}


def task(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = [{"id": 1, "result": list(results)}]
    return {"id": 1, "data": {"text": "Rash 😀 after aspirin"}, "annotations": made, **more}


def read_tasks(folder: Path, *tasks: object) -> tuple[Corpus, ProblemLog]:
    path = folder / "a.json"
    path.write_text(json.dumps(list(tasks)))
    log = ProblemLog()
    return read(path, "label-studio", lenient=True, log=log), log


def test_the_json_export(tmp_path: Path) -> None:
    log = ProblemLog()
    (document,) = read(label_studio(tmp_path), log=log)
    assert (document.id, document.text) == ("1", TEXT)
    assert document.spans == (Span.of(*NAUSEA, "ADE"), Span.of(*ASPIRIN, "Drug"))
    assert log.remarks == {
        reader.REMARK_UNANNOTATED: 1,
        "Label Studio's relation (left out)": 1,
    }


def test_the_minimal_export(tmp_path: Path) -> None:
    record = {
        "tweet": "Rash after aspirin", "id": 12, "annotator": 1, "annotation_id": 3,
        "created_at": "2024", "updated_at": "2024", "lead_time": 1.5,
        "ner": [{"start": 0, "end": 4, "text": "Rash", "labels": ["ADE", "Skin"]}],
    }  # fmt: skip
    path = tmp_path / "a.json"
    path.write_text(json.dumps([record]))
    assert recognise(path).format == "label-studio"
    (document,) = read(path)
    assert (document.id, document.text) == ("12", "Rash after aspirin")
    assert document.spans == (Span.of(0, 4, "ADE"), Span.of(0, 4, "Skin"))


def test_the_quote_tells_which_way_old_versions_counted(tmp_path: Path) -> None:
    corpus, log = read_tasks(
        tmp_path, task(region(14, 21, text="aspirin"), region(13, 20, text="aspirin"))
    )
    assert corpus.documents[0].spans == (Span.of(13, 20, "ADE"), Span.of(13, 20, "ADE"))
    assert log.remarks == {reader.REMARK_UNITS: 1}
    assert log.total == 0


def test_of_several_annotations_the_ground_truth_counts(tmp_path: Path) -> None:
    def made(label: str, **more: object) -> dict:
        return {"result": [region(0, 4, label)], **more}

    several = [made("Cancelled", was_cancelled=True), made("A"), made("B", ground_truth=True)]
    corpus, log = read_tasks(
        tmp_path,
        task(annotations=several),
        task(id=2, annotations=several[:2]),
        task(id=3, annotations=[], predictions=[made("P")]),
    )
    assert [document.spans[0].label for document in corpus] == ["B", "A"]
    assert log.remarks == {reader.REMARK_SEVERAL: 1, reader.REMARK_UNANNOTATED: 1}


def test_the_text_is_found_by_what_the_regions_point_to(tmp_path: Path) -> None:
    pointing = region(0, 3) | {"to_name": "body"}
    data = {"title": "Title", "body": "Rash", "url": "x"}
    corpus, log = read_tasks(
        tmp_path,
        task(pointing, data=data),
        task(id=2, data={"title": "a", "body": "b"}),
        task(id=3, data={"only": "Rash"}),
        task(id=4, data={"n": 5}),
    )
    assert [document.text for document in corpus] == ["Rash", "Rash"]
    assert log.counts == {"malformed line": 2}


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (region(0, 99), "offset outside the text"),
        (region("/div[1]", "/div[2]"), "malformed line"),
        (region(0, 4, ""), "malformed line"),
        (region(0, 4, text="Rush"), "offset and quote differ"),
        (region(0, 4, globalOffsets=5), "malformed line"),
    ],
)
def test_what_is_wrong_with_a_region(tmp_path: Path, result: dict, kind: str) -> None:
    corpus, log = read_tasks(tmp_path, task(result, region(0, 4, "Good")))
    assert corpus.documents[0].spans[-1].label == "Good"
    assert log.counts == {kind: 1}


def test_offsets_in_html_are_those_of_the_text(tmp_path: Path) -> None:
    result = region("/p[1]", "/p[1]", globalOffsets={"start": 0, "end": 4})
    corpus, log = read_tasks(tmp_path, task(result | {"type": "hypertextlabels"}))
    assert corpus.documents[0].spans == (Span.of(0, 4, "ADE"),)
    assert log.total == 0


def test_a_syntax_error_ends_the_array_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(f"[{json.dumps(task())},\n{{broken")
    log = ProblemLog()
    assert len(read(path, lenient=True, log=log)) == 1
    assert [(problem.kind, problem.line) for problem in log.problems] == [("malformed line", 2)]
