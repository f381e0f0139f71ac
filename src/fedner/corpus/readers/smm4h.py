"""SMM4H adverse-effect extraction: tab-separated tweets, one row per mention.

The two files of the shared task (Weissenbacher et al. 2019, "Overview of the fourth social media
mining for health shared task") are `task3_training.tsv` and `task3_validation.tsv`. Quotes are
literal, empty columns may follow the ninth, and a tweet without a mention has one row without
offsets. `drug` is a name, not a place: wherever it stands in the tweet as a word, whatever its
case, there is a Drug mention, as in the FedNER paper. HTML entities stay as they are: the offsets
count them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.files import display_name, files_in, head, lines, stem
from fedner.corpus.problems import Kind, Problem, ProblemLog
from fedner.corpus.readers.folder import choose
from fedner.corpus.readers.options import option
from fedner.corpus.readers.reader import Reader

HEADER = (
    "tweet_id", "begin", "end", "type", "extraction", "drug", "tweet", "meddra_code", "meddra_term"
)  # fmt: skip
NUM_NEEDED = HEADER.index("tweet") + 1
"""Columns that every row must have; editors cut off the empty ones that follow."""

LABELS = ("ADR", "Drug")

REMARK_CASE = "extraction that agrees with its offsets only if case is ignored"
REMARK_SAME_TWEET = "tweet that is in more than one file with the same text (merged)"
REMARK_SAME_MENTION = "mention that is declared by more than one row (merged)"
REMARK_NO_DRUG = "drug name that does not stand in its tweet as a word (no Drug mention)"

_WHOLE_NUMBER = re.compile(r"(-?[0-9]{1,12})(?:\.0*)?")


class Row(NamedTuple):
    """The columns of a row that are read."""

    tweet_id: str
    begin: str
    end: str
    type: str
    extraction: str
    drug: str
    tweet: str
    patient: str


@dataclass(slots=True)
class Tweet:
    """A tweet while its rows are collected; the dictionaries are sets that keep their order."""

    text: str
    file: str
    files: set[str]
    mentions: dict[Span, None] = field(default_factory=dict)
    drugs: dict[str, None] = field(default_factory=dict)
    patient: str | None = None


@dataclass(frozen=True, slots=True)
class Smm4hOptions:
    """The options of SMM4H tables.

    Attributes:
        patient_column: The column that says whose a tweet is.
    """

    patient_column: str | None = option(None, "the name of the column that holds the patient")


def recognise(path: Path) -> str | None:
    """Say why a path looks like SMM4H extraction, or None."""
    try:
        found = next(_files(path), None)
    except OSError:  # a path that the system refuses is no corpus
        return None
    return None if found is None else f"{found.name} begins with the header {' '.join(HEADER)}"


def stream(path: Path, log: ProblemLog, options: Smm4hOptions) -> Iterator[Document]:
    """Yield the tweets in the order of their first rows; all files are read before the first."""
    tweets: dict[str, Tweet] = {}
    for file in _tables(path, log):
        for number, row in _rows(file, log, options.patient_column):
            _collect(tweets, row, file, number, display_name(file, path), log)
    for tweet_id, tweet in tweets.items():
        yield _document(tweet_id, tweet, log)


def declared_labels(_path: Path) -> tuple[str, ...]:
    """Return the two types: the task's own and the projected drug names."""
    return LABELS


def project(name: str, tweet: str) -> list[Span]:
    """Return every place where a drug's name stands in a tweet as a word, as Drug mentions.

    Case is ignored. The `#` of a hashtag is not part of the mention.
    """
    name = name.strip().lstrip("#")
    if not name:
        return []
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    return [Span.of(match.start(), match.end(), "Drug") for match in pattern.finditer(tweet)]


def _tables(path: Path, log: ProblemLog) -> list[Path]:
    """Return the tables to read: those with the task's header, and such as cannot be read."""
    if path.is_dir():
        return choose(path, _is_table, log, "table with the header of the task")
    files = list(_files(path))
    if not files:
        problem = Problem(
            "not a corpus", str(path), None, "no table with the header of the task",
            "tab-separated columns " + " ".join(HEADER),
            "Name the .tsv files of the task or their folder, or choose another format.",
        )  # fmt: skip
        log.report(problem)
    return files


def _files(path: Path) -> Iterator[Path]:
    """Yield the tables of a folder that have the task's header, or the file itself if it has."""
    for file in files_in(path):
        if _is_table(file) if path.is_dir() else _has_header(file):
            yield file


def _is_table(file: Path) -> bool:
    """Whether a file of a folder is named as a table and has the task's header."""
    return stem(file).lower().endswith(".tsv") and _has_header(file)


def _has_header(file: Path) -> bool:
    return _is_header((head(file) or "").split("\n", 1)[0])


def _is_header(line: str) -> bool:
    columns = [column.strip().lower() for column in line.split("\t")]
    return tuple(columns[: len(HEADER)]) == HEADER


def _rows(file: Path, log: ProblemLog, column: str | None) -> Iterator[tuple[int, Row]]:
    """Yield the rows; `column` names one that says whose tweet it is."""
    names: list[str] = []
    for number, line in lines(file, log):
        if number == 1:
            names = [name.strip() for name in line.split("\t")]
            if not _is_header(line):
                _report(
                    log, file, number, "malformed line", "no header of the task",
                    " ".join(HEADER), "Restore the file.",
                )  # fmt: skip
        if number == 1 or not line.strip():
            continue
        columns = line.split("\t")
        owner = names.index(column) if column in names else len(columns)
        surplus = [
            cell
            for place, cell in enumerate(columns)
            if place >= len(HEADER) and cell.strip() and not any(names[place : place + 1])
        ]
        if len(columns) < NUM_NEEDED or surplus:
            found = f"{len(columns)} columns" + (f", one with {surplus[0]!r}" if surplus else "")
            _report(
                log, file, number, "wrong column count", found,
                f"{len(HEADER)} columns and only empty ones after them",
                "Fix the row: a tweet must not contain a tab.",
            )  # fmt: skip
            continue
        patient = columns[owner].strip() if owner < len(columns) else ""
        row = Row._make([*columns[:NUM_NEEDED], patient])
        if not row.tweet_id.strip() or not row.tweet.strip():
            _report(
                log, file, number, "malformed line", "a row without tweet_id or tweet", "both",
                "Fix or remove the row.",
            )  # fmt: skip
            continue
        yield number, row


def _collect(
    tweets: dict[str, Tweet], row: Row, file: Path, number: int, source: str, log: ProblemLog
) -> None:
    """Add a row to its tweet."""
    tweet_id, label = row.tweet_id.strip(), row.type.strip()
    tweet = tweets.setdefault(tweet_id, Tweet(row.tweet, source, {source}))
    if tweet.text != row.tweet:
        problem = Problem(
            "duplicate id", str(file), number, f"tweet {tweet_id} with another text",
            f"the text that {tweet.file} has for it", "Give one of the two another id.",
        )  # fmt: skip
        if label:
            log.skip_mention(problem, tweet_id, label)
        else:
            log.report(problem)
        return
    if source not in tweet.files:
        tweet.files.add(source)
        log.remark(REMARK_SAME_TWEET)
    tweet.patient = tweet.patient or row.patient or None
    if row.patient and row.patient != tweet.patient:
        _report(
            log, file, number, "two patients", f'"{row.patient}" for tweet {tweet_id}',
            f'"{tweet.patient}", as in the row before', "Fix the column; the first counts.",
            kept=True,
        )  # fmt: skip
    if row.drug.strip():
        tweet.drugs.setdefault(row.drug.strip())
    if any(cell.strip() for cell in (row.begin, row.end, row.type, row.extraction)):
        span = _mention(row, file, number, log)
        if span in tweet.mentions:
            log.remark(REMARK_SAME_MENTION)
        elif span is not None:
            tweet.mentions[span] = None


def _mention(row: Row, file: Path, number: int, log: ProblemLog) -> Span | None:
    """Return the mention of a row; the offsets win over the extraction."""
    tweet_id, label = row.tweet_id.strip(), row.type.strip()
    found = f"{label or 'no type'} {row.begin} {row.end} {row.extraction!r}"
    ends = [_WHOLE_NUMBER.fullmatch(cell.strip()) for cell in (row.begin, row.end)]
    fragments = tuple([(int(ends[0][1]), int(ends[1][1]))] if ends[0] and ends[1] else [])
    if not fragments or not label:
        fault: tuple[Kind, str] | None = (
            "malformed line", "whole numbers as begin and end with a type, or all of them empty"
        )  # fmt: skip
    else:
        fault = _fault(*fragments[0], len(row.tweet))
    if fault is not None:
        kind, expected = fault
        problem = Problem(kind, str(file), number, found, expected, "Fix or empty these columns.")
        log.skip_mention(problem, tweet_id, label or LABELS[0], fragments)
        return None
    start, end = fragments[0]
    there = row.tweet[start:end]
    if there != row.extraction and there.casefold() == row.extraction.casefold():
        log.remark(REMARK_CASE)
    elif there != row.extraction:
        _report(
            log, file, number, "offset and quote differ", found, f"{there!r}, the text there",
            "Fix the offsets or the extraction.", kept=True,
        )  # fmt: skip
    return Span.of(start, end, label)


def _fault(start: int, end: int, length: int) -> tuple[Kind, str] | None:
    if start == end:
        return "zero-length span", "an end after its begin"
    if not 0 <= start < end <= length:
        return "offset outside the text", f"a range within 0 to {length}, the length of the tweet"
    return None


def _document(tweet_id: str, tweet: Tweet, log: ProblemLog) -> Document:
    """Return a tweet with its mentions and drugs; it is one sentence."""
    spans = dict(tweet.mentions)
    for name in tweet.drugs:
        places = project(name, tweet.text)
        if not places:
            log.remark(REMARK_NO_DRUG)
        spans.update(dict.fromkeys(places))
    segment = Segment(0, len(tweet.text))
    return Document(tweet_id, tweet.text, tuple(spans), (segment,), tweet.patient, tweet.file)


def _report(
    log: ProblemLog,
    file: Path,
    line: int,
    kind: Kind,
    found: str,
    expected: str,
    hint: str,
    *,
    kept: bool = False,
) -> None:
    log.report(Problem(kind, str(file), line, found, expected, hint, kept))


READER = Reader(
    name="smm4h",
    description="SMM4H adverse-effect extraction: task3_training.tsv and task3_validation.tsv",
    recognise=recognise,
    stream=stream,
    sentences="as given",
    options=Smm4hOptions,
    declared_labels=declared_labels,
)
