"""`fedner redact` for tables and lines of JSON: which columns become what."""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fedner.cli.left_out import as_dicts, end_with, show_left_out
from fedner.cli.what_remains import show_what_remains
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.inference.job import JobResult
    from fedner.inference.notes import LeftOut
    from fedner.inference.predict import Predictor
    from fedner.inference.redacted_tables import TableColumns, TableRedaction
    from fedner.inference.redaction_rules import Rules
    from fedner.inference.table_job import TableCounts, TableJob
    from fedner.inference.threshold_file import ChosenThreshold

    Load = Callable[[Rules], tuple[Predictor, Rules, ChosenThreshold | None]]

_FORMATS: Final = ("auto", "text", "csv", "tsv", "parquet", "jsonl")
_TEXT_KEY: Final = "text"
_NAME_COLUMN: Final = (
    "Name the columns with --text-column, or read it as plain text: --format text."
)
# No notes by their names: to redact them as text would leave words on both sides of a mark.
_STRUCTURED: Final = (".json", ".xml", ".xmi", ".ann", ".conll", ".bio", ".iob", ".html", ".htm")


@dataclass(frozen=True, slots=True)
class TableWish:
    """What is asked for.

    Attributes:
        format: The format of the tables, or "auto".
        encoding: How CSV and TSV are encoded; None for UTF-8.
        columns: What happens to their columns.
    """

    format: str
    encoding: str | None
    columns: "TableColumns"


def table_wish(
    sources: list[Path],
    format: str,
    encoding: str | None,
    texts: list[str] | None,
    ids: str | None,
    patient: str | None,
    codes: list[str] | None,
    dates: list[str] | None,
    dropped: list[str] | None,
) -> TableWish | None:
    """Return what happens to the columns of tables; None where files of text are redacted.

    Raises:
        FednerError: The options do not fit each other or the input.
    """
    from fedner.inference.redacted_tables import TableColumns

    if format not in _FORMATS:
        raise FednerError(f"--format {format}", f"Choose one of {', '.join(_FORMATS)}.")
    if texts is None and _are_json(sources, format):
        texts = [_TEXT_KEY]
    if texts is None:
        for option, given in (
            ("--id-column", ids), ("--patient-column", patient), ("--code-column", codes),
            ("--date-column", dates), ("--drop-column", dropped),
        ):  # fmt: skip
            if given:
                raise FednerError(
                    f"{option} without --text-column", "Name the column of the notes."
                )
        if format == "auto":
            _refuse_structured(sources)
        elif format != "text":
            raise FednerError(f"--format {format}, but no --text-column", _NAME_COLUMN)
        return None
    if format == "text":
        raise FednerError("--text-column is for tables; found --format text", "Leave one out.")
    columns = TableColumns(
        tuple(texts), ids, patient, tuple(codes or ()), tuple(dates or ()), tuple(dropped or ())
    )
    return TableWish(format, encoding, columns)


def _are_json(sources: list[Path], format: str) -> bool:
    from fedner.inference.table_job import JSONL, whole_table_format

    if format == "auto":
        return all(each.is_file() and whole_table_format(each) == JSONL for each in sources)
    return format == JSONL


def _refuse_structured(sources: list[Path]) -> None:
    """Refuse tables and annotated files that are named as if they were notes."""
    from fedner.inference.table_job import whole_table_format
    from fedner.inference.tables import column_names

    for each in sources:
        if not each.is_file():
            continue
        if whole_table_format(each) is not None:
            names = ", ".join(column_names(each)[:20])
            said = f" with the columns {names}" if names else ""
            raise FednerError(f"{each} is a table{said}", _NAME_COLUMN)
        if each.suffix.lower() in _STRUCTURED:
            raise FednerError(
                f"{each} is not plain text, by its name ({each.suffix})",
                "Turn it into JSON lines (fedner data convert) and redact those; or read it as "
                "plain text: --format text.",
            )


def redact_tables(
    wish: TableWish,
    sources: list[Path],
    out: Path | None,
    rules: "Rules",
    load: "Load",
    *,
    audit: Path | None,
    restart: bool,
    json: bool,
) -> None:
    """Redact one table into a file, several into a folder, or standard input."""
    if Path("-") in sources:
        _redact_stream(wish, out, rules, load, audit)
        return
    pairs = _pairs(sources, out or Path(), rules, wish.format)
    is_folder = pairs != [(sources[0], out)]
    if is_folder and audit is not None:
        raise FednerError("--audit with several tables", "Their lists go into OUT.audit.")
    # What leads back to the words never stands in a folder that may be given away.
    home = out.with_name(f"{out.name}.audit") if out is not None and is_folder else None
    for source, target in pairs:
        _job(wish, source, target, rules, audit, home).check()
    totals = [_job(wish, *pair, rules, audit, home).redaction.survey() for pair in pairs]
    predictor, complete, chosen = load(rules)
    results = []
    before = 0
    for (source, target), (total, kept) in zip(pairs, totals, strict=True):
        job = _job(wish, source, target, complete, audit, home)
        if job.is_done(predictor):
            before += 1
            continue
        results.append(_run(job, predictor, total, kept, restart=restart, json=json))
    left_out = [one for each in results for one in each.result.left_out]
    if json:
        _show_json(results, complete, chosen, left_out, before)
    else:
        _show(results, chosen, left_out, before)
    end_with(left_out)


@dataclass(frozen=True, slots=True)
class _Done:
    job: "TableJob"
    result: "JobResult"
    counts: "TableCounts"
    kept: list[str]


def _pairs(sources: list[Path], out: Path, rules: "Rules", format: str) -> list[tuple[Path, Path]]:
    """Return where the redacted form of each table goes."""
    from fedner.inference.inputs import tables_in
    from fedner.inference.notes import refuse_repeats

    if "jsonl" in (format, *(each.suffix.lower()[1:] for each in sources if each.is_file())):
        files = list(sources)
    else:
        files = [file for each in sources for file in tables_in(each, format)]
    refuse_repeats(files)
    if len(files) == 1 and not sources[0].is_dir() and not out.is_dir():
        return [(files[0], out)]
    for each in sources:
        if each.is_dir() and out.resolve().is_relative_to(each.resolve()):
            raise FednerError(f"{out} is inside {each}", "Choose a folder outside of it.")
    pairs = [(file, out / _renamed(file, rules)) for file in files]
    names = Counter(target for _, target in pairs)
    if twice := [target for target, count in names.items() if count > 1]:
        raise FednerError(
            f"{names[twice[0]]} tables are called {twice[0].name}", "Redact them one by one."
        )
    out.mkdir(exist_ok=True)
    return pairs


def _renamed(file: Path, rules: "Rules") -> str:
    if rules.keeps_names or rules.key is None:
        return file.name
    return rules.key.file_name(file.name) + "".join(file.suffixes[-2:])


def _redaction(
    wish: TableWish, source: Path | None, rules: "Rules", stream: Any = None
) -> "TableRedaction":
    from fedner.inference.redacted_tables import TableRedaction
    from fedner.inference.table_job import open_table, whole_table_format

    format = wish.format
    if format == "auto":
        format = (whole_table_format(source) if source is not None else None) or "csv"
    table = open_table(source, format, wish.columns, wish.encoding, stream)
    name = "-" if source is None else source.name
    place = "standard input" if source is None else str(source)
    wish.columns.check_columns(table.columns, place)
    wish.columns.check_key(rules)
    return TableRedaction(table, name, wish.columns, rules)


def _job(
    wish: TableWish,
    source: Path,
    out: Path,
    rules: "Rules",
    audit: Path | None,
    home: Path | None,
) -> "TableJob":
    from fedner.inference.table_job import TableJob

    settings = {"format": wish.format, "encoding": wish.encoding}
    place = audit or (home or out.parent) / f"{out.name}.audit.jsonl"
    return TableJob(_redaction(wish, source, rules), source, out, place, settings, home)


def _run(
    job: "TableJob",
    predictor: "Predictor",
    total: int,
    kept: list[str],
    *,
    restart: bool,
    json: bool,
) -> _Done:
    from fedner.cli.predict_progress import PredictionProgress

    with PredictionProgress(total, quiet=json) as progress:
        result, counts = job.run(predictor, total, progress.on_note, restart=restart)
    return _Done(job, result, counts, kept)


def _redact_stream(
    wish: TableWish, out: Path | None, rules: "Rules", load: "Load", audit: Path | None
) -> None:
    """Redact a table from standard input, row by row, to standard output or into a file."""
    from fedner.durable import writing
    from fedner.inference.reading import read_documents
    from fedner.inference.table_job import TableCounts, audited

    predictor, complete, chosen = load(rules)
    redaction = _redaction(wish, None, complete, sys.stdin.buffer)
    left_out: list[LeftOut] = []
    counts = TableCounts(0, Counter())
    finder = complete.finder(predictor)
    with ExitStack() as stack:
        add = None
        if audit is not None:
            lines = stack.enter_context(writing(audit, owner_only=True, overwrite=False))
            add = lines.write
        file = sys.stdout.buffer
        if out is not None:
            file = stack.enter_context(writing(out, owner_only=True, overwrite=False))
        rows = redaction.rows(lambda documents: read_documents(finder, documents), left_out)
        redaction.table.write(file, audited(rows, add, "-", counts))
        file.flush()
    show_left_out(left_out)
    show_what_remains(chosen, to_errors=True)
    end_with(left_out)


def _show_json(
    results: list[_Done],
    rules: "Rules",
    chosen: "ChosenThreshold | None",
    left_out: "list[LeftOut]",
    before: int,
) -> None:
    from fedner.cli.output import show_json

    show_json(
        {
            "how": rules.how,
            "types": rules.types,
            "threshold": rules.threshold,
            "measured": None if chosen is None else chosen.calibration.measured,
            "tables": [_as_dict(each) for each in results],
            "tables_from_before": before,
            "left_out": as_dicts(left_out),
        }
    )


def _as_dict(done: _Done) -> dict[str, Any]:
    return {
        "source": str(done.job.source),
        "target": str(done.job.out),
        "rows": done.counts.rows,
        "texts": done.result.documents,
        "resumed": done.result.resumed,
        "replaced": dict(sorted(done.counts.replaced.items())),
        "kept_columns": done.kept,
        "audit": str(done.job.audit),
        "skipped": done.result.skipped and str(done.result.skipped),
    }


def _show(
    results: list[_Done],
    chosen: "ChosenThreshold | None",
    left_out: "list[LeftOut]",
    before: int,
) -> None:
    from fedner.cli.output import console, show_place, table

    if before:
        console.print(f"{before:,} table{'s were' if before > 1 else ' was'} done before")
    for done in results:
        counts = done.counts
        said = f"Replaced in {done.result.documents:,} texts of {counts.rows:,} rows"
        if counts.replaced:
            console.print(table(said, ("type", "count"), sorted(counts.replaced.items())))
        else:
            console.print(f"nothing found to replace in {counts.rows:,} rows", style="yellow")
        if done.result.resumed:
            console.print(f"{done.result.resumed:,} of the texts were done before")
        if done.kept:
            said = f"unchanged columns: {', '.join(done.kept)}"
            console.print(f"{said} (--code-column, --date-column, --drop-column change them)")
        show_place("written to", done.job.out)
        show_place("what was replaced where (do not give it away):", done.job.audit)
        if done.job.redaction.rules.key and done.job.redaction.columns.patient is None:
            console.print(
                "every row counts as a separate patient, unless you give --patient-column"
            )
        if done.result.skipped is not None:
            show_place("what was skipped, and why:", done.result.skipped)
    show_left_out(left_out)
    show_what_remains(chosen)
