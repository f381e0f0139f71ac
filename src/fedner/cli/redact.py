"""`fedner redact`: texts without what a tagger finds in them."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedner.cli.arguments import (
    AsJson,
    MovedContext,
    MovedVectors,
    OfPlatform,
    TaggerFolder,
    TextEncoding,
)
from fedner.cli.left_out import end_with, show_left_out
from fedner.cli.redact_arguments import (
    MOST_DAYS,
    AuditOption,
    CalibrationOption,
    CodeColumns,
    DateColumns,
    DateTypeOption,
    DayFirstOption,
    DropColumns,
    FormatOption,
    How,
    HowOption,
    IdColumn,
    KeepNamesOption,
    KeepOption,
    KeyOption,
    MostDaysOption,
    NoThresholdOption,
    OutOption,
    PatientColumn,
    PatientName,
    PatientPatternOption,
    PatientsOption,
    RemoveOption,
    RestartOption,
    SourcesArgument,
    TextColumns,
    ThresholdOption,
)
from fedner.cli.what_remains import show_what_remains
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.cli.redact_tables import TableWish
    from fedner.inference.home_key import DateShift
    from fedner.inference.predict import Predictor
    from fedner.inference.redacted_files import Plan, RedactedFile
    from fedner.inference.redaction_rules import Rules
    from fedner.inference.threshold_file import ChosenThreshold


def redact(
    model: TaggerFolder,
    sources: SourcesArgument,
    out: OutOption = None,
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
    patient: PatientName = None,
    date_type: DateTypeOption = None,
    most_days: MostDaysOption = MOST_DAYS,
    day_first: DayFirstOption = False,
    keep_file_names: KeepNamesOption = False,
    audit: AuditOption = None,
    format: FormatOption = "auto",
    text_column: TextColumns = None,
    id_column: IdColumn = None,
    patient_column: PatientColumn = None,
    code_column: CodeColumns = None,
    date_column: DateColumns = None,
    drop_column: DropColumns = None,
    encoding: TextEncoding = None,
    restart: RestartOption = False,
    vectors: MovedVectors = None,
    context: MovedContext = None,
    json: AsJson = False,
) -> None:
    """Replace found entities; everything else stays byte for byte. Taggers miss some.

    `fedner redaction calibrate` chooses a threshold for the recall you want and says what remains.
    The same command again goes on where it was stopped, and redacts what is new.
    """
    from fedner.cli.redact_tables import redact_tables, table_wish
    from fedner.inference.home_key import DateShift
    from fedner.inference.predict import Predictor
    from fedner.runs.folder import tagger_folder

    _refuse_sources(sources, out, json=json)
    folder = tagger_folder(model, platform)
    named = (text_column, id_column, patient_column, code_column, date_column, drop_column)
    wish = table_wish(sources, format, encoding, *named)
    rules = _rules(how, threshold, key, out, keeps_names=key is None or keep_file_names)
    dates = DateShift((), most_days, day_first)
    source = _patient_source(patients, patient_pattern, key)
    rules = replace(rules, dates=dates, patients=source)

    def load(checked: "Rules") -> "tuple[Predictor, Rules, ChosenThreshold | None]":
        predictor = Predictor.load(folder, vectors=vectors, context=context)
        chosen = _chosen(predictor, folder, calibration, threshold, no_threshold=no_threshold)
        return predictor, _completed(checked, predictor, chosen, remove, keep, date_type), chosen

    _refuse_misplaced(sources, wish, rules, patient, restart=restart)
    if wish is not None:
        redact_tables(wish, sources, out, rules, load, audit=audit, restart=restart, json=json)
    elif _is_stream(sources):
        _redact_stream(out, rules, load, patient, encoding, json=json)
    else:
        _redact_files(sources, out or Path(), rules, load, audit, encoding, json=json)


def _rules(
    how: How | None,
    threshold: float | None,
    key: Path | None,
    out: Path | None,
    *,
    keeps_names: bool,
) -> "Rules":
    """Return what is known before a tagger is loaded; the key must not lie in the output."""
    from fedner.inference.home_key import read_key
    from fedner.inference.redaction_rules import Rules

    if out is not None:
        _refuse_at_home(key, out)
    return Rules(
        how=how or ("type" if key is None else "pseudonym"),
        threshold=threshold,
        key=None if key is None else read_key(key),
        keeps_names=keeps_names,
    )


def _is_stream(sources: list[Path]) -> bool:
    return Path("-") in sources


def _refuse_sources(sources: list[Path], out: Path | None, *, json: bool) -> None:
    """Refuse inputs without a place to write to, and standard input beside others."""
    is_stream = _is_stream(sources)
    if str(out) == "-":
        raise FednerError(
            "--out -: standard output is no file",
            "Name a file. Only standard input is redacted to standard output: MODEL - < FILE.",
        )
    if is_stream and len(sources) > 1:
        raise FednerError("standard input and other inputs", "Redact them one by one.")
    if out is None and not is_stream:
        raise FednerError("no --out", "Name the file or folder to write: nothing is overwritten.")
    if is_stream and json and out is None:
        raise FednerError(
            "--json, but standard output holds the redacted text", "Name a file with --out."
        )


def _refuse_misplaced(
    sources: list[Path],
    wish: "TableWish | None",
    rules: "Rules",
    patient: str | None,
    *,
    restart: bool,
) -> None:
    """Refuse options that do not fit what is read."""
    is_stream = _is_stream(sources)
    if patient is not None and (not is_stream or wish is not None):
        raise FednerError(
            "--patient is for a note from standard input",
            "Tables have --patient-column, files --patients or --patient-pattern.",
        )
    if is_stream and wish is None and rules.key is not None and patient is None:
        raise FednerError(
            "a note from standard input has no name: whose is it?",
            "Say so with --patient NAME: pseudonyms and shifts of dates are the patient's.",
        )
    if rules.patients is not None and (wish is not None or is_stream):
        raise FednerError(
            "--patients and --patient-pattern are for files",
            "Name the column of the patients with --patient-column (standard input: --patient).",
        )
    if restart and wish is None:
        raise FednerError(
            "--restart is for tables", "Redacting a folder goes on by itself; see --audit."
        )


def _redact_stream(
    out: Path | None,
    rules: "Rules",
    load: Any,
    patient: str | None,
    encoding: str | None,
    *,
    json: bool,
) -> None:
    """Redact standard input, one note, to standard output or into a file for its owner alone."""
    from fedner.cli.output import show_json
    from fedner.durable import write_bytes
    from fedner.inference.redact import redact as redacted
    from fedner.inference.redacted_files import names_of_patient, read_mentions
    from fedner.inference.text_files import decode_text

    if out is not None and out.exists():
        raise FednerError(
            f"{out} is already there", "Choose another --out: nothing is overwritten."
        )
    file = decode_text(sys.stdin.buffer.read(), Path("standard input"), encoding)
    predictor, complete, chosen = load(rules)
    found = read_mentions(complete.finder(predictor), file.text)
    result = redacted(file.text, found, complete.how, names_of_patient(complete, patient or "-"))
    data = file.encoded(result.text)
    if out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_bytes(out, data, owner_only=True, overwrite=False)
    if json:
        counts = Counter(each.label for each in result.replacements)
        show_json({"target": out, "replaced": dict(sorted(counts.items()))})
    else:
        show_what_remains(chosen, to_errors=True)


def _redact_files(
    sources: list[Path],
    out: Path,
    rules: "Rules",
    load: Any,
    audit: Path | None,
    encoding: str | None,
    *,
    json: bool,
) -> None:
    from fedner.inference.notes import find_all_notes
    from fedner.inference.redacted_files import plan_redaction, redact_files

    notes = find_all_notes(sources, encoding)
    plan_redaction(notes, out, rules, audit=audit)  # what is wrong is said before a model is loaded
    predictor, complete, chosen = load(rules)
    plan = plan_redaction(notes, out, complete, audit=audit)
    done = _followed(redact_files(predictor, plan), len(notes.files))
    _show_json(plan, done, chosen) if json else _show(plan, done, chosen)
    if not json:
        show_left_out(notes.left_out)
    end_with(notes.left_out)


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
            f"{key} is inside {out}: the key must not be given away",
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
            "--threshold, --calibration and --no-threshold exclude each other", "Give one."
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
        show_place("what was replaced where (do not give it away):", plan.audit)
    if plan.rules.key is not None and plan.rules.patients is None:
        console.print("every note counts as a separate patient, unless you give --patients")
    if plan.rules.keeps_names and plan.notes.root.is_dir():
        said = "names of files and folders are unchanged: do they name people?"
        console.print(said if plan.rules.key else f"{said} --key replaces them", style="yellow")
    show_what_remains(chosen)
