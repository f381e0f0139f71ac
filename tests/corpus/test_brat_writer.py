"""brat written: all that it can carry comes back, what it cannot is counted or refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from test_jsonl import corpora

from fedner.corpus.document import Corpus, Document, Segment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.reading import read
from fedner.corpus.writers import WRITERS, WriteOptions, brat, write_brat
from fedner.errors import FednerError


def bare(corpus: Corpus) -> list[Document]:
    """What brat can carry of the documents, in the order in which they come back."""
    return sorted(
        (
            replace(each, segments=None, patient=None, source=f"{each.id}.txt")
            for each in corpus
            if each.text
        ),
        key=lambda each: each.id,
    )


@given(corpora())
@settings(max_examples=80, deadline=None)
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, corpus: Corpus
) -> None:
    folder = tmp_path_factory.mktemp("brat") / "out"
    corpus = replace(corpus, labels=("A", "B", "Never", "ü-x"))
    if any("\0" in each.text or each.text.startswith("\ufeff") for each in corpus):
        with pytest.raises(FednerError, match="which brat cannot carry"):
            write_brat(folder, corpus)
        assert not folder.exists()
        return
    losses = write_brat(folder, corpus).losses
    log = ProblemLog()
    if bare(corpus):
        found = read(folder, log=log)
        assert list(found) == bare(corpus)
        assert found.labels == corpus.labels  # those that never occur too
    expected = {
        brat.LOST_SENTENCES: sum(each.segments is not None for each in corpus),
        brat.LOST_PATIENTS: sum(each.patient is not None for each in corpus),
        brat.LOST_EMPTY: sum(not each.text for each in corpus),
    }
    assert losses == {what: count for what, count in expected.items() if count}


def test_discontinuous_mentions_and_line_breaks(tmp_path: Path) -> None:
    text = "Pain in knees\r\nand hips\nhurts"
    spans = (Span(((0, 7), (19, 23)), "ADE"), Span.of(8, 23, "ADE"), Span.of(8, 23, "ADE"))
    write_brat(tmp_path / "out", Corpus("c", ("ADE",), (Document("a/b", text, spans),)))
    lines = (tmp_path / "out/a/b.ann").read_text().split("\n")
    assert lines[0] == "T1\tADE 0 7;19 23\tPain in hips"
    assert lines[1] == "T2\tADE 8 23\tknees and hips"
    (document,) = read(tmp_path / "out")
    assert (document.id, document.text, document.spans) == ("a/b", text, spans)


@pytest.mark.parametrize(
    "identity",
    ["../up", "/root", "", ".hidden", "a//b", "a/./b", "a\\b", "x" * 300, "a:b", "__MACOSX/a",
     "nul\0", "b.txt/c", " a", "dot.", "\ud800"],
)  # fmt: skip
def test_an_id_that_no_file_can_have_is_replaced_and_counted(tmp_path: Path, identity: str) -> None:
    documents = (Document(identity, "one"), Document("document-000001", "two"))
    losses = write_brat(tmp_path / "out", Corpus("c", (), documents)).losses
    assert losses == {brat.LOST_IDS: 1}
    found = read(tmp_path / "out")
    assert {document.text for document in found} == {"one", "two"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_ids_that_differ_in_case_alone_get_files_of_their_own(tmp_path: Path) -> None:
    documents = (Document("A", "one"), Document("a", "two"))
    assert write_brat(tmp_path / "out", Corpus("c", (), documents)).losses == {brat.LOST_IDS: 1}
    assert len(read(tmp_path / "out")) == 2


@pytest.mark.parametrize("label", ["two words", "", "!x", "-x", "#x", "[x]", "a\tb"])
def test_a_label_that_brat_cannot_carry_is_refused(tmp_path: Path, label: str) -> None:
    corpus = Corpus("c", (), (Document("1", "x", (Span.of(0, 1, label),)),))
    with pytest.raises(FednerError, match="brat cannot carry the label"):
        write_brat(tmp_path / "out", corpus)
    assert list(tmp_path.iterdir()) == []


def test_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="surrogate"):
        write_brat(tmp_path / "out", Corpus("c", (), (Document("1", "a\ud800"),)))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    corpus = Corpus("c", (), (Document("1", "x", segments=(Segment(0, 1),)),))
    (tmp_path / "mine").mkdir()
    assert WRITERS["brat"].write(tmp_path / "mine", corpus, WriteOptions()).losses  # empty: taken
    kept = sorted(path.name for path in (tmp_path / "mine").iterdir())
    assert kept == ["1.ann", "1.txt", "annotation.conf"]
    with pytest.raises(FednerError, match="a folder with files in it"):
        write_brat(tmp_path / "mine", corpus)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FednerError, match="is a file"):
        write_brat(tmp_path / "file", corpus)
    assert (tmp_path / "file").read_text() == "x"
