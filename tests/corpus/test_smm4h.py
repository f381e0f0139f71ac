"""The SMM4H reader, on tables laid out and damaged as those of the shared task are."""

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import smm4h

HEADER = "tweet_id\tbegin\tend\ttype\textraction\tdrug\ttweet\tmeddra_code\tmeddra_term"
TWEET = '"Cymbalta" makes me SLEEPY &amp; dizzy... #cymbalta sucks'
SLEEPY = TWEET.index("SLEEPY")
DIZZY = TWEET.index("dizzy")
DRUGS = (Span.of(1, 9, "Drug"), Span.of(TWEET.index("#") + 1, TWEET.index("#") + 9, "Drug"))


def read(path: Path) -> tuple[list[Document], ProblemLog]:
    log = ProblemLog()
    return list(smm4h.READER.stream(path, log, smm4h.Smm4hOptions())), log


def row(
    begin: object = "",
    end: object = "",
    extraction: str = "",
    *,
    tweet_id: str = "347806215776116737",
    type_: str = "ADR",
    drug: str = "cymbalta",
    tweet: str = TWEET,
) -> str:
    kind = type_ if f"{begin}{end}{extraction}" else ""
    code = "10041349\tsomnolence" if kind else "\t"
    return f"{tweet_id}\t{begin}\t{end}\t{kind}\t{extraction}\t{drug}\t{tweet}\t{code}"


def write(path: Path, *rows: str, header: str = HEADER, end: str = "\n") -> Path:
    path.write_bytes("".join(f"{line}{end}" for line in (header, *rows)).encode())
    return path


def read_rows(folder: Path, *rows: str) -> tuple[list[Document], ProblemLog]:
    return read(write(folder / "task3_training.tsv", *rows))


def test_reads_mentions_and_projects_the_drug(tmp_path: Path) -> None:
    documents, log = read_rows(
        tmp_path,
        row(SLEEPY, SLEEPY + 6, "SLEEPY"),
        row(DIZZY, DIZZY + 5, "dizzy"),
        row(tweet_id="2", tweet="vyvanse, finally", drug="vyvanse"),
    )
    assert documents == [
        Document(
            "347806215776116737",
            TWEET,
            (Span.of(SLEEPY, SLEEPY + 6, "ADR"), Span.of(DIZZY, DIZZY + 5, "ADR"), *DRUGS),
            (Segment(0, len(TWEET)),),
            source="task3_training.tsv",
        ),
        Document(
            "2",
            "vyvanse, finally",
            (Span.of(0, 7, "Drug"),),
            (Segment(0, 16),),
            source="task3_training.tsv",
        ),
    ]
    assert (log.total, dict(log.remarks)) == (0, {})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("surplus", [0, 40])
def test_empty_columns_may_follow(tmp_path: Path, end: str, surplus: int) -> None:
    tabs = "\t" * surplus
    path = tmp_path / "task3_training.tsv"
    write(path, row(SLEEPY, SLEEPY + 6, "SLEEPY") + tabs, header=f"\ufeff{HEADER}{tabs}", end=end)
    documents, log = read(path)
    assert [(document.text, len(document.spans)) for document in documents] == [(TWEET, 3)]
    assert log.total == 0


def test_trailing_columns_may_be_cut_off(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, row().rstrip("\t"))
    assert [document.spans for document in documents] == [DRUGS]
    assert log.total == 0


def test_numbers_may_be_written_as_floats(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, row(f"{SLEEPY}.0", f"{SLEEPY + 6}.0", "SLEEPY"))
    assert documents[0].spans[0] == Span.of(SLEEPY, SLEEPY + 6, "ADR")
    assert log.total == 0


def test_case_of_the_extraction_does_not_matter(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, row(SLEEPY, SLEEPY + 6, "sleepy"))
    assert documents[0].spans[0] == Span.of(SLEEPY, SLEEPY + 6, "ADR")
    assert log.total == 0
    assert log.remarks == {smm4h.REMARK_CASE: 1}


def test_a_valid_offset_wins_over_its_extraction(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, row(SLEEPY - 1, SLEEPY + 5, "SLEEPY"))
    assert documents[0].spans[0] == Span.of(SLEEPY - 1, SLEEPY + 5, "ADR")
    [problem] = log.problems
    assert (problem.kind, problem.kept, problem.line) == ("offset and quote differ", True, 2)
    assert "'SLEEPY'" in problem.found
    assert "' SLEEP'" in problem.expected


@pytest.mark.parametrize(
    ("begin", "end", "extraction", "kind", "fragments"),
    [
        (20, 999, "SLEEPY", "offset outside the text", ((20, 999),)),
        (-2, 4, "SLEEPY", "offset outside the text", ((-2, 4),)),
        (26, 20, "SLEEPY", "offset outside the text", ((26, 20),)),
        (20, 20, "SLEEPY", "zero-length span", ((20, 20),)),
        ("", 26, "SLEEPY", "malformed line", ()),
        ("", "", "SLEEPY", "malformed line", ()),
        ("x", 26, "SLEEPY", "malformed line", ()),
        ("20.5", 26, "SLEEPY", "malformed line", ()),
        (20, "9" * 5000, "SLEEPY", "malformed line", ()),
    ],
)
def test_what_cannot_be_placed_is_skipped_and_counted(
    tmp_path: Path,
    begin: object,
    end: object,
    extraction: str,
    kind: str,
    fragments: tuple[tuple[int, int], ...],
) -> None:
    documents, log = read_rows(
        tmp_path, row(begin, end, extraction), row(DIZZY, DIZZY + 5, "dizzy")
    )
    assert documents[0].spans == (Span.of(DIZZY, DIZZY + 5, "ADR"), *DRUGS)
    assert [(problem.kind, problem.line) for problem in log.problems] == [(kind, 2)]
    assert log.skipped_mentions == [("347806215776116737", "ADR", fragments)]


def test_a_mention_without_type_is_malformed(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, row(SLEEPY, SLEEPY + 6, "SLEEPY", type_=""))
    assert documents[0].spans == DRUGS
    assert log.counts == {"malformed line": 1}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("1\t2\t3", "wrong column count"),
        (row() + "\t\t\tmore", "wrong column count"),
        (row(0, 4, '"Cym', tweet=f"{TWEET}\tand a tab"), "wrong column count"),
        (row(tweet_id=" "), "malformed line"),
        (row(tweet=""), "malformed line"),
    ],
)
def test_bad_rows_are_reported_and_the_others_read(tmp_path: Path, line: str, kind: str) -> None:
    documents, log = read_rows(tmp_path, line, "", row(tweet_id="9"))
    assert [document.id for document in documents] == ["9"]
    assert [(problem.kind, problem.line) for problem in log.problems] == [(kind, 2)]


def test_rows_for_the_same_mention_are_merged(tmp_path: Path) -> None:
    mention = row(SLEEPY, SLEEPY + 6, "SLEEPY")
    documents, log = read_rows(tmp_path, mention, row(DIZZY, DIZZY + 5, "dizzy"), mention)
    assert len(documents[0].spans) == 4
    assert log.total == 0
    assert log.remarks == {smm4h.REMARK_SAME_MENTION: 1}


def test_both_files_of_a_folder_are_read_and_tweets_merged(tmp_path: Path) -> None:
    mention = row(SLEEPY, SLEEPY + 6, "SLEEPY")
    write(tmp_path / "task3_training.tsv", mention, row(tweet_id="2", tweet="one text"))
    write(
        tmp_path / "task3_validation.tsv",
        row(DIZZY, DIZZY + 5, "dizzy"),
        mention,
        row(tweet_id="3"),
        row(0, 5, "other", tweet_id="2", tweet="other text"),
        row(tweet_id="2", tweet="a third text"),
    )
    write(tmp_path / "predictions.tsv", "1\tADR", header="tweet_id\ttype")
    (tmp_path / "notes.txt").write_text(HEADER)
    documents, log = read(tmp_path)
    assert [(document.id, len(document.spans)) for document in documents] == [
        ("347806215776116737", 4),
        ("2", 0),
        ("3", 2),
    ]
    assert [document.source for document in documents] == [
        "task3_training.tsv",
        "task3_training.tsv",
        "task3_validation.tsv",
    ]
    assert log.counts == {"duplicate id": 2}
    assert {problem.file for problem in log.problems} == {str(tmp_path / "task3_validation.tsv")}
    assert log.skipped_mentions == [("2", "ADR", ())]
    assert log.remarks[smm4h.REMARK_SAME_TWEET] == 1
    assert log.remarks[smm4h.REMARK_SAME_MENTION] == 1


def test_the_same_text_under_two_ids_is_two_tweets(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, row(tweet_id="1"), row(tweet_id="2"))
    assert [document.id for document in documents] == ["1", "2"]
    assert log.total == 0


@pytest.mark.parametrize(
    ("name", "tweet", "expected"),
    [
        ("Paxil", "PAXIL paxil Paxil", [0, 6, 12]),
        ("paxil", "paxilated unpaxil paxil2", []),
        ("paxil", "#paxil @paxil paxil's paxil-free", [1, 8, 14, 22]),
        ("#paxil", "paxil", [0]),
        ("effexor xr", "my Effexor XR.", [3]),
        ("a.b(c", "xa.b(c a.b(c", [7]),
        ("paxil", "\U0001f600paxil", [1]),
        ("", "paxil", []),
        ("#", "# paxil", []),
    ],
)
def test_drug_names_are_projected_as_words(name: str, tweet: str, expected: list[int]) -> None:
    spans = smm4h.project(name, tweet)
    assert [span.start for span in spans] == expected
    assert all(span.label == "Drug" for span in spans)
    assert all(span.text_in(tweet).lower() == name.lower().lstrip("#") for span in spans)


def test_a_drug_that_is_not_in_its_tweet_is_only_a_remark(tmp_path: Path) -> None:
    documents, log = read_rows(tmp_path, row(drug="prozac"), row(drug="Cymbalta"))
    assert documents[0].spans == DRUGS
    assert log.total == 0
    assert log.remarks == {smm4h.REMARK_NO_DRUG: 1}


def test_recognises_by_the_header(tmp_path: Path) -> None:
    assert smm4h.READER.recognise(tmp_path) is None
    write(tmp_path / "a.tsv", row(), header="id\tbegin\tend")
    assert smm4h.READER.recognise(tmp_path) is None
    packed = tmp_path / "b.tsv.gz"
    packed.write_bytes(gzip.compress(f"{HEADER.upper()}\t\t\n{row()}\n".encode()))
    assert "b.tsv.gz" in (smm4h.READER.recognise(tmp_path) or "")
    assert smm4h.READER.recognise(packed)
    assert len(read(tmp_path)[0]) == 1
    assert smm4h.READER.recognise(tmp_path / "nowhere") is None


def test_a_path_that_the_system_refuses_is_not_recognised(tmp_path: Path) -> None:
    assert smm4h.READER.recognise(tmp_path / ("x" * 5_000)) is None


@pytest.mark.parametrize("content", [b"", b"\0" * 900, b"\n\n"])
def test_a_table_that_cannot_be_read_is_reported_and_another_one_named(
    tmp_path: Path, content: bytes
) -> None:
    write(tmp_path / "task3_validation.tsv", row(SLEEPY, SLEEPY + 6, "SLEEPY"))
    (tmp_path / "task3_training.tsv").write_bytes(content)
    write(tmp_path / "without-header.tsv", row(), header=row())
    documents, log = read(tmp_path)
    assert len(documents) == 1
    assert {each.file for each in log.problems} == {str(tmp_path / "task3_training.tsv")}
    remark = "left out, no table with the header of the task: without-header.tsv"
    assert log.remarks[remark] == 1


def test_what_is_no_such_table_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", row(), header="id\tbegin\tend")
    for place in (path, tmp_path, tmp_path / "nowhere"):
        documents, log = read(place)
        assert (documents, dict(log.counts)) == ([], {"not a corpus": 1})


def test_declares_the_types_of_the_task(tmp_path: Path) -> None:
    assert smm4h.declared_labels(tmp_path) == ("ADR", "Drug")
    assert smm4h.READER.sentences == "as given"


CELLS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\0\ufeff"),
    min_size=1,
    max_size=40,
).filter(lambda text: bool(text.strip()))


@st.composite
def tweets(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    """A tweet and the ranges of its mentions, which may repeat and overlap."""
    tweet = draw(CELLS)
    ends = st.lists(st.integers(0, len(tweet)), min_size=2, max_size=2, unique=True)
    pairs = draw(st.lists(ends, max_size=4))
    return tweet, [(min(pair), max(pair)) for pair in pairs]


@settings(max_examples=100, deadline=None)
@given(st.lists(tweets(), min_size=1, max_size=4))
def test_reading_undoes_writing(cases: list[tuple[str, list[tuple[int, int]]]]) -> None:
    rows: list[str] = []
    expected: list[tuple[str, str, set[Span]]] = []
    for number, (tweet, pairs) in enumerate(cases):
        name = str(number)
        rows += [
            row(begin, end, tweet[begin:end], tweet_id=name, tweet=tweet, drug="")
            for begin, end in pairs
        ] or [row(tweet_id=name, tweet=tweet, drug="")]
        expected.append((name, tweet, {Span.of(begin, end, "ADR") for begin, end in pairs}))
    with tempfile.TemporaryDirectory() as folder:
        documents, log = read_rows(Path(folder), *rows)
    assert [(d.id, d.text, set(d.spans)) for d in documents] == expected
    assert log.total == 0
