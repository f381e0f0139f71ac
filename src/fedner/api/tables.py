"""Settings of a federation whose texts are in memory, from the tables that a file would have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fedner.runs.checks import public_problems
from fedner.runs.embedding_checks import initial_problems, path_problems
from fedner.runs.study_defaults import with_defaults
from fedner.settings import SettingProblem, Settings, SettingsError, attempt, resolved

Table = Mapping[str, Any]
IN_MEMORY = "in memory"  # in place of the path of a platform's data


def settings_of(sections: Mapping[str, Any], platforms: list[dict[str, Any]]) -> Settings:
    """Return the checked settings of a federation whose texts are in memory.

    Args:
        sections: The tables of federation.toml by name, without its platforms; paths are relative
            to the working folder.
        platforms: What a file would say of each platform, but for its data.

    Raises:
        SettingsError: All problems at once.
    """
    entries = [{"data": IN_MEMORY, **each} for each in platforms]
    tables = {name: _plain(table) for name, table in sections.items()}
    understood, problems = attempt({**tables, "platforms": entries})
    if understood is not None:
        # The stand-in for data is no path, and stays as it is.
        held = understood.platforms
        understood = resolved(understood, Path.cwd()).model_copy(update={"platforms": held})
        understood = with_defaults(understood)
        known = {problem.key for problem in problems}
        problems += [each for each in memory_problems(understood) if each.key not in known]
    if understood is None or problems:
        raise SettingsError("the tables given", problems)
    return understood


def memory_problems(settings: Settings) -> list[SettingProblem]:
    """Return the problems of a federation, but for those of data that no file holds."""
    return [
        *public_problems(settings),
        *path_problems(settings),
        *initial_problems(settings),
    ]


def _plain(value: object) -> object:
    """Return a table as JSON can carry it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return str(value) if isinstance(value, Path) else value
