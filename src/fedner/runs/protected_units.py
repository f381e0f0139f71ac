"""What a platform's public size counts, and whether every sentence says whose it is."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fedner.corpus.groups import Unit, groups_of
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.privacy_checks import mechanism_of
from fedner.settings import SettingProblem, Settings, SettingsError
from fedner.settings.sections import PrivacySettings

if TYPE_CHECKING:
    from fedner.runs.platform_data import PlatformData


def _counts_units(privacy: PrivacySettings, mechanism: Mechanism | None) -> bool:
    """Whether units of documents or patients are protected, and not whole platforms."""
    return privacy.enabled and mechanism_of(privacy, mechanism).samples_units


def counted_unit(privacy: PrivacySettings, mechanism: Mechanism | None = None) -> Unit:
    """Return what a public size counts: protected units where there are any, else sentences."""
    return privacy.unit if _counts_units(privacy, mechanism) else "sentence"


def true_size(
    data: "PlatformData", privacy: PrivacySettings, mechanism: Mechanism | None = None
) -> int:
    """Return how many training sentences, or protected units, a platform has."""
    unit = counted_unit(privacy, mechanism)
    if unit == "sentence":
        return len(data.train)
    return len(groups_of(data.train_sentences, unit))


def require_units(
    settings: Settings, data: "Mapping[str, PlatformData]", mechanism: Mechanism | None = None
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


def unit_problem(
    data: "PlatformData", privacy: PrivacySettings, mechanism: Mechanism | None = None
) -> SettingProblem | None:
    """Return how many sentences do not say to which protected unit they belong."""
    unit = privacy.unit
    if not _counts_units(privacy, mechanism) or unit == "sentence":
        return None
    sentences = list(data.train_sentences)
    if privacy.scores is not None:
        sentences += data.test_sentences
    lost = sum(not getattr(each, unit) for each in sentences)
    if not lost:
        return None
    return SettingProblem(
        "privacy.unit",
        f"{lost:,} of {len(sentences):,} sentences without a {unit} id",
        f"the {unit} of every sentence",
        f"Add them to the data, or protect another unit than the {unit}.",
    )
