"""Readers of de-identification corpora: what they hold, and every way to be wrong."""

import json
from pathlib import Path

import pytest
from format_fixtures import ASPIRIN, NAUSEA, TEXT, i2b2, phi_queries, presidio

from fedner.corpus.document import Span
from fedner.corpus.patients import PatientSource
from fedner.corpus.problems import ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import i2b2 as i2b2_reader
from fedner.corpus.reading import read, recognise
from fedner.errors import FednerError


def test_i2b2_has_categories_sub_types_and_patients(tmp_path: Path) -> None:
    folder = i2b2(tmp_path)
    (document,) = read(folder)
    assert (document.id, document.patient) == ("110-01", "110")
    words = [(span.label, span.text_in(document.text)) for span in document.spans]
    assert words == [("NAME", "Anna Lee"), ("DATE", "2067-05-03")]
    assert document.text.startswith("\nOw"), "offsets count the line break after CDATA"
    (fine,) = read(folder, options=ReadOptions({"types": "fine"}))
    assert [span.label for span in fine.spans] == ["DOCTOR", "DATE"]
    with pytest.raises(FednerError, match="types"):
        read(folder, options=ReadOptions({"types": "finest"}))


def _i2b2_file(
    folder: Path, tags: str, name: str = "7-02.xml", text: str = "Dr. Lee"
) -> ProblemLog:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(
        f"<deIdi2b2><TEXT><![CDATA[{text}]]></TEXT><TAGS>{tags}</TAGS></deIdi2b2>"
    )
    log = ProblemLog()
    read(folder, "i2b2", lenient=True, log=log)
    return log


@pytest.mark.parametrize(
    ("tag", "kind"),
    [
        ('<NAME id="P0" start="4" end="99" text="Lee" TYPE="DOCTOR"/>', "offset outside the text"),
        ('<NAME id="P0" start="4" end="x" text="Lee" TYPE="DOCTOR"/>', "malformed line"),
        ('<NAME id="P0" start="4" end="4" text="" TYPE="DOCTOR"/>', "zero-length span"),
        ('<NAME id="P0" start="0" end="3" text="Lee" TYPE="DOCTOR"/>', "offset and quote differ"),
        ('<NAME id="P0" start="4"', "unreadable file"),
    ],
)
def test_i2b2_tags_that_are_wrong_are_reported(tmp_path: Path, tag: str, kind: str) -> None:
    pytest.importorskip("lxml")
    log = _i2b2_file(tmp_path / "a", tag)
    assert [problem.kind for problem in log.problems] == [kind]


def test_i2b2_leaves_out_what_is_no_identifier_and_says_so(tmp_path: Path) -> None:
    pytest.importorskip("lxml")
    log = _i2b2_file(tmp_path / "a", '<SMOKER id="D" status="past"/><!-- x -->', name="letter.xml")
    assert not log.problems
    assert log.remarks == {i2b2_reader.REMARK_OTHER: 1, i2b2_reader.REMARK_NO_PATIENT: 1}


def test_i2b2_refuses_other_xml_and_entities(tmp_path: Path) -> None:
    folder = i2b2(tmp_path)
    (folder / "other.xml").write_text("<html><body/></html>")
    (folder / "bomb.xml").write_text(
        '<!DOCTYPE a [<!ENTITY b "x">]><deIdi2b2><TEXT>&b;</TEXT><TAGS/></deIdi2b2>'
    )
    log = ProblemLog()
    assert len(read(folder, lenient=True, log=log)) == 1
    assert {problem.kind for problem in log.problems} == {"not a corpus", "unreadable file"}


def test_presidio_has_spans_in_the_order_of_the_text(tmp_path: Path) -> None:
    path = presidio(tmp_path)
    first, second = read(path)
    assert (first.text, first.spans) == (
        TEXT,
        (Span.of(*NAUSEA, "ADE"), Span.of(*ASPIRIN, "DRUG")),
    )
    assert second.spans == ()
    patients = ReadOptions(patients=PatientSource(column="template_id"))
    assert [each.patient for each in read(path, options=patients)] == ["87", "41"]


def test_records_on_one_line_have_ids_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"full_text": each, "spans": []} for each in ("a", "b", "c")]))
    assert [each.id for each in read(path)] == ["a.json#1", "a.json#1.2", "a.json#1.3"]


def test_presidio_spans_that_are_wrong_are_reported(tmp_path: Path) -> None:
    def span(**fields: object) -> dict[str, object]:
        return {
            "entity_type": "A",
            "entity_value": "No",
            "start_position": 0,
            "end_position": 2,
        } | fields

    spans = [
        *(span(entity_type=""), span(end_position="2"), span(end_position=9)),
        *(span(entity_value="Yes"), "a", span()),
    ]
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps([{"full_text": "No.", "spans": spans}, {"full_text": 3, "spans": []}])
    )
    log = ProblemLog()
    (document,) = read(path, "presidio", lenient=True, log=log)
    assert document.spans == (Span.of(0, 2, "A"),) * 2, "the offset wins over the value"
    assert len(log.problems) == 6
    with pytest.raises(FednerError):
        read(path, "presidio")


def test_phi_queries_have_every_place_of_a_value(tmp_path: Path) -> None:
    path = phi_queries(tmp_path)
    assert recognise(path).format == "phi-queries"
    first, second = read(path)
    assert [(span.label, span.text_in(first.text)) for span in first.spans] == [
        ("NAME", "Anna S."),
        ("ID", "123"),
    ]
    assert (second.text, second.spans) == ("What now?", ())


def _queries(folder: Path, text: str, *values: str) -> tuple[list[str], ProblemLog]:
    path, log = folder / "q.txt", ProblemLog()
    path.write_text(f"===QUERY===\n{text}\n===PHI_TAGS===\n" + "\n".join(values) + "\n")
    (document,) = read(path, "phi-queries", lenient=True, log=log)
    return [f"{span.start}-{span.end} {span.label}" for span in document.spans], log


def _value(label: str, value: str) -> str:
    return json.dumps({"identifier_type": label, "value": value})


def test_phi_queries_take_whole_words_and_the_longest_first(tmp_path: Path) -> None:
    text = "Ann met Anna; Ann Lee and Ann, 12 of 123."
    values = (_value("NAME", "Ann"), _value("NAME", "Ann Lee"), _value("ID", "12"))
    spans, log = _queries(tmp_path, text, *values)
    assert spans == ["0-3 NAME", "14-21 NAME", "26-29 NAME", "31-33 ID"]
    assert not log.problems
    inner, log = _queries(tmp_path, "Ann Lee", _value("NAME", "Ann Lee"), _value("NAME", "Lee"))
    assert (inner, log.total) == (["0-7 NAME"], 0)


def test_phi_queries_report_values_that_are_nowhere_and_lines_that_are_none(tmp_path: Path) -> None:
    wrong = ("{", '{"identifier_type": "NAME"}', "[1]", _value("NAME", "Bob"))
    spans, log = _queries(tmp_path, "Ann", _value("NAME", "Ann"), *wrong)
    assert spans == ["0-3 NAME"]
    assert [each.line for each in log.problems] == [5, 6, 7, 8]
    assert not any("Bob" in str(each) for each in log.problems), "no identifier in a message"
