"""`fedner redact`: texts without what a tagger finds in them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedner.cli.arguments import (
    AsJson,
    MovedContext,
    MovedVectors,
    OfPlatform,
    TaggerFolder,
    TextEncoding,
)
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.inference.home_key import DateShift
    from fedner.inference.predict import Predictor
    from fedner.inference.redacted_files import Plan, RedactedFile, Rules
    from fedner.inference.threshold_file import ChosenThreshold

How = Literal["type", "pseudonym", "mask"]
_MOST_DAYS = 365

RemoveOption = Annotated[
    list[str] | None,
    typer.Option("--remove", metavar="TYPE", help="A type to remove; others stay. Repeatable."),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="TYPE", help="A type to keep; others go. Repeatable."),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option("--threshold", help="Words of at least this probability go, e.g. 0.02."),
]
CalibrationOption = Annotated[
    Path | None,
    typer.Option(
        "--calibration", help="A file of `fedner redaction calibrate`; by default the tagger's own."
    ),
]
NoThresholdOption = Annotated[
    bool, typer.Option("--no-threshold", help="Only what `fedner predict` finds goes.")
]
HowOption = Annotated[
    How | None,
    typer.Option(
        "--how",
        help="By type; by a pseudonym from the key, dates shifted; or by a mask of the same "
        "length. Default: pseudonym with --key, else type.",
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", help="The key that stays at home; `fedner redaction key` makes one."),
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
    int, typer.Option("--most-days", help="Dates of a patient move by at most so many days.")
]
DayFirstOption = Annotated[bool, typer.Option("--day-first", help="3/4/2021 is the 3rd of April.")]
KeepNamesOption = Annotated[
    bool, typer.Option("--keep-file-names", help="With --key: names of files stay as they are.")
]
AuditOption = Annotated[
    Path | None,
    typer.Option(
        "--audit",
        help="The list of what was replaced where, which stays at home; for a folder by default "
        "OUT.audit.jsonl.",
    ),
]


def redact(
    model: TaggerFolder,
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="A text file, or a folder of .txt files.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where redacted texts go; never over a file.")],
    platform: OfPlatform = None,
    remove: RemoveOption = None,
    keep: KeepOption = None,
    threshold: ThresholdOption = None,
    calibration: CalibrationOption = None,
    no_threshold: NoThresholdOption = False,
    how: HowOption = None,
    key: KeyOption = None,
    patients: PatientsOption = None,
    patient_pattern: PatientPatternOption = None,
    date_type: DateTypeOption = None,
    most_days: MostDaysOption = _MOST_DAYS,
    day_first: DayFirstOption = False,
    keep_file_names: KeepNamesOption = False,
    audit: AuditOption = None,
    encoding: TextEncoding = None,
    vectors: MovedVectors = None,
    context: MovedContext = None,
    json: AsJson = False,
) -> None:
    """Replace found entities; everything else stays byte for byte. Taggers miss some.

    `fedner redaction calibrate` chooses a threshold for a wanted recall and says what remains. The
    same command again goes on where it was stopped, and redacts what is new.
    """
    from fedner.cli.left_out import exit_code, show_left_out
    from fedner.inference.home_key import DateShift, read_key
    from fedner.inference.notes import find_notes
    from fedner.inference.predict import Predictor
    from fedner.inference.redacted_files import Rules, plan_redaction, redact_files
    from fedner.runs.folder import tagger_folder

    folder = tagger_folder(model, platform)
    notes = find_notes(source, encoding)
    rules = Rules(
        how=how or ("type" if key is None else "pseudonym"),
        threshold=threshold,
        key=None if key is None else read_key(key),
        dates=DateShift((), most_days, day_first),
        patients=_patient_source(patients, patient_pattern, key),
        keeps_names=key is None or keep_file_names,
    )
    _refuse_at_home(key, out)
    plan_redaction(notes, out, rules, audit=audit)  # what is wrong is said before a model is loaded
    predictor = Predictor.load(folder, vectors=vectors, context=context)
    chosen = _chosen(predictor, folder, calibration, threshold, no_threshold=no_threshold)
    complete = _completed(rules, predictor, chosen, remove, keep, date_type)
    plan = plan_redaction(notes, out, complete, audit=audit)
    done = _followed(redact_files(predictor, plan), len(notes.files))
    _show_json(plan, done, chosen) if json else _show(plan, done, chosen)
    if not json:
        show_left_out(notes.left_out)
    if code := exit_code(notes.left_out):
        raise typer.Exit(code)


def _patient_source(table: Path | None, pattern: str | None, key: Path | None) -> Any:
    from fedner.corpus.patients import PatientSource

    if table is None and pattern is None:
        return None
    if key is None:
        raise FednerError(
            "--patients and --patient-pattern are for pseudonyms, which need a key",
            "Add --key FILE; `fedner redaction key FILE` makes one.",
        )
    return PatientSource(table, None, pattern)


def _refuse_at_home(key: Path | None, out: Path) -> None:
    if key is not None and key.resolve().is_relative_to(out.resolve()):
        raise FednerError(
            f"{key} lies within {out}: the key stays at home",
            "Move the key to a place that is not given away.",
        )


def _chosen(
    predictor: "Predictor",
    folder: Path,
    calibration: Path | None,
    threshold: float | None,
    *,
    no_threshold: bool,
) -> "ChosenThreshold | None":
    """Return the calibration in force: the one that was named, or the tagger's own."""
    from fedner.inference.threshold_file import NAME, read_threshold

    given = [threshold is not None, calibration is not None, no_threshold]
    if sum(given) > 1:
        raise FednerError(
            "--threshold, --calibration and --no-threshold say different things", "Give one."
        )
    if calibration is not None:
        return read_threshold(calibration, predictor.model.digest)
    if any(given) or not (folder / NAME).is_file():
        return None
    return read_threshold(folder / NAME, predictor.model.digest)


def _completed(
    rules: "Rules",
    predictor: "Predictor",
    chosen: "ChosenThreshold | None",
    remove: list[str] | None,
    keep: list[str] | None,
    date_type: list[str] | None,
) -> "Rules":
    """Return the rules with what only the tagger and its calibration know."""
    from dataclasses import replace

    from fedner.inference.redact import removed_types

    known = predictor.model.space.labels
    types = removed_types(known, remove or (), keep or ())
    if chosen is not None:
        if (remove or keep) and types != chosen.types:
            raise FednerError(
                f"the threshold was chosen to remove {', '.join(chosen.types)}; found "
                f"{', '.join(types)} to remove",
                "Choose one for these types with `fedner redaction calibrate`, or name a "
                "probability with --threshold.",
            )
        types = chosen.types
        rules = replace(rules, threshold=chosen.calibration.threshold)
    return replace(rules, types=types, dates=_dates(rules.dates, types, date_type))


def _dates(dates: "DateShift", types: tuple[str, ...], named: list[str] | None) -> "DateShift":
    from dataclasses import replace

    from fedner.inference.home_key import date_types

    unknown = sorted(set(named or ()) - set(types))
    if unknown:
        raise FednerError(
            f"--date-type: {', '.join(unknown)} is not removed", f"Removed: {', '.join(types)}."
        )
    return replace(dates, types=tuple(named) if named else date_types(types))


def _followed(files: "Iterable[RedactedFile]", total: int) -> list[dict[str, Any]]:
    """Return what became of each file; a bar shows how far it is, where somebody watches."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from fedner.cli.output import errors

    columns = ("redacting", BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=errors, transient=True, disable=not errors.is_terminal
    ) as progress:
        return [_as_dict(each) for each in progress.track(files, total=total)]


def _show_json(plan: "Plan", done: list[dict[str, Any]], chosen: "ChosenThreshold | None") -> None:
    from fedner.cli.left_out import as_dicts
    from fedner.cli.output import show_json

    show_json(
        {
            "how": plan.rules.how,
            "types": plan.rules.types,
            "threshold": plan.rules.threshold,
            "measured": None if chosen is None else chosen.calibration.measured,
            "files": done,
            "audit": plan.audit,
            "left_out": as_dicts(plan.notes.left_out),
        }
    )


def _as_dict(done: "RedactedFile") -> dict[str, Any]:
    """Return what became of a file: no words of the text."""
    return {
        "source": str(done.source),
        "target": str(done.target),
        "replaced": done.replaced,
        "from_before": done.is_from_before,
    }


def _show(plan: "Plan", done: list[dict[str, Any]], chosen: "ChosenThreshold | None") -> None:
    from fedner.cli.output import console, show_place, table

    total: Counter[str] = Counter()
    for each in done:
        total.update(each["replaced"])
    files = f"{len(done):,} file{'s' if len(done) > 1 else ''}"
    if total:
        console.print(table(f"Replaced in {files}", ("type", "count"), sorted(total.items())))
    else:
        console.print(f"nothing found to replace in {files}", style="yellow")
    if before := sum(each["from_before"] for each in done):
        console.print(f"{before:,} of them were done before")
    show_place("written to", plan.target)
    if plan.audit is not None:
        show_place("what was replaced where (keep it at home):", plan.audit)
    if plan.rules.key is not None and plan.rules.patients is None:
        console.print("every note counts as a patient of its own: --patients says otherwise")
    _show_what_remains(chosen)


def _show_what_remains(chosen: "ChosenThreshold | None") -> None:
    from fedner.cli.output import console
    from fedner.inference.calibration import remain_words

    if chosen is None:
        words = "A tagger misses mentions: what it leaves may still identify people. How many it "
        words += "leaves is measured by `fedner redaction calibrate`."
    else:
        words = f"On held-out documents: {remain_words('mentions', chosen.calibration.measured)}. "
        words += "On other texts it may be more."
    console.print(words, style="dim")
