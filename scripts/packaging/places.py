"""Where packaging reads and writes, and the facts of the project that every step needs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
VERSION_FILE = "src/fedner/version.py"
DEVELOPMENT = ("bench", "dev", "docs", "mutation", "package")  # extras for those who change fedner


class PackagingError(Exception):
    """Something about the package that has to be fixed first."""


def version(root: Path = ROOT) -> str:
    """Return the version that the sources say, without importing them."""
    found = re.search(r'^__version__ = "(.+)"$', (root / VERSION_FILE).read_text("utf-8"), re.M)
    if found is None:
        raise PackagingError(f'{VERSION_FILE} has no line __version__ = "..."')
    return found.group(1)


def project(root: Path = ROOT) -> dict[str, Any]:
    """Return the table [project] of pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]


def extras_for_users(root: Path = ROOT) -> list[str]:
    """Return the extras that users install."""
    return [name for name in project(root)["optional-dependencies"] if name not in DEVELOPMENT]


def wanted_extras(text: str) -> list[str]:
    """Return the extras that a comma-separated list names; `all` is every extra for users."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return extras_for_users()
    unknown = sorted(set(names) - set(extras_for_users()))
    if unknown:
        raise PackagingError(
            f"no extra for users is called {', '.join(unknown)}; "
            f"there are {', '.join(extras_for_users())}, and `all`"
        )
    return names


def with_extras(wheel: Path, extras: list[str]) -> str:
    """Return what pip is told to install a wheel with some extras."""
    return f"{wheel}[{','.join(extras)}]" if extras else str(wheel)


def finish(step: Any) -> int:
    """Run a step; print what has to be fixed in place of a trace."""
    try:
        step()
    except PackagingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(map(str, error.cmd))} ended with {error.returncode}")
        for text in (error.stdout, error.stderr):
            print((text or "")[-4000:], file=sys.stderr)
        return 1
    return 0
