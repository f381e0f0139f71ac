"""The whole configuration of a run: frozen models, read from TOML, all problems reported together.

What only a table of another room can judge (recipes, presets, formats, an algorithm's parameters)
is checked in `runs.checks`.
"""

from fedner.settings.federation import (
    PlatformEntry,
    Settings,
    federation_of,
    platform_settings_of,
    study_of,
)
from fedner.settings.platform import (
    OwnEmbeddings,
    PlatformSettings,
    PolicySettings,
    SplitSettings,
)
from fedner.settings.problems import SettingProblem, SettingsError, closest, nearest
from fedner.settings.reading import (
    attempt,
    dotted,
    escape_problems,
    override,
    parse,
    problems_of,
    read_toml,
    resolved,
)
from fedner.settings.records import record_from
from fedner.settings.sections import (
    HASHED,
    HUB,
    NO_CONTEXT,
    RECIPES_OWN,
    SYNTHETIC,
)
from fedner.settings.study import (
    NamedEncoder,
    NamedVectors,
    Study,
    StudyEmbeddings,
    StudyPlatform,
)

__all__ = [
    "HASHED",
    "HUB",
    "NO_CONTEXT",
    "RECIPES_OWN",
    "SYNTHETIC",
    "NamedEncoder",
    "NamedVectors",
    "OwnEmbeddings",
    "PlatformEntry",
    "PlatformSettings",
    "PolicySettings",
    "SettingProblem",
    "Settings",
    "SettingsError",
    "SplitSettings",
    "Study",
    "StudyEmbeddings",
    "StudyPlatform",
    "attempt",
    "closest",
    "dotted",
    "escape_problems",
    "federation_of",
    "nearest",
    "override",
    "parse",
    "platform_settings_of",
    "problems_of",
    "read_toml",
    "record_from",
    "resolved",
    "study_of",
]
