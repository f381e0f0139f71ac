"""The whole configuration of a run: frozen models, read from TOML, all problems reported together.

What only a table of another room can judge (recipes, presets, formats, an algorithm's parameters)
is checked in `runs.checks`.
"""

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
    PlatformSettings,
    Settings,
    SplitSettings,
)

__all__ = [
    "HASHED",
    "HUB",
    "NO_CONTEXT",
    "RECIPES_OWN",
    "SYNTHETIC",
    "PlatformSettings",
    "SettingProblem",
    "Settings",
    "SettingsError",
    "SplitSettings",
    "attempt",
    "closest",
    "dotted",
    "escape_problems",
    "nearest",
    "override",
    "parse",
    "problems_of",
    "read_toml",
    "record_from",
    "resolved",
]
