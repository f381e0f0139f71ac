"""How an inspection looks to people."""

from pathlib import Path

from rich.text import Text

from fedner.cli.output import colour_of, console, highlighted, show_json, table
from fedner.corpus.folder_corpora import Shelved
from fedner.corpus.inspection import Inspection
from fedner.corpus.tally import Tally

PROBLEMS_SHOWN = 10


def show(path: Path, found: Inspection, *, lenient: bool, as_json: bool = False) -> None:
    """Print format, counts, mentions, problems, what training would see, and examples."""
    if as_json:
        show_json({"path": str(path), **found.as_dict()})
        return
    recognised = (found.recognition.format, "bold green")
    why = f" ({found.recognition.why})"
    console.print(Text.assemble((str(path), "bold"), ": ", recognised, why))
    console.print(table("What the files declare", ("", ""), _count_rows(found)))
    labels = sorted(found.total.mentions)
    counts = sorted(found.total.mentions.items(), key=lambda item: -item[1])
    rows = [(Text(label, style=colour_of(label, labels)), count) for label, count in counts]
    if rows:
        console.print(table("Mentions by type", ("type", "mentions"), rows))
    if found.files:
        console.print(table("By file", _FILE_COLUMNS, _file_rows(found.files)))
    changes = [*found.log.changes.items(), *found.changes.rows()]
    if changes:
        console.print(table("What training would see otherwise", ("change", "count"), changes))
    if found.log.remarks:
        console.print(table("Remarks", ("what", "count"), found.log.remarks.items()))
    _show_repeats(found)
    _show_problems(found, lenient=lenient)
    for example in found.examples:
        console.print(Text(f"{example.document}: ", style="dim"), end="")
        console.print(highlighted(example.text, example.mentions, labels))


_FILE_COLUMNS = ("file", "documents", "sentences", "tokens", "mentions")


def _file_rows(files: dict[str, Tally]) -> list[tuple[str, int, int, int, int]]:
    limit = 20
    rows = [
        (
            name,
            tally.documents,
            tally.sentences + tally.document_markers,
            tally.tokens,
            tally.mentions.total(),
        )
        for name, tally in files.items()
    ]
    if len(rows) <= limit:
        return rows
    rest = rows[limit:]
    _, *columns = zip(*rest, strict=True)
    documents, sentences, tokens, mentions = map(sum, columns)
    return [*rows[:limit], (f"... {len(rest):,} more", documents, sentences, tokens, mentions)]


def _count_rows(found: Inspection) -> list[tuple[str, object]]:
    total = found.total
    rows: list[tuple[str, object]] = [
        ("documents", total.documents),
        ("sentences", total.sentences + total.document_markers),
        ("tokens", total.tokens),
        ("mentions", total.mentions.total()),
        ("discontinuous", total.discontinuous),
        ("overlapping", total.overlapping),
    ]
    if total.document_markers:
        rows.insert(2, ("  of them -DOCSTART- lines, not trained on", total.document_markers))
    if found.num_patients:
        rows.insert(1, ("patients", found.num_patients))
        rows.insert(2, ("documents without a patient", total.without_patient))
    if found.recognition.tag_scheme:
        rows.append(("tag scheme", found.recognition.tag_scheme))
    return rows


def _show_repeats(found: Inspection) -> None:
    for repeat in found.repeats[:PROBLEMS_SHOWN]:
        console.print(
            f"warning: {repeat}: they are counted twice; name the file that you mean",
            style="yellow",
        )
    if len(found.repeats) > PROBLEMS_SHOWN:
        console.print(f"  ... and {len(found.repeats) - PROBLEMS_SHOWN:,} more such pairs")


def show_several(path: Path, found: dict[Shelved, Inspection], *, as_json: bool) -> None:
    """Print what each corpus of a folder declares, and how to look at one."""
    if as_json:
        corpora = [{"path": str(each.path), **held.as_dict()} for each, held in found.items()]
        show_json({"path": str(path), "corpora": corpora})
        return
    rows = [
        (
            corpus_name(path, each),
            each.format,
            held.total.documents,
            held.total.sentences + held.total.document_markers,
            held.total.mentions.total(),
            held.log.total,
        )
        for each, held in found.items()
    ]
    columns = ("corpus", "format", "documents", "sentences", "mentions", "problems")
    console.print(table(f"{len(found)} corpora in {path}", columns, rows))
    for each, held in found.items():
        if held.repeats:
            console.print(corpus_name(path, each), style="bold")
            _show_repeats(held)
    one = next(iter(found))
    console.print(
        "Other commands read one of them. Look at one, for example: "
        f"fedner data inspect {one.path} --format {one.format}",
        soft_wrap=True,
    )


def corpus_name(path: Path, corpus: Shelved) -> str:
    """Return how a corpus is called within its folder."""
    name = corpus.path.relative_to(path).as_posix()
    return "this folder" if name == "." else name


def _show_problems(found: Inspection, *, lenient: bool) -> None:
    log = found.log
    if not log.total:
        console.print("no problems", style="green")
        return
    console.print(table("Problems", ("kind", "count"), log.counts.most_common()))
    for problem in log.problems[:PROBLEMS_SHOWN]:
        console.print(Text(f"  {problem}", style="yellow"))
    if log.total > PROBLEMS_SHOWN:
        hidden = log.total - PROBLEMS_SHOWN
        console.print(f"  ... and {hidden:,} more (--json lists the first {log.limit})")
    kept, skipped = log.kept, log.total - log.kept
    if lenient:
        console.print(f"Lenient reading: {kept:,} kept as the offset has it, {skipped:,} skipped.")
    else:
        console.print(
            "convert, split and training refuse this input; with --lenient they would keep "
            f"{kept:,} and skip {skipped:,}."
        )
