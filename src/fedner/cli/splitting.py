"""`fedner data split`: training and test parts, and the texts that occur in both."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedner.cli.inputs import CliSentences, CliUnit, Loaded, ready_to_write
from fedner.cli.output import console, table
from fedner.corpus.flatten import FlattenPolicy
from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import Split, k_folds, leakage
from fedner.corpus.splits import split as split_once

NUM_NAMED = 3  # ids that are shown of what is in both parts


def split(
    loaded: Loaded,
    out: Path,
    *,
    by: CliUnit,
    test: float,
    folds: int,
    seed: int,
    sentences: CliSentences | None,
    flatten: FlattenPolicy,
    overwrite: bool,
) -> dict[str, Any]:
    """Split the sentences of `loaded`, write the parts under `out`, return the report."""
    prepared = loaded.prepared(sentences, flatten)
    if folds:
        named = {
            f"fold-{number}": part
            for number, part in enumerate(k_folds(prepared.sentences, folds, by, seed), start=1)
        }
    else:
        named = {"": split_once(prepared.sentences, by=by, test=test, seed=seed)}
    return {
        "by": by,
        "seed": seed,
        "flattening": {**loaded.changes, **dict(prepared.changes.rows())},
        "remarks": loaded.remarks,
        "left_out": len(loaded.corpus) - _num_documents(prepared.sentences),
        "parts": [
            _write(loaded, prepared.sentences, out / name, part, overwrite)
            for name, part in named.items()
        ],
    }


def _write(
    loaded: Loaded, whole: Sequence[Sentence], folder: Path, parts: Split, overwrite: bool
) -> dict[str, Any]:
    from fedner.corpus.document import Corpus
    from fedner.corpus.excerpt import as_documents
    from fedner.corpus.writers.jsonl import write_jsonl

    known = {document.id: document for document in loaded.corpus}
    for name, chosen in (("train", parts.train), ("test", parts.test)):
        documents = as_documents(chosen, whole, known)
        corpus = Corpus(f"{loaded.corpus.name} ({name})", loaded.corpus.labels, documents)
        write_jsonl(ready_to_write(folder / f"{name}.jsonl", overwrite=overwrite), corpus)
    return {
        "folder": str(folder),
        "train": _counts(parts.train),
        "test": _counts(parts.test),
        "leakage": asdict(leakage(parts.train, parts.test)),
    }


def _counts(sentences: Sequence[Sentence]) -> dict[str, int]:
    return {
        "sentences": len(sentences),
        "documents": _num_documents(sentences),
        "patients": len({sentence.patient for sentence in sentences} - {None}),
        "mentions": sum(len(sentence.entities) for sentence in sentences),
    }


def _num_documents(sentences: Sequence[Sentence]) -> int:
    return len({sentence.document for sentence in sentences})


def show(result: dict[str, Any]) -> None:
    """Print the parts and what they have in common."""
    rows = []
    for part in result["parts"]:
        for name in ("train", "test"):
            counts = part[name]
            rows.append((f"{part['folder']}/{name}.jsonl", *counts.values()))
    columns = ("file", "sentences", "documents", "patients", "mentions")
    console.print(table(f"Split by {result['by']}, seed {result['seed']}", columns, rows))
    for part in result["parts"]:
        _show_leakage(part)
    if result["left_out"]:
        console.print(f"{result['left_out']:,} documents without a sentence were left out")
    if result["flattening"]:
        console.print(table("Changed or lost", ("what", "count"), result["flattening"].items()))


def _show_leakage(part: dict[str, Any]) -> None:
    leak = part["leakage"]
    console.print(
        f"{part['folder']}: {leak['texts']:,} texts occur in both parts, in "
        f"{leak['test_sentences']:,} test sentences ({leak['share_of_test']:.1%})"
    )
    for what in ("documents", "patients"):
        if owners := leak[what]:
            console.print(
                f"{part['folder']}: {len(owners):,} {what} have sentences in both parts "
                f"({', '.join(owners[:NUM_NAMED])}{', ...' if len(owners) > NUM_NAMED else ''}); "
                f"--by {what[:-1]} keeps them together",
                style="yellow",
            )
