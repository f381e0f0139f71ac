"""Token columns: one token a line, its tag in a column beside it, a blank line between sentences.

CoNLL 2003 (four columns, `-DOCSTART-` lines, IOB1), two-column BIO and whatever else has the token
and its tag in columns. A file with `-DOCSTART-` lines has one document for each, and one for what
stands before the first; otherwise every sentence is a document. Ids are those of the marker where
it carries one (fedner's own and AIDA's do), or else name the line on which the document begins.
Columns carry no text, so tokens are joined by blanks and sentences by line breaks.

Blocks of many sentences are cut at once (`column_blocks.py`); where a block has an irregular line,
its sentences are read again line by line, so that every fault is found with its line.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.files import blocks, display_name, files_in, lines
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers.column_blocks import TokenLines, cut_block, of_tokens
from fedner.corpus.readers.column_layout import (
    MARKER,
    ColumnOptions,
    Layout,
    columns_of,
    has_markers,
    layout_of_file,
    layout_of_head,
    marked,
)
from fedner.corpus.readers.column_patients import ColumnPatients
from fedner.corpus.readers.folder import choose
from fedner.corpus.readers.reader import Declared, Reader
from fedner.corpus.schemes import Scheme, SchemeEvidence, canonical, decode, split_tag, validate
from fedner.corpus.sentence import Entity

SCHEME_SCAN_LINES = 100_000
"""How many lines of a file decide its tag scheme."""

MAX_SENTENCE_CHARACTERS = 2_000_000
"""A longer run of lines without a blank one is reported and cut."""

MAX_DOCUMENT_SENTENCES = 10_000
"""A longer document comes in parts, so that memory stays bounded."""

EMPTY_TOKEN = "\ufffd"
"""Stands for a token that the file leaves empty."""

CHANGE_EMPTY_TOKEN = "empty tokens (stored as U+FFFD)"

_SMALL_BLOCK = 4_096  # characters; an irregular block of that size is read line by line
_MAX_KNOWN_RUNS = 100_000
_LONG_RUN = 64
_BLANK_LINE = re.compile(r"^[ \t]+$", re.MULTILINE)
_BLANKS = re.compile(r"[ \t]+")
_MARKER_LINE = re.compile(rf"^{MARKER}(?=[ \t\n]|\Z)[^\n]*", re.MULTILINE)


def recognise(path: Path) -> str | None:
    """Say why a file, or some file of a folder, looks like token columns."""
    options = ColumnOptions()
    for file in files_in(path):
        if (layout := layout_of_head(file, options)) is not None:
            where = "" if file == path else f"{file.name}: "
            separator = "tab" if layout.separator == "\t" else "blank"
            return (
                f"{where}lines of {layout.num_columns} {separator}-separated columns, "
                f"{layout.tagged:.0%} of the last ones tags"
            )
    return None


def declared(path: Path, options: ColumnOptions, encoding: str | None) -> Declared:
    """Return the tag scheme of the files, as detected or as the user says."""
    if options.scheme is not None:
        return Declared(tag_scheme=canonical(options.scheme), tag_scheme_why="as given")
    found: dict[str, str] = {}
    for file in _column_files(path, options, ProblemLog()):
        layout = layout_of_file(file, options, encoding)
        if layout is not None:
            scheme, why = _scheme_of(file, layout, encoding)
            found.setdefault(scheme, f"{file.name}: {why}")
    if not found:
        return Declared()
    return Declared(tag_scheme=" and ".join(found), tag_scheme_why="; ".join(found.values()))


def stream(path: Path, log: ProblemLog, options: ColumnOptions) -> Iterator[Document]:
    """Read a file, or those files of a folder that look like columns."""
    names: set[str] = set()
    marked_ids: set[str] = set()
    for file in _column_files(path, options, log):
        name = display_name(file, path)
        if name in names:  # the same file packed and unpacked: ids must stay unique
            name = file.name
        names.add(name)
        for document in _documents_of(file, name, log, options):
            if document.id.startswith(f"{name}#"):
                yield document  # named by its line, so unique
            elif document.id in marked_ids:
                _report_repeated(log, file, document.id)
            else:
                marked_ids.add(document.id)
                yield document


def _column_files(path: Path, options: ColumnOptions, log: ProblemLog) -> list[Path]:
    def has_columns(file: Path) -> bool:
        return layout_of_head(file, options) is not None

    return choose(path, has_columns, log, "token columns")


def _scheme_of(path: Path, layout: Layout, encoding: str | None) -> tuple[Scheme, str]:
    """Return the scheme that explains the first lines of a file best, and why."""
    evidence = SchemeEvidence()
    for sentence in _sentences(path, ProblemLog(limit=0, encoding=encoding), layout):
        for _, tags in sentence.runs:
            evidence.add(tags)
        if sentence.line > SCHEME_SCAN_LINES:
            break
    return evidence.decide()


# From a file to sentences.


def _sentences(path: Path, log: ProblemLog, layout: Layout) -> Iterator[TokenLines]:
    """Yield the sentences and, as sentences without tokens, the document markers of a file."""
    marker_line = layout.separator.join(
        "O" if column == layout.tag else MARKER for column in range(layout.num_columns)
    )
    for line, text in _whole_sentences(path, log, layout.separator):
        if MARKER not in text:
            yield from _cut(text, line, path, log, layout)
            continue
        # Whatever columns a marker has, and with or without blank lines around it.
        regular = _MARKER_LINE.sub(marker_line, text)
        rows = text.split("\n")
        for sentence in _cut(regular, line, path, log, layout):
            for part in _at_markers(sentence):
                yield part if part.starts else part._replace(marker=rows[part.line - line])


def _cut(text: str, line: int, path: Path, log: ProblemLog, layout: Layout) -> Iterator[TokenLines]:
    """Cut a block into sentences; an irregular one is halved until the bad lines are found."""
    sentences = cut_block(text, line, layout)
    if sentences is not None:
        yield from sentences
        return
    middle = text.find("\n\n", len(text) // 2) + 2
    if len(text) > _SMALL_BLOCK and 2 <= middle < len(text):
        yield from _cut(text[:middle], line, path, log, layout)
        yield from _cut(text[middle:], line + text.count("\n", 0, middle), path, log, layout)
        return
    for part in text.split("\n\n"):
        yield from _checked_lines(part.split("\n"), line, path, log, layout)
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


def _checked_lines(
    rows: list[str], first: int, path: Path, log: ProblemLog, layout: Layout
) -> Iterator[TokenLines]:
    """Read a sentence line by line; yields nothing if no line of it can be read."""
    tokens, tags, numbers = [], [], []
    for number, row in enumerate(rows, first):
        if not row:
            continue
        columns = columns_of(row, layout.separator)
        if len(columns) == layout.num_columns and columns[layout.tag]:
            if not columns[layout.token]:  # its tag still stands, so its place must stay
                log.changes[CHANGE_EMPTY_TOKEN] += 1
            tokens.append(columns[layout.token] or EMPTY_TOKEN)
            tags.append(columns[layout.tag])
            numbers.append(number)
        else:
            _report_columns(log, path, number, columns, layout)
    if tokens:
        yield of_tokens(tokens, tags, numbers)


def _at_markers(sentence: TokenLines) -> Iterator[TokenLines]:
    """Part a sentence at the document markers among its tokens."""
    tokens = [
        sentence.text[start:end] for start, end in zip(sentence.starts, sentence.ends, strict=True)
    ]
    if MARKER not in tokens:
        yield sentence
        return
    tags = ["O"] * len(tokens)
    for first, run in sentence.runs:
        tags[first : first + len(run)] = run
    numbers = [sentence.number(index) for index in range(len(tokens))]
    begin = 0
    for index, token in enumerate([*tokens, MARKER]):
        if token == MARKER:
            if index > begin:
                part = slice(begin, index)
                yield of_tokens(tokens[part], tags[part], numbers[part])
            if index < len(tokens):
                yield TokenLines(numbers[index], "", (), (), ())
            begin = index + 1


# From sentences to documents.


def _documents_of(
    path: Path, name: str, log: ProblemLog, options: ColumnOptions
) -> Iterator[Document]:
    """Read one file."""
    before = log.total
    layout = layout_of_file(path, options, log.encoding)
    if layout is None:
        for _ in lines(path, log):  # whatever is wrong with the file itself comes first
            pass
        if log.total == before:
            _report_no_columns(log, path)
        return
    scheme = (
        canonical(options.scheme) if options.scheme else _scheme_of(path, layout, log.encoding)[0]
    )
    runs = _RunReader(scheme, path, log)
    sentences = _sentences(path, log, layout)
    groups = (
        _by_document(sentences, name, log)
        if has_markers(path, log.encoding)
        else ([sentence] for sentence in sentences)
    )
    column = options.patient_column
    patients = None if column is None else ColumnPatients(path, column, layout, log)
    for group in groups:
        document = _document(group, name, runs)
        patient = None if patients is None else patients.of(group)
        yield document if patient is None else replace(document, patient=patient)


def _by_document(
    sentences: Iterable[TokenLines], name: str, log: ProblemLog
) -> Iterator[list[TokenLines]]:
    """Group sentences by document marker; those before the first marker are a group too."""
    group: list[TokenLines] = []
    for sentence in sentences:
        if not sentence.starts:
            # Published counts take the markers of their files for sentences; ours are no such.
            log.document_markers[name] += marked(sentence.marker)[0] is None
            if group:
                yield group
            group = [sentence]
        elif len(group) > MAX_DOCUMENT_SENTENCES:
            log.remark(f"a document of more than {MAX_DOCUMENT_SENTENCES:,} sentences, in parts")
            yield group
            group = [sentence]
        else:
            group.append(sentence)
    if group:
        yield group


def _document(group: list[TokenLines], name: str, runs: "_RunReader") -> Document:
    """Make a document of its sentences, the first of which may be the marker."""
    spans: list[Span] = []
    segments: list[Segment] = []
    offset = 0
    for sentence in group:
        starts, ends = sentence.starts, sentence.ends
        if not starts:
            continue
        if offset:
            starts, ends = tuple(map(offset.__add__, starts)), tuple(map(offset.__add__, ends))
        segments.append(Segment(offset, ends[-1], starts, ends))
        for first, run in sentence.runs:
            for begin, end, label in runs.entities(run, first, sentence):
                span = (starts[first + begin], ends[first + end - 1])
                spans.append(Span((span,), label))
        offset = ends[-1] + 1
    text = "\n".join([sentence.text for sentence in group if sentence.starts])
    identity, patient = marked(group[0].marker) if group[0].marker else (None, None)
    identity = identity or f"{name}#{group[0].line}"
    return Document(identity, text, tuple(spans), tuple(segments), patient, name)


@dataclass(slots=True)
class _RunReader:
    """Reads runs of tags under a scheme and reports what the scheme does not allow.

    A run stands between "O"s, so it has the same meaning and the same faults wherever it stands.
    A corpus has few different runs: each is decoded and checked once.
    """

    scheme: Scheme
    path: Path
    log: ProblemLog
    legal: dict[tuple[str, ...], list[Entity]] = field(default_factory=dict)

    def entities(self, run: tuple[str, ...], first: int, sentence: TokenLines) -> list[Entity]:
        """Return the entities of a run that begins at token `first`, counted from there."""
        known = self.legal.get(run)
        if known is not None:
            return known
        found = decode(run, self.scheme)
        faults = validate(run, self.scheme)
        if not faults and len(self.legal) < _MAX_KNOWN_RUNS and len(run) <= _LONG_RUN:
            self.legal[run] = found
        for index, tag, why in faults:
            _report_tag(self.log, self.path, sentence.number(first + index), tag, why)
        return found


# What is wrong.


def _report_columns(
    log: ProblemLog, path: Path, line: int, columns: list[str], layout: Layout
) -> None:
    wanted = f"{layout.num_columns} {'tab' if layout.separator == chr(9) else 'blank'}-separated"
    found = f"{len(columns)} columns" if len(columns) != 1 else "1 column"
    if len(columns) == layout.num_columns:
        found = "no tag"
    log.report(
        Problem(
            "wrong column count", str(path), line, found, f"{wanted} columns as in most lines",
            "Fix the line; without that it is skipped.",
        )
    )  # fmt: skip


def _report_tag(log: ProblemLog, path: Path, line: int, tag: str, why: str) -> None:
    is_tag = bool(split_tag(tag)[0])
    shown = tag if len(tag) <= 60 else f"{tag[:60]}..."
    log.report(
        Problem(
            "illegal tag" if is_tag else "unknown tag", str(path), line, f'"{shown}"',
            f"a legal tag ({why})" if is_tag else 'O or a prefix, "-" and a label, such as B-Drug',
            "Fix it, or name the scheme; conlleval's reading is kept." if is_tag
            else "Fix it, or say which column holds the tags; it counts as O.",
            kept=is_tag,
        )
    )  # fmt: skip


def _report_repeated(log: ProblemLog, path: Path, identity: str) -> None:
    log.report(
        Problem(
            "duplicate id", str(path), None, f'"{identity}" again', "one document for each id",
            "Rename or remove one; the first is kept.",
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
    options=ColumnOptions,
    declared=declared,
    has_unique_ids=True,
)
