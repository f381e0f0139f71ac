"""What users may say about an input: what every format understands, and its own options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedner.corpus.files import checked_encoding
from fedner.corpus.patients import PatientSource
from fedner.corpus.readers import options
from fedner.corpus.readers.options import PATIENT_COLUMN
from fedner.corpus.readers.reader import Reader
from fedner.errors import FednerError


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user says about an input beyond its path and format.

    Attributes:
        own: Options of the format itself, by name; its reader declares them
            (`fedner data formats`).
        labels: The entity types that were annotated, if they are known beforehand; None means
            those that occur.
        encoding: The encoding of text files; None means UTF-8. XML, parquet and DocBin say their
            own.
        patients: Where the patients of documents come from, in addition to the format itself.
    """

    own: Mapping[str, object] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None
    encoding: str | None = None
    patients: PatientSource | None = None

    @property
    def checked_encoding(self) -> str | None:
        """The usual name of the encoding; raises where there is no such encoding."""
        return None if self.encoding is None else checked_encoding(self.encoding)

    @property
    def patient_source(self) -> PatientSource | None:
        """Where patients come from, the format's own option of a column included."""
        column = self.own.get(PATIENT_COLUMN)
        if column is None:
            return self.patients
        if self.patients is not None:
            raise FednerError(
                f"patients: found the option {PATIENT_COLUMN} and another source; expected one",
                "Choose the one that knows every document's patient.",
            )
        return PatientSource(column=str(column))


def options_of(reader: Reader[Any], given: ReadOptions) -> Any:
    """Return the reader's own record of options, filled with what the user says.

    Raises:
        FednerError: The reader has no such option, or does not take a value.
    """
    source = given.patient_source
    column = None if source is None else source.column
    if column is None:
        return options.checked(reader.name, reader.options, given.own)
    if PATIENT_COLUMN not in options.names(reader.options):
        raise FednerError(
            f'patients: the column "{column}", but {reader.name} ({reader.description}) has no '
            "columns",
            "Give a table of documents and patients, or a pattern of the file names.",
        )
    own = {**given.own, PATIENT_COLUMN: column}
    return options.checked(reader.name, reader.options, own)
