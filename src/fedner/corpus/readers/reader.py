"""What a reader is: a record of functions, one per annotation format."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal

from fedner.corpus.document import Document
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers.options import Own

SentencePolicy = Literal["as given", "line", "rule"]


@dataclass(frozen=True, slots=True)
class Declared:
    """What the heads of the files say about the whole input.

    Attributes:
        name: What the corpus calls itself, or None.
        tag_scheme: The tag scheme of token columns, or None where there are no tags.
        tag_scheme_why: How the scheme was found.
    """

    name: str | None = None
    tag_scheme: str | None = None
    tag_scheme_why: str = ""


def nothing_declared(_path: Path, _options: Any, _encoding: str | None) -> Declared:
    """Return what most formats say about themselves: nothing."""
    return Declared()


@dataclass(frozen=True, slots=True)
class Reader(Generic[Own]):
    """One annotation format.

    >>> import fedner
    >>> from fedner.corpus import NoOptions
    >>> def stream(path, log, options):
    ...     for number, line in enumerate(path.read_text().splitlines()):
    ...         yield fedner.Document(str(number), line)
    >>> reader = fedner.Reader(
    ...     "bare", "a text in each line", lambda path: None, stream, "line", NoOptions
    ... )
    >>> reader.name
    'bare'

    Attributes:
        name: What users call the format.
        description: One line for people.
        recognise: Says why a path (file or folder) looks like this format, or None. It looks at
            content, reads only the beginnings of files and never raises.
        stream: Reads leniently: reports problems to the log, keeps what has a valid place, goes on.
        sentences: Where sentences come from unless the user says otherwise.
        options: The record of the format's own options (`options.py`); `NoOptions` for none.
        declared_labels: Returns the entity types that the input says it annotates, whether or not
            they occur; None if the format cannot say so.
        declared: Says what else the input declares about itself, given the format's options and
            the encoding of text files. It reads only the beginnings of files and never raises.
        has_unique_ids: Whether ids are unique by construction, so that they need no check.
        reads_subfolders: Whether a folder and all its sub-folders are one corpus.
    """

    name: str
    description: str
    recognise: Callable[[Path], str | None]
    stream: Callable[[Path, ProblemLog, Own], Iterator[Document]]
    sentences: SentencePolicy
    options: type[Own]
    declared_labels: Callable[[Path], tuple[str, ...]] | None = None
    declared: Callable[[Path, Own, str | None], Declared] = nothing_declared
    has_unique_ids: bool = False
    reads_subfolders: bool = False
