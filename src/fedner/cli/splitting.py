"""`fedner data split`: training and test parts, and the texts that occur in both."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from fedner.cli.inputs import CliSentences, CliUnit, Loaded, ready_to_write
from fedner.cli.output import console, table
from fedner.corpus.document import Corpus
from fedner.corpus.flatten import FlattenPolicy
from fedner.corpus.groups import Grouping
from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import Leakage, Split, k_folds, leakage
from fedner.corpus.splits import split as split_once

NUM_NAMED = 3  # ids that are shown of what is in both parts


@dataclass(frozen=True, slots=True)
class Asked:
    """How a corpus is to be split.

    Attributes:
        by: What must stay together.
        test: The share of the test part.
        folds: How many folds instead of one split; 0 for one split.
        seed: Where the randomness comes from.
    """

    by: CliUnit
    test: float
    folds: int
    seed: int


@dataclass(frozen=True, slots=True)
class PartCounts:
    """What a training or test part holds."""

    sentences: int
    documents: int
    patients: int
    mentions: int


@dataclass(frozen=True, slots=True)
class WrittenSplit:
    """One split, as it was written.

    Attributes:
        folder: Where its two files are.
        train: What the training part holds.
        test: What the test part holds.
        leakage: What the two have in common.
    """

    folder: str
    train: PartCounts
    test: PartCounts
    leakage: Leakage


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What `fedner data split` shows.

    Attributes:
        by: What stayed together.
        seed: Where the randomness came from.
        flattening: What reading and preparing changed, counted.
        remarks: Harmless things worth saying, counted.
        left_out: Documents without a sentence.
        parts: The split, or one for each fold.
    """

    by: CliUnit
    seed: int
    flattening: Mapping[str, int]
    remarks: Mapping[str, int]
    left_out: int
    parts: tuple[WrittenSplit, ...]


def split(
    loaded: Loaded,
    out: Path,
    asked: Asked,
    *,
    sentences: CliSentences | None,
    flatten: FlattenPolicy,
    overwrite: bool,
) -> SplitReport:
    """Split the sentences of `loaded`, write the parts under `out`, return the report."""
    prepared = loaded.prepared(sentences, flatten)
    whole = prepared.sentences
    return SplitReport(
        by=asked.by,
        seed=asked.seed,
        flattening={**loaded.changes, **dict(prepared.changes.rows())},
        remarks=loaded.remarks,
        left_out=len(loaded.corpus) - _num_documents(whole),
        parts=tuple(
            _write(loaded.corpus, whole, out / name, parts, overwrite=overwrite)
            for name, parts in _splits(whole, asked).items()
        ),
    )


def _splits(sentences: Sequence[Sentence], asked: Asked) -> dict[str, Split]:
    """Return the split, or one for each fold, by the name of its folder."""
    grouping = Grouping.of(sentences, asked.by)
    if not asked.folds:
        return {"": split_once(grouping, test=asked.test, seed=asked.seed)}
    folds = k_folds(grouping, asked.folds, asked.seed)
    return {f"fold-{number}": parts for number, parts in enumerate(folds, start=1)}


def _write(
    corpus: Corpus, whole: Sequence[Sentence], folder: Path, parts: Split, *, overwrite: bool
) -> WrittenSplit:
    from fedner.corpus.excerpt import as_documents
    from fedner.corpus.writers.jsonl import write_jsonl

    known = {document.id: document for document in corpus}
    train, test = parts.select(whole)
    for name, chosen in (("train", train), ("test", test)):
        documents = as_documents(chosen, whole, known)
        part = Corpus(f"{corpus.name} ({name})", corpus.labels, documents)
        write_jsonl(ready_to_write(folder / f"{name}.jsonl", overwrite=overwrite), part)
    return WrittenSplit(str(folder), _counts(train), _counts(test), leakage(train, test))


def _counts(sentences: Sequence[Sentence]) -> PartCounts:
    return PartCounts(
        sentences=len(sentences),
        documents=_num_documents(sentences),
        patients=len({sentence.patient for sentence in sentences} - {None}),
        mentions=sum(len(sentence.entities) for sentence in sentences),
    )


def _num_documents(sentences: Sequence[Sentence]) -> int:
    return len({sentence.document for sentence in sentences})


def show(report: SplitReport) -> None:
    """Print the parts and what they have in common."""
    rows = [
        (f"{part.folder}/{name}.jsonl", *astuple(counts))
        for part in report.parts
        for name, counts in (("train", part.train), ("test", part.test))
    ]
    columns = ("file", "sentences", "documents", "patients", "mentions")
    console.print(table(f"Split by {report.by}, seed {report.seed}", columns, rows))
    for part in report.parts:
        _show_leakage(part.folder, part.leakage)
    if report.left_out:
        console.print(f"{report.left_out:,} documents without a sentence were left out")
    if report.flattening:
        console.print(table("Changed or lost", ("what", "count"), report.flattening.items()))


def _show_leakage(folder: str, leak: Leakage) -> None:
    console.print(
        f"{folder}: {leak.texts:,} texts occur in both parts, in "
        f"{leak.test_sentences:,} test sentences ({leak.share_of_test:.1%})"
    )
    for what, owners in (("document", leak.documents), ("patient", leak.patients)):
        if owners:
            console.print(
                f"{folder}: {len(owners):,} {what}s have sentences in both parts "
                f"({', '.join(owners[:NUM_NAMED])}{', ...' if len(owners) > NUM_NAMED else ''}); "
                f"--by {what} keeps them together",
                style="yellow",
            )
