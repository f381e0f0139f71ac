"""What a platform's public size counts, and whether all sentences say whose they are."""

from collections.abc import Mapping
from dataclasses import replace

from fedner.corpus.groups import Unit, groups_of
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.platform_data import PlatformData, counts_units, unit_problem
from fedner.settings import Settings, SettingsError
from fedner.settings.sections import PrivacySettings


def counted_unit(privacy: PrivacySettings, mechanism: Mechanism | None = None) -> Unit:
    """Return what a public size counts: protected units where there are any, else sentences."""
    return privacy.unit if counts_units(privacy, mechanism) else "sentence"


def true_size(
    data: PlatformData, privacy: PrivacySettings, mechanism: Mechanism | None = None
) -> int:
    """Return how many training sentences, or protected units, a platform has."""
    unit = counted_unit(privacy, mechanism)
    if unit == "sentence":
        return len(data.train)
    return len(groups_of(data.train_sentences, unit))


def require_units(
    settings: Settings, data: Mapping[str, PlatformData], mechanism: Mechanism | None = None
) -> None:
    """Raise unless every sentence says to which protected unit it belongs.

    Args:
        settings: The federation file.
        data: What was read of each platform.
        mechanism: A mechanism of one's own in place of the one that the file names.

    Raises:
        SettingsError: Sentences that do not; the problems of all platforms at once.
    """
    problems = []
    for number, platform in enumerate(settings.platforms):
        problem = unit_problem(data[platform.name], settings.privacy, mechanism)
        if problem is not None:
            key = f"privacy.unit for platforms[{number}] ({platform.name})"
            problems.append(replace(problem, key=key))
    if problems:
        raise SettingsError("the platforms' data", problems)
