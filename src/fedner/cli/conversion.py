"""`fedner data convert`: write a corpus in another format and say what was lost."""

from pathlib import Path
from typing import Any

from fedner.cli.inputs import CliSentences, Loaded, TargetFormat, ready_to_write, sentence_policy
from fedner.cli.output import console, show_place, table
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
    from fedner.corpus.writers import WRITERS, WriteOptions

    writer = WRITERS[to]
    if not writer.makes_folder:  # a folder writer looks for itself: it never mixes files
        ready_to_write(target, overwrite=overwrite)
    chosen = sentence_policy(sentences) or loaded.sentences
    written = writer.write(target, loaded.corpus, WriteOptions(scheme, chosen, flatten))
    return {
        "format": loaded.format,
        "written": str(target),
        "to": to,
        "documents": written.documents,
        "mentions": written.mentions,
        "losses": {**loaded.changes, **written.losses},
        "remarks": loaded.remarks,
    }


def show(result: dict[str, Any]) -> None:
    """Print what was converted."""
    show_place(
        "written to",
        result["written"],
        f" ({result['to']}): {result['documents']:,} documents, {result['mentions']:,} mentions, "
        f"read as {result['format']}",
    )
    if result["losses"]:
        console.print(table("Changed or lost", ("what", "count"), result["losses"].items()))
    if result["remarks"]:
        console.print(table("Remarks", ("what", "count"), result["remarks"].items()))
