"""`make test-package`: the wheel in clean environments of every promised Python, used as by users.

Where torch is installed too (`--torch`), a small federation is trained and predicts. Without torch
an environment takes seconds, and all is tried that needs none: the command line, reading, scoring,
and that every module imports. On Linux the torch of the public index brings gigabytes of CUDA;
where pip knows a folder or an index with a torch for CPUs, that one is taken. The libraries are
fetched by uv where it is installed, which unpacks them once for all environments; the wheel is
installed by pip.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.packaging import first_steps
from scripts.packaging.build import package
from scripts.packaging.first_steps import Install
from scripts.packaging.places import DIST, PackagingError, finish, project, version
from scripts.packaging.pythons import OLDEST, clean_environment, environment, found, promised

_TOLD = ("FIND_LINKS", "INDEX_URL", "EXTRA_INDEX_URL")


@dataclass(frozen=True, slots=True)
class Tried:
    """What one environment took.

    Attributes:
        python: The version.
        with_torch: Whether torch was installed.
        install: Seconds of fetching and installing.
        use: Seconds of the commands that were tried.
    """

    python: str
    with_torch: bool
    install: float
    use: float


def _seconds(step: Callable[[], None]) -> float:
    begin = time.monotonic()
    step()
    return time.monotonic() - begin


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", *arguments]
    subprocess.run(command, env=clean_environment(), check=True)


def _uv(python: Path, *requirements: str) -> None:
    """Let uv fetch and unpack; what pip is told of indexes and folders holds for it too."""
    uv = Path(sys.executable).parent / "uv"
    if not uv.is_file():
        return
    told = {f"UV_{key}": os.environ.get(f"PIP_{key}") for key in _TOLD}
    command = [str(uv), "pip", "install", "--quiet", "--python", str(python), *requirements]
    kept = {key: value for key, value in told.items() if value}
    subprocess.run(command, env={**clean_environment(), **kept}, check=True)


def _install(python: Path, wheel: Path, with_torch: bool) -> None:
    libraries = project()["dependencies"]
    if with_torch:
        _uv(python, *libraries)
        _pip(python, str(wheel))
        return
    _pip(python, *(each for each in libraries if not each.startswith("torch")))
    _pip(python, "--no-deps", str(wheel))


def _use(install: Install, with_torch: bool) -> None:
    if not with_torch:
        first_steps.look(install, version(), missing=frozenset({"torch"}))
        first_steps.read_and_score(install)
        return
    first_steps.look(install, version())
    first_steps.train_and_predict(install)
    first_steps.ask_for_extras(install)


def try_wheel(wheel: Path, name: str, interpreter: str, with_torch: bool) -> Tried:
    """Install a wheel into a clean environment and use it from an empty folder."""
    with TemporaryDirectory(prefix=f"fedner-{name}-") as place:
        python = environment(interpreter, Path(place) / "environment")
        empty = Path(place) / "empty"
        empty.mkdir()
        install = _seconds(lambda: _install(python, wheel, with_torch))
        use = _seconds(lambda: _use(Install(python, empty), with_torch))
    return Tried(name, with_torch, install, use)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=promised(), metavar="3.X")
    parser.add_argument(
        "--torch", nargs="*", default=[OLDEST], metavar="3.X",
        help=f"versions that get torch, or `all` (default: {OLDEST})",
    )  # fmt: skip
    parser.add_argument("--built", action="store_true", help="try the wheel that is in dist/")
    return parser.parse_args()


def main() -> None:
    """Try the wheel everywhere; print what it took."""
    given = _arguments()
    wheel = DIST / f"fedner-{version()}-py3-none-any.whl"
    if not given.built:
        package()
    if not wheel.is_file():
        raise PackagingError(f"{wheel} is not there: run `make package`")
    for name, interpreter in found(given.python).items():
        with_torch = "all" in given.torch or name in given.torch
        tried = try_wheel(wheel, name, interpreter, with_torch)
        what = "trained and predicted" if with_torch else "without torch: imported, read, scored"
        print(
            f"Python {name}: {what}; install {tried.install:.0f} s, commands {tried.use:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(finish(main))
