"""The records of a run: what each JSON file of its folder holds, as frozen, checked types."""

from fedner.runs.records.border import UNHARMED, as_json, read_as
from fedner.runs.records.counts import MethodCounts, UnitCounts
from fedner.runs.records.disclosure import DescribedTensor, Disclosure, RunDisclosure
from fedner.runs.records.facts import PlatformFacts, RunFacts, SiteFacts
from fedner.runs.records.privacy import (
    Grant,
    LedgerSpent,
    PlatformSpent,
    PrivacySpent,
    StatedSpend,
)
from fedner.runs.records.scores import (
    BothIntervals,
    Gain,
    MeanF1,
    PlatformScores,
    RunScores,
    Verdict,
    verdict,
)

__all__ = [
    "UNHARMED",
    "BothIntervals",
    "DescribedTensor",
    "Disclosure",
    "Gain",
    "Grant",
    "LedgerSpent",
    "MeanF1",
    "MethodCounts",
    "PlatformFacts",
    "PlatformScores",
    "PlatformSpent",
    "PrivacySpent",
    "RunDisclosure",
    "RunFacts",
    "RunScores",
    "SiteFacts",
    "StatedSpend",
    "UnitCounts",
    "Verdict",
    "as_json",
    "read_as",
    "verdict",
]
