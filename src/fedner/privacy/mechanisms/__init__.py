"""The mechanisms by name: one row each."""

from fedner.privacy.mechanisms.distributed import DISTRIBUTED
from fedner.privacy.mechanisms.mechanism import (
    Asked,
    ClippedStep,
    Mechanism,
    MechanismFacts,
    NoiseTerms,
    PlatformPrivacy,
    PrivatePart,
    ScoreNoise,
    SumRelease,
    require_fitting,
    without_rows,
)
from fedner.privacy.mechanisms.platform import PLATFORM
from fedner.privacy.mechanisms.platform_central import PLATFORM_CENTRAL
from fedner.privacy.mechanisms.unit_central import UNIT_CENTRAL
from fedner.privacy.mechanisms.unit_local import UNIT_LOCAL

__all__ = [
    "DISTRIBUTED",
    "MECHANISMS",
    "PLATFORM",
    "PLATFORM_CENTRAL",
    "UNIT_CENTRAL",
    "UNIT_LOCAL",
    "Asked",
    "ClippedStep",
    "Mechanism",
    "MechanismFacts",
    "NoiseTerms",
    "PlatformPrivacy",
    "PrivatePart",
    "ScoreNoise",
    "SumRelease",
    "require_fitting",
    "without_rows",
]

# Rows are in `settings.sections.MechanismName` too: settings know no other room.
MECHANISMS: dict[str, Mechanism] = {
    each.name: each for each in (UNIT_LOCAL, UNIT_CENTRAL, DISTRIBUTED, PLATFORM, PLATFORM_CENTRAL)
}
