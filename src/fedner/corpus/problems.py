"""What is wrong with an input: every problem is collected before anything is raised.

Readers are written once, in the lenient way: they report a problem, keep what can be placed and go
on. Whether the problems end in one error (strict) or are only counted and shown (lenient, inspect)
is decided by the caller from the log.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from fedner.corpus.document import Fragment
from fedner.errors import FednerError

DEFAULT_LIMIT = 200

Kind = Literal[
    "not a corpus",
    "unreadable file",
    "not UTF-8",
    "wrong encoding",
    "NUL byte",
    "empty file",
    "very long line",
    "missing twin file",
    "duplicate id",
    "no such column",
    "two patients",
    "unknown document",
    "wrong column count",
    "unknown tag",
    "illegal tag",
    "malformed line",
    "offset outside the text",
    "offset and quote differ",
    "zero-length span",
    "mention not found",
    "overlapping fragments",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the input.

    Attributes:
        kind: The sort of problem, for counting.
        file: The file, as the user named it.
        line: The line, counted from 1, or None for the whole file.
        found: What is there.
        expected: What should be there.
        hint: What to do about it.
        kept: Whether lenient reading keeps the thing in question (an offset that differs from its
            quote) rather than skipping it.
    """

    kind: Kind
    file: str
    line: int | None
    found: str
    expected: str
    hint: str
    kept: bool = False

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.kind}: found {self.found}; expected {self.expected}. {self.hint}"


@dataclass(slots=True)
class ProblemLog:
    """The problems and remarks of one reading, bounded in memory however bad the input is.

    Attributes:
        limit: How many problems are kept in full; all are counted.
        problems: The first `limit` problems.
        counts: Every problem by kind, the ones beyond the limit included.
        kept: How many of them lenient reading kept.
        skipped_mentions: Declared mentions that have no valid place: label and fragments by
            document id. Inspection counts them among the mentions.
        remarks: Harmless things worth reporting (a byte-order mark, Windows line ends), counted.
        changes: What differs between the documents and the files, in words, counted.
        unknown_rows: Rows of a table of patients whose documents this input does not have. The
            table may serve several inputs, and these may be in another one.
        encoding: The encoding of text files that the user gave, or None for UTF-8.
        document_markers: How many lines of each source only mark a document (`-DOCSTART-`); many
            published counts take them for sentences.
        renamed: A folder of fedner's own and what users call it, where an archive is read: files
            are reported under the name that users know.
    """

    limit: int = DEFAULT_LIMIT
    problems: list[Problem] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    skipped_mentions: list[tuple[str, str, tuple[Fragment, ...]]] = field(default_factory=list)
    remarks: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    unknown_rows: list[Problem] = field(default_factory=list)
    encoding: str | None = None
    document_markers: Counter[str] = field(default_factory=Counter)
    renamed: tuple[str, str] | None = None

    def report(self, problem: Problem) -> None:
        """Count a problem, and keep it in full while there is room."""
        self.counts[problem.kind] += 1
        self.kept += problem.kept
        if len(self.problems) < self.limit:
            if self.renamed is not None:
                problem = _renamed(problem, *self.renamed)
            self.problems.append(problem)

    def skip_mention(
        self, problem: Problem, document: str, label: str, fragments: tuple[Fragment, ...] = ()
    ) -> None:
        """Report a declared mention that cannot be placed; lenient reading goes on without it."""
        self.report(problem)
        self.skipped_mentions.append((document, label, fragments))

    def remark(self, text: str) -> None:
        """Note something harmless."""
        self.remarks[text] += 1

    @property
    def total(self) -> int:
        """How many problems there are in all."""
        return sum(self.counts.values())

    def raise_if_any(self, source: str) -> None:
        """Raise one error that lists every problem, if there is one."""
        if self.total:
            raise InputProblemsError(source, self)


def _renamed(problem: Problem, old: str, new: str) -> Problem:
    """Return a problem that names files as users know them."""
    return replace(
        problem,
        file=problem.file.replace(old, new),
        found=problem.found.replace(old, new),
        expected=problem.expected.replace(old, new),
        hint=problem.hint.replace(old, new),
    )


_LENIENT = (
    "Fix them, or read with --lenient: a valid offset wins over its quote, and what cannot be "
    "placed is skipped and counted."
)


class InputProblemsError(FednerError):
    """An input with problems, read strictly: all of them in one error."""

    def __init__(self, source: str, log: ProblemLog, hint: str = _LENIENT) -> None:
        lines = [f"  {problem}" for problem in log.problems]
        hidden = log.total - len(log.problems)
        if hidden:
            lines.append(f"  ... and {hidden:,} more (the first {log.limit} are listed)")
        noun = "problem" if log.total == 1 else "problems"
        super().__init__("\n".join([f"{source}: {log.total:,} {noun} in the input", *lines]), hint)
        self.source = source
        self.log = log
