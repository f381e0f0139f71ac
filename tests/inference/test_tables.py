"""Notes in tables: rows become documents, what cannot be read is named by its line."""

import gzip
import io
from pathlib import Path

import pytest

from fedner.corpus.document import Document
from fedner.errors import FednerError
from fedner.inference.inputs import open_input
from fedner.inference.notes import LeftOut
from fedner.inference.tables import Columns

COLUMNS = Columns("note", "key", "patient")
CSV = 'key,patient,note\n7,p1,"Took aspirin,\nthen ""rested"".\n"\n8,p2,Rash.\n'


def rows(
    path: Path, columns: Columns = COLUMNS, **options: str
) -> tuple[list[Document], list[LeftOut]]:
    opened = open_input(path, columns=columns, **options)  # type: ignore[arg-type]
    return list(opened.documents), opened.left_out


def test_rows_are_documents_with_ids_and_patients(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(CSV)
    found, left_out = rows(path)
    assert [(each.id, each.patient) for each in found] == [("7", "p1"), ("8", "p2")]
    assert found[0].text == 'Took aspirin,\nthen "rested".\n', "as it is, line breaks included"
    assert [each.source for each in found] == ["export.csv:2", "export.csv:5"]
    assert left_out == []
    numbered, _ = rows(path, Columns("note"))
    assert [each.id for each in numbered] == ["export.csv:2", "export.csv:5"]


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("a.csv", CSV.replace(",p", ";p").replace(",", ";", 2).replace("p1,", "p1;"), None),
        ("a.tsv", "key\tpatient\tnote\n7\tp1\tTook aspirin, café\n", None),
        ("a.csv", "\ufeffkey,patient,note\r\n7,p1,café\r\n", None),
        ("a.csv", "key,patient,note\n7,p1,café\n", "cp1252"),
        ("a.tab", "key\tpatient\tnote\n7\tp1\tcafé\n", "utf-16"),
    ],
)
def test_delimiters_and_encodings(
    name: str, text: str, encoding: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    text = text.replace("8,p2,Rash.\n", "")
    path.write_bytes(text.encode(encoding or "utf-8"))
    opened = open_input(path, "auto", encoding, columns=COLUMNS)
    (only,) = opened.documents
    assert (only.id, only.patient) == ("7", "p1")
    assert "aspirin" in only.text or only.text == "café"


def test_what_cannot_be_read_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("key,patient,note\n1,p,Rash.\n2,p\n3,p,\n\n1,p,Fever.\n5,p,x,y\n")
    found, left_out = rows(path)
    assert [each.id for each in found] == ["1", "1#6"], "two rows of one key are two notes"
    assert [(each.path.name, each.is_refused) for each in left_out] == [
        ("a.csv:3", True),
        ("a.csv:4", False),
        ("a.csv:7", True),
    ]


def test_columns_must_be_there_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("key,note,note\n1,a,b\n")
    with pytest.raises(FednerError, match=r'no column "patient"; found key, note, note'):
        rows(path, Columns("key", None, "patient"))
    with pytest.raises(FednerError, match=r'more than one column "note"'):
        rows(path, Columns("note"))
    with pytest.raises(FednerError, match="is a table with the columns key, note") as caught:
        open_input(path)
    assert "--text-column" in caught.value.hint
    with pytest.raises(FednerError, match="no --text-column"):
        open_input(path, "csv")
    with pytest.raises(FednerError, match="for tables"):
        open_input(path, "lines", columns=COLUMNS)


def test_broken_tables_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'note\nfine\n"never closed\n')
    with pytest.raises(FednerError, match=r"line 3 is not valid CSV"):
        rows(path, Columns("note"))
    path.write_bytes(b"note\n" + b"fine\n" * 5000 + b"caf\xe9\n")
    with pytest.raises(FednerError, match="not UTF-8") as caught:
        rows(path, Columns("note"))
    assert "--encoding" in caught.value.hint
    path.write_bytes(b"%PDF-1.7")
    with pytest.raises(FednerError, match="a PDF"):
        rows(path, Columns("note"))
    with pytest.raises(FednerError, match="no such file"):
        rows(tmp_path / "b.csv", Columns("note"))


def test_compressed_tables_folders_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    (tmp_path / "b.tsv").write_text("key\tpatient\tnote\n9\tp\tFever.\n")
    (tmp_path / "readme.md").write_text("x")
    found, _ = rows(tmp_path)
    assert [each.id for each in found] == ["7", "8", "9"]
    piped = open_input(Path("-"), columns=COLUMNS, stdin=io.BytesIO(CSV.encode()))
    assert [each.id for each in piped.documents] == ["7", "8"]


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra formats")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    texts = ["Took aspirin.\n", None, *["Rash."] * 300]
    table = pyarrow.table({"key": range(302), "note": texts, "age": range(302)})
    parquet.write_table(table, path)
    found, left_out = rows(path, Columns("note", "key"))
    assert len(found) == 301
    assert [found[0].id, found[1].id, found[-1].id] == ["0", "2", "301"]
    assert [(each.path.name, each.why) for each in left_out] == [
        ("a.parquet:2", "a row without text")
    ]
    with pytest.raises(FednerError, match=r'no column "text"; found key, note, age'):
        rows(path, Columns("text"))
    with pytest.raises(FednerError, match="holds int64; expected text"):
        rows(path, Columns("age"))
    with pytest.raises(FednerError, match="is a table with the columns"):
        open_input(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FednerError, match="not a parquet file"):
        rows(path, Columns("note"))
