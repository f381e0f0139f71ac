"""What a reader is: a record of functions, one per annotation format."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedner.corpus.document import Document
from fedner.corpus.patients import PatientSource
from fedner.corpus.problems import ProblemLog

SentencePolicy = Literal["as given", "line", "rule"]
Separator = Literal["auto", "tab", "blank"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user may say about an input; a format ignores what is not its own.

    Attributes:
        token_column: The column of the token in column files, from 0; negative from the right.
        tag_column: The column of the tag in column files, likewise.
        separator: What separates columns: a tab, runs of blanks, or whichever the file shows.
        scheme: The tag scheme of column files, or None to detect it.
        labels: The entity types that were annotated, where they are known beforehand; None means
            those that occur.
        encoding: The encoding of text files; None means UTF-8. XML, parquet and DocBin say their
            own.
        patients: Where the patients of documents come from, beside what the format itself says.
    """

    token_column: int = 0
    tag_column: int = -1
    separator: Separator = "auto"
    scheme: str | None = None
    labels: tuple[str, ...] | None = None
    encoding: str | None = None
    patients: PatientSource | None = None

    @property
    def patient_column(self) -> str | None:
        """The column or key that holds the patient, where the user names one."""
        return None if self.patients is None else self.patients.column


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


def nothing_declared(_path: Path, _options: ReadOptions) -> Declared:
    """Return what most formats say about themselves: nothing."""
    return Declared()


@dataclass(frozen=True, slots=True)
class Reader:
    """One annotation format.

    Attributes:
        name: What users call the format.
        description: One line for people.
        recognise: Says why a path (file or folder) looks like this format, or None. It looks at
            content, reads only the heads of files and never raises.
        stream: Reads leniently: reports problems to the log, keeps what can be placed, goes on.
        sentences: Where sentences come from unless the user says otherwise.
        declared_labels: Returns the entity types that the input says it annotates, whether or not
            they occur; None where the format has no such place.
        declared: Says what else the input declares about itself. It reads only the heads of files
            and raises for wrong options alone.
        has_unique_ids: Whether ids are unique by construction, so that nobody need remember them.
        reads_subfolders: Whether a folder is one corpus with all files in the folders under it.
        patient_column: What a column (or key) with the patient is called in this format, for
            people; None where it has no columns.
    """

    name: str
    description: str
    recognise: Callable[[Path], str | None]
    stream: Callable[[Path, ProblemLog, ReadOptions], Iterator[Document]]
    sentences: SentencePolicy
    declared_labels: Callable[[Path], tuple[str, ...]] | None = None
    declared: Callable[[Path, ReadOptions], Declared] = nothing_declared
    has_unique_ids: bool = False
    reads_subfolders: bool = False
    patient_column: str | None = None
