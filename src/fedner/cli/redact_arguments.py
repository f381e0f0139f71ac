"""The options of `fedner redact`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

How = Literal["type", "pseudonym", "mask"]
MOST_DAYS = 365

RemoveOption = Annotated[
    list[str] | None,
    typer.Option("--remove", metavar="TYPE", help="Remove only this type. Repeatable."),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="TYPE", help="Remove all types but this one. Repeatable."),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option("--threshold", help="Remove words of at least this probability, e.g. 0.02."),
]
CalibrationOption = Annotated[
    Path | None,
    typer.Option(
        "--calibration", help="A file of `fedner redaction calibrate`; by default the tagger's own."
    ),
]
NoThresholdOption = Annotated[
    bool, typer.Option("--no-threshold", help="Remove only what `fedner predict` finds.")
]
HowOption = Annotated[
    How | None,
    typer.Option(
        "--how",
        help="Replace by type; by a pseudonym from the key, dates shifted; or by a mask of the "
        "same length. Default: pseudonym with --key, else type.",
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", help="The secret key; `fedner redaction key` makes one."),
]
PatientsOption = Annotated[
    Path | None,
    typer.Option("--patients", help="A table (.csv, .tsv) with the columns document,patient."),
]
PatientPatternOption = Annotated[
    str | None,
    typer.Option(
        "--patient-pattern",
        help="The patient in the file's name: a regular expression with (?P<patient>...).",
    ),
]
DateTypeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--date-type", metavar="TYPE", help="A type whose mentions are dates. Repeatable."
    ),
]
MostDaysOption = Annotated[
    int, typer.Option("--most-days", help="A patient's dates move by at most this many days.")
]
DayFirstOption = Annotated[
    bool, typer.Option("--day-first", help="Read 3/4/2021 as the 3rd of April.")
]
KeepNamesOption = Annotated[
    bool, typer.Option("--keep-file-names", help="With --key: keep the names of files.")
]
AuditOption = Annotated[
    Path | None,
    typer.Option(
        "--audit",
        help="The list of what was replaced where, which must not be given away; for a folder by "
        "default OUT.audit.jsonl.",
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format", help="text, csv, tsv, parquet or jsonl; by default the name of INPUT decides."
    ),
]
TextColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--text-column",
        metavar="NAME",
        help="INPUT is a table; a column of notes or other free text. Repeatable.",
    ),
]
IdColumn = Annotated[
    str | None, typer.Option("--id-column", help="The table's column of ids; default: row numbers.")
]
PatientColumn = Annotated[
    str | None,
    typer.Option(
        "--patient-column", help="The table's column of patients, for pseudonyms and dates."
    ),
]
CodeColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--code-column",
        metavar="NAME",
        help="A column whose values become codes from the key. Repeatable.",
    ),
]
DateColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--date-column",
        metavar="NAME",
        help="A column of dates, which move with the patient's. Repeatable.",
    ),
]
DropColumns = Annotated[
    list[str] | None,
    typer.Option("--drop-column", metavar="NAME", help="A column to leave out. Repeatable."),
]
PatientName = Annotated[
    str | None,
    typer.Option(
        "--patient", help="The patient of the note on standard input, for pseudonyms and dates."
    ),
]
RestartOption = Annotated[
    bool,
    typer.Option(
        "--restart", help="Tables: throw away what a killed run has found, and begin again."
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Where to write redacted texts; files are never overwritten. Standard input goes to "
        "standard output without it.",
    ),
]
SourcesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT...",
        help="Text files, folders of .txt files, tables with --text-column, JSON lines, or - for "
        "standard input.",
    ),
]
