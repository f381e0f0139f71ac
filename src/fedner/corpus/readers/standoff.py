r"""Standoff annotation (NAME.txt with NAME.ann): the lines and pairs that brat and CADEC share.

A text-bound line is `T1<TAB>Type 0 5;12 20<TAB>quote`. Offsets are half-open and count the
characters (Unicode code points) of the text as it stands in its file, "\r" included. The quote
joins the fragments by a blank and has blanks for line breaks. See
https://brat.nlplab.org/standoff.html.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fedner.corpus.document import Document, Fragment, Span
from fedner.corpus.files import COMPRESSED_SUFFIXES, display_name, head, read_text
from fedner.corpus.problems import Kind, Problem, ProblemLog

REMARK_WHITE_SPACE = "quoted text that differs from its offsets in white space only"
REMARK_REPEATED = "mention declared twice in its document (both kept)"

LINE_KINDS = {
    "R": "relations",
    "E": "events",
    "A": "attributes",
    "M": "modifications",
    "N": "normalisations",
    "#": "notes",
    "*": "equivalences",
}
"""What the first character of a line that is not text-bound says; such lines are left out."""

# At most 12 digits: no text is longer, and Python refuses to convert thousands of them.
_RANGE = r"-?[0-9]{1,12} +-?[0-9]{1,12}"
_TEXT_BOUND = re.compile(rf"(T\S+)\t *(\S+) +({_RANGE}(?: *; *{_RANGE})*) *(?:\t(.*))?", re.DOTALL)
_LABEL = re.compile(r"T\S*\s+(\S+)")
_CLEAR_TEXT_BOUND = re.compile(r"^T[0-9]+\t[^\s]+ [0-9]+ [0-9]+(;[0-9]+ [0-9]+)*\t", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TextBound:
    """A text-bound line as it was written, whether or not its text has a place for it.

    Attributes:
        line: Its number in the file, from 1; None where the format has no lines.
        id: The name of the annotation, such as T1.
        label: The entity type.
        fragments: The character ranges in the order of the line.
        quote: The text that the line quotes, or None where it has none.
    """

    line: int | None
    id: str
    label: str
    fragments: tuple[Fragment, ...]
    quote: str | None


def looks_like_standoff(path: Path) -> bool | None:
    """Say whether the head of an .ann file has a text-bound line; None where it is blank."""
    beginning = head(path)
    if beginning is None:
        return False
    if not beginning.strip():
        return None
    return _CLEAR_TEXT_BOUND.search(beginning) is not None


def paths_by_name(folder: Path, suffix: str, log: ProblemLog) -> dict[str, Path]:
    """Return the files with `suffix` (also compressed) under a folder, by their name without it.

    A name is relative to the folder, with `/`. Hidden files and the resource folders that macOS
    puts into archives are left out.
    """
    found: dict[str, Path] = {}
    for path in walk(folder, log):
        name = display_name(path, folder)
        if not name.lower().endswith(suffix):
            continue
        name = name[: -len(suffix)]
        if name in found:
            problem = Problem(
                "duplicate id", str(path), None, f"a second file for the document {name}",
                f"only {found[name].name}", "Remove one of the two.",
            )  # fmt: skip
            log.report(problem)
        else:
            found[name] = path
    return found


def walk(folder: Path, log: ProblemLog | None = None) -> Iterator[Path]:
    """Yield the visible files under a folder, in a fixed order; folders come one at a time."""

    def unlisted(error: OSError) -> None:
        if log is not None:
            problem = Problem(
                "unreadable file", str(error.filename), None, error.strerror or str(error),
                "a folder that can be listed", "Check its permissions.",
            )  # fmt: skip
            log.report(problem)

    for parent, folders, names in os.walk(folder, onerror=unlisted):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__MACOSX"
        )
        # A plain file comes before its compressed copy, which is then the superfluous one.
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(parent, name)


def twin(path: Path, suffix: str) -> Path | None:
    """Return the file beside `path` with the other suffix (also compressed), if there is one."""
    name = path.name
    for ending in COMPRESSED_SUFFIXES:
        name = name.removesuffix(ending)
    stem = Path(name).stem
    for ending in ("", *COMPRESSED_SUFFIXES):
        candidate = path.with_name(f"{stem}{suffix}{ending}")
        if candidate.is_file():
            return candidate
    return None


def read_pairs(
    texts: Mapping[str, Path], annotations: Mapping[str, Path], root: Path, log: ProblemLog
) -> Iterator[Document]:
    """Yield the document of every name that has both files; report the others.

    A text without .ann is left out: nobody said that it has no mentions (an empty .ann does). An
    .ann without text is read all the same, so that its mentions are counted.
    """
    for name in sorted(texts.keys() | annotations.keys()):
        text, annotation = texts.get(name), annotations.get(name)
        if annotation is None:
            if text is not None:
                _report_missing(text, f"{Path(name).name}.ann", log)
        elif text is None:
            _report_missing(annotation, f"{Path(name).name}.txt", log)
            _skip_all(annotation, name, log)
        else:
            document = read_document(name, text, annotation, root, log)
            if document is not None:
                yield document


def read_document(
    name: str, text_path: Path, annotation_path: Path, root: Path, log: ProblemLog
) -> Document | None:
    """Return one document with the mentions that can be placed, or None if a file is unreadable."""
    text = read_text(text_path, log)
    if text is None:
        _skip_all(annotation_path, name, log)
        return None
    mentions = parse(annotation_path, name, log)
    if mentions is None:
        return None
    spans: list[Span] = []
    seen: set[Span] = set()
    for mention in mentions:
        span = place(mention, text, annotation_path, name, log)
        if span is None:
            continue
        if span in seen:
            log.remark(REMARK_REPEATED)
        seen.add(span)
        spans.append(span)
    return Document(name, text, tuple(spans), source=display_name(text_path, root))


def parse(path: Path, document: str, log: ProblemLog) -> list[TextBound] | None:
    """Return the text-bound lines of an .ann file, or None if it cannot be read."""
    num_lost = log.total - log.kept
    content = read_text(path, log, may_be_empty=True)
    # What a damaged file holds before the damage is not all that it says.
    if content is None or log.total - log.kept > num_lost:
        return None
    mentions: list[TextBound] = []
    ids: set[str] = set()
    for number, raw in enumerate(content.split("\n"), 1):
        line = raw.removesuffix("\r")
        if not line.strip():
            continue
        if line[0] in LINE_KINDS:
            log.remark(f"standoff {LINE_KINDS[line[0]]} (left out)")
            continue
        mention = _parse_line(line, number, path, document, log)
        if mention is None:
            continue
        if mention.id in ids:
            log.report(Problem(
                "duplicate id", str(path), number, f"a second {mention.id}",
                "every id once in its file", "Give one of the two another id.", kept=True,
            ))  # fmt: skip
        ids.add(mention.id)
        mentions.append(mention)
    return mentions


def place(mention: TextBound, text: str, path: Path, document: str, log: ProblemLog) -> Span | None:
    """Return a mention as a span of its text; the offset wins over the quote.

    A mention without a place in the text is reported and skipped.
    """
    fragments = tuple(sorted(mention.fragments))
    fault = _fault(fragments, len(text))
    if fault is not None:
        kind, expected = fault
        problem = Problem(
            kind, str(path), mention.line, f"{mention.id} {mention.label} {_ranges(mention)}",
            expected, "Fix the offsets, or remove the line.",
        )  # fmt: skip
        log.skip_mention(problem, document, mention.label, fragments)
        return None
    if mention.quote is not None:
        _check_quote(mention, mention.quote, text, path, log)
    return Span(fragments, mention.label)


def _parse_line(
    line: str, number: int, path: Path, document: str, log: ProblemLog
) -> TextBound | None:
    match = _TEXT_BOUND.fullmatch(line)
    if match is None:
        label = _LABEL.match(line)
        problem = Problem(
            "malformed line", str(path), number, _short(line),
            "T1<TAB>Type 0 5<TAB>quoted text, or a line that begins with one of "
            + " ".join(LINE_KINDS),
            "Fix or remove the line.",
        )  # fmt: skip
        if label is None:
            log.report(problem)
        else:
            log.skip_mention(problem, document, label[1])
        return None
    if match[4] is None:
        log.report(Problem(
            "malformed line", str(path), number, f"{_short(line)} without quoted text",
            "T1<TAB>Type 0 5<TAB>quoted text", "Add the text of the mention.", kept=True,
        ))  # fmt: skip
    ranges = [part.split() for part in match[3].split(";")]
    fragments = tuple((int(start), int(end)) for start, end in ranges)
    return TextBound(number, match[1], match[2], fragments, match[4])


def _fault(fragments: tuple[Fragment, ...], length: int) -> tuple[Kind, str] | None:
    """Say what keeps sorted fragments from having a place in a text: the kind, and the rule."""
    if any(start == end for start, end in fragments):
        return "zero-length span", "an end after its begin"
    if any(start > end for start, end in fragments):
        return "malformed line", "an end after its begin"
    if fragments[0][0] < 0 or any(end > length for _, end in fragments):
        return "offset outside the text", f"offsets from 0 to {length}, the length of the text"
    if any(left[1] > right[0] for left, right in pairwise(fragments)):
        return "overlapping fragments", "fragments that do not share a character"
    return None


def _check_quote(mention: TextBound, quote: str, text: str, path: Path, log: ProblemLog) -> None:
    # Fragments out of order are quoted in the order of the line by some tools, of the text by
    # others.
    orders = {mention.fragments, tuple(sorted(mention.fragments))}
    readings = [" ".join(text[start:end] for start, end in order) for order in orders]
    if any(quote in (reading, _without_breaks(reading)) for reading in readings):
        return
    if any(quote.split() == reading.split() for reading in readings):
        log.remark(REMARK_WHITE_SPACE)
        return
    reading = " ".join(text[start:end] for start, end in sorted(mention.fragments))
    log.report(Problem(
        "offset and quote differ", str(path), mention.line,
        f"{mention.id} {mention.label} {_ranges(mention)} quoting {_short(quote)!r}",
        f"{_short(reading)!r}, the text there", "Fix the offsets or the quote.", kept=True,
    ))  # fmt: skip


def _without_breaks(text: str) -> str:
    return text.replace("\r\n", " ").replace("\n", " ")


def _skip_all(annotation: Path, document: str, log: ProblemLog) -> None:
    """Count the mentions of a document whose text is missing: that problem is reported already."""
    for mention in parse(annotation, document, log) or ():
        fragments = tuple(sorted(mention.fragments))
        log.skipped_mentions.append((document, mention.label, fragments))


def _report_missing(path: Path, other: str, log: ProblemLog) -> None:
    hint = (
        "Add it (an empty .ann says that there are no mentions), or remove the text."
        if other.endswith(".ann")
        else "Add the text, or remove the .ann file."
    )
    problem = Problem(
        "missing twin file", str(path), None, f"no {other} (nor .gz, .xz) for it", other, hint
    )
    log.report(problem)


def _ranges(mention: TextBound) -> str:
    return ";".join(f"{start} {end}" for start, end in mention.fragments)


def _short(text: str, length: int = 80) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
