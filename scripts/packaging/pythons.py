"""Finding Pythons of a version on this machine, and clean environments of them."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from scripts.packaging.places import PackagingError, project

OLDEST = "3.11"


def promised() -> list[str]:
    """Return the versions that the classifiers of pyproject.toml promise, the oldest first."""
    found = (re.fullmatch(r".* :: (3\.\d+)", each) for each in project()["classifiers"])
    return sorted((each.group(1) for each in found if each), key=lambda name: int(name[2:]))


def _candidates(wanted: str) -> Iterator[str]:
    if on_path := shutil.which(f"python{wanted}"):
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for path in sorted(pyenv.glob(f"versions/{wanted}.*/bin/python{wanted}"), reverse=True):
        yield str(path)
    yield f"/usr/bin/python{wanted}"


def find(wanted: str) -> str | None:
    """Return a Python of this version that runs and can make environments, or None.

    A pyenv shim is on the path even where its version is not chosen: each is tried.
    """
    asked = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for candidate in _candidates(wanted):
        try:
            run = subprocess.run(
                [candidate, "-c", asked], capture_output=True, text=True, check=False
            )
        except OSError:
            continue
        if run.returncode == 0 and run.stdout.strip() == wanted:
            return candidate
    return None


def found(wanted: list[str]) -> dict[str, str]:
    """Return a Python for each version that is here; name those that are not.

    Raises:
        PackagingError: If the oldest version is wanted and not here.
    """
    here = {name: path for name in wanted if (path := find(name))}
    if OLDEST in wanted and OLDEST not in here:
        raise PackagingError(f"Python {OLDEST} is not on this machine, and has to be tried")
    for name in wanted:
        if name not in here:
            print(f"Python {name}: not on this machine, skipped", flush=True)
    return here


def clean_environment() -> dict[str, str]:
    """Return this process's variables without those that lead Python elsewhere."""
    foreign = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYENV_VERSION", "PYTHONWARNINGS")
    kept = {key: value for key, value in os.environ.items() if key not in foreign}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def environment(python: str, folder: Path) -> Path:
    """Make a clean virtual environment; return its Python."""
    subprocess.run([python, "-m", "venv", str(folder)], env=clean_environment(), check=True)
    return folder / "bin" / "python"
