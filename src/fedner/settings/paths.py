"""Paths in settings: made absolute, and found out where TOML read a backslash as an escape."""

from pathlib import Path
from typing import TypeVar

from fedner.settings.federation import Settings
from fedner.settings.platform import PlatformSettings
from fedner.settings.problems import SettingProblem
from fedner.settings.reading import shown
from fedner.settings.sections import HASHED, HUB, NO_CONTEXT, Section

EMBEDDING_PATHS = ("words", "context", "cache")
Platform = TypeVar("Platform", bound=PlatformSettings)
Held = TypeVar("Held", bound=Section)
# What stands in the place of a path and is none.
NO_PATHS = (None, HASHED, NO_CONTEXT)


def resolved(settings: Settings, folder: Path) -> Settings:
    """Return the settings with every path made absolute; relative ones are relative to `folder`."""
    platforms = tuple(resolved_platform(each, folder) for each in settings.platforms)
    embeddings = _absolute_in(settings.embeddings, EMBEDDING_PATHS, folder)
    model = _absolute_in(settings.model, ("initial",), folder)
    return settings.model_copy(
        update={"model": model, "embeddings": embeddings, "platforms": platforms}
    )


def resolved_platform(settings: Platform, folder: Path) -> Platform:
    """Return a platform's settings with every path made absolute."""
    paths = ("ledger",) if settings.synthetic is not None else ("data", "ledger")
    patients = settings.patients
    changed: dict[str, Section | None] = {
        "split": _absolute_in(settings.split, ("test_data",), folder),
        "patients": None if patients is None else _absolute_in(patients, ("file",), folder),
        "embeddings": _absolute_in(settings.embeddings, EMBEDDING_PATHS, folder),
    }
    return _absolute_in(settings, paths, folder).model_copy(update=changed)


def _absolute_in(section: Held, keys: tuple[str, ...], folder: Path) -> Held:
    found = {key: getattr(section, key) for key in keys}
    return section.model_copy(
        update={
            key: str((folder / Path(path).expanduser()).resolve())
            for key, path in found.items()
            if path not in NO_PATHS and not path.startswith(HUB)
        }
    )


def escape_problems(settings: Settings) -> list[SettingProblem]:
    r"""Return the paths in which a backslash of Windows became a control character of TOML.

    "C:\temp" is valid TOML: a tab and "emp". No path is meant to hold such characters.
    """
    held = settings.embeddings
    problems = _escapes({"model.initial": settings.model.initial})
    problems += _escapes({f"embeddings.{key}": getattr(held, key) for key in EMBEDDING_PATHS})
    for number, platform in enumerate(settings.platforms):
        problems += platform_escape_problems(platform, f"platforms[{number}].")
    return problems


def platform_escape_problems(settings: PlatformSettings, prefix: str = "") -> list[SettingProblem]:
    """Return such paths in one platform's settings."""
    own, patients = settings.embeddings, settings.patients
    paths = {
        "data": settings.data,
        "ledger": settings.ledger,
        "split.test_data": settings.split.test_data,
        "patients.file": None if patients is None else patients.file,
        **{f"embeddings.{key}": getattr(own, key) for key in EMBEDDING_PATHS},
    }
    return _escapes({prefix + key: path for key, path in paths.items()})


def _escapes(paths: dict[str, str | None]) -> list[SettingProblem]:
    return [
        SettingProblem(
            key,
            shown(path),
            "a path without control characters",
            "TOML read a backslash as an escape: write Windows paths in single quotes "
            "('C:\\temp\\notes') or with slashes.",
        )
        for key, path in paths.items()
        if path is not None and any(ord(character) < 32 for character in path)
    ]
