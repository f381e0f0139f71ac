"""fedner's JSONL: all of a corpus comes back, and every bad line is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.document import Corpus, Document, Segment, Span
from fedner.corpus.problems import InputProblemsError, ProblemLog
from fedner.corpus.readers import jsonl
from fedner.corpus.reading import read
from fedner.corpus.writers.jsonl import write_documents, write_jsonl
from fedner.errors import FednerError

HEADER: dict[str, Any] = {"fedner": "corpus", "version": 1, "name": "clinic", "labels": ["A", "B"]}
GOOD: dict[str, Any] = {"id": "1", "text": "Nausea after aspirin."}


def put(folder: Path, *rows: object, name: str = "a.jsonl") -> Path:
    path = folder / name
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def stream(path: Path) -> tuple[list[Document], ProblemLog]:
    log = ProblemLog()
    return list(jsonl.stream(path, log, jsonl.JsonlOptions())), log


def where(log: ProblemLog) -> list[tuple[str, int | None, bool]]:
    return [(problem.kind, problem.line, problem.kept) for problem in log.problems]


@st.composite
def documents(draw: st.DrawFn, index: int) -> Document:
    text = draw(st.text(max_size=30))
    size = len(text)

    def ranges(most: int) -> list[tuple[int, int]]:
        cuts = sorted(draw(st.sets(st.integers(0, size), max_size=2 * most)))
        return list(zip(cuts[::2], cuts[1::2], strict=False))

    labels = draw(st.lists(st.sampled_from(["A", "B", "ü-x"]), max_size=3))
    spans = [Span(tuple(found), label) for label in labels if (found := ranges(3))]
    segments = None
    if draw(st.booleans()):
        segments = tuple(
            Segment(start, end, (start,), (end,)) if draw(st.booleans()) else Segment(start, end)
            for start, end in ranges(3)
        )
    patient = draw(st.none() | st.text(max_size=3))
    return Document(str(index), text, tuple(spans), segments, patient, draw(st.text(max_size=3)))


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    count = draw(st.integers(0, 4))
    held = tuple(draw(documents(index)) for index in range(count))
    labels = {"A", "B", "ü-x", *draw(st.lists(st.text(min_size=1, max_size=4), max_size=3))}
    return Corpus(draw(st.text(min_size=1, max_size=5)), tuple(sorted(labels)), held)


@given(corpora(), st.sampled_from(["", ".gz", ".xz"]))
@settings(max_examples=150)
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, corpus: Corpus, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / f"c.jsonl{suffix}"
    write_jsonl(path, corpus)
    log = ProblemLog()
    # NUL is a character that JSON escapes, so the file itself has none.
    assert read(path, log=log) == corpus
    assert log.total == 0


def test_labels_that_never_occur_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_jsonl(
        path, Corpus("c", ("Never", "Once"), (Document("1", "x", (Span.of(0, 1, "Once"),)),))
    )
    assert read(path).labels == ("Never", "Once")


def test_all_that_a_document_may_hold(tmp_path: Path) -> None:
    record = GOOD | {
        "spans": [
            {"start": 0, "end": 6, "label": "A"},
            {"fragments": [[0, 6], [13, 20]], "label": "B"},
        ],
        "segments": [
            {"start": 0, "end": 21, "tokens": [[0, 6], [7, 12]]},
            {"start": 21, "end": 21},
        ],
        "patient": "p",
    }
    found, log = stream(put(tmp_path, HEADER, record))
    assert found == [
        Document(
            "1",
            "Nausea after aspirin.",
            (Span.of(0, 6, "A"), Span(((0, 6), (13, 20)), "B")),
            (Segment(0, 21, (0, 7), (6, 12)), Segment(21, 21)),
            "p",
            "a.jsonl",
        )
    ]
    assert log.total == 0


def test_a_line_longer_than_elsewhere_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    corpus = Corpus("c", (), (Document("1", "x" * 1_500_000),))
    write_jsonl(path, corpus)
    assert read(path).documents[0].text == corpus.documents[0].text


@pytest.mark.parametrize(
    "row",
    [
        "{not json}",
        "[1, 2]",
        '"text"',
        "[" * 100_000,
        "9" * 5000,
        {"text": "no id"},
        {"id": 7, "text": "a number"},
        {"id": "1"},
        {"id": "1", "text": None},
        '{"id": "1", "text": "\\ud800"}',
        GOOD | {"spans": {"start": 0}},
        GOOD | {"segments": [[0, 1]]},
        GOOD | {"segments": [{"start": 0, "end": 5, "tokens": [[3, 4], [0, 1]]}]},
        GOOD | {"patient": 3},
        HEADER,
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(tmp_path: Path, row: object) -> None:
    found, log = stream(put(tmp_path, HEADER, GOOD, "", row, GOOD | {"id": "2"}))
    assert [document.id for document in found] == ["1", "2"]
    assert where(log) == [("malformed line", 4, False)]


def test_segments_outside_the_text(tmp_path: Path) -> None:
    _, log = stream(put(tmp_path, GOOD | {"segments": [{"start": 0, "end": 99}]}))
    assert where(log) == [("offset outside the text", 1, False)]


@pytest.mark.parametrize(
    ("span", "kind"),
    [
        ({"start": 0, "end": 22, "label": "A"}, "offset outside the text"),
        ({"start": -1, "end": 2, "label": "A"}, "offset outside the text"),
        ({"start": 5, "end": 2, "label": "A"}, "offset outside the text"),
        ({"start": 5, "end": 5, "label": "A"}, "zero-length span"),
        ({"fragments": [], "label": "A"}, "zero-length span"),
        ({"fragments": [[0, 5], [4, 6]], "label": "A"}, "overlapping fragments"),
        ({"fragments": [[4, 6], [0, 2]], "label": "A"}, "overlapping fragments"),
        ({"fragments": [[0, 5, 6]], "label": "A"}, "malformed line"),
        ({"start": True, "end": 2, "label": "A"}, "malformed line"),
        ({"start": 0.0, "end": 2, "label": "A"}, "malformed line"),
        ({"start": 0, "end": 2}, "malformed line"),
        ({"start": 0, "end": 2, "label": ""}, "malformed line"),
        ([0, 2, "A"], "malformed line"),
    ],
)
def test_a_bad_span_is_skipped_and_counted(tmp_path: Path, span: object, kind: str) -> None:
    good = {"start": 0, "end": 6, "label": "A"}
    found, log = stream(put(tmp_path, GOOD | {"spans": [span, good]}))
    assert found[0].spans == (Span.of(0, 6, "A"),)
    assert where(log) == [(kind, 1, False)]


def test_a_label_outside_the_header_is_a_problem(tmp_path: Path) -> None:
    path = put(tmp_path, HEADER, GOOD | {"spans": [{"start": 0, "end": 6, "label": "C"}]})
    with pytest.raises(InputProblemsError, match=r"a\.jsonl:2: unknown tag: found the label \"C\""):
        read(path)
    assert read(path, lenient=True).labels == ("A", "B", "C")


def test_a_header_of_another_version_is_refused(tmp_path: Path) -> None:
    _, log = stream(put(tmp_path, HEADER | {"version": 2}, GOOD))
    assert where(log) == [("malformed line", 1, False)]
    _, log = stream(put(tmp_path, HEADER | {"labels": "A"}, GOOD))
    assert where(log) == [("malformed line", 1, False)]


def test_unknown_keys_are_remarked(tmp_path: Path) -> None:
    _, log = stream(put(tmp_path, GOOD | {"note": 1}))
    assert log.remarks == {'unknown key "note" (ignored)': 1}


def test_recognition_looks_at_content(tmp_path: Path) -> None:
    assert jsonl.recognise(put(tmp_path, HEADER, name="a.txt"))
    assert jsonl.recognise(put(tmp_path, GOOD | {"text": "x" * 100_000}))
    assert jsonl.recognise(put(tmp_path, GOOD))
    assert jsonl.recognise(tmp_path)
    for row in ({"a": 1}, "{", "[]", "word\tO", ""):
        assert jsonl.recognise(put(tmp_path, row, name="b.jsonl")) is None


def test_a_folder_of_parts_joins_their_labels(tmp_path: Path) -> None:
    put(tmp_path, HEADER, GOOD)
    put(tmp_path, HEADER | {"labels": ["C"]}, GOOD | {"id": "2"}, name="b.jsonl")
    corpus = read(tmp_path)
    assert (corpus.name, corpus.labels) == ("clinic", ("A", "B", "C"))
    assert [document.source for document in corpus] == ["a.jsonl", "b.jsonl"]


def test_streamed_writing_counts_and_fails_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts = (Document(str(i), "x") for i in range(3))
    assert write_documents(path, texts, name="c", labels=["Z", "A"]) == 3
    assert read(path).labels == ("A", "Z")
    with pytest.raises(FednerError, match="surrogates"):
        write_documents(path, [Document("1", "\ud800")], name="c", labels=[])
    assert len(read(path)) == 3
