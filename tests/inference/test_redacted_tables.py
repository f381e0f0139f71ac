"""Tables redacted: the same table with other words in the columns that are named, and no others."""

import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.document import Document
from fedner.errors import FednerError
from fedner.inference.csv_table import CsvTable
from fedner.inference.home_key import DateShift, HomeKey, PatientPseudonyms
from fedner.inference.notes import LeftOut
from fedner.inference.reading import Mention, Predicted
from fedner.inference.redacted_tables import TableColumns, TableRedaction
from fedner.inference.redaction_rules import Rules
from fedner.inference.table_job import TableCounts, audited, open_table
from fedner.inference.whole_tables import ChangedRow

KEY = HomeKey(bytes(range(32)))
KEYED = Rules(how="pseudonym", key=KEY, dates=DateShift(("DATE",)), keeps_names=False)
NOTE = TableColumns(("note",))


def finds_smith(documents: Iterator[Document]) -> Iterator[Predicted]:
    """Find every Smith and every whole date."""
    for document in documents:
        found = re.finditer(r"(?P<NAME>Smith)|(?P<DATE>\d{4}-\d\d-\d\d)", document.text)
        yield Predicted(
            document,
            tuple(
                Mention(each.start(), each.end(), str(each.lastgroup), each[0], 1) for each in found
            ),
        )


def finds_nothing(documents: Iterator[Document]) -> Iterator[Predicted]:
    return (Predicted(each, ()) for each in documents)


class Redacted:
    """What became of a table: its bytes, the audit list, what was left out."""

    def __init__(
        self,
        path: Path,
        columns: TableColumns,
        rules: Rules,
        *,
        format: str,
        encoding: str | None = None,
        finds: object = finds_smith,
    ) -> None:
        table = open_table(path, format, columns, encoding)
        self.redaction = TableRedaction(table, path.name, columns, rules)
        self.left_out: list[LeftOut] = []
        lines: list[bytes] = []
        self.counts = TableCounts(0, Counter())
        file = io.BytesIO()
        rows = self.redaction.rows(finds, self.left_out)  # type: ignore[arg-type]
        table.write(file, audited(rows, lines.append, "out", self.counts))
        self.data = file.getvalue()
        self.audit = [json.loads(line) for line in lines]


def redacted(
    path: Path, text: str | bytes, columns: TableColumns = NOTE, rules: Rules = KEYED, **more: str
) -> Redacted:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Redacted(path, columns, rules, **{"format": "csv", **more})  # type: ignore[arg-type]


def code(value: str) -> str:
    return KEY.code("value", value)


def name(patient: str, words: str = "Smith") -> str:
    return f"[NAME-{KEY.code('name', patient, 'NAME', words.casefold())}]"


def test_everything_but_what_is_replaced_stays_byte_for_byte(tmp_path: Path) -> None:
    text = '\ufeffid;"note";a\r\n1;"Mr ""X"" Smith";" q"\r\n\r\n'
    text += '2;plain \U0001f600 Smith;5" nail\r\n3;;'
    found = redacted(tmp_path / "t.csv", text, TableColumns(("note",), "id"))
    expected = text.replace('"" Smith"', f'"" {name("1")}"')
    expected = expected.replace("\U0001f600 Smith", f"\U0001f600 {name('2')}")
    assert found.data.decode() == expected
    assert found.counts == TableCounts(3, Counter(NAME=2))
    assert [(each["source"], each["id"], each["column"]) for each in found.audit] == [
        ("t.csv:2", "1", "note"),
        ("t.csv:4", "2", "note"),
    ]
    assert "Smith" not in json.dumps(found.audit)


def test_columns_become_codes_or_move_or_go_and_the_rest_is_named(tmp_path: Path) -> None:
    columns = TableColumns(("note", "plan"), "id", "mrn", ("mrn",), ("seen",), ("phone",))
    text = "id,mrn,seen,note,plan,phone,ward\n"
    text += "1,007,2021-03-05,Smith on 2021-03-05,,555,W\n2,007,soon,Smith,call Smith,,W\n"
    found = redacted(tmp_path / "t.csv", text, columns)
    pseudonyms = PatientPseudonyms(KEY, "007", KEYED.dates)
    moved = (date(2021, 3, 5) + timedelta(pseudonyms.days)).isoformat()
    rows = list(csv.reader(io.StringIO(found.data.decode())))
    who = name("007")
    assert rows == [
        ["id", "mrn", "seen", "note", "plan", "ward"],
        ["1", code("007"), moved, f"{who} on {moved}", "", "W"],
        ["2", code("007"), f"[DATE-{code('soon')}]", who, f"call {who}", "W"],
    ]
    assert found.redaction.survey() == (3, ["id", "ward"])
    assert [each["id"] for each in found.audit] == ["1/note", "2/note", "2/plan"]


def test_without_patients_each_row_is_one_of_its_own(tmp_path: Path) -> None:
    found = redacted(tmp_path / "t.csv", "note,x\nSmith Smith,1\nSmith,2\n")
    first, second = (line.split(",")[0] for line in found.data.decode().splitlines()[1:])
    assert first == f"{name('t.csv:2')} {name('t.csv:2')}"
    assert second == name("t.csv:3") != name("t.csv:2")


def test_a_row_without_a_patient_is_refused(tmp_path: Path) -> None:
    columns = TableColumns(("note",), None, "who")
    with pytest.raises(FednerError, match="row 3 has no patient"):
        redacted(tmp_path / "t.csv", "note,who\nSmith,1\nSmith,\n", columns)


def test_broken_rows_do_not_come_out_and_are_named(tmp_path: Path) -> None:
    found = redacted(tmp_path / "t.csv", "note,x\nSmith\nok,1\nSmith,2,3\n")
    assert found.data == b"note,x\nok,1\n"
    assert [each.path.name for each in found.left_out] == ["t.csv:2", "t.csv:4"]
    assert all(each.is_refused for each in found.left_out)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (TableColumns(("nothing",)), 'no column "nothing"; found note, x'),
        (TableColumns(("note",), codes=("y",)), 'no column "y"'),
        (TableColumns(("note",), dropped=("y",)), 'no column "y"'),
    ],
)
def test_columns_that_are_not_there_are_refused(
    tmp_path: Path, columns: TableColumns, message: str
) -> None:
    (tmp_path / "t.csv").write_text("note,x\na,1\n")
    table = open_table(tmp_path / "t.csv", "csv", columns)
    with pytest.raises(FednerError, match=message):
        columns.check_columns(table.columns, "t.csv")


def test_a_column_is_one_thing_and_codes_need_a_key() -> None:
    with pytest.raises(FednerError, match="the column note is named for two purposes"):
        TableColumns(("note",), codes=("note",))
    with pytest.raises(FednerError, match="need a secret key"):
        TableColumns(("note",), codes=("x",)).check_key(Rules())
    TableColumns(("note",), codes=("x",)).check_key(KEYED)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "latin-1"])
def test_other_encodings_come_out_as_they_were(tmp_path: Path, encoding: str) -> None:
    text = "note;x\r\nFrau Müller und Smith;é\r\n"
    data = text.encode(encoding)
    found = redacted(tmp_path / "t.csv", data, TableColumns(("note",)), encoding=encoding)
    assert found.data == text.replace("Smith", name("t.csv:2")).encode(encoding)


def test_a_packed_table_is_read(tmp_path: Path) -> None:
    found = redacted(tmp_path / "t.csv.gz", gzip.compress(b"note,x\nSmith,1\n"))
    assert b"Smith" not in found.data
    assert found.data.endswith(b",1\n")


_CELLS = st.text(
    st.one_of(st.sampled_from(',;"\t\n\r |é\u0301\u2028\U0001f600'), st.characters(codec="utf-8")),
    max_size=6,
).filter(lambda text: "\0" not in text and "\ufeff" not in text)


@given(
    rows=st.lists(st.tuples(_CELLS, _CELLS, _CELLS), min_size=1, max_size=4),
    delimiter=st.sampled_from(",;|\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_any_table_in_which_nothing_is_found_comes_out_as_it_was(
    rows: list[tuple[str, str, str]], delimiter: str, quoting: int, end: str, mark: str
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
    writer.writerow(("id", "note", "other"))
    writer.writerows(rows)
    data = (mark + text.getvalue()).encode()
    table = CsvTable(None, io.BytesIO(data), "csv", ("note",))
    changed = (ChangedRow(row, {}, {}) for row in table.rows())
    same = io.BytesIO()
    table.write(same, changed)
    assert same.getvalue() == data
    replaced = CsvTable(None, io.BytesIO(data), "csv", ("note",))
    found = io.BytesIO()
    replaced.write(found, (ChangedRow(row, {"note": 'a"\n,;'}, {}) for row in replaced.rows()))
    lines = io.StringIO(found.getvalue().decode().removeprefix("\ufeff"), newline="")
    again = list(csv.reader(lines, delimiter=delimiter, strict=True))
    assert again[1:] == [[first, 'a"\n,;', last] for first, _, last in rows]


def test_lines_of_json_keep_their_keys_and_spans_move(tmp_path: Path) -> None:
    header = {"fedner": "corpus", "version": 1, "labels": ["NAME", "Drug"]}
    spans = [
        {"start": 3, "end": 8, "label": "NAME", "confidence": 0.5, "text": "Smith"},
        {"start": 15, "end": 22, "label": "Drug"},
        {"fragments": [[0, 2], [5, 22]], "label": "Drug"},
    ]
    record = {"id": "1", "text": "Mr Smith takes aspirin.", "spans": spans, "segments": []}
    text = "\n".join(map(json.dumps, [header, record]))
    found = redacted(tmp_path / "t.jsonl", text, TableColumns(("text",), "id"), format="jsonl")
    first, second = (json.loads(line) for line in found.data.splitlines())
    who = name("1")
    assert first == header
    assert second["text"] == f"Mr {who} takes aspirin."
    assert second["spans"][0] == {
        "start": 3, "end": 3 + len(who), "label": "NAME", "confidence": 0.5,
    }  # fmt: skip
    places = second["spans"][1]
    assert second["text"][places["start"] : places["end"]] == "aspirin"
    assert second["spans"][2]["fragments"] == [[0, 2], [3, places["end"]]]
    assert "segments" not in second


def test_lines_of_json_that_may_hide_words_are_left_out(tmp_path: Path) -> None:
    lines = [
        {"note": "Smith", "n": 5, "yes": True, "none": None},
        {"note": "Smith", "words": ["Smith"]},
        {"note": ["Smith"]},
        {"other": "Smith"},
        {"note": "Smith", "spans": [{"start": 0, "end": 5, "label": "NAME"}]},
    ]
    text = "\n".join([*map(json.dumps, lines), "Smith", "[1]", ""])
    found = redacted(tmp_path / "t.jsonl", text, format="jsonl")
    record = json.loads(found.data)
    assert record == {"note": name("t.jsonl:1"), "n": 5, "yes": True, "none": None}
    assert [each.path.name for each in found.left_out] == [f"t.jsonl:{n}" for n in range(2, 8)]
    dropped = TableColumns(("note",), dropped=("words", "spans"))
    found = redacted(tmp_path / "t.jsonl", text, dropped, format="jsonl")
    assert len(found.data.splitlines()) == 3
    assert b"Smith" not in found.data


def test_a_line_of_json_that_is_not_utf_8_is_left_out(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"note":"Smith"}\n{"note":"\xff Smith"}\n{"note":"ok"}\n'
    found = redacted(tmp_path / "t.jsonl", data, format="jsonl")
    assert [json.loads(line)["note"] for line in found.data.splitlines()] == [
        name("t.jsonl:1"),
        "ok",
    ]
    assert [str(each.path) for each in found.left_out] == ["t.jsonl:2"]


def test_parquet_keeps_types_and_nothing_of_what_was_replaced(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    when = datetime(2021, 3, 5, 10, 30)
    table = arrow.table(
        {
            "mrn": arrow.array([7, 8, None], arrow.int32()),
            "note": arrow.array(["Smith", None, "on 2021-03-05"]).dictionary_encode(),
            "when": arrow.array([when, None, when], arrow.timestamp("ns")),
            "day": arrow.array([when.date()] * 3, arrow.date32()),
            "gone": ["Smith"] * 3,
            "tags": [["a"], [], ["b", "c"]],
        }
    ).replace_schema_metadata({"pandas": '{"columns": ["gone"]}', "own": "x"})
    path = tmp_path / "t.parquet"
    parquet.write_table(table, path, compression="zstd")
    columns = TableColumns(("note",), None, None, ("mrn",), ("when", "day"), ("gone",))
    found = Redacted(path, columns, KEYED, format="parquet")
    out = parquet.read_table(io.BytesIO(found.data))
    days = [PatientPseudonyms(KEY, f"t.parquet:{n}", KEYED.dates).days for n in (1, 2, 3)]
    assert out.column_names == ["mrn", "note", "when", "day", "tags"]
    assert out["mrn"].to_pylist() == [code("7"), code("8"), None]
    assert out["when"].to_pylist() == [when + timedelta(days[0]), None, when + timedelta(days[2])]
    assert out["day"].to_pylist() == [when.date() + timedelta(each) for each in days]
    assert out["tags"] == table["tags"]
    assert out.schema.field("note").type == table.schema.field("note").type
    assert out["note"].to_pylist()[0] == name("t.parquet:1")
    assert out.schema.metadata == {b"own": b"x"}
    assert b"Smith" not in found.data


def test_parquet_texts_of_left_out_values_do_not_stay_in_dictionaries(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    notes = arrow.DictionaryArray.from_arrays(arrow.array([0, 0]), arrow.array(["", "Smith"]))
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"note": notes}), path)
    found = Redacted(path, NOTE, KEYED, format="parquet")
    assert b"Smith" not in found.data


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (TableColumns(("tags",)), '"tags" holds list.*; expected text'),
        (TableColumns(("note",), codes=("day",)), '"day" holds date32.*; expected identifiers'),
        (TableColumns(("note",), dates=("n",)), '"n" holds int64; expected dates'),
    ],
)
def test_parquet_columns_of_other_types_are_refused(
    tmp_path: Path, columns: TableColumns, message: str
) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"note": ["a"], "tags": [["a"]], "day": [date(2021, 3, 5)], "n": [1]}
    parquet.write_table(arrow.table(table), tmp_path / "t.parquet")
    with pytest.raises(FednerError, match=message):
        open_table(tmp_path / "t.parquet", "parquet", columns)


def test_rows_without_text_do_not_wait_for_ever(tmp_path: Path) -> None:
    text = "note,x\n" + ",1\n" * 5 + "Smith,2\n" + ",3\n" * 2
    found = redacted(tmp_path / "t.csv", text)
    assert found.data.decode().replace(name("t.csv:7"), "Smith") == text
