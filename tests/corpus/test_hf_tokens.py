"""Hugging Face: where the names of tags come from, schemes, rows that are malformed."""

import json
from pathlib import Path

import pytest
from format_fixtures import NEEDS_FORMATS, hf_parquet, hf_tokens

from fedner.corpus.document import Corpus, Segment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import hf_tokens as reader
from fedner.corpus.reading import read, recognise

ROW = {"tokens": ["mild", "nausea"], "ner_tags": [1, 2]}
NAMES = ["O", "B-ADE", "I-ADE"]
CARD = """---
dataset_info:
  features:
  - name: id
    dtype: string
  - name: tokens
    sequence: string
  - name: ner_tags
    sequence:
      class_label:
        names:
          '0': O
          '1': B-ADE
          '2': I-ADE
  splits:
  - name: train
    num_bytes: 5
---
# A data set
"""


def put(folder: Path, *rows: object) -> Path:
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_rows(folder: Path, *rows: object) -> tuple[Corpus, ProblemLog]:
    log = ProblemLog()
    return read(put(folder, *rows), "hf-tokens", lenient=True, log=log), log


def test_a_folder_with_its_names_above_the_data(tmp_path: Path) -> None:
    corpus = read(hf_tokens(tmp_path))
    first, second = corpus
    assert corpus.labels == ("ADE", "Drug")
    assert (first.id, first.source) == ("data/train.jsonl#1", "data/train.jsonl")
    assert first.text == "Ow 😀 mild nausea ."
    assert first.spans == (Span.of(5, 16, "ADE"),)
    assert first.segments == (Segment(0, 18, (0, 3, 5, 10, 17), (2, 4, 9, 16, 18)),)
    assert second.spans == (Span.of(0, 7, "Drug"),)


def test_parquet_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BATCH_ROWS", 1)
    first, second = read(hf_parquet(tmp_path))
    assert (first.text, first.spans) == ("Ow nausea", (Span.of(3, 9, "ADE"),))
    assert (second.text, second.spans) == ("x", ())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("README.md", CARD),
        ("label.json", json.dumps({name: number for number, name in enumerate(NAMES)})),
        ("labels.json", json.dumps(NAMES)),
        ("dataset_infos.json", json.dumps({"default": {"features": {"ner_tags": {
            "feature": {"names": NAMES, "_type": "ClassLabel"}}}}})),
    ],
)  # fmt: skip
def test_where_the_names_of_tags_may_stand(tmp_path: Path, name: str, content: str) -> None:
    put(tmp_path, ROW)
    (tmp_path / name).write_text(content)
    corpus = read(tmp_path)
    assert corpus.documents[0].spans == (Span.of(0, 11, "ADE"),)
    assert corpus.labels == ("ADE",)


def test_numbers_without_names_are_told(tmp_path: Path) -> None:
    corpus, log = read_rows(tmp_path, ROW)
    assert len(corpus) == 0
    assert log.counts == {"unknown tag": 1}
    assert "dataset_info.json" in log.problems[0].expected


def test_tags_as_strings_and_their_scheme(tmp_path: Path) -> None:
    row = {"words": ["a", "b", "c"], "tags": ["S-X", "B-Y", "E-Y"]}
    path = put(tmp_path, row)
    assert recognise(path).tag_scheme == "BIOES"
    assert read(path).documents[0].spans == (Span.of(0, 1, "X"), Span.of(2, 5, "Y"))
    options = ReadOptions({"scheme": "BIO"})
    log = ProblemLog()
    read(path, options=options, lenient=True, log=log)
    assert log.counts == {"illegal tag": 2}


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"tokens": ["a"], "ner_tags": ["O", "O"]}, "wrong column count"),
        ({"tokens": ["a"], "ner_tags": [1.5]}, "malformed line"),
        ({"tokens": [5], "ner_tags": ["O"]}, "malformed line"),
        ({"tokens": "a", "ner_tags": ["O"]}, "malformed line"),
        ({"tokens": ["a"], "ner_tags": ["Drug"]}, "unknown tag"),
        ({"text": "a"}, "malformed line"),
    ],
)
def test_what_is_wrong_with_a_row(tmp_path: Path, row: dict, kind: str) -> None:
    good = {"tokens": ["b"], "ner_tags": ["B-X"]}
    corpus, log = read_rows(tmp_path, good, row)
    assert log.counts == {kind: 1}
    assert log.problems[0].line == 2
    assert corpus.documents[0].spans == (Span.of(0, 1, "X"),)


def test_an_empty_row_and_an_empty_token(tmp_path: Path) -> None:
    corpus, log = read_rows(
        tmp_path,
        {"tokens": ["a", ""], "ner_tags": ["O", "B-X"]},
        {"tokens": [], "ner_tags": []},
    )
    assert [document.text for document in corpus] == ["a \ufffd", ""]
    assert corpus.documents[1].segments == ()
    assert log.total == 0


def test_a_damaged_parquet_file_is_told(tmp_path: Path) -> None:
    path = hf_parquet(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    log = ProblemLog()
    assert len(read(path, lenient=True, log=log)) == 0
    assert log.counts == {"unreadable file": 1}


def test_parquet_of_something_else_is_told(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason=NEEDS_FORMATS)
    parquet = pytest.importorskip("pyarrow.parquet", reason=NEEDS_FORMATS)
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "a.parquet")
    log = ProblemLog()
    read(tmp_path, lenient=True, log=log)
    assert "without tokens and ner_tags" in log.problems[0].found
