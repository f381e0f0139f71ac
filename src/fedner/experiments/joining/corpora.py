"""The platforms of the study: corpora, public descriptions of their types, and who joins whom.

Sentences that a newcomer has too are taken out of its partners (six tokens or more, case ignored).
"""

import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedner.corpus.groups import Grouping
from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read, recognise
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.splits import normalised, split
from fedner.errors import FednerError
from fedner.seeds import seeded

LEAST_REPEATED = 6  # tokens from which on two equal sentences are the same sentence
MOST_TOKENS = 128  # longer ones are cut: none of a handful of sentences is
TEST_SHARE = 0.2
MEDICAL = ("ade", "psytar", "twimed", "bc5cdr", "ncbi", "maccrobat")
BTC = tuple(f"btc-{part}" for part in "abefgh")

# What a platform would write into [types]: one line a type, from the corpora's own guidelines.
DESCRIPTIONS: dict[str, dict[str, str]] = {
    "ade": {
        "ADE": "adverse drug event, an unwanted effect caused by a medicine",
        "Dosage": "amount and frequency of a medicine that is taken",
        "Drug": "name of a drug, medicine or chemical substance",
    },
    "psytar": {
        "ADR": "adverse drug reaction, an unwanted effect of a medicine that a patient reports",
        "DI": "drug indication, the illness or symptom that a medicine is taken for",
        "SSI": "sign or symptom of an illness",
        "WD": "withdrawal symptom after stopping a medicine",
    },
    "twimed": {
        "Disease": "name of a disease or disorder",
        "Drug": "name of a drug, medicine or chemical substance",
        "Symptom": "sign or symptom of an illness or effect of a medicine",
    },
    "bc5cdr": {
        "Chemical": "name of a chemical substance or drug",
        "Disease": "name of a disease, disorder or symptom",
    },
    "ncbi": {"Disease": "name of a disease or disorder"},
    "maccrobat": {
        "Age": "age of a patient",
        "Biological_structure": "part of the body, an organ or anatomical structure",
        "Clinical_event": "clinical event such as admission, visit or discharge",
        "Date": "date or day in a patient's history",
        "Detailed_description": "detailed description of a finding or procedure",
        "Diagnostic_procedure": "diagnostic procedure, test or measurement",
        "Disease_disorder": "name of a disease or disorder",
        "Dosage": "amount and frequency of a medicine that is taken",
        "Duration": "how long something lasts",
        "History": "medical history of a patient",
        "Lab_value": "value or result of a test or measurement",
        "Medication": "name of a drug or medicine",
        "Severity": "how severe a finding or illness is",
        "Sign_symptom": "sign or symptom of an illness",
        "Therapeutic_procedure": "treatment, operation or therapeutic procedure",
    },
    "ex-ptm": {"Protein": "name of a protein or gene"},
    "wnut17": {
        "corporation": "name of a company or corporation",
        "creative-work": "title of a song, film, book or other creative work",
        "group": "name of a group, team, band or organisation",
        "location": "name of a place, city, country or other location",
        "person": "name of a person",
        "product": "name of a product or brand",
    },
} | {
    name: {
        "LOC": "name of a place, city, country or other location",
        "ORG": "name of an organisation, company, team or institution",
        "PER": "name of a person",
    }
    for name in BTC
}


@dataclass(frozen=True, slots=True)
class StudyCorpus:
    """A platform of the study.

    Attributes:
        name: What the study calls it.
        labels: The types that it annotates, sorted.
        sentences: All its sentences.
        by: What a split keeps together.
    """

    name: str
    labels: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    by: str

    @property
    def descriptions(self) -> dict[str, str]:
        """The public description of each type; of one without, its name."""
        known = DESCRIPTIONS.get(self.name, {})
        return {label: known.get(label, label) for label in self.labels}

    def parts(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return own sentences, in the order in which they are annotated, and the test part.

        The first n own sentences are the platform with n annotated sentences: sizes are nested.
        """
        grouping = Grouping.of(self.sentences, "document" if self.by == "document" else "sentence")
        found = split(grouping, test=TEST_SHARE, seed=seed)
        own = np.asarray(found.train, dtype=np.int64)
        return seeded(seed, "joining", self.name, "own").permutation(own), np.asarray(
            found.test, dtype=np.int64
        )


def load(data: Path, name: str) -> StudyCorpus:
    """Read a platform from the folder of development corpora.

    Raises:
        FednerError: There is no such platform, or the folder does not hold it.
    """
    if name not in DESCRIPTIONS:
        raise FednerError(f"no platform {name!r}", f"There are {', '.join(DESCRIPTIONS)}.")
    sentences = _READERS[name](data)
    wanted = DESCRIPTIONS[name]
    kept = tuple(_only(each, set(wanted)) for each in sentences if each.tokens)
    labels = tuple(sorted(wanted))
    by = "document" if len({each.document for each in kept}) < len(kept) else "sentence"
    return StudyCorpus(name, labels, kept, by)


def _only(sentence: Sentence, labels: set[str]) -> Sentence:
    """Return the sentence with entities of these types alone, and of bounded length."""
    end = min(len(sentence.tokens), MOST_TOKENS)
    entities = tuple(each for each in sentence.entities if each.label in labels and each.end <= end)
    return replace(
        sentence,
        tokens=sentence.tokens[:end],
        starts=sentence.starts[:end],
        ends=sentence.ends[:end],
        entities=entities,
    )


def without(partner: StudyCorpus, newcomer: StudyCorpus) -> NDArray[np.int64]:
    """Return the partner's sentences that the newcomer does not have, by index."""
    taken = {
        normalised(each.tokens) for each in newcomer.sentences if len(each.tokens) >= LEAST_REPEATED
    }
    return np.asarray(
        [
            index
            for index, each in enumerate(partner.sentences)
            if len(each.tokens) < LEAST_REPEATED or normalised(each.tokens) not in taken
        ],
        dtype=np.int64,
    )


def moved(sentences: Sequence[Sentence], seed: int) -> tuple[Sentence, ...]:
    """Return the placebo: every entity moved at random within its sentence, never overlapping."""
    generator = seeded(seed, "joining", "placebo")
    return tuple(_moved(each, generator) for each in sentences)


def _moved(sentence: Sentence, generator: np.random.Generator) -> Sentence:
    if not sentence.entities:
        return sentence
    sizes = [(each.end - each.start, each.label) for each in sentence.entities]
    sizes = [sizes[place] for place in generator.permutation(len(sizes))]
    # The free tokens are dealt to the gaps before, between and after the entities.
    free = len(sentence.tokens) - sum(size for size, _ in sizes)
    cuts = np.sort(generator.integers(0, free + 1, len(sizes)))
    entities, used = [], 0
    for gap, (size, label) in zip(cuts.tolist(), sizes, strict=True):
        entities.append(Entity(gap + used, gap + used + size, label))
        used += size
    return replace(sentence, entities=tuple(entities))


def _file(where: str) -> Callable[[Path], tuple[Sentence, ...]]:
    return lambda data: _read(data / where)


def _files(*places: str) -> Callable[[Path], tuple[Sentence, ...]]:
    return lambda data: tuple(each for where in places for each in _read(data / where))


def _archive(archive: str, *folders: str) -> Callable[[Path], tuple[Sentence, ...]]:
    def load_archive(data: Path) -> tuple[Sentence, ...]:
        path = data / archive
        if not path.is_file():
            raise FednerError(f"{path} is not there", "Name the folder of development corpora.")
        with tempfile.TemporaryDirectory() as temporary, tarfile.open(path) as tar:
            tar.extractall(temporary, filter="data")
            found = [_read(Path(temporary) / folder) for folder in folders]
        return tuple(
            replace(sentence, document=f"{part}:{sentence.document}")
            for part, sentences in enumerate(found)
            for sentence in sentences
        )

    return load_archive


def _read(path: Path) -> tuple[Sentence, ...]:
    recognition = recognise(path)
    corpus = read(path, recognition.format, lenient=True)
    return prepare(corpus, sentences=recognition.sentence_choice).sentences


def _bio(name: str) -> Callable[[Path], tuple[Sentence, ...]]:
    parts = (f"{name}/{part}.tsv" for part in ("train", "devel", "test"))
    return _archive(f"mtl-bio/{name}.tar.xz", *parts)


_READERS: dict[str, Callable[[Path], tuple[Sentence, ...]]] = {
    "ade": _file("ade-corpus-v2"),
    "psytar": _file("psytar/all.full.txt.xz"),
    "twimed": _archive("twimed/twimed.tar.xz", "gold/pubmed"),
    "bc5cdr": _bio("BC5CDR-IOB"),
    "ncbi": _bio("NCBI-disease-IOB"),
    "maccrobat": _archive("maccrobat2020/MACCROBAT2020.tar.xz", "."),
    "ex-ptm": _bio("Ex-PTM-IOB"),
    "wnut17": _files(
        "wnut17/wnut17train.conll.xz",
        "wnut17/emerging.dev.conll.xz",
        "wnut17/emerging.test.annotated.xz",
    ),
} | {name: _file(f"btc/{name[-1]}.conll.xz") for name in BTC}
