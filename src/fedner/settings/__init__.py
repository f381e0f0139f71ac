"""The whole configuration of a run: frozen models, read from TOML, all problems reported together.

What only a table of another room can judge (recipes, presets, formats, an algorithm's parameters)
is checked in `runs.checks`.
"""

from fedner.settings.federation import (
    PlatformEntry,
    Settings,
    federation_of,
    joined,
    platform_entry,
    platform_settings_of,
    study_of,
)
from fedner.settings.paths import (
    escape_problems,
    platform_escape_problems,
    resolved,
    resolved_platform,
)
from fedner.settings.platform import (
    OwnEmbeddings,
    PlatformSettings,
    SplitSettings,
)
from fedner.settings.policy import PolicySettings
from fedner.settings.policy_problems import mechanism_name, policy_problems
from fedner.settings.problems import SettingProblem, SettingsError, closest, nearest
from fedner.settings.reading import (
    attempt,
    attempt_as,
    dotted,
    override,
    parse,
    parse_as,
    problems_of,
    read_toml,
)
from fedner.settings.records import record_from
from fedner.settings.sections import (
    HASHED,
    HUB,
    NO_CONTEXT,
    RECIPES_OWN,
    SYNTHETIC,
    EngineSettings,
)
from fedner.settings.study import (
    NamedEncoder,
    NamedModel,
    NamedVectors,
    Study,
    StudyEmbeddings,
    StudyPlatform,
)
from fedner.settings.writing import platform_toml, study_toml

__all__ = [
    "HASHED",
    "HUB",
    "NO_CONTEXT",
    "RECIPES_OWN",
    "SYNTHETIC",
    "EngineSettings",
    "NamedEncoder",
    "NamedModel",
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
    "attempt_as",
    "closest",
    "dotted",
    "escape_problems",
    "federation_of",
    "joined",
    "mechanism_name",
    "nearest",
    "override",
    "parse",
    "parse_as",
    "platform_entry",
    "platform_escape_problems",
    "platform_settings_of",
    "platform_toml",
    "policy_problems",
    "problems_of",
    "read_toml",
    "record_from",
    "resolved",
    "resolved_platform",
    "study_of",
    "study_toml",
]
