"""platform.toml: a platform's own settings, read without torch, as `fedner platform start` does."""

from pathlib import Path

from fedner.settings import (
    PlatformSettings,
    SettingProblem,
    SettingsError,
    attempt_as,
    platform_escape_problems,
    read_toml,
    resolved_platform,
)

_PLATFORM_NEEDS = "name and data"


def read_platform(path: Path) -> PlatformSettings:
    """Read a platform's own settings, with every path absolute.

    Raises:
        SettingsError: All problems of the file at once.
        FednerError: It cannot be read, or is not TOML.
    """
    own, problems = attempted_platform(path)
    if own is None or problems:
        raise SettingsError(str(path), problems)
    return own


def attempted_platform(path: Path) -> tuple[PlatformSettings | None, list[SettingProblem]]:
    """Return a platform's own settings, where they can be read, and every problem of the file.

    Raises:
        FednerError: It cannot be read, or is not TOML.
    """
    own, problems = attempt_as(PlatformSettings, read_toml(path, _PLATFORM_NEEDS))
    if own is None:
        return None, problems
    problems += platform_escape_problems(own)
    return resolved_platform(own, path.parent), problems
