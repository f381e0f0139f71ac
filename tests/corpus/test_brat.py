"""The brat reader: standoff lines, pairs of files, bad input, and the real folders."""

import gzip
import lzma
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.document import Document, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import brat, standoff
from fedner.corpus.readers.options import NoOptions

TEXT = "Took aspirin 100 mg and felt bit drowsy.\nThen severe pain in my left arm.\n"


def read(path: Path) -> tuple[list[Document], ProblemLog]:
    log = ProblemLog()
    return list(brat.READER.stream(path, log, NoOptions())), log


def pair(folder: Path, name: str, annotation: str, text: str = TEXT) -> None:
    (folder / f"{name}.txt").write_bytes(text.encode())
    (folder / f"{name}.ann").write_bytes(annotation.encode())


def read_one(folder: Path, annotation: str, text: str = TEXT) -> tuple[Document, ProblemLog]:
    pair(folder, "a", annotation, text)
    documents, log = read(folder)
    assert [document.id for document in documents] == ["a"]
    return documents[0], log


def test_reads_contiguous_discontinuous_and_overlapping_mentions(tmp_path: Path) -> None:
    document, log = read_one(
        tmp_path,
        "T1\tDrug 5 12\taspirin\n"
        "T2\tSymptom 46 57\tsevere pain\n"
        "T3\tSymptom 53 57;69 72\tpain arm\n",
    )
    assert document.text == TEXT
    assert document.source == "a.txt"
    assert document.segments is None
    assert document.spans == (
        Span.of(5, 12, "Drug"),
        Span.of(46, 57, "Symptom"),
        Span(((53, 57), (69, 72)), "Symptom"),
    )
    assert (log.total, dict(log.remarks)) == (0, {})


def test_sorts_fragments_and_takes_quotes_in_either_order(tmp_path: Path) -> None:
    document, log = read_one(tmp_path, "T1\tX 69 72;53 57\tpain arm\nT2\tX 69 72;53 57\tarm pain\n")
    assert document.spans == (Span(((53, 57), (69, 72)), "X"),) * 2
    assert log.total == 0
    assert log.remarks == {standoff.REMARK_REPEATED: 1}


@pytest.mark.parametrize("quote", ["drowsy. Then", "drowsy.\u00a0Then", "drowsy.   Then "])
def test_quote_may_have_other_white_space_than_the_text(tmp_path: Path, quote: str) -> None:
    document, log = read_one(tmp_path, f"T1\tX 33 45\t{quote}\n")
    assert document.spans[0].text_in(TEXT) == "drowsy.\nThen"
    assert log.total == 0
    assert log.remarks[standoff.REMARK_WHITE_SPACE] == (quote != "drowsy. Then")


def test_other_kinds_of_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    document, log = read_one(
        tmp_path,
        "T1\tDrug 5 12\taspirin\n\n"
        "R1\tTreats Arg1:T1 Arg2:T2\nE1\tDrug:T1\nA1\tNegated T1\nM1\tSpeculation T1\n"
        "N1\tReference T1 C:1\taspirin\n#1\tAnnotatorNotes T1\tsure?\n*\tEquiv T1 T2\n"
        "#2\tAnnotatorNotes T1\tno\n",
    )
    assert len(document.spans) == 1
    assert log.total == 0
    assert log.remarks["standoff notes (left out)"] == 2
    assert sum(log.remarks.values()) == 8


def test_offsets_count_code_points_of_the_file_with_its_line_ends(tmp_path: Path) -> None:
    text = "\U0001f600 fine\r\nnaïve café\u2028pain\r\n"
    start = text.index("pain")
    document, log = read_one(
        tmp_path, f"T1\tX {start} {start + 4}\tpain\r\nT2\tX 2 13\tfine naïve\r\n", text
    )
    assert document.text == text
    assert [span.text_in(text) for span in document.spans] == ["pain", "fine\r\nnaïve"]
    assert log.total == 0


def test_byte_order_mark_is_no_character(tmp_path: Path) -> None:
    document, log = read_one(tmp_path, "\ufeffT1\tDrug 0 7\taspirin\n", "\ufeffaspirin")
    assert (document.text, document.spans) == ("aspirin", (Span.of(0, 7, "Drug"),))
    assert log.total == 0


@pytest.mark.parametrize(
    ("line", "kind", "label"),
    [
        ("T1\tX 70 90\tmy arm", "offset outside the text", "X"),
        ("T1\tX -3 4\tTook", "offset outside the text", "X"),
        ("T1\tX 0 4;999 1003\tTook", "offset outside the text", "X"),
        ("T1\tX 5 5\t", "zero-length span", "X"),
        ("T1\tX 0 4;5 5\tTook", "zero-length span", "X"),
        ("T1\tX 12 5\taspirin", "malformed line", "X"),
        ("T1\tX 0 4;3 12\tTook aspirin", "overlapping fragments", "X"),
        ("T1\tX 0 4;0 4\tTook Took", "overlapping fragments", "X"),
        ("T1\tX zero four\tTook", "malformed line", "X"),
        ("T1\tX 0 4;\tTook", "malformed line", "X"),
        ("T1\tX 0\tTook", "malformed line", "X"),
        ("T1 X 0 4 Took", "malformed line", "X"),
        ("T1\tTwo Words 0 4\tTook", "malformed line", "Two"),
        (f"T1\tX 0 {'9' * 5000}\tTook", "malformed line", "X"),
        ("T1\tX ٠ ٤\tTook", "malformed line", "X"),
    ],
)
def test_what_cannot_be_placed_is_skipped_and_counted(
    tmp_path: Path, line: str, kind: str, label: str
) -> None:
    document, log = read_one(tmp_path, f"#1\tnote\n{line}\nT2\tDrug 5 12\taspirin\n")
    assert document.spans == (Span.of(5, 12, "Drug"),)
    assert [(problem.kind, problem.line, problem.kept) for problem in log.problems] == [
        (kind, 2, False)
    ]
    assert log.problems[0].file == str(tmp_path / "a.ann")
    assert [(name, mention) for name, mention, _ in log.skipped_mentions] == [("a", label)]


def test_skipped_mentions_keep_their_fragments(tmp_path: Path) -> None:
    _, log = read_one(tmp_path, "T1\tX 900 910;0 4\tTook nothing\n")
    assert log.skipped_mentions == [("a", "X", ((0, 4), (900, 910)))]


@pytest.mark.parametrize("line", ["nonsense", "0 4 X", "T", " T1\tX 0 4\tTook"])
def test_a_line_of_no_kind_is_a_problem(tmp_path: Path, line: str) -> None:
    document, log = read_one(tmp_path, f"{line}\nT2\tDrug 5 12\taspirin\n")
    assert len(document.spans) == 1
    assert log.counts == {"malformed line": 1}
    assert log.skipped_mentions == []


def test_a_valid_offset_wins_over_its_quote(tmp_path: Path) -> None:
    document, log = read_one(tmp_path, "T1\tDrug 6 12\taspirin\n")
    assert document.spans == (Span.of(6, 12, "Drug"),)
    [problem] = log.problems
    assert (problem.kind, problem.kept, problem.line) == ("offset and quote differ", True, 1)
    assert "'aspirin'" in problem.found
    assert "'spirin'" in problem.expected
    assert (log.kept, log.skipped_mentions) == (1, [])


def test_a_missing_quote_is_reported_and_the_mention_kept(tmp_path: Path) -> None:
    document, log = read_one(tmp_path, "T1\tDrug 5 12\n")
    assert document.spans == (Span.of(5, 12, "Drug"),)
    assert [(problem.kind, problem.kept) for problem in log.problems] == [("malformed line", True)]


def test_a_repeated_id_is_reported_and_both_mentions_kept(tmp_path: Path) -> None:
    document, log = read_one(tmp_path, "T1\tDrug 5 12\taspirin\nT1\tX 0 4\tTook\n")
    assert len(document.spans) == 2
    assert [(problem.kind, problem.kept, problem.line) for problem in log.problems] == [
        ("duplicate id", True, 2)
    ]


def test_text_without_annotation_is_left_out(tmp_path: Path) -> None:
    pair(tmp_path, "b", "")
    (tmp_path / "a.txt").write_text(TEXT)
    documents, log = read(tmp_path)
    assert [(document.id, document.spans) for document in documents] == [("b", ())]
    [problem] = log.problems
    assert (problem.kind, problem.file) == ("missing twin file", str(tmp_path / "a.txt"))


def test_annotation_without_text_is_one_problem_and_its_mentions_are_counted(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.ann").write_text("T1\tDrug 5 12\taspirin\nT2\tX 9 12;0 4\tTook rin\n")
    documents, log = read(tmp_path)
    assert documents == []
    assert log.counts == {"missing twin file": 1}
    assert log.skipped_mentions == [("a", "Drug", ((5, 12),)), ("a", "X", ((0, 4), (9, 12)))]


def test_empty_text_is_a_problem_and_its_mentions_are_counted(tmp_path: Path) -> None:
    pair(tmp_path, "a", "T1\tDrug 5 12\taspirin\n", text="")
    documents, log = read(tmp_path)
    assert documents == []
    assert log.counts == {"empty file": 1}
    assert log.skipped_mentions == [("a", "Drug", ((5, 12),))]


def test_damaged_annotation_leaves_its_document_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.ann.xz").write_bytes(lzma.compress(b"T1\tDrug 5 12\taspirin\n" * 99)[:40])
    pair(tmp_path, "b", "")
    documents, log = read(tmp_path)
    assert log.counts == {"unreadable file": 1}
    assert [document.id for document in documents] == ["b"]


def test_annotation_in_another_encoding_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.ann").write_text("T1\tDrug 5 12\taspirin\n", encoding="utf-16")
    documents, log = read(tmp_path)
    assert (documents, dict(log.counts)) == ([], {"not UTF-8": 1})


def test_bytes_that_are_not_utf8_do_not_move_offsets(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("na\xefve aspirin".encode("latin-1"))
    (tmp_path / "a.ann").write_text("T1\tDrug 6 13\taspirin\n")
    documents, log = read(tmp_path)
    assert documents[0].spans == (Span.of(6, 13, "Drug"),)
    assert log.counts == {"not UTF-8": 1}


def test_folders_are_read_to_any_depth_and_hidden_files_are_not(tmp_path: Path) -> None:
    for folder in ("x", "x/y", ".git", "__MACOSX"):
        (tmp_path / folder).mkdir()
        pair(tmp_path / folder, "a", "")
    pair(tmp_path, "._a", "")
    pair(tmp_path, "top.1", "")
    documents, log = read(tmp_path)
    assert [document.id for document in documents] == ["top.1", "x/a", "x/y/a"]
    assert [document.source for document in documents] == ["top.1.txt", "x/a.txt", "x/y/a.txt"]
    assert log.total == 0


def test_compressed_files_pair_with_plain_ones(tmp_path: Path) -> None:
    annotation = b"T1\tDrug 5 12\taspirin\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "a.ann").write_bytes(annotation)
    (tmp_path / "b.txt").write_text(TEXT)
    (tmp_path / "b.ann.xz").write_bytes(lzma.compress(annotation))
    documents, log = read(tmp_path)
    assert [(document.id, document.text, len(document.spans)) for document in documents] == [
        ("a", TEXT, 1),
        ("b", TEXT, 1),
    ]
    assert log.total == 0


def test_a_second_file_for_one_document_is_a_problem(tmp_path: Path) -> None:
    pair(tmp_path, "a", "")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"another text"))
    documents, log = read(tmp_path)
    assert [document.text for document in documents] == [TEXT]
    assert log.counts == {"duplicate id": 1}
    assert log.problems[0].file.endswith("a.txt.gz")


@pytest.mark.parametrize("name", ["a.b.txt", "a.b.ann", "a.b.txt.gz"])
def test_one_file_of_a_pair_is_enough(tmp_path: Path, name: str) -> None:
    pair(tmp_path, "a.b", "T1\tDrug 5 12\taspirin\n")
    pair(tmp_path, "other", "")
    if name.endswith(".gz"):
        (tmp_path / "a.b.txt").unlink()
        (tmp_path / name).write_bytes(gzip.compress(TEXT.encode()))
    documents, log = read(tmp_path / name)
    assert [(document.id, len(document.spans)) for document in documents] == [("a.b", 1)]
    assert log.total == 0
    assert brat.READER.recognise(tmp_path / name)


def test_one_file_without_its_twin(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    documents, log = read(tmp_path / "a.txt")
    assert (documents, dict(log.counts)) == ([], {"missing twin file": 1})
    assert brat.READER.recognise(tmp_path / "a.txt") is None


@pytest.mark.parametrize("name", ["", "notes.md", "nowhere"])
def test_what_is_no_brat_folder_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.md").write_text("T1 is a word")
    documents, log = read(tmp_path / name)
    assert (documents, dict(log.counts)) == ([], {"not a corpus": 1})
    assert brat.READER.recognise(tmp_path / name) is None


def test_recognises_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.ann").write_text("The annual report\n")
    assert brat.READER.recognise(tmp_path) is None
    (tmp_path / "b.ann").write_text("")
    assert brat.READER.recognise(tmp_path) is None
    (tmp_path / "b.txt").write_text(TEXT)
    assert "b.ann is empty" in (brat.READER.recognise(tmp_path) or "")
    (tmp_path / "a.ann").write_text("#1\tnote\nT3\tX 0 4;5 7\tTook as\n")
    assert "text-bound" in (brat.READER.recognise(tmp_path) or "")
    (tmp_path / "a.ann").write_bytes(b"\xff\xfe\0\0")
    assert brat.READER.recognise(tmp_path / "a.ann") is None


def test_a_path_that_the_system_refuses_is_not_recognised(tmp_path: Path) -> None:
    assert brat.READER.recognise(tmp_path / ("x" * 5_000)) is None


def test_configuration_declares_labels(tmp_path: Path) -> None:
    assert brat.declared_labels(tmp_path) == ()
    (tmp_path / "annotation.conf").write_text(
        "# types\n[entities]\n!Medical\n\tDrug\n\tADE\n---\nOrg_1\tArg:x\n<X>=a|b\n\n"
        "[relations]\nTreats\tArg1:Drug, Arg2:ADE\n[events]\n[attributes]\n"
    )
    assert brat.declared_labels(tmp_path) == ("ADE", "Drug", "Org_1")
    assert brat.declared_labels(tmp_path / "a.ann") == ("ADE", "Drug", "Org_1")


TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), min_size=1, max_size=60
)


@st.composite
def documents_with_spans(draw: st.DrawFn) -> tuple[str, tuple[Span, ...]]:
    """A text and mentions that may be discontinuous, touch, overlap and repeat."""
    text = draw(TEXTS)
    fragment_ends = st.lists(st.integers(0, len(text)), min_size=2, max_size=6, unique=True)
    spans = []
    for _ in range(draw(st.integers(0, 5))):
        ends = sorted(draw(fragment_ends))
        fragments = tuple(zip(ends[::2], ends[1::2], strict=False))
        spans.append(Span(fragments, draw(st.sampled_from(["Drug", "ADE", "x-1"]))))
    return text, tuple(spans)


def written_by_brat(text: str, spans: tuple[Span, ...]) -> str:
    lines = []
    for number, span in enumerate(spans, 1):
        ranges = ";".join(f"{start} {end}" for start, end in span.fragments)
        quote = " ".join(text[start:end].replace("\n", " ") for start, end in span.fragments)
        lines.append(f"T{number}\t{span.label} {ranges}\t{quote}\n")
    return "".join(lines)


@settings(max_examples=150, deadline=None)
@given(documents_with_spans())
def test_reading_undoes_writing(case: tuple[str, tuple[Span, ...]]) -> None:
    text, spans = case
    with tempfile.TemporaryDirectory() as name:
        document, log = read_one(Path(name), written_by_brat(text, spans), text)
    assert (document.text, document.spans) == (text, spans)
    assert log.total == 0


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80), st.binary(max_size=200))
def test_no_input_makes_it_fail(text: bytes, annotation: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "a.txt").write_bytes(text)
        (Path(name) / "a.ann").write_bytes(annotation)
        brat.READER.recognise(Path(name))
        for document in read(Path(name))[0]:
            assert all(
                0 <= start < end <= len(document.text)
                for span in document.spans
                for start, end in span.fragments
            )


Declared = dict[str, list[Span]]


def declared(documents: list[Document], log: ProblemLog) -> Declared:
    """Every mention that the files declare by document, placed or not."""
    found = {document.id: list(document.spans) for document in documents}
    for name, label, fragments in log.skipped_mentions:
        found.setdefault(name, []).append(Span(fragments, label))
    return found


def num_overlapping(spans: list[Span]) -> int:
    """Mentions that share a character with another one, found the slow and obvious way."""
    characters = [{i for start, end in s.fragments for i in range(start, end)} for s in spans]
    return sum(
        any(mine & other for j, other in enumerate(characters) if j != i)
        for i, mine in enumerate(characters)
    )


def summary(mentions: Declared) -> tuple[int, int, int]:
    spans = [span for found in mentions.values() for span in found]
    overlapping = sum(num_overlapping(found) for found in mentions.values())
    return len(spans), sum(span.is_discontinuous for span in spans), overlapping


@pytest.fixture(scope="module")
def twimed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twimed")
    with tarfile.open(data / "twimed" / "twimed.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.data
def test_twimed_pubmed(twimed: Path) -> None:
    assert brat.READER.recognise(twimed / "gold" / "pubmed")
    documents, log = read(twimed / "gold" / "pubmed")
    assert len(documents) == 1_000
    mentions = declared(documents, log)
    assert Counter(span.label for found in mentions.values() for span in found) == {
        "Drug": 1_210,
        "Disease": 697,
        "Symptom": 475,
    }
    assert summary(mentions) == (2_382, 19, 109)
    # Four fragments of one file end before they begin.
    assert log.counts == {"malformed line": 4}


@pytest.mark.data
def test_twimed_twitter_has_no_texts(twimed: Path) -> None:
    documents, log = read(twimed / "gold" / "twitter")
    assert documents == []
    assert log.counts == {"missing twin file": 1_000}
    assert len(log.skipped_mentions) == 2_217


@pytest.mark.data
def test_maccrobat(data: Path, tmp_path: Path) -> None:
    with tarfile.open(data / "maccrobat2020" / "MACCROBAT2020.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    documents, log = read(tmp_path)
    assert len(documents) == 200
    mentions = declared(documents, log)
    assert summary(mentions) == (25_189, 44, 737)
    assert len({span.label for found in mentions.values() for span in found}) == 41
    lines = [line for document in documents for line in document.text.split("\n")]
    assert sum(bool(line.strip()) for line in lines) == 4_541
    assert log.total == 0
