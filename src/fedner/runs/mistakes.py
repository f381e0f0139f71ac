"""The mistakes of a finished tagger in their context: for the platform's own eyes."""

from dataclasses import dataclass
from typing import Any, Literal

from fedner.corpus.sentence import Entity, Sentence
from fedner.inference.predict import Predictor
from fedner.runs.folder import RunFolder, tagger_folder
from fedner.runs.platform_data import load_platform_of

Kind = Literal["false positive", "false negative", "wrong type", "wrong border"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mention that was not got right.

    A gold mention that a found one touches is reported once, with what was found: as a wrong type
    where only the type differs, else as a wrong border.

    Attributes:
        kind: What is wrong.
        sentence: Where.
        gold: The gold mention, or None for a false positive.
        found: The mention that was found, or None for a false negative.
        confidence: Of the found mention.
    """

    kind: Kind
    sentence: Sentence
    gold: Entity | None
    found: Entity | None
    confidence: float | None = None

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


def mistakes_in(sentence: Sentence, predicted: list[tuple[Entity, float]]) -> list[Mistake]:
    """Compare the found mentions of a sentence with its gold ones."""
    right = set(sentence.entities) & {entity for entity, _ in predicted}
    wrong = [each for each in predicted if each[0] not in right]
    mistakes = []
    for gold in sentence.entities:
        if gold in right:
            continue
        touching = [each for each in wrong if each[0].start < gold.end and gold.start < each[0].end]
        if not touching:
            mistakes.append(Mistake("false negative", sentence, gold, None))
            continue
        entity, confidence = touching[0]
        wrong.remove(touching[0])
        same_place = (entity.start, entity.end) == (gold.start, gold.end)
        kind: Kind = "wrong type" if same_place else "wrong border"
        mistakes.append(Mistake(kind, sentence, gold, entity, confidence))
    mistakes += [Mistake("false positive", sentence, None, *each) for each in wrong]
    return sorted(mistakes, key=lambda each: (each.gold or each.found or Entity(0, 0, "")).start)
