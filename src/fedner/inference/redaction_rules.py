"""How texts are redacted: what goes, what stands in its place, and whose key names it."""

from dataclasses import dataclass, field
from typing import Any

from fedner.corpus.patients import PatientSource
from fedner.errors import FednerError
from fedner.inference.home_key import DateShift, HomeKey
from fedner.inference.predict import Predictor
from fedner.inference.reading import Finder
from fedner.inference.redact import How
from fedner.inference.removal import best_path_finder, threshold_finder


@dataclass(frozen=True, slots=True)
class Rules:
    """How texts are redacted.

    Attributes:
        how: What mentions become; pseudonyms need a key.
        types: The types to remove; None for all that the tagger knows.
        threshold: The probability from which on a word goes; None for what `predict` finds.
        key: The key that stays at home.
        dates: How dates are moved; only pseudonyms move them.
        patients: Whose text each note is; None where every note is taken for a patient's own.
        keeps_names: Whether names of files and folders stay as they are.
    """

    how: How = "type"
    types: tuple[str, ...] | None = None
    threshold: float | None = None
    key: HomeKey | None = None
    dates: DateShift = field(default_factory=DateShift)
    patients: PatientSource | None = None
    keeps_names: bool = True

    def __post_init__(self) -> None:
        needs = [
            name
            for name, is_asked in (
                ("pseudonyms", self.how == "pseudonym"),
                ("pseudonyms of file names", not self.keeps_names),
            )
            if is_asked
        ]
        if needs and self.key is None:
            raise FednerError(
                f"{' and '.join(needs)} need a secret key",
                "Make one with: fedner redaction key FILE, and name it with --key FILE.",
            )
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise FednerError(
                f"threshold: found {self.threshold}; expected a probability above 0, at most 1",
                "`fedner redaction calibrate` chooses one for the recall you want.",
            )

    def finder(self, predictor: Predictor) -> Finder:
        """Return what finds the mentions that go."""
        types = self.types or predictor.model.space.labels
        if self.threshold is None:
            return best_path_finder(predictor, types)
        return threshold_finder(predictor, types, self.threshold)

    def as_dict(self) -> dict[str, Any]:
        """Return what two redactions that belong together have in common."""
        return {
            "how": self.how,
            "types": None if self.types is None else list(self.types),
            "threshold": self.threshold,
            "key": None if self.key is None else self.key.fingerprint,
            "dates": [list(self.dates.types), self.dates.most_days, self.dates.day_first],
            "keeps_names": self.keeps_names,
        }
