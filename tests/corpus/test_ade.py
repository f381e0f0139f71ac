"""The ADE Corpus V2 reader: relations merged, sentences found in the document, bad rows."""

import gzip
import lzma
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import ade
from fedner.corpus.readers.options import NoOptions


def read(path: Path) -> tuple[list[Document], ProblemLog]:
    log = ProblemLog()
    return list(ade.READER.stream(path, log, NoOptions())), log


def row(sentence: str, origin: int, first: int, drug: int, *, pubmed_id: str = "1") -> str:
    """A row for the words at two positions of a sentence that begins at `origin`."""
    words = {match: sentence[match:].partition(" ")[0].strip(".,") for match in (first, drug)}
    cells = [pubmed_id, sentence]
    for position in (first, drug):
        begin = origin + position
        cells += [words[position], str(begin), str(begin + len(words[position]))]
    return "|".join(cells)


def read_rows(folder: Path, *rows: str) -> tuple[list[Document], ProblemLog]:
    (folder / "DRUG-AE.rel").write_text("".join(f"{line}\n" for line in rows))
    return read(folder)


RASH = "Rash after aspirin, then rash and pain after aspirin again."
RASH_2, PAIN = RASH.index("rash"), RASH.index("pain")
ASPIRIN_1, ASPIRIN_2 = RASH.index("aspirin"), RASH.rindex("aspirin")


def test_merges_the_rows_of_a_sentence(tmp_path: Path) -> None:
    documents, log = read_rows(
        tmp_path,
        row(RASH, 300, 0, ASPIRIN_1),
        row(RASH, 300, RASH_2, ASPIRIN_2),
        row(RASH, 300, PAIN, ASPIRIN_2),
    )
    assert documents == [
        Document(
            "1",
            RASH,
            (
                Span.of(0, 4, "ADE"),
                Span.of(ASPIRIN_1, ASPIRIN_1 + 7, "Drug"),
                Span.of(RASH_2, RASH_2 + 4, "ADE"),
                Span.of(PAIN, PAIN + 4, "ADE"),
                Span.of(ASPIRIN_2, ASPIRIN_2 + 7, "Drug"),
            ),
            (Segment(0, len(RASH)),),
            source="DRUG-AE.rel",
        )
    ]
    assert (log.total, dict(log.remarks)) == (0, {})


def test_rows_of_a_sentence_settle_what_one_row_leaves_open(tmp_path: Path) -> None:
    sentence = "drug x pain, drug x pain, drug x ache"
    documents, log = read_rows(tmp_path, row(sentence, 50, 20, 13), row(sentence, 50, 33, 26))
    assert documents[0].spans == (
        Span.of(13, 17, "Drug"),
        Span.of(20, 24, "ADE"),
        Span.of(26, 30, "Drug"),
        Span.of(33, 37, "ADE"),
    )
    assert log.total == 0


def test_sentences_stand_in_the_order_of_the_document(tmp_path: Path) -> None:
    early, late = "aspirin gave pain.", "ibuprofen gave rash."
    documents, log = read_rows(
        tmp_path,
        row(late, 200, 15, 0),
        row("x gave y", 9, 7, 0, pubmed_id="2"),
        row(early, 20, 13, 0),
    )
    assert [document.id for document in documents] == ["1", "2"]
    assert documents[0].text == f"{early}\n{late}"
    assert documents[0].segments == (Segment(0, 18), Segment(19, 39))
    assert [span.text_in(documents[0].text) for span in documents[0].spans] == [
        "aspirin",
        "pain",
        "ibuprofen",
        "rash",
    ]
    assert log.total == 0


def test_a_sentence_of_two_articles_is_one_sentence_and_two_documents(tmp_path: Path) -> None:
    title = "aspirin and pain"
    documents, log = read_rows(tmp_path, row(title, 9, 12, 0), row(title, 9, 12, 0, pubmed_id="2"))
    assert [(len(document.spans), document.segments) for document in documents] == [
        (2, (Segment(0, 16),)),
        (2, ()),
    ]
    assert log.total == 0
    assert log.remarks == {ade.REMARK_REPEATED: 1}


def test_a_sentence_that_a_document_repeats_has_two_places(tmp_path: Path) -> None:
    title = "aspirin and pain"
    documents, log = read_rows(tmp_path, row(title, 90, 12, 0), row(title, 9, 12, 0))
    assert documents[0].text == f"{title}\n{title}"
    assert [span.start for span in documents[0].spans] == [0, 12, 17, 29]
    assert log.total == 0


def test_doses_join_their_documents(tmp_path: Path) -> None:
    sentence = "aspirin 5mg gave pain"
    (tmp_path / "DRUG-AE.rel.gz").write_bytes(
        gzip.compress(row(sentence, 40, 17, 0).encode() + b"\r\n")
    )
    (tmp_path / "DRUG-DOSE.rel.xz").write_bytes(lzma.compress(row(sentence, 40, 8, 0).encode()))
    (tmp_path / "ADE-NEG.txt").write_text("3 NEG Nothing happened.\n")
    documents, log = read(tmp_path)
    assert [document.spans for document in documents] == [
        (Span.of(0, 7, "Drug"), Span.of(8, 11, "Dosage"), Span.of(17, 21, "ADE"))
    ]
    assert log.total == 0
    assert log.remarks[ade.REMARK_NEGATIVES] == 1
    assert ade.declared_labels(tmp_path) == ("ADE", "Dosage", "Drug")
    assert ade.declared_labels(tmp_path / "DRUG-AE.rel.gz") == ("ADE", "Drug")
    assert ade.declared_labels(tmp_path / "DRUG-DOSE.rel.xz") == ("Dosage", "Drug")
    assert [span.label for span in read(tmp_path / "DRUG-DOSE.rel.xz")[0][0].spans] == [
        "Drug",
        "Dosage",
    ]


def test_negatives_by_themselves_are_documents_without_mentions(tmp_path: Path) -> None:
    file = tmp_path / "ADE-NEG.txt"
    file.write_text("3 NEG Nothing happened.\n4 NEG Nor here.\n3 NEG Nor | then.\n5 POS no\n\n")
    assert ade.READER.recognise(file)
    documents, log = read(file)
    assert [(document.id, document.text, document.spans) for document in documents] == [
        ("3", "Nothing happened.\nNor | then.", ()),
        ("4", "Nor here.", ()),
    ]
    assert documents[0].segments == (Segment(0, 17), Segment(18, 29))
    assert [(problem.kind, problem.line) for problem in log.problems] == [("malformed line", 4)]
    assert ade.declared_labels(file) == ("ADE",)


GOOD = "1|aspirin gave pain.|pain|33|37|aspirin|20|27"


@pytest.mark.parametrize(
    ("line", "kinds", "labels"),
    [
        ("1|aspirin gave pain.|pain|33|37|aspirin|20", {"wrong column count": 1}, []),
        ("1|a | b|pain|33|37|aspirin|20|27", {"wrong column count": 1}, []),
        ("no row at all", {"wrong column count": 1}, []),
        ("1|aspirin gave ache.|ache|x|37|aspirin|20|27", {"malformed line": 1}, ["ADE", "Drug"]),
        ("1|aspirin gave ache.|ache|33|37|aspirin|2.0|27", {"malformed line": 1}, ["ADE", "Drug"]),
        ("?|aspirin gave ache.|ache|33|37|aspirin|20|27", {"malformed line": 1}, ["ADE", "Drug"]),
        (f"1|a gave b.|b|{'9' * 5000}|37|a|20|27", {"malformed line": 1}, ["ADE", "Drug"]),
        ("1|aspirin gave ache.|rash|33|37|aspirin|20|27", {"mention not found": 1}, ["ADE"]),
        ("1|aspirin gave ache.||33|37|aspirin|20|27", {"mention not found": 1}, ["ADE"]),
        (
            "1|aspirin gave ache.|rash|33|37|ibuprofen|20|29",
            {"mention not found": 2},
            ["ADE", "Drug"],
        ),
        (
            "1|aspirin gave ache.|ache|99|103|aspirin|20|27",
            {"offset and quote differ": 2},
            ["ADE", "Drug"],
        ),
        ("1|aspirin gave ache.|ache|33|33|aspirin|20|27", {"zero-length span": 1}, ["ADE"]),
        ("1|aspirin gave ache.|ache|33|99|aspirin|20|27", {"offset outside the text": 1}, ["ADE"]),
        ("1|aspirin gave ache.|ache|33|30|aspirin|20|27", {"offset outside the text": 1}, ["ADE"]),
    ],
)
def test_bad_rows_are_reported_and_the_others_read(
    tmp_path: Path, line: str, kinds: dict[str, int], labels: list[str]
) -> None:
    documents, log = read_rows(tmp_path, GOOD, line, "", "2" + GOOD[1:])
    assert {"1", "2"} == {document.id for document in documents}
    assert documents[0].text.split("\n")[0] == "aspirin gave pain."
    assert {Span.of(0, 7, "Drug"), Span.of(13, 17, "ADE")} <= set(documents[0].spans)
    assert log.counts == kinds
    assert {problem.line for problem in log.problems} == {2}
    assert [label for _, label, _ in log.skipped_mentions] == labels
    assert log.kept == 0


def test_a_bad_row_is_placed_by_the_other_rows_of_its_sentence(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, GOOD, "1|aspirin gave pain.|rash|33|37|aspirin|20|27")
    assert len(documents[0].spans) == 2
    assert log.counts == {"mention not found": 1}


def test_an_end_that_differs_from_the_string_wins(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, "1|aspirin gave pains.|pain|33|38|aspirin|20|27")
    assert Span.of(13, 18, "ADE") in documents[0].spans
    assert [(problem.kind, problem.kept) for problem in log.problems] == [
        ("offset and quote differ", True)
    ]


def test_recognises_by_content(tmp_path: Path) -> None:
    assert ade.READER.recognise(tmp_path) is None
    file = tmp_path / "DRUG-AE.rel"
    file.write_text("some|thing\n")
    assert ade.READER.recognise(tmp_path) is None
    assert ade.READER.recognise(file) is None
    file.write_text(f"damaged\n{GOOD}\n")
    assert "DRUG-AE.rel" in (ade.READER.recognise(tmp_path) or "")
    other = file.rename(tmp_path / "mine.rel")
    assert ade.READER.recognise(other)
    assert ade.READER.recognise(tmp_path) is None
    assert ade.READER.recognise(tmp_path / "nowhere") is None


def test_a_path_that_the_system_refuses_is_not_recognised(tmp_path: Path) -> None:
    assert ade.READER.recognise(tmp_path / ("x" * 5_000)) is None


def test_what_is_no_such_folder_is_said(tmp_path: Path) -> None:
    documents, log = read(tmp_path)
    assert (documents, dict(log.counts)) == ([], {"not a corpus": 1})
    documents, log = read(tmp_path / "nowhere.rel")
    assert (documents, dict(log.counts)) == ([], {"unreadable file": 1})


@st.composite
def articles(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]], list[str]]:
    """A sentence of few words, so that strings repeat; the pairs of its rows; the rows."""
    words = draw(st.lists(st.sampled_from(["pain", "rash", "x", "xx"]), min_size=2, max_size=8))
    sentence = " ".join(words)
    starts = [sum(len(word) + 1 for word in words[:i]) for i in range(len(words))]
    origin = draw(st.integers(9, 2_000))
    pair = st.tuples(st.sampled_from(starts), st.sampled_from(starts))
    pairs = draw(st.lists(pair, min_size=1, max_size=5))
    return sentence, pairs, [row(sentence, origin, *positions) for positions in pairs]


@settings(max_examples=200, deadline=None)
@given(articles())
def test_every_mention_has_its_string_and_the_distances_hold(
    case: tuple[str, list[tuple[int, int]], list[str]],
) -> None:
    sentence, pairs, rows = case
    with tempfile.TemporaryDirectory() as name:
        documents, log = read_rows(Path(name), *rows)
    assert log.total == 0
    spans = documents[0].spans
    effects = {first for first, _ in pairs}
    drugs = {drug for _, drug in pairs}
    assert Counter(span.label for span in spans) == {"ADE": len(effects), "Drug": len(drugs)}
    # The sentence may be placed elsewhere only by a shift that keeps all strings and distances.
    shift = min(effects | drugs) - min(span.start for span in spans)
    expected = {(start, "ADE") for start in effects} | {(start, "Drug") for start in drugs}
    assert {(span.start + shift, span.label) for span in spans} == expected
    for span in spans:
        assert span.text_in(sentence) == sentence[span.start + shift :].partition(" ")[0]


@pytest.mark.data
def test_the_real_corpus(data: Path) -> None:
    folder = data / "ade-corpus-v2"
    assert ade.READER.recognise(folder)
    documents, log = read(folder)
    assert len(documents) == len({document.id for document in documents}) == 1_644
    assert Counter(span.label for document in documents for span in document.spans) == {
        "ADE": 5_776,
        "Drug": 5_063,
        "Dosage": 230,
    }
    sentences = [
        document.text[segment.start : segment.end]
        for document in documents
        for segment in document.segments or ()
    ]
    assert len(sentences) == len(set(sentences)) == 4_271
    assert log.total == 0


@pytest.mark.data
def test_every_mention_of_the_real_corpus_has_its_string(data: Path) -> None:
    documents, _ = read(data / "ade-corpus-v2" / "DRUG-AE.rel.xz")
    read_back = {
        (document.id, span.label, span.text_in(document.text))
        for document in documents
        for span in document.spans
    }
    with lzma.open(data / "ade-corpus-v2" / "DRUG-AE.rel.xz", "rt") as file:
        rows = [line.rstrip("\n").split("|") for line in file]
    assert len(rows) == 6_821
    declared = {(cells[0], "ADE", cells[2]) for cells in rows}
    assert read_back == declared | {(cells[0], "Drug", cells[5]) for cells in rows}


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("DRUG-AE.rel.xz", (1_644, 4_271, {"ADE": 5_776, "Drug": 5_063})),
        ("DRUG-DOSE.rel.xz", (168, 213, {"Dosage": 230, "Drug": 261})),
        ("ADE-NEG.txt.xz", (2_922, 16_625, {})),
    ],
)
def test_each_file_of_the_real_corpus(
    data: Path, name: str, expected: tuple[int, int, dict[str, int]]
) -> None:
    documents, log = read(data / "ade-corpus-v2" / name)
    counts = Counter(span.label for document in documents for span in document.spans)
    num_segments = sum(len(document.segments or ()) for document in documents)
    assert (len(documents), num_segments, dict(counts)) == expected
    assert log.total == 0
