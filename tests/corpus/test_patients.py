"""Whose text a document is: from a table, a column or the names of the files, in every reader."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from format_fixtures import FIXTURES

from fedner.corpus import reading
from fedner.corpus.patients import PatientSource
from fedner.corpus.problems import InputProblemsError, ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import READERS
from fedner.errors import FednerError


def owners(path: Path, **patients: object) -> dict[str, str | None]:
    options = ReadOptions(patients=PatientSource(**patients))  # type: ignore[arg-type]
    return {document.id: document.patient for document in reading.read(path, options=options)}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    for name in ("p1_a", "p1_b", "p2_a"):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.txt").write_text("Aspirin helped.\nNo rash.\n")
        (folder / f"{name}.ann").write_text("T1\tDrug 0 7\tAspirin\n")
    return folder


@pytest.mark.parametrize("name", FIXTURES)
def test_a_table_and_a_pattern_serve_every_reader(tmp_path: Path, name: str) -> None:
    format_name, make = FIXTURES[name]
    path = make(tmp_path)
    documents = list(
        READERS[format_name].stream(path, ProblemLog(), READERS[format_name].options())
    )
    assert documents
    table = tmp_path / "table.tsv"
    rows = [f"{document.id}\tpatient {number}" for number, document in enumerate(documents)]
    table.write_text("document\tpatient\n" + "\n".join(rows) + "\n")
    by_table = ReadOptions(patients=PatientSource(table))
    found = reading.read(path, format_name, lenient=True, options=by_table).documents
    assert [each.patient for each in found] == [f"patient {n}" for n in range(len(documents))]
    by_pattern = ReadOptions(patients=PatientSource(pattern=r"(?P<patient>\w)"))
    found = reading.read(path, format_name, lenient=True, options=by_pattern).documents
    assert all(each.patient is not None and each.patient in each.source for each in found)


@pytest.mark.parametrize("text", [
    "document,patient\np1_a,one\np1_b,one\np2_a,two\n",
    "\ufeffage,patient,document\r\n7,one,p1_a\r\n7,one,p1_b\r\n9,two,\"p2_a\"\r\n",
    "p1_a.txt\tone\n\np1_b.txt\tone\np2_a.txt\ttwo\n",
])  # fmt: skip
def test_tables_as_people_have_them(notes: Path, text: str) -> None:
    table = notes.parent / "patients.csv"
    table.write_bytes(text.encode())
    assert owners(notes, file=table) == {"p1_a": "one", "p1_b": "one", "p2_a": "two"}


def test_a_table_with_faults_names_file_and_line(notes: Path) -> None:
    table = notes.parent / "patients.csv"
    table.write_text("document,patient\np1_a,one\np1_a,two\np1_x,one\np1_b\n")
    with pytest.raises(InputProblemsError) as caught:
        owners(notes, file=table)
    text = caught.value.message
    assert 'patients.csv:3: two patients: found the patient "two" for "p1_a"' in text
    assert 'patients.csv:4: unknown document: found the document "p1_x"' in text
    assert 'Did you mean "p1_' in text
    assert "patients.csv:5: malformed line" in text
    with pytest.raises(FednerError, match="no such file"):
        owners(notes, file=notes.parent / "none.csv")


def test_a_pattern_of_the_file_name(notes: Path) -> None:
    expected = {"p1_a": "p1", "p1_b": "p1", "p2_a": "p2"}
    assert owners(notes, pattern=r"^(?P<patient>[^_]+)_") == expected
    assert owners(notes, pattern=r"(?P<patient>p1)_") == {**expected, "p2_a": None}
    for wrong in ("(p1)_", "(?P<patient>"):
        with pytest.raises(FednerError, match=r"pattern .* (has no group|is not a regular)"):
            owners(notes, pattern=wrong)


def test_a_table_against_what_the_corpus_says(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "a", "patient": "p"}\n')
    table = tmp_path / "t.csv"
    table.write_text("1,q\n")
    with pytest.raises(InputProblemsError, match=r't.csv:1: two patients: .*"q" for "1".*"p"'):
        owners(path, file=table)


def jsonl(folder: Path) -> tuple[Path, str]:
    path = folder / "a.jsonl"
    path.write_text('{"id": "1", "text": "a", "mrn": 7}\n{"id": "2", "text": "b", "mrn": "x"}\n')
    return path, "mrn"


def doccano(folder: Path) -> tuple[Path, str]:
    path = folder / "d.jsonl"
    rows = [
        {"id": n, "text": "a b", "label": [[0, 1, "X"]], "mrn": m} for n, m in ((1, 7), (2, "x"))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path, "mrn"


def prodigy(folder: Path) -> tuple[Path, str]:
    path = folder / "p.jsonl"
    rows = [
        {"text": "a b", "answer": "accept", "spans": [], "meta": {"mrn": m}} for m in ("7", "x")
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path, "mrn"


def label_studio(folder: Path) -> tuple[Path, str]:
    path = folder / "l.json"
    rows = [
        {"id": n, "data": {"text": "a b", "mrn": m}, "annotations": [{"result": []}]}
        for n, m in ((1, "7"), (2, "x"))
    ]
    path.write_text(json.dumps(rows))
    return path, "mrn"


def hf_jsonl(folder: Path) -> tuple[Path, str]:
    path = folder / "h.jsonl"
    rows = [{"tokens": ["a", "b"], "ner_tags": ["O", "B-X"], "mrn": m} for m in ("7", "x")]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path, "mrn"


def parquet(folder: Path) -> tuple[Path, str]:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    columns = {"tokens": [["a"], ["b"]], "ner_tags": [["B-X"], ["O"]], "mrn": ["7", "x"]}
    files.write_table(arrow.table(columns), folder / "h.parquet")
    return folder / "h.parquet", "mrn"


def bioc(folder: Path) -> tuple[Path, str]:
    path = folder / "b.json"
    documents = [
        {"id": str(n), "infons": {"mrn": m}, "passages": [{"offset": 0, "text": "a b"}]}
        for n, m in ((1, "7"), (2, "x"))
    ]
    path.write_text(json.dumps({"source": "s", "documents": documents}))
    return path, "mrn"


def smm4h(folder: Path) -> tuple[Path, str]:
    path = folder / "task3_training.tsv"
    head = [
        "tweet_id",
        "begin",
        "end",
        "type",
        "extraction",
        "drug",
        "tweet",
        "meddra_code",
        "meddra_term",
        "mrn",
    ]
    rows = [
        head,
        ["1", "", "", "", "", "", "a b", "", "", "7"],
        ["2"] + [""] * 5 + ["c d", "", "", "x"],
    ]
    path.write_text("\n".join("\t".join(row) for row in rows) + "\n")
    return path, "mrn"


def tokens(folder: Path) -> tuple[Path, str]:
    path = folder / "c.tsv"
    path.write_text("a\t7\tO\nb\t7\tB-X\n\nc\tx\tO\n\n")
    return path, "1"


def marked_tokens(folder: Path) -> tuple[Path, str]:
    path = folder / "c.conll"
    path.write_text("a _ O\n\nb 7 B-X\n\n-DOCSTART- -X- O\n\nc x O\nd x B-X\n\ne x O\n")
    return path, "-2"


@pytest.mark.parametrize("make", [
    jsonl, doccano, prodigy, label_studio, hf_jsonl, parquet, bioc, smm4h, tokens, marked_tokens,
])  # fmt: skip
def test_a_column_or_key(tmp_path: Path, make: Callable[[Path], tuple[Path, str]]) -> None:
    path, column = make(tmp_path)
    assert list(owners(path, column=column).values()) == ["7", "x"]
    with pytest.raises(FednerError, match=r"no such column|the lines have 3 columns"):
        owners(path, column="9")


def test_two_patients_in_one_document_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "c.tsv"
    path.write_text("-DOCSTART-\tO\tO\n\na\t7\tO\n\nb\tx\tB-X\n")
    with pytest.raises(InputProblemsError, match=r"c.tsv:5: two patients: found the patient"):
        owners(path, column="1")


def test_a_column_needs_a_format_with_columns(notes: Path) -> None:
    with pytest.raises(FednerError, match=r"brat .* has no columns"):
        owners(notes, column="1")
    with pytest.raises(FednerError, match="exactly one of file, column and pattern"):
        PatientSource(column="1", pattern="(?P<patient>.)")
