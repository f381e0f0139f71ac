"""One corpus among platforms that do not exist: equal shards, and one test part for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedner.corpus.document import Corpus
from fedner.corpus.groups import Grouping, take
from fedner.corpus.platforms import divide
from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import split
from fedner.corpus.writers.jsonl import write_documents
from fedner.reproduce.bench import TEST_SHARE, Bench
from fedner.reproduce.inputs import as_documents


@dataclass(frozen=True, slots=True)
class Shards:
    """The platforms of one corpus.

    Attributes:
        entries: The platforms, as a federation file has them.
        corpora: The training sentences of each.
    """

    entries: tuple[dict[str, Any], ...]
    corpora: dict[str, Corpus]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the platforms."""
        return tuple(self.corpora)


def equal_shards(bench: Bench, names: Sequence[str], number: int, seed: int) -> Shards:
    """Deal the sentences of some inputs to so many platforms; all are tested on the same part.

    So scores are comparable between numbers of platforms, and do not hang on a few sentences where
    shards are small.

    Args:
        bench: Holds the corpora.
        names: Which of the inputs; their sentences are one corpus.
        number: How many platforms.
        seed: Draws test part and shards.
    """
    labels = sorted({label for name in names for label in bench.inputs.platform(name).labels})
    train, test = _parts(bench, names, seed)
    made_of = "+".join(f"{name}-{bench.inputs.platform(name).digest[:12]}" for name in names)
    path = bench.inputs.out / "cache" / "shards" / f"{made_of}-test-{seed}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_documents(path, as_documents(test), name="test", labels=labels)
    dealt = divide(train, into=number, how="equal", seed=seed)
    called = [f"shard-{each + 1:02d}" for each in range(number)]
    corpora = {
        name: Corpus(name, tuple(labels), tuple(as_documents(take(train, own))))
        for name, own in zip(called, dealt, strict=True)
    }
    entries = tuple(_entry(name, path, labels) for name in called)
    return Shards(entries, corpora)


def _entry(name: str, test: Path, labels: Sequence[str]) -> dict[str, Any]:
    """Return a platform whose training sentences are in memory; its path names the test part."""
    return {
        "name": name,
        "data": str(test),
        "format": "jsonl",
        "labels": list(labels),
        "split": {"by": "sentence", "test_data": str(test)},
    }


def _parts(
    bench: Bench, names: Sequence[str], seed: int
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """Return training and test sentences of all inputs together."""
    train: list[Sentence] = []
    test: list[Sentence] = []
    for name in names:
        sentences = _sentences(bench.corpus(name), name)
        own_test = bench.inputs.platform(name).test_data
        if own_test is not None:
            train += sentences
            test += _sentences(read(Path(own_test), "jsonl"), name)
            continue
        drawn = split(Grouping.of(sentences, "sentence"), test=TEST_SHARE, seed=seed)
        train += take(sentences, drawn.train)
        test += take(sentences, drawn.test)
    return tuple(train), tuple(test)


def _sentences(corpus: Corpus, name: str) -> list[Sentence]:
    """Return sentences whose documents have names of their own among all inputs."""
    found = prepare(corpus, sentences="as given").sentences
    return [replace(each, document=f"{name}:{each.document}") for each in found]
