"""The development corpora by name: where they lie in the data folder, and how they are split.

The folder is the user's: nothing of it is part of fedner. Archives are unpacked into a temporary
folder for the time of reading.
"""

import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedner.corpus.document import Corpus
from fedner.corpus.groups import Grouping
from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read, recognise
from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import Split, fixed, split
from fedner.errors import FednerError

TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class NamedCorpus:
    """A corpus of the development folder.

    Attributes:
        name: What the studies call it.
        labels: The entity types that it annotates.
        sentences: All its sentences, flattened longest first.
        given: The split that the corpus comes with, or None.
    """

    name: str
    labels: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    given: Split | None = None

    def split(self, seed: int) -> Split:
        """Return the corpus's own split, or a random one by sentence as in Ge et al. 2020."""
        if self.given is not None:
            return self.given
        return split(Grouping.of(self.sentences, "sentence"), test=TEST_SHARE, seed=seed)


def load_corpus(data: Path, name: str) -> NamedCorpus:
    """Read a corpus of the development folder by name.

    Raises:
        FednerError: There is no such name, or the folder does not hold it.
    """
    if name not in CORPORA:
        raise FednerError(f"no development corpus {name!r}", f"There are {', '.join(CORPORA)}.")
    return CORPORA[name](data)


def _one(name: str, where: str) -> Callable[[Path], NamedCorpus]:
    def load(data: Path) -> NamedCorpus:
        labels, sentences = _read(data / where)
        return NamedCorpus(name, labels, sentences)

    return load


def _from_archive(name: str, archive: str, folder: str) -> Callable[[Path], NamedCorpus]:
    def load(data: Path) -> NamedCorpus:
        with tempfile.TemporaryDirectory() as temporary:
            labels, sentences = _read(_unpacked(data / archive, Path(temporary)) / folder)
        return NamedCorpus(name, labels, sentences)

    return load


def _with_own_split(name: str, archive: str, folder: str) -> Callable[[Path], NamedCorpus]:
    """Training and development part together are the training part; the test part is the test."""

    def load(data: Path) -> NamedCorpus:
        with tempfile.TemporaryDirectory() as temporary:
            root = _unpacked(data / archive, Path(temporary)) / folder
            parts = {part: _read(root / f"{part}.tsv") for part in ("train", "devel", "test")}
        labels = tuple(sorted({label for found, _ in parts.values() for label in found}))
        training, test = (*parts["train"][1], *parts["devel"][1]), parts["test"][1]
        given = fixed(len(training), len(test))
        return NamedCorpus(name, labels, (*training, *test), given)

    return load


def _unpacked(archive: Path, into: Path) -> Path:
    if not archive.is_file():
        raise FednerError(f"{archive} is not there", "Name the folder of development corpora.")
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return into


def _read(path: Path) -> tuple[tuple[str, ...], tuple[Sentence, ...]]:
    recognition = recognise(path)
    corpus: Corpus = read(path, recognition.format, lenient=True)
    return corpus.labels, prepare(corpus, sentences=recognition.sentence_choice).sentences


CORPORA: dict[str, Callable[[Path], NamedCorpus]] = {
    "ade": _one("ade", "ade-corpus-v2"),
    "psytar": _one("psytar", "psytar/all.full.txt.xz"),
    "twimed": _from_archive("twimed", "twimed/twimed.tar.xz", "gold/pubmed"),
    "btc": _one("btc", "btc"),
    "bc5cdr": _with_own_split("bc5cdr", "mtl-bio/BC5CDR-IOB.tar.xz", "BC5CDR-IOB"),
    "cadec": _one("cadec", "cadec"),
    "smm4h": _one("smm4h", "smm4h"),
}
