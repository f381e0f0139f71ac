"""joining.json: what a newcomer received, tried and kept, and what that came to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedner.corpus.groups import Unit
from fedner.runs.joining.choice import Choice, Method
from fedner.runs.joining.curve import Worth
from fedner.runs.outcome import Outcome
from fedner.runs.records import BothIntervals
from fedner.runs.records.border import as_json
from fedner.scoring import PairedTest

RECORD = "joining.json"
RECEIVED = "as received"  # the shared model before any training at home
NO_DP = "no differential privacy"


@dataclass(frozen=True, slots=True)
class MethodResult:
    """What one method came to on the test part.

    Attributes:
        outcome: Its scores and the counts of every unit.
        intervals: Strict and relaxed F1 with their bootstrap intervals.
    """

    outcome: Outcome
    intervals: BothIntervals

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return {"scores": self.outcome.scores.as_dict(), "intervals": as_json(self.intervals)}


@dataclass(frozen=True, slots=True)
class Joined:
    """A platform that joined.

    Attributes:
        name: What it is called.
        received: What it received: title, digest, types, privacy.
        types: Its own types with their descriptions.
        num_train: How many sentences it trained on.
        num_test: How many it was tested on.
        unit: What of them stayed together.
        choice: What cross-validation chose.
        results: By method, on the test part; empty without one. Also `RECEIVED`, where a
            head that knows types by their descriptions was received.
        gain: The kept tagger against local-only on the test part; None where that is kept.
        worth: What joining is worth in own sentences, at growing sizes; empty without a test part.
        left_out: What of its mentions no tagger saw, in words; empty if nothing.
        zeros: Where strict F1 is 0.0, in a sentence; empty if nowhere.
        warnings: What its owner should know.
        is_synthetic: Whether its sentences are built-in, synthetic ones.
    """

    name: str
    received: Mapping[str, Any]
    types: Mapping[str, str]
    num_train: int
    num_test: int
    unit: Unit
    choice: Choice
    results: Mapping[str, MethodResult] = field(default_factory=dict)
    gain: PairedTest | None = None
    worth: tuple[Worth, ...] = ()
    left_out: str = ""
    zeros: str = ""
    warnings: tuple[str, ...] = ()
    is_synthetic: bool = False

    @property
    def kept(self) -> Method:
        """The method that is kept."""
        return self.choice.kept

    @property
    def result(self) -> MethodResult | None:
        """What the kept tagger came to on the test part; None without one."""
        return self.results.get(self.kept)

    def worth_words(self) -> str:
        """Return in one sentence what joining is worth with all own sentences; empty untested."""
        if not self.worth:
            return ""
        last = self.worth[-1]
        return (
            f"With {last.sentences:,} sentences of your own, joining is worth {last.words()} "
            "sentences of your own alone."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        choice, gain = self.choice, self.gain
        return {
            "platform": self.name,
            "received": dict(self.received),
            "sent": "nothing",
            "types": dict(self.types),
            "train_sentences": self.num_train,
            "test_sentences": self.num_test,
            "unit": self.unit,
            "kept": self.kept,
            "selection": {
                "note": "strict F1 over three folds of the training sentences; it chose between "
                "candidates and is not a result",
                "methods": dict(choice.selection_f1),
                "joined": as_json(choice.joined),
                "local_only": as_json(choice.local),
                "candidates": [as_json(each) for each in choice.candidates],
            },
            "results": {name: each.as_dict() for name, each in self.results.items()},
            "gain": None if gain is None else as_json(gain),
            "worth": [each.as_dict() for each in self.worth],
            "worth_words": self.worth_words(),
            "left_out": self.left_out,
            "zeros": self.zeros,
            "warnings": list(self.warnings),
            "synthetic": self.is_synthetic,
        }
