"""Token columns: layouts, schemes, document markers, bad input, and a slow reference reader."""

import lzma
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus import reading
from fedner.corpus.document import Corpus, Document, Span
from fedner.corpus.files import MAX_LINE_CHARACTERS
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import columns
from fedner.corpus.readers.column_blocks import cut_block, of_tokens
from fedner.corpus.readers.column_layout import ColumnOptions, Layout
from fedner.corpus.reading import open_corpus
from fedner.corpus.schemes import decode, encode
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.writers import WRITERS, WriteOptions, Written
from fedner.corpus.writers.columns import (
    LOST_EMPTY,
    LOST_IDS,
    LOST_LABELS,
    LOST_TEXT,
    write_columns,
)
from fedner.errors import FednerError

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

Peter NNP I-NP I-PER

-DOCSTART- -X- O O

Ann NNP I-NP I-PER
Bob NNP I-NP B-PER
Lee NNP I-NP I-PER
"""
BIO = "Took\tO\naspirin\tB-Drug\n81\tI-Drug\n.\tO\n\nFine\tO\n"


def read(
    folder: Path, content: str | bytes, options: ColumnOptions | None = None, name: str = "a.txt"
) -> tuple[list[Document], ProblemLog]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    log = ProblemLog()
    return list(columns.stream(path, log, options or ColumnOptions())), log


def mentions(document: Document) -> list[tuple[str, str]]:
    return [(span.text_in(document.text), span.label) for span in document.spans]


def tokens(document: Document) -> list[list[str]]:
    return [
        [
            document.text[start:end]
            for start, end in zip(segment.token_starts or (), segment.token_ends or (), strict=True)
        ]
        for segment in document.segments or ()
    ]


def where(log: ProblemLog) -> list[tuple[str, int | None, bool]]:
    return [(problem.kind, problem.line, problem.kept) for problem in log.problems]


def test_conll_2003(tmp_path: Path) -> None:
    documents, log = read(tmp_path, CONLL)
    assert [document.id for document in documents] == ["a.txt#1", "a.txt#10"]
    assert documents[0].text == "EU rejects German call\nPeter"
    assert documents[0].spans == (
        Span.of(0, 2, "ORG"),
        Span.of(11, 17, "MISC"),
        Span.of(23, 28, "PER"),
    )
    assert [(segment.start, segment.end) for segment in documents[0].segments or ()] == [
        (0, 22),
        (23, 28),
    ]
    assert tokens(documents[0]) == [["EU", "rejects", "German", "call"], ["Peter"]]
    assert mentions(documents[1]) == [("Ann", "PER"), ("Bob Lee", "PER")]
    assert log.total == 0
    assert log.document_markers == {"a.txt": 2}
    scheme = columns.declared(tmp_path / "a.txt", ColumnOptions(), None)
    assert scheme.tag_scheme == "IOB1"


def test_two_columns_without_markers_give_a_document_a_sentence(tmp_path: Path) -> None:
    documents, log = read(tmp_path, BIO)
    assert [document.id for document in documents] == ["a.txt#1", "a.txt#6"]
    assert documents[0].text == "Took aspirin 81 ."
    assert mentions(documents[0]) == [("aspirin 81", "Drug")]
    assert {document.source for document in documents} == {"a.txt"}
    assert log.total == 0
    assert not log.remarks


@pytest.mark.parametrize(
    "content",
    [
        BIO.replace("\n", "\r\n"),
        "\ufeff" + BIO,
        BIO.rstrip("\n"),
        "\n\n" + BIO,
        BIO.replace("\n\n", "\n \t \n"),
        BIO.replace("\n\n", "\n\n\n\n"),
        BIO.replace("\t", " "),
        BIO.replace("\t", "    "),
        "  " + BIO.replace("\t", "  ").replace("\n", " \n "),
    ],
    ids=[
        "CRLF", "BOM", "no final newline", "blank first", "blanks in blank lines", "blank lines",
        "blanks", "runs", "indented",
    ],
)  # fmt: skip
def test_harmless_variants_read_the_same(tmp_path: Path, content: str) -> None:
    documents, log = read(tmp_path, content)
    expected, _ = read(tmp_path, BIO, name="b.txt")
    assert [(d.text, d.spans, d.segments) for d in documents] == [
        (d.text, d.spans, d.segments) for d in expected
    ]
    assert log.total == 0


@pytest.mark.parametrize("scheme", ["IOB1", "BIO", "BIOES", "BILOU"])
def test_schemes_are_detected(tmp_path: Path, scheme: str) -> None:
    entities = [Entity(0, 2, "A"), Entity(2, 3, "A"), Entity(4, 7, "B")]
    tags = encode(entities, 8, scheme)
    documents, log = read(tmp_path, "".join(f"w{i}\t{tag}\n" for i, tag in enumerate(tags)))
    declared = columns.declared(tmp_path / "a.txt", ColumnOptions(), None)
    assert declared.tag_scheme == scheme
    assert declared.tag_scheme_why
    assert mentions(documents[0]) == [("w0 w1", "A"), ("w2", "A"), ("w4 w5 w6", "B")]
    assert log.total == 0


def test_files_of_different_schemes_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\tB-A\ny\tI-A\n")
    (tmp_path / "b.txt").write_text("x\tI-A\ny\tI-A\n")
    assert columns.declared(tmp_path, ColumnOptions(), None).tag_scheme == "BIO and IOB1"
    log = ProblemLog()
    assert len(list(columns.stream(tmp_path, log, ColumnOptions()))) == 2
    assert log.total == 0


def test_labels_with_hyphens(tmp_path: Path) -> None:
    documents, _ = read(tmp_path, "lac\tB-Regulon-operon\nZ\tI-Regulon-operon\n")
    assert mentions(documents[0]) == [("lac Z", "Regulon-operon")]


def test_configurable_columns(tmp_path: Path) -> None:
    content = "1 aspirin NN B-Drug _\n2 works VB O _\n"
    documents, log = read(tmp_path, content, ColumnOptions(token_column=1, tag_column=3))
    assert documents[0].text == "aspirin works"
    assert mentions(documents[0]) == [("aspirin", "Drug")]
    assert log.total == 0
    with pytest.raises(FednerError, match="tag column 7: the lines have 5 columns"):
        read(tmp_path, content, ColumnOptions(tag_column=7))
    tag_first = ColumnOptions(token_column=-1, tag_column=0)
    documents, _ = read(tmp_path, "B-Drug\taspirin\nO\tworks\n", tag_first)
    assert mentions(documents[0]) == [("aspirin", "Drug")]


def test_tokens_with_blanks_in_tab_files(tmp_path: Path) -> None:
    documents, log = read(tmp_path, "New York\tB-LOC\nis\tO\n 1\tO\n")
    assert tokens(documents[0]) == [["New York", "is", " 1"]]
    assert mentions(documents[0]) == [("New York", "LOC")]
    assert log.total == 0


@pytest.mark.parametrize("separator", ["\t", " "])
def test_unicode_separators_are_part_of_tokens(tmp_path: Path, separator: str) -> None:
    strange = ["a\u2028b", "c\x85", "\xa0", "d\x0be", "f\x1cg", "h\ri", "🙂\u3000"]
    documents, log = read(tmp_path, "".join(f"{word}{separator}B-X\n" for word in strange))
    assert tokens(documents[0]) == [strange]
    assert [text for text, _ in mentions(documents[0])] == strange
    assert log.total == 0


def test_markers_without_blank_lines_or_columns(tmp_path: Path) -> None:
    documents, log = read(
        tmp_path, "-DOCSTART-\na\tO\nb\tB-X\n-DOCSTART-\tx\ty\tz\nc\tB-X\n\nd\tO\n"
    )
    assert [(document.id, document.text) for document in documents] == [
        ("a.txt#1", "a b"),
        ("a.txt#4", "c\nd"),
    ]
    assert [mentions(document) for document in documents] == [[("b", "X")], [("c", "X")]]
    assert log.total == 0
    assert log.document_markers["a.txt"] == 2


def test_sentences_before_the_first_marker_and_empty_documents(tmp_path: Path) -> None:
    documents, log = read(tmp_path, "a\tO\n\nx\tO\n\n-DOCSTART-\tO\n\n-DOCSTART-\tO\n\nb\tO\n")
    assert [(document.id, document.text) for document in documents] == [
        ("a.txt#1", "a\nx"),
        ("a.txt#5", ""),
        ("a.txt#7", "b"),
    ]
    assert log.document_markers["a.txt"] == 2


def test_a_huge_document_comes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_DOCUMENT_SENTENCES", 3)
    documents, log = read(tmp_path, "-DOCSTART-\tO\n\n" + "a\tO\n\n" * 7)
    assert [len(document.segments or ()) for document in documents] == [3, 4]
    assert len({document.id for document in documents}) == 2
    assert log.total == 0
    assert "in parts" in next(iter(log.remarks))


# Bad input.


def test_wrong_column_counts_are_named_by_line_and_skipped(tmp_path: Path) -> None:
    documents, log = read(tmp_path, "a\tO\nb\nc\tO\tO\nd\tB-X\ne\t\n\nlost\n\nf\tO\n")
    assert [document.text for document in documents] == ["a d", "f"]
    assert mentions(documents[0]) == [("d", "X")]
    assert where(log) == [("wrong column count", line, False) for line in (2, 3, 5, 7)]
    assert "1 column" in log.problems[0].found
    assert "2 tab-separated columns" in log.problems[0].expected
    assert log.problems[2].found == "no tag"


def test_an_empty_token_keeps_its_place(tmp_path: Path) -> None:
    documents, log = read(tmp_path, "a\tB-X\n\tI-X\nc\tO\n")
    assert mentions(documents[0]) == [("a \ufffd", "X")]
    assert log.total == 0
    assert log.changes == {columns.CHANGE_EMPTY_TOKEN: 1}


def test_unknown_tags_count_as_outside(tmp_path: Path) -> None:
    documents, log = read(tmp_path, "a\tB-X\nb\tDrug\nc\tI-X\nd\tO\n\ne\tQ-X\n")
    assert where(log) == [
        ("unknown tag", 2, False),
        ("illegal tag", 3, True),
        ("unknown tag", 6, False),
    ]
    assert mentions(documents[0]) == [("a", "X"), ("c", "X")]
    assert documents[1].spans == ()


def test_illegal_tags_are_read_the_conlleval_way(tmp_path: Path) -> None:
    good = "x\tB-A\ny\tI-A\n\n" * 5
    documents, log = read(tmp_path, f"{good}a\tO\nb\tI-A\nc\tI-B\n")
    assert where(log) == [("illegal tag", 17, True), ("illegal tag", 18, True)]
    assert mentions(documents[-1]) == [("b", "A"), ("c", "B")]
    assert log.kept == 2


def test_a_given_scheme_is_held_against_the_tags(tmp_path: Path) -> None:
    _, log = read(tmp_path, "a\tI-A\nb\tO\n", ColumnOptions(scheme="iob2"))
    assert where(log) == [("illegal tag", 1, True)]
    with pytest.raises(FednerError, match="tag scheme"):
        read(tmp_path, BIO, ColumnOptions(scheme="XYZ"))


def test_line_numbers_hold_after_skipped_lines(tmp_path: Path) -> None:
    _, log = read(tmp_path, "a\tB-X\nbad\nc\tZ-X\nd\tO\nd\tO\n")
    assert where(log) == [("wrong column count", 2, False), ("unknown tag", 3, False)]


def test_bad_lines_are_found_in_the_middle_of_large_files(tmp_path: Path) -> None:
    sentence = "Took\tO\naspirin\tB-Drug\n\n"
    content = sentence * 20_000 + "oops\n\n" + sentence * 20_000 + "x\tI-Other\n"
    documents, log = read(tmp_path, content)
    assert len(documents) == 40_001
    assert where(log) == [("wrong column count", 60_001, False), ("illegal tag", 120_003, True)]
    assert documents[-1].id == "a.txt#120003"
    assert documents[20_000].id == "a.txt#60003"


def test_not_utf8_nul_and_long_lines(tmp_path: Path) -> None:
    long = b"x" * (MAX_LINE_CHARACTERS + 1)
    content = b"caf\xe9\tB-X\na\0b\tO\n\n" + long + b"\tO\nz\tO\n"
    documents, log = read(tmp_path, content)
    assert where(log) == [
        ("not UTF-8", 1, True),
        ("NUL byte", 2, True),
        ("very long line", 4, False),
    ]
    assert [document.text for document in documents] == ["caf\ufffd a\0b", "z"]
    assert mentions(documents[0]) == [("caf\ufffd", "X")]


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", "empty file"), (b"\n \n", "not a corpus"), (b"one\nword\n", "not a corpus")],
)
def test_files_without_columns(tmp_path: Path, content: bytes, kind: str) -> None:
    documents, log = read(tmp_path, content)
    assert documents == []
    assert where(log) == [(kind, None, False)]


def test_a_truncated_file_gives_its_beginning(tmp_path: Path) -> None:
    packed = lzma.compress("".join(f"w{i * 7919 % 10007}\tO\n\n" for i in range(40_000)).encode())
    documents, log = read(tmp_path, packed[: len(packed) // 2], name="a.txt.xz")
    assert documents
    assert log.counts["unreadable file"] == 1


def test_no_blank_line_at_all_is_reported_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MAX_SENTENCE_CHARACTERS", 1000)
    documents, log = read(tmp_path, "word\tO\n" * 100_000)
    assert set(log.counts) == {"malformed line"}
    assert log.kept == log.total
    total = sum(len(row) for document in documents for row in tokens(document))
    assert total == 100_000


def test_a_folder_takes_what_looks_right_and_says_what_it_left(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(BIO)
    (tmp_path / "dev.txt").write_text("")
    (tmp_path / "README.md").write_text("# Prose\n\nOf several words.\n")
    (tmp_path / "table.xlsx").write_bytes(b"PK\3\4" + bytes(200))
    (tmp_path / ".hidden").write_text(BIO)
    log = ProblemLog()
    documents = list(columns.stream(tmp_path, log, ColumnOptions()))
    assert [document.id for document in documents] == ["train.txt#1", "train.txt#6"]
    assert where(log) == [("empty file", None, False)]
    assert list(log.remarks) == ["left out, no token columns: README.md, table.xlsx"]


def test_prose_and_tables_are_not_recognised(tmp_path: Path) -> None:
    for content in ("Some words.\nMore words here.\n", "text\tADR\tWD\nfoo bar\t0\t1\n", "a O x\n"):
        path = tmp_path / "a.txt"
        path.write_text(content)
        assert columns.recognise(path) is None
    assert columns.recognise(tmp_path / "missing") is None


# Reference and properties.

WORDS = st.text(
    st.characters(exclude_characters="\n\t\0", exclude_categories=["Cs"]), min_size=1, max_size=6
).filter(lambda word: not word.startswith("-DOC"))
TAGS = st.sampled_from(["O", "O", "O", "B-X", "I-X", "B-Y-Z", "I-Y-Z", "S-X", "Q", "BX"])
ROWS = st.lists(st.tuples(WORDS, TAGS), min_size=1, max_size=8)


@given(st.lists(ROWS, min_size=1, max_size=8), st.integers(0, 3))
def test_blocks_equal_the_slow_way(sentences: list[list[tuple[str, str]]], extra: int) -> None:
    layout = Layout("\t", 2 + extra, 0, 1 + extra, 1.0, 1.0)
    filler = "\tf" * extra
    text = "".join(
        "".join(f"{word}{filler}\t{tag}\n" for word, tag in rows) + "\n" for rows in sentences
    )
    found = cut_block(text, 5, layout)
    expected, line = [], 5
    for rows in sentences:
        numbers = list(range(line, line + len(rows)))
        slow = of_tokens([word for word, _ in rows], [tag for _, tag in rows], numbers)
        expected.append(slow._replace(numbers=None))
        line += len(rows) + 1
    assert found == expected


@given(st.text("ab\t\n O", max_size=40), st.integers(2, 3))
def test_a_block_is_taken_only_if_every_line_is_regular(text: str, num_columns: int) -> None:
    text = f"{text}\n"
    rows = [row.split("\t") for row in text[:-1].split("\n") if row]
    is_regular = all(len(row) == num_columns and all(row) for row in rows)
    layout = Layout("\t", num_columns, 0, num_columns - 1, 1.0, 1.0)
    assert (cut_block(text, 1, layout) is not None) == is_regular


@given(
    st.lists(
        st.lists(
            st.tuples(WORDS.filter(lambda word: not word.endswith("\r")), TAGS),
            min_size=1, max_size=8,
        ), min_size=1, max_size=8,
    )
)  # fmt: skip
@settings(max_examples=60)
def test_reading_equals_a_slow_reader(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[tuple[str, str]]]
) -> None:
    path = tmp_path_factory.mktemp("columns") / "a.txt"
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in rows) for rows in sentences]
    path.write_bytes("\n".join(blocks).encode())
    options = ColumnOptions(separator="tab", scheme="BIO")
    documents = list(columns.stream(path, ProblemLog(), options))
    bom = [[(w.lstrip("\ufeff") or "\ufffd", t) for w, t in sentences[0][:1]] + sentences[0][1:]]
    for document, rows in zip(documents, bom + sentences[1:], strict=True):
        assert tokens(document) == [[word for word, _ in rows]]
        expected = [
            (" ".join(word for word, _ in rows[start:end]), label)
            for start, end, label in decode([tag for _, tag in rows], "BIO")
        ]
        assert mentions(document) == expected


@given(st.lists(st.lists(WORDS, min_size=1, max_size=9), min_size=1, max_size=5), st.data())
@settings(max_examples=60)
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], data: st.DataObject
) -> None:
    scheme = data.draw(st.sampled_from(["IOB1", "BIO", "BIOES", "BILOU"]))
    texts = [[w.replace("\r", "r").replace("\ufeff", "b") for w in words] for words in texts]
    sentences = []
    for words in texts:
        cuts = sorted(data.draw(st.sets(st.integers(0, len(words)), max_size=6)))
        pairs = zip(cuts[::2], cuts[1::2], strict=False)
        entities = tuple(Entity(a, b, data.draw(st.sampled_from("XY"))) for a, b in pairs)
        sentences.append(Sentence.of(words, entities))
    path = tmp_path_factory.mktemp("columns") / "a.tsv.gz"
    assert write_columns(path, sentences, scheme) == len(sentences)
    log = ProblemLog()
    documents = list(columns.stream(path, log, ColumnOptions(scheme=scheme, separator="tab")))
    assert log.total == 0
    assert [tokens(document)[0] for document in documents] == texts
    assert [document.spans for document in documents] == [
        tuple(sentence.span(entity) for entity in sentence.entities) for sentence in sentences
    ]


def test_written_markers_come_back_as_documents(tmp_path: Path) -> None:
    sentences = [
        Sentence(name, 0, ("a", "b"), (0, 2), (1, 3), (Entity(1, 2, "X"),)) for name in "ppq"
    ]
    path = tmp_path / "a.txt"
    write_columns(path, sentences, "BIOES", has_markers=True)
    log = ProblemLog()
    documents = list(columns.stream(path, log, ColumnOptions()))
    assert [document.text for document in documents] == ["a b\na b", "a b"]
    assert log.total == 0


@pytest.mark.parametrize("word", ["", "a\tb", "a\nb", "-DOCSTART-", "a\0", "\ud800"])
def test_what_columns_cannot_carry_is_refused(tmp_path: Path, word: str) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(FednerError, match="cannot stand in a column file"):
        write_columns(path, [Sentence.of(["fine", word])])
    assert not path.exists()


def test_a_byte_order_mark_cannot_begin_a_file_but_may_stand_within(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    marked = Sentence.of(["\ufeffa", "b"], (Entity(1, 2, "X"),))
    with pytest.raises(FednerError, match="cannot stand in a column file"):
        write_columns(path, [marked])
    write_columns(path, [Sentence.of(["x"]), marked])
    assert [document.text for document in reading.read(path)] == ["x", "\ufeffa b"]


def test_a_corpus_of_columns_comes_back_with_its_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- O\n\na O\nb B-X\n\nc B-X\n\n-DOCSTART- O\n\nd B-Y\n\n")
    corpus = reading.read(path)
    written = WRITERS["columns"].write(tmp_path / "b.conll", corpus, WriteOptions())
    assert written == Written(documents=2, mentions=3, losses={})
    back = reading.read(tmp_path / "b.conll")
    assert [(each.id, each.text, each.spans, each.segments) for each in back] == [
        (each.id, each.text, each.spans, each.segments) for each in corpus
    ]


def test_without_need_no_marker_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a O\nb B-X\n\nc B-X\n\n")
    written = WRITERS["columns"].write(tmp_path / "b.conll", reading.read(path), WriteOptions())
    assert written.losses == {LOST_IDS: 2}
    assert "-DOCSTART-" not in (tmp_path / "b.conll").read_text()
    assert [each.text for each in reading.read(tmp_path / "b.conll")] == ["a b", "c"]


def test_what_columns_have_no_place_for_is_counted(tmp_path: Path) -> None:
    documents = (
        Document("one", "A  rash.", (Span.of(3, 7, "ADE"),), patient="p"),
        Document("two", "fine day"),
        Document("three", "  "),
    )
    corpus = Corpus("notes", ("ADE", "Drug"), documents)
    path = tmp_path / "a.conll"
    written = WRITERS["columns"].write(path, corpus, WriteOptions())
    assert written == Written(2, 1, {LOST_TEXT: 1, LOST_EMPTY: 1, LOST_LABELS: 1})
    back = reading.read(path)
    assert [(each.id, each.patient, each.text) for each in back] == [
        ("one", "p", "A rash ."),
        ("two", None, "fine day"),
    ]


# The real corpora, counted by their README (which takes document markers for sentences).

COUNTS = {
    "psytar": {
        "all.full.txt": (5591, 5043),
        "all.train.txt": (3850, None),
        "all.dev.txt": (550, None),
        "all.test.txt": (1191, None),
    },
    "btc": {
        "a.conll": (1000, 521),
        "b.conll": (2000, 1610),
        "e.conll": (200, 325),
        "f.conll": (2000, 4376),
        "g.conll": (2138, 4685),
        "h.conll": (2001, 3368),
    },
    "wnut17": {
        "wnut17train.conll": (3394, 1975),
        "emerging.dev.conll": (1009, 836),
        "emerging.test.annotated": (1287, 1079),
    },
    "sec-fin": {"FIN5.txt": (1169, 1168), "FIN3.txt": (306, 318)},
}
MTL = {
    "BC5CDR-IOB": ((4560, 9385), (4581, 9593), (4797, 9809)),
    "NCBI-disease-IOB": ((5424, 5134), (923, 787), (940, 960)),
    "BC2GM-IOB": ((12574, 15197), (2519, 3061), (5038, 6325)),
    "AnatEM-IOB": ((5861, 6946), (2118, 2139), (3830, 4616)),
    "BioNLP09-IOB": ((7462, 9296), (1448, 2078), (2446, 3589)),
    "BioNLP11EPI-IOB": ((5698, 7586), (1955, 2495), (4122, 5730)),
    "BioNLP11ID-IOB": ((2496, 5674), (721, 1598), (1961, 3810)),
    "BioNLP13CG-IOB": ((3033, 10826), (1003, 3616), (1906, 6881)),
    "BioNLP13GE-IOB": ((2449, 3566), (2737, 4132), (3391, 4359)),
    "BioNLP13PC-IOB": ((2499, 7853), (857, 2734), (1695, 5306)),
    "CRAFT-IOB": ((10875, 29026), (3730, 9727), (7425, 18881)),
    "Ex-PTM-IOB": ((1377, 1787), (437, 603), (1839, 2308)),
    "linnaeus-IOB": ((11935, 2119), (4078, 711), (7142, 1433)),
    "JNLPBA": (None, (1939, 4551), (4260, 8662)),
}


def counted(path: Path) -> tuple[dict[str, tuple[int, int]], Counter[str], str | None]:
    recognition, documents, log = open_corpus(path)
    assert recognition.format == "columns"
    sentences: Counter[str] = Counter()
    entities: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    for document in documents:
        sentences[document.source] += len(document.segments or ())
        entities[document.source] += len(document.spans)
        labels.update(span.label for span in document.spans)
    assert log.total == 0
    found = {
        name: (count + log.document_markers[name], entities[name])
        for name, count in sentences.items()
    }
    return found, labels, recognition.tag_scheme


@pytest.mark.data
@pytest.mark.parametrize("folder", COUNTS)
def test_real_folders_give_the_counts_of_their_readme(data: Path, folder: str) -> None:
    found, _, scheme = counted(data / folder)
    assert found.keys() == COUNTS[folder].keys()
    for name, (sentences, entities) in COUNTS[folder].items():
        assert found[name] == (sentences, found[name][1] if entities is None else entities)
    assert scheme == ("IOB1" if folder == "sec-fin" else "BIO")


@pytest.mark.data
def test_psytar_labels(data: Path) -> None:
    _, labels, _ = counted(data / "psytar" / "all.full.txt.xz")
    assert labels == {"ADR": 3543, "DI": 716, "WD": 444, "SSI": 340}


@pytest.mark.data
@pytest.mark.parametrize("name", MTL)
def test_mtl_bio_gives_the_counts_of_its_readme(data: Path, tmp_path: Path, name: str) -> None:
    with tarfile.open(data / "mtl-bio" / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    found, labels, scheme = counted(tmp_path / name)
    parts = zip(("train.tsv", "devel.tsv", "test.tsv"), MTL[name], strict=True)
    assert found == {part: counts for part, counts in parts if counts}
    assert scheme == "BIO"
    if name == "BC5CDR-IOB":
        assert labels == {"Chemical": 15935, "Disease": 12852}
