"""`fedner data convert`: write a corpus in another format and say what was lost."""

from pathlib import Path
from typing import Any

from fedner.cli.inputs import CliSentences, Loaded, TargetFormat, ready_to_write
from fedner.cli.output import console, table
from fedner.corpus.flatten import FlattenPolicy


def convert(
    loaded: Loaded,
    target: Path,
    to: TargetFormat,
    *,
    scheme: str,
    sentences: CliSentences | None,
    flatten: FlattenPolicy,
    overwrite: bool,
) -> dict[str, Any]:
    """Write `loaded` to `target` and return what was written and what was lost."""
    ready_to_write(target, overwrite=overwrite)
    losses: dict[str, int] = {}
    if to == "jsonl":
        from fedner.corpus.writers.jsonl import write_jsonl

        write_jsonl(target, loaded.corpus)
    else:
        from fedner.corpus.writers.columns import write_columns

        prepared = loaded.prepared(sentences, flatten)
        write_columns(target, prepared.sentences, scheme)
        losses = dict(prepared.changes.rows())
    return {
        "format": loaded.format,
        "written": str(target),
        "to": to,
        "documents": len(loaded.corpus),
        "mentions": sum(len(document.spans) for document in loaded.corpus),
        "flattening": losses,
        "remarks": loaded.remarks,
    }


def show(result: dict[str, Any]) -> None:
    """Print what was converted."""
    console.print(
        f"[bold]{result['written']}[/] ({result['to']}): {result['documents']:,} documents, "
        f"{result['mentions']:,} mentions, read as {result['format']}"
    )
    if result["flattening"]:
        console.print(table("Flattening", ("what", "count"), result["flattening"].items()))
    if result["remarks"]:
        console.print(table("Remarks", ("what", "count"), result["remarks"].items()))
