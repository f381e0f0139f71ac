"""`read`: recognition, strict and lenient reading, duplicate ids, declared labels."""

import gzip
import json
from pathlib import Path

import pytest

from fedner.corpus.problems import InputProblemsError, ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import READERS
from fedner.corpus.reading import open_corpus, read, recognise
from fedner.errors import FednerError

BIO = "Took\tO\naspirin\tB-Drug\n\nfelt\tO\nsick\tB-ADE\n"


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.conll"
    path.write_text(BIO)
    return path


def test_the_table_names_every_format() -> None:
    assert list(READERS) == [
        *("cadec", "ade", "smm4h", "brat", "xmi", "i2b2", "bioc", "pubtator", "docbin"),
        *("hf-tokens", "label-studio", "presidio", "phi-queries", "prodigy", "doccano", "jsonl"),
        "columns",
    ]
    assert all(name == reader.name and reader.description for name, reader in READERS.items())


def test_reading_says_what_it_recognised_and_why(corpus_file: Path) -> None:
    recognition = recognise(corpus_file)
    assert recognition.format == "columns"
    assert "2 tab-separated columns" in recognition.why
    assert recognition.tag_scheme == "BIO"
    assert recognition.sentences == "as given"
    corpus = read(corpus_file)
    assert (corpus.name, corpus.labels, len(corpus)) == ("clinic", ("ADE", "Drug"), 2)
    assert read(str(corpus_file), "columns", name="x").name == "x"


def test_strict_reading_collects_every_problem(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(BIO + "bad\n")
    (tmp_path / "b.txt").write_text(BIO + "x\tDrug\n")
    with pytest.raises(InputProblemsError) as caught:
        read(tmp_path)
    assert caught.value.log.counts == {"wrong column count": 1, "unknown tag": 1}
    message = str(caught.value)
    assert f"{tmp_path / 'a.txt'}:6: wrong column count" in message
    assert f"{tmp_path / 'b.txt'}:6: unknown tag" in message
    assert "--lenient" in caught.value.hint
    log = ProblemLog()
    assert len(read(tmp_path, lenient=True, log=log)) == 4
    assert log.total == 2


def test_streaming_reports_only_as_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(BIO + "bad\n")
    _, documents, log = open_corpus(path)
    assert log.total == 0
    assert len(list(documents)) == 2
    assert log.total == 1


def test_duplicate_ids_are_reported_and_the_first_is_kept(tmp_path: Path) -> None:
    for name, text in (("a.jsonl", "first"), ("b.jsonl", "second")):
        (tmp_path / name).write_text(json.dumps({"id": "7", "text": text}) + "\n")
    with pytest.raises(InputProblemsError, match='duplicate id: found "7" again'):
        read(tmp_path)
    assert [document.text for document in read(tmp_path, lenient=True)] == ["first"]


def test_column_files_of_one_name_in_different_packing_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(BIO)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(BIO.encode()))
    identities = [document.id for document in read(tmp_path)]
    assert len(set(identities)) == 4


def test_declared_labels_stand_whether_or_not_they_occur(corpus_file: Path) -> None:
    options = ReadOptions(labels=("Never", "Drug", "ADE"))
    assert read(corpus_file, options=options).labels == ("ADE", "Drug", "Never")
    narrow = ReadOptions(labels=("Drug",))
    with pytest.raises(InputProblemsError, match='the label "ADE"'):
        read(corpus_file, options=narrow)
    corpus = read(corpus_file, options=narrow, lenient=True)
    assert corpus.labels == ("Drug",)
    assert [len(document.spans) for document in corpus] == [1, 0]


def test_unknown_formats_and_paths_come_with_the_nearest(corpus_file: Path) -> None:
    with pytest.raises(FednerError, match='found "column"') as caught:
        read(corpus_file, "column")
    assert caught.value.hint == 'Did you mean "columns"?'
    with pytest.raises(FednerError, match="no such file") as caught:
        read(corpus_file.with_name("clinc.conll"))
    assert "clinic.conll" in caught.value.hint


def test_nothing_recognised_says_what_was_looked_for_and_found(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Prose\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(FednerError, match=r"found a folder with 1 \.md, 1 folder") as caught:
        read(tmp_path)
    assert all(name in caught.value.hint for name in READERS)
    assert "--format" in caught.value.hint
    (inner / "a.txt").write_text(BIO)
    with pytest.raises(FednerError) as caught:
        read(tmp_path)
    assert f"{inner} looks like columns" in caught.value.hint
    with pytest.raises(FednerError, match='begins "# Prose"'):
        read(tmp_path / "notes.md")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty file"),
        (b"\xfd7zXZ\x00", "unreadable file"),
        ("a\tO\n".encode("utf-16"), "not UTF-8"),
    ],
)
@pytest.mark.parametrize("name", ["a.conll", "a.jsonl"])
def test_a_file_without_readable_content_is_a_problem_not_a_riddle(
    tmp_path: Path, content: bytes, kind: str, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    _, documents, log = open_corpus(path)
    assert list(documents) == []
    assert log.counts == {kind: 1}


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 50, b"\xff" * 50, b"{", b"T1\tX 0 1\ta\n", b"\x1f\x8b"]
)
def test_recognisers_never_raise(tmp_path: Path, content: bytes) -> None:
    for name in ("a.txt", "a.ann", "a.jsonl", "a.rel", "task3_training.tsv", "DRUG-AE.rel"):
        (tmp_path / name).write_bytes(content)
    for path in (tmp_path, *tmp_path.iterdir(), tmp_path / "missing"):
        for reader in READERS.values():
            assert reader.recognise(path) is None or reader.recognise(path)


@pytest.mark.data
def test_real_folders_of_other_things_are_refused(data: Path) -> None:
    for folder in ("glove-6b", "elmo-fixtures", "flair-news-fast"):
        with pytest.raises(FednerError, match="no known format"):
            read(data / folder)
