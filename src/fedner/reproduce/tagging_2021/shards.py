"""One corpus as n platforms: equal shards of its training part, and of its test part.

Each platform scores the shared tagger on its share of the test part. Counts add up, so that the sum
over platforms is the score on the whole test part, and that is one and the same for every n.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedner.corpus.document import Corpus, Document
from fedner.corpus.groups import Grouping, take
from fedner.corpus.platforms import divide
from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import split
from fedner.corpus.writers.jsonl import write_documents
from fedner.errors import FednerError
from fedner.reproduce.bench import TEST_SHARE, Bench
from fedner.reproduce.inputs import joined_document
from fedner.reproduce.reproduction import PlatformInput
from fedner.seeds import seeded

Parts = tuple[Sequence[Sentence], Sequence[Sentence]]


def platform_entries(
    bench: Bench, seed: int, number: int, micro_batch: int = 1
) -> list[Mapping[str, Any]]:
    """Return n equal platforms of the study's corpus as a federation file has them.

    Their files are written into the study's folder, whole or not at all, and taken from there when
    another cell needs the same.

    Args:
        bench: Has the corpus.
        seed: Of the split, where the corpus has no test part of its own, and of the shards.
        number: How many platforms.
        micro_batch: How many sentences make a document of the training part.
    """
    (platform,) = bench.inputs.platforms
    made_of = f"{platform.digest[:12]}-{seed}-{number}-{micro_batch}"
    folder = bench.inputs.out / "cache" / "shards" / made_of
    names = [f"p{each:02}" for each in range(1, number + 1)]
    if not all((folder / f"{name}-{part}.jsonl").is_file() for name in names for part in _PARTS):
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, names, platform, parts_of(bench, platform, seed), seed, micro_batch)
    by = "sentence" if micro_batch == 1 else "document"
    return [
        {
            "name": name,
            "data": str(folder / f"{name}-train.jsonl"),
            "format": "jsonl",
            "labels": list(platform.labels),
            "split": {"by": by, "test_data": str(folder / f"{name}-test.jsonl")},
        }
        for name in names
    ]


_PARTS = ("train", "test")


def parts_of(bench: Bench, platform: PlatformInput, seed: int) -> Parts:
    """Return the training and the test sentences of a corpus: its own, or 80/20 by the seed."""
    whole = _sentences(bench.corpus(platform.name))
    if platform.test_data is not None:
        return whole, _sentences(read(Path(platform.test_data), "jsonl"))
    return split(Grouping.of(whole, "sentence"), test=TEST_SHARE, seed=seed).select(whole)


def _sentences(corpus: Corpus) -> tuple[Sentence, ...]:
    return prepare(corpus, sentences="auto").sentences


def _write(
    folder: Path,
    names: Sequence[str],
    platform: PlatformInput,
    parts: Parts,
    seed: int,
    micro_batch: int,
) -> None:
    for part, sentences, size in zip(_PARTS, parts, (micro_batch, 1), strict=True):
        shards = divide(sentences, into=len(names), how="equal", seed=seed, by="sentence")
        for name, own in zip(names, shards, strict=True):
            documents = micro_batches(_mixed(take(sentences, own), size, seed), size)
            target = folder / f"{name}-{part}.jsonl"
            write_documents(target, documents, name=platform.name, labels=platform.labels)


def _mixed(sentences: Sequence[Sentence], size: int, seed: int) -> Sequence[Sentence]:
    """Return sentences in random order where several make a document: neighbours are alike."""
    if size == 1:
        return sentences
    order = seeded(seed, "microbatches").permutation(len(sentences)).tolist()
    return take(sentences, order)


def micro_batches(sentences: Sequence[Sentence], size: int) -> Iterator[Document]:
    """Yield a document for every `size` sentences: tokens joined by blanks, a sentence a line.

    Raises:
        FednerError: The size is below 1.
    """
    if size < 1:
        raise FednerError(f"micro-batches of {size} sentences; expected at least 1")
    for number, first in enumerate(range(0, len(sentences), size), start=1):
        yield joined_document(f"micro-batch {number}", sentences[first : first + size])
