"""The mistakes of a finished tagger in their context: for the platform's own eyes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedner.corpus.sentence import Entity, Sentence
from fedner.inference.predict import Predictor
from fedner.runs.folder import RunFolder, tagger_folder
from fedner.runs.platform_data import load_platform_of
from fedner.scoring import MISTAKE_KINDS, MistakeKind, pair_mistakes


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mention that was not got right.

    A gold mention that a found one touches is reported once, with what was found: as of the wrong
    type where only the type differs, else as one of wrong borders.

    Attributes:
        kind: What is wrong.
        sentence: Where.
        gold: The gold mention; None of a spurious one.
        found: The mention that was found; None of a missed one.
        confidence: Of the found mention.
    """

    kind: MistakeKind
    sentence: Sentence
    gold: Entity | None
    found: Entity | None
    confidence: float | None = None

    @property
    def label(self) -> str:
        """The type that it counts for: that of the gold mention where there is one."""
        held = self.gold or self.found
        return "" if held is None else held.label

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return {
            "kind": self.kind,
            "document": self.sentence.document,
            "tokens": list(self.sentence.tokens),
            "gold": self.gold and list(self.gold),
            "found": self.found and list(self.found),
            "confidence": self.confidence,
        }


@dataclass(frozen=True, slots=True)
class MistakeGroup:
    """The mistakes of one kind and one type.

    Attributes:
        kind: What is wrong.
        label: The type of the gold mentions, or of what was found where none is.
        mistakes: All of them, in the order of the texts.
    """

    kind: MistakeKind
    label: str
    mistakes: tuple[Mistake, ...]

    @property
    def documents(self) -> dict[str, int]:
        """The ids of their documents, the worst first, with how many each has."""
        counts: dict[str, int] = {}
        for each in self.mistakes:
            counts[each.sentence.document] = counts.get(each.sentence.document, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def as_dict(self, *, limit: int | None = None) -> dict[str, Any]:
        """Return the group as JSON can carry it.

        Args:
            limit: How many mistakes are shown with their text; None shows all, 0 none.
        """
        shown = self.mistakes[:limit]
        return {
            "kind": self.kind,
            "type": self.label,
            "count": len(self.mistakes),
            "documents": self.documents,
            **({"mistakes": [each.as_dict() for each in shown]} if shown else {}),
        }


def find_mistakes(run: RunFolder, platform: str, method: str = "federated") -> list[Mistake]:
    """Return every mistake on a platform's test part, in the order of the texts.

    Raises:
        FednerError: There is no such platform, its tagger is not finished or its data are gone.
    """
    settings = run.settings()
    data = load_platform_of(settings, platform)
    predictor = Predictor.load(tagger_folder(run.path, platform, method))
    found = predictor.predict_sentences(data.test_sentences)
    mistakes = []
    for sentence, predicted in zip(data.test_sentences, found, strict=True):
        known = [each for each in predicted if each[0].label in data.labels]
        mistakes += mistakes_in(sentence, known)
    return mistakes


def mistakes_in(sentence: Sentence, predicted: Sequence[tuple[Entity, float]]) -> list[Mistake]:
    """Compare the found mentions of a sentence with its gold ones."""
    confidences = dict(predicted)
    found = [entity for entity, _ in predicted]
    return [
        Mistake(
            each.kind,
            sentence,
            each.gold,
            each.found,
            None if each.found is None else confidences[each.found],
        )
        for each in pair_mistakes(sentence.entities, found)
    ]


def grouped(mistakes: Iterable[Mistake]) -> list[MistakeGroup]:
    """Return mistakes by kind, and within a kind by type, the most frequent first."""
    held: dict[tuple[MistakeKind, str], list[Mistake]] = {}
    for each in mistakes:
        held.setdefault((each.kind, each.label), []).append(each)
    groups = [MistakeGroup(kind, label, tuple(each)) for (kind, label), each in held.items()]
    order = MISTAKE_KINDS.index
    return sorted(groups, key=lambda each: (order(each.kind), -len(each.mistakes), each.label))
