"""Token columns: one token a line, its tag in a column beside it, a blank line between sentences.

CoNLL 2003 (four columns, `-DOCSTART-` lines, IOB1), two-column BIO and whatever else has the token
and its tag in columns. A file with `-DOCSTART-` lines has one document for each; otherwise every
sentence is a document. Ids name the line on which the document begins. Columns carry no text, so
tokens are joined by blanks and sentences by line breaks.

Blocks of many sentences are checked and cut with C-speed string operations; a sentence that fails
the check is read again line by line, so that every fault is found with its line.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice, repeat
from pathlib import Path
from typing import NamedTuple

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.files import blocks, display_name, files_in, head, lines
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers.reader import Declared, Reader, ReadOptions
from fedner.corpus.schemes import SchemeEvidence, canonical, decode, split_tag, validate
from fedner.errors import FednerError

MARKER = "-DOCSTART-"
SCHEME_SCAN_LINES = 100_000
"""How many lines of a file decide its tag scheme."""

MAX_SENTENCE_CHARACTERS = 2_000_000
"""A longer run of lines without a blank one is reported and cut."""

MAX_DOCUMENT_SENTENCES = 10_000
"""A longer document comes in parts, so that memory stays bounded."""

_LAYOUT_LINES = 2_000
_MAX_KNOWN_PAIRS = 100_000
_BLANK_LINE = re.compile(r"^[ \t]+$", re.MULTILINE)
_BLANKS = re.compile(r"[ \t]+")
_PLUS_ONE: Callable[[int], int] = (1).__add__
_MINUS_ONE: Callable[[int], int] = (-1).__add__


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a file are made.

    Attributes:
        separator: A tab, or a blank that stands for any run of blanks and tabs.
        num_columns: How many columns most lines have.
        token: The column of the token.
        tag: The column of the tag.
        agreement: The share of lines with that many columns.
        tagged: The share of those lines whose tag is "O" or a prefix and a label.
    """

    separator: str
    num_columns: int
    token: int
    tag: int
    agreement: float
    tagged: float


class TokenLines(NamedTuple):
    """The lines of one sentence; no tokens at all stand for a document marker.

    Attributes:
        line: The number of its first line.
        tokens: The words.
        tags: Their tags.
        numbers: The line of each token, or None if they stand on consecutive lines.
    """

    line: int
    tokens: list[str]
    tags: list[str]
    numbers: list[int] | None = None

    def number(self, index: int) -> int:
        """Return the line of a token."""
        return self.line + index if self.numbers is None else self.numbers[index]


def recognise(path: Path) -> str | None:
    """Say why a file, or some file of a folder, looks like token columns."""
    options = ReadOptions()
    for file in files_in(path):
        if (layout := _layout_of_head(file, options)) is not None:
            where = "" if file == path else f"{file.name}: "
            separator = "tab" if layout.separator == "\t" else "blank"
            return (
                f"{where}lines of {layout.num_columns} {separator}-separated columns, "
                f"{layout.tagged:.0%} of the last ones tags"
            )
    return None


def declared(path: Path, options: ReadOptions) -> Declared:
    """Return the tag scheme of the files, as detected or as the user says."""
    if options.scheme is not None:
        return Declared(tag_scheme=canonical(options.scheme), tag_scheme_why="as given")
    found = {}
    for file in _column_files(path, options, ProblemLog()):
        layout = _layout_of_file(file, options)
        if layout is not None:
            scheme, why = _scheme_of(file, layout)
            found.setdefault(scheme, f"{file.name}: {why}")
    if not found:
        return Declared()
    return Declared(tag_scheme=" and ".join(found), tag_scheme_why="; ".join(found.values()))


def stream(path: Path, log: ProblemLog, options: ReadOptions) -> Iterator[Document]:
    """Read a file, or those files of a folder that look like columns."""
    for file in _column_files(path, options, log):
        yield from _documents_of(file, display_name(file, path), log, options)


def _column_files(path: Path, options: ReadOptions, log: ProblemLog) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = files_in(path)
    chosen = [file for file in files if _layout_of_head(file, options) is not None]
    if not chosen:
        log.report(
            Problem(
                "not a corpus", str(path), None, f"{len(files)} files, none of token columns",
                "files with one token and its tag a line",
                "Name the right folder, or say which columns hold token and tag.",
            )
        )  # fmt: skip
    elif left_out := [file.name for file in files if file not in chosen]:
        shown = ", ".join(left_out[:8]) + (", ..." if len(left_out) > 8 else "")
        log.remark(f"left out, not token columns: {shown}")
    return chosen


# How a file is laid out.


def _layout_of_head(path: Path, options: ReadOptions) -> Layout | None:
    """Return the layout if the beginning of a file looks like token columns."""
    text = head(path)
    if not text:
        return None
    rows = text.split("\n")
    if len(rows) > 1:
        rows.pop()  # cut short, or empty
    try:
        layout = _layout(rows, options)
    except FednerError:
        return None
    if layout is None or min(layout.agreement, layout.tagged) <= 0.5:
        return None
    return layout


def _layout_of_file(path: Path, options: ReadOptions) -> Layout | None:
    """Return the layout that most lines at the beginning of a file have."""
    return _layout([text for _, text in islice(lines(path, ProblemLog()), _LAYOUT_LINES)], options)


def _layout(rows: list[str], options: ReadOptions) -> Layout | None:
    """Return the layout that fits most rows; None if they have no columns."""
    rows = [row for row in rows if row.strip(" \t") and not _is_marker(row)]
    wanted = {"auto": ("\t", " "), "tab": ("\t",), "blank": (" ",)}[options.separator]
    candidates = [
        layout
        for separator in wanted
        if (layout := _layout_with(separator, rows, options)) is not None
    ]
    # The earlier one, a tab, wins a tie: tokens may contain blanks there.
    return max(candidates, key=lambda layout: layout.agreement, default=None)


def _layout_with(separator: str, rows: list[str], options: ReadOptions) -> Layout | None:
    split = [_columns(row, separator) for row in rows]
    counts = Counter(map(len, split))
    if not counts:
        return None
    num_columns, agreeing = counts.most_common(1)[0]
    if num_columns < 2:
        return None
    token = _column("token", options.token_column, num_columns)
    tag = _column("tag", options.tag_column, num_columns)
    tags = [columns[tag] for columns in split if len(columns) == num_columns]
    tagged = sum(bool(split_tag(text)[0]) for text in tags) / len(tags)
    return Layout(separator, num_columns, token, tag, agreeing / len(rows), tagged)


def _column(what: str, wanted: int, num_columns: int) -> int:
    if not -num_columns <= wanted < num_columns:
        raise FednerError(
            f"{what} column {wanted}: the lines have {num_columns} columns",
            f"Choose 0 to {num_columns - 1}, or -1 for the last one.",
        )
    return wanted % num_columns


def _columns(row: str, separator: str) -> list[str]:
    return row.split("\t") if separator == "\t" else _BLANKS.split(row.strip(" \t"))


def _is_marker(row: str) -> bool:
    return row.startswith(MARKER) and row[len(MARKER) : len(MARKER) + 1] in ("", " ", "\t")


def _scheme_of(path: Path, layout: Layout) -> tuple[str, str]:
    """Return the scheme that explains the first lines of a file best, and why."""
    evidence = SchemeEvidence()
    for sentence in _sentences(path, ProblemLog(), layout):
        if sentence.tags.count("O") != len(sentence.tags):
            evidence.add(sentence.tags)
        if sentence.line > SCHEME_SCAN_LINES:
            break
    return evidence.decide()


# From a file to sentences.


def _sentences(path: Path, log: ProblemLog, layout: Layout) -> Iterator[TokenLines]:
    """Yield the sentences and document markers of a file; wrong lines go to the log."""
    for line, text in _whole_sentences(path, log, layout.separator):
        is_regular = _is_regular(text, layout)
        has_marker = MARKER in text
        for part in text.split("\n\n"):
            inner = part.strip("\n")
            if inner:
                first = line + part.index(inner)
                if has_marker and MARKER in inner:
                    yield from _with_markers(inner.split("\n"), first, path, log, layout)
                elif is_regular or _is_regular(inner, layout):
                    yield _cut(inner, first, layout)
                else:
                    yield from _checked_lines(inner.split("\n"), first, path, log, layout)
            line += part.count("\n") + 2


def _whole_sentences(path: Path, log: ProblemLog, separator: str) -> Iterator[tuple[int, str]]:
    """Yield blocks that end where a sentence ends, with the number of their first line."""
    rest, first = "", 1
    for _, text in blocks(path, log):
        rest += text if separator == "\t" else _single_blanks(text)
        if "\n " in rest or "\n\t" in rest or rest.startswith((" ", "\t")):
            rest = _BLANK_LINE.sub("", rest)
        cut = rest.rfind("\n\n") + 2
        if cut < 2:
            if len(rest) <= MAX_SENTENCE_CHARACTERS:
                continue
            _report_endless(log, path, first)
            cut = rest.rfind("\n") + 1
        yield first, rest[:cut]
        first += rest.count("\n", 0, cut)
        rest = rest[cut:]
    if rest:
        yield first, rest


def _single_blanks(text: str) -> str:
    """Return whole lines with every run of blanks and tabs as one blank, none at their ends."""
    if "\t" in text or "  " in text:
        text = _BLANKS.sub(" ", text)
    return text.replace("\n ", "\n").replace(" \n", "\n").strip(" ")


def _is_regular(text: str, layout: Layout) -> bool:
    """Whether every line is blank or has the right number of columns, none of them empty."""
    separator, num_separators = layout.separator, layout.num_columns - 1
    if separator * 2 in text or f"\n{separator}" in text or f"{separator}\n" in text:
        return False
    if text.startswith(separator) or text.endswith(separator):
        return False
    rows = text.split("\n")
    counts = list(map(str.count, rows, repeat(separator)))
    num_blank = rows.count("")
    return counts.count(num_separators) == len(rows) - num_blank


def _cut(text: str, line: int, layout: Layout) -> TokenLines:
    """Cut a regular sentence into its tokens and tags."""
    separator, step = layout.separator, layout.num_columns
    fields = text.replace("\n", separator).split(separator)
    return TokenLines(line, fields[layout.token :: step], fields[layout.tag :: step])


def _with_markers(
    rows: list[str], first: int, path: Path, log: ProblemLog, layout: Layout
) -> Iterator[TokenLines]:
    """Read rows among which a document marker may stand, with or without blank lines around it."""
    begin = 0
    for index, row in enumerate(rows):
        if _is_marker(row):
            yield from _checked_lines(rows[begin:index], first + begin, path, log, layout)
            yield TokenLines(first + index, [], [])
            begin = index + 1
    yield from _checked_lines(rows[begin:], first + begin, path, log, layout)


def _checked_lines(
    rows: list[str], first: int, path: Path, log: ProblemLog, layout: Layout
) -> Iterator[TokenLines]:
    """Read a sentence line by line; yields nothing if no line of it can be read."""
    tokens, tags, numbers = [], [], []
    for number, row in enumerate(rows, first):
        columns = _columns(row, layout.separator)
        if len(columns) == layout.num_columns and all(columns):
            tokens.append(columns[layout.token])
            tags.append(columns[layout.tag])
            numbers.append(number)
        else:
            _report_columns(log, path, number, columns, layout)
    if tokens:
        yield TokenLines(numbers[0], tokens, tags, numbers)


# From sentences to documents.


def _documents_of(
    path: Path, name: str, log: ProblemLog, options: ReadOptions
) -> Iterator[Document]:
    """Read one file."""
    before = log.total
    layout = _layout_of_file(path, options)
    if layout is None:
        for _ in lines(path, log):  # whatever is wrong with the file itself comes first
            pass
        if log.total == before:
            _report_no_columns(log, path)
        return
    scheme = canonical(options.scheme) if options.scheme else _scheme_of(path, layout)[0]
    check = _TagCheck(scheme, path, log)
    sentences = _sentences(path, log, layout)
    for group in _by_document(sentences, name, log):
        yield _document(group, name, check)


def _by_document(
    sentences: Iterable[TokenLines], name: str, log: ProblemLog
) -> Iterator[list[TokenLines]]:
    """Group sentences by document marker; without markers each is a group of its own."""
    group: list[TokenLines] | None = None
    for sentence in sentences:
        if not sentence.tokens:
            log.document_markers[name] += 1
            if group is not None:
                yield group
            group = [sentence]
        elif group is None:
            yield [sentence]
        elif len(group) > MAX_DOCUMENT_SENTENCES:
            log.remark(f"a document of more than {MAX_DOCUMENT_SENTENCES:,} sentences, in parts")
            yield group
            group = [sentence]
        else:
            group.append(sentence)
    if group is not None:
        yield group


def _document(group: list[TokenLines], name: str, check: "_TagCheck") -> Document:
    """Make a document of its sentences, the first of which may be the marker."""
    texts: list[str] = []
    spans: list[Span] = []
    segments: list[Segment] = []
    offset = 0
    for sentence in group:
        tokens, tags = sentence.tokens, sentence.tags
        if not tokens:
            continue
        text = " ".join(tokens)
        starts = tuple(accumulate(map(_PLUS_ONE, map(len, tokens)), initial=offset))
        ends = tuple(map(_MINUS_ONE, starts[1:]))
        starts = starts[:-1]
        segments.append(Segment(offset, ends[-1], starts, ends))
        if tags.count("O") != len(tags):
            check(sentence)
            for first, last, label in decode(tags, check.scheme):
                spans.append(Span(((starts[first], ends[last - 1]),), label))
        texts.append(text)
        offset = ends[-1] + 1
    identity = f"{name}#{group[0].line}"
    return Document(identity, "\n".join(texts), tuple(spans), tuple(segments), None, name)


@dataclass(slots=True)
class _TagCheck:
    """Reports tags that the scheme does not allow.

    Whether a sentence is legal depends only on its pairs of neighbouring tags (the outside of the
    sentence counting as "O"), so the pairs of legal sentences are remembered: almost every sentence
    is settled by one comparison of sets.
    """

    scheme: str
    path: Path
    log: ProblemLog
    legal: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, sentence: TokenLines) -> None:
        tags = sentence.tags
        pairs = set(zip(["O", *tags], [*tags, "O"], strict=True))
        if pairs <= self.legal:
            return
        faults = validate(tags, self.scheme)
        if not faults and len(self.legal) < _MAX_KNOWN_PAIRS:
            self.legal |= pairs
        for index, tag, why in faults:
            _report_tag(self.log, self.path, sentence.number(index), tag, why)


# What is wrong.


def _report_columns(
    log: ProblemLog, path: Path, line: int, columns: list[str], layout: Layout
) -> None:
    wanted = f"{layout.num_columns} {'tab' if layout.separator == chr(9) else 'blank'}-separated"
    found = f"{len(columns)} columns" if len(columns) != 1 else "1 column"
    if len(columns) == layout.num_columns:
        found = "an empty column"
    log.report(
        Problem(
            "wrong column count", str(path), line, found, f"{wanted} columns as in most lines",
            "Mend the line; without that it is skipped.",
        )
    )  # fmt: skip


def _report_tag(log: ProblemLog, path: Path, line: int, tag: str, why: str) -> None:
    is_tag = bool(split_tag(tag)[0])
    shown = tag if len(tag) <= 60 else f"{tag[:60]}..."
    log.report(
        Problem(
            "illegal tag" if is_tag else "unknown tag", str(path), line, f'"{shown}"',
            f"a legal tag ({why})" if is_tag else 'O or a prefix, "-" and a label, such as B-Drug',
            "Mend it, or name the scheme; conlleval's reading is kept." if is_tag
            else "Mend it, or say which column holds the tags; it counts as O.",
            kept=is_tag,
        )
    )  # fmt: skip


def _report_endless(log: ProblemLog, path: Path, line: int) -> None:
    limit = f"{MAX_SENTENCE_CHARACTERS:,} characters"
    log.report(
        Problem(
            "malformed line", str(path), line, f"no blank line within {limit}",
            "a blank line between sentences", "Separate the sentences; it is cut here.", kept=True,
        )
    )  # fmt: skip


def _report_no_columns(log: ProblemLog, path: Path) -> None:
    log.report(
        Problem(
            "not a corpus", str(path), None, "no lines of two or more columns",
            "one token and its tag a line", "Check the file, or name its format.",
        )
    )  # fmt: skip


READER = Reader(
    name="columns",
    description="token columns: CoNLL 2003, two-column BIO and their kin",
    recognise=recognise,
    stream=stream,
    sentences="as given",
    declared=declared,
    has_unique_ids=True,
)
