"""The records of a run: what each JSON file of its folder holds, as frozen, checked types."""

from fedner.runs.records.border import UNHARMED, as_json, read_as
from fedner.runs.records.counts import MethodCounts, UnitCounts
from fedner.runs.records.disclosure import DescribedTensor, Disclosure, RunDisclosure
from fedner.runs.records.facts import InitialFacts, PlatformFacts, RunFacts, SiteFacts
from fedner.runs.records.privacy import (
    Grant,
    LedgerSpent,
    NoiseBy,
    PlatformSpent,
    PrivacySpent,
    StatedSpend,
)
from fedner.runs.records.score_reports import Incident, ReportedPlatform, ScoreReports
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
    "Incident",
    "InitialFacts",
    "LedgerSpent",
    "MeanF1",
    "MethodCounts",
    "NoiseBy",
    "PlatformFacts",
    "PlatformScores",
    "PlatformSpent",
    "PrivacySpent",
    "ReportedPlatform",
    "RunDisclosure",
    "RunFacts",
    "RunScores",
    "ScoreReports",
    "SiteFacts",
    "StatedSpend",
    "UnitCounts",
    "Verdict",
    "as_json",
    "read_as",
    "verdict",
]
