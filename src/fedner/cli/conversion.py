"""`fedner data convert`: write a corpus in another format and say what was lost."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedner.cli import label_maps
from fedner.cli.inputs import CliSentences, Loaded, TargetFormat, ready_to_write, sentence_policy
from fedner.cli.output import console, show_place, table
from fedner.corpus.flatten import FlattenPolicy

if TYPE_CHECKING:
    from fedner.corpus.document import Corpus, Document


@dataclass(frozen=True, slots=True)
class Conversion:
    """What `fedner data convert` did.

    Attributes:
        format: The format that was read.
        written: The file or folder that was written.
        to: Its format.
        documents: How many documents were written.
        mentions: How many mentions.
        losses: What the new file has otherwise or not at all, counted.
        remarks: Harmless things worth saying, counted.
    """

    format: str
    written: str
    to: TargetFormat
    documents: int
    mentions: int
    losses: Mapping[str, int]
    remarks: Mapping[str, int]


def convert(
    loaded: Loaded,
    target: Path,
    to: TargetFormat,
    *,
    label_map: Mapping[str, str],
    scheme: str,
    sentences: CliSentences | None,
    flatten: FlattenPolicy,
    overwrite: bool,
) -> Conversion:
    """Write `loaded` to `target` and return what was written and what was lost."""
    from fedner.corpus.writers import WRITERS, WriteOptions

    loaded, relabelled = _relabelled(loaded, label_map)
    writer = WRITERS[to]
    if not writer.makes_folder:  # a folder writer looks for itself: it never mixes files
        ready_to_write(target, overwrite=overwrite)
    chosen = sentence_policy(sentences) or loaded.sentences
    corpus = loaded.corpus
    if to == "jsonl" and chosen == "rule":
        corpus = _with_sentences(corpus)
    written = writer.write(target, corpus, WriteOptions(scheme, chosen, flatten))
    return Conversion(
        format=loaded.format,
        written=str(target),
        to=to,
        documents=written.documents,
        mentions=written.mentions,
        losses={**loaded.changes, **relabelled, **written.losses},
        remarks=loaded.remarks,
    )


def _with_sentences(corpus: "Corpus") -> "Corpus":
    """Return a corpus in which every document has its sentences, by rule where it had none.

    Whoever reads our own format takes them as given: without them lines would be sentences.
    """
    from fedner.corpus.document import Segment
    from fedner.corpus.segment import segment

    def marked(document: "Document") -> "Document":
        if document.segments is not None:
            return document
        ranges = segment(document, "rule")
        return replace(document, segments=tuple(Segment(*each) for each in ranges))

    return replace(corpus, documents=tuple(map(marked, corpus)))


def _relabelled(loaded: Loaded, label_map: Mapping[str, str]) -> tuple[Loaded, dict[str, int]]:
    """Return what was read with its types renamed, and how many mentions that changed."""
    from fedner.corpus.label_map import relabel

    label_maps.check(label_map, [loaded.corpus])
    done = relabel(loaded.corpus, label_map)
    changes = {
        "mentions renamed by the label map": done.renamed,
        "mentions of a type that the label map leaves out": done.left_out,
    }
    counted = {what: count for what, count in changes.items() if count}
    return replace(loaded, corpus=done.corpus), counted


def show(result: Conversion) -> None:
    """Print what was converted."""
    show_place(
        "written to",
        result.written,
        f" ({result.to}): {result.documents:,} documents, {result.mentions:,} mentions, "
        f"read as {result.format}",
    )
    if result.losses:
        console.print(table("Changed or lost", ("what", "count"), result.losses.items()))
    if result.remarks:
        console.print(table("Remarks", ("what", "count"), result.remarks.items()))
