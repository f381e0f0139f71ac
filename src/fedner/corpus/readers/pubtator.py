"""PubTator: title, abstract and annotations of an article, as NCBI's tools and challenges give it.

    123|t|Nausea after aspirin.
    123|a|A case report.
    123<TAB>13<TAB>20<TAB>aspirin<TAB>Chemical<TAB>D001241

See https://www.ncbi.nlm.nih.gov/research/pubtator3/tutorial (Format). An article ends with a blank
line. Offsets are half-open and count the characters of the title, one more, and the abstract. The
lines are parsed by the `bioc` library; relations are counted and left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedner.corpus.document import Document
from fedner.corpus.files import display_name, files_in, head, lines
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers import standoff
from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.corpus.readers.folder import choose
from fedner.corpus.readers.options import NoOptions
from fedner.corpus.readers.reader import Reader

REMARK_RELATION = "PubTator relation (left out)"

_TEXT_LINE = re.compile(r"([^|\t]{1,100})\|([ta])\|(.*)", re.DOTALL)
_FIRST_LINE = re.compile(r"\s*[^|\s]{1,100}\|t\|")
_MAX_ANNOTATION_LINES = 200_000


@dataclass(slots=True)
class _Article:
    """The lines of one article so far.

    Attributes:
        id: Its name.
        line: The number of its first line.
        title: Its title.
        abstract: Its abstract.
        mentions: Its annotation lines, each with its number.
    """

    id: str
    line: int
    title: str = ""
    abstract: str = ""
    mentions: list[tuple[int, str]] = field(default_factory=list)


def recognise(path: Path) -> str | None:
    """Say why a file, or some file of a folder, looks like PubTator."""
    for file in files_in(path):
        if _looks_right(file):
            where = "" if file == path else f"{file.name}: "
            return f"{where}the first line is a title (ID|t|...)"
    return None


def stream(path: Path, log: ProblemLog, _options: NoOptions) -> Iterator[Document]:
    """Read a file, or those files of a folder that look like PubTator."""
    library = required("bioc.pubtator", "formats", "PubTator files")
    for file in choose(path, _looks_right, log, "PubTator's articles"):
        source = display_name(file, path)
        for article in _articles(file, log):
            yield _document(article, file, source, log, library)


def _looks_right(path: Path) -> bool:
    return _FIRST_LINE.match(head(path) or "") is not None


def _articles(path: Path, log: ProblemLog) -> Iterator[_Article]:
    article: _Article | None = None
    for number, line in lines(path, log):
        if not line.strip():
            if article is not None:
                yield article
            article = None
        elif match := _TEXT_LINE.fullmatch(line):
            identity, part, text = match.groups()
            if article is not None and (part == "t" or identity != article.id):
                yield article  # files without blank lines exist too
                article = None
            article = article or _Article(identity, number)
            if part == "t":
                article.title = text
            else:
                article.abstract = text
        elif article is None or len(article.mentions) >= _MAX_ANNOTATION_LINES:
            _report(log, path, number, line, "the lines of an article after its title")
        else:
            article.mentions.append((number, line))
    if article is not None:
        yield article


def _document(
    article: _Article, path: Path, source: str, log: ProblemLog, library: Any
) -> Document:
    text = library.PubTator(article.id, article.title, article.abstract).text
    spans = []
    for number, line in article.mentions:
        mention = _mention(article, number, line, path, log, library)
        if mention is not None:
            span = standoff.place(mention, text, path, article.id, log)
            spans.extend([] if span is None else [span])
    return Document(article.id, text, tuple(spans), source=source)


def _mention(
    article: _Article, number: int, line: str, path: Path, log: ProblemLog, library: Any
) -> standoff.TextBound | None:
    """Return what an annotation line says; None for a relation and for what is malformed."""
    columns = line.split("\t")
    has_offsets = len(columns) >= 5 and all(_is_offset(each) for each in columns[1:3])
    if not has_offsets and 4 <= len(columns) <= 5:
        log.remark(REMARK_RELATION)
        return None
    if has_offsets and len(columns) == 5:
        columns.append("")  # without an identifier
    # What follows the identifier (scores, notes) is of no use here.
    parsed = attempt(lambda: library.loads_ann(columns[:6])) if has_offsets else Fault("")
    if isinstance(parsed, Fault) or parsed.pmid != article.id or not parsed.type.strip():
        expected = f"{article.id}, start, end, mention and type, separated by tabs"
        _report(log, path, number, line, expected)
        return None
    label = parsed.type.strip()
    fragment = (parsed.start, parsed.end)
    return standoff.TextBound(number, f"{parsed.start}", label, (fragment,), parsed.text)


def _is_offset(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= 12


def _report(log: ProblemLog, path: Path, number: int, line: str, expected: str) -> None:
    found = line if len(line) <= 80 else f"{line[:77]}..."
    log.report(
        Problem(
            "malformed line", str(path), number, found, expected,
            "Fix the line; without that it is skipped.",
        )
    )  # fmt: skip


READER = Reader(
    name="pubtator",
    description="PubTator: ID|t|title, ID|a|abstract and tab-separated annotations",
    recognise=recognise,
    stream=stream,
    sentences="rule",
    options=NoOptions,
)
