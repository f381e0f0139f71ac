"""`make package`: sdist and wheel into dist/, the same bytes every time, with nothing foreign.

Built three times: twice from the sources (the second time with another umask, time zone and hash
seed), then from the sdist. All wheels must be equal, and both sdists.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.packaging.contents import problems
from scripts.packaging.places import DIST, ROOT, PackagingError, finish, version

_OTHERWISE = {"TZ": "Pacific/Auckland", "PYTHONHASHSEED": "20"}


def source_date(root: Path) -> str:
    """Return SOURCE_DATE_EPOCH: as it is set, or the time of the last commit."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    asked = ["git", "log", "-1", "--format=%ct"]
    found = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=False)
    if found.returncode or not found.stdout.strip():
        raise PackagingError(f"{root} has no commit: set SOURCE_DATE_EPOCH to a time in seconds")
    return found.stdout.strip()


def build(
    source: Path, out: Path, date: str, kinds: tuple[str, ...] = ("sdist", "wheel"),
    umask: int = 0o022, **environment: str,
) -> list[Path]:  # fmt: skip
    """Build from a folder of sources; return the files.

    hatchling's own hooks are called in a process of their own, as pip and `build` call them.
    """
    calls = "; ".join(f"print(hatchling.build.build_{kind}({str(out)!r}))" for kind in kinds)
    run = subprocess.run(
        [sys.executable, "-c", f"import hatchling.build; {calls}"],
        cwd=source, env={**os.environ, "SOURCE_DATE_EPOCH": date, **environment},
        umask=umask, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [out / name for name in run.stdout.split()]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _unpacked(sdist: Path, folder: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


def built_alike(root: Path, folder: Path, first: Callable[..., list[Path]] = build) -> list[Path]:
    """Build three times and return the files of the first time.

    Raises:
        PackagingError: If any two differ.
    """
    date = source_date(root)
    names = ("once", "twice", "unpacked", "from-sdist")
    once, twice, unpacked, again = (folder / name for name in names)
    for place in (once, twice, unpacked, again):
        place.mkdir()
    files = first(root, once, date)
    others = build(root, twice, date, umask=0o077, **_OTHERWISE)
    others += build(_unpacked(files[0], unpacked), again, date, kinds=("wheel",))
    expected = {path.name: digest(path) for path in files}
    for other in others:
        if expected.get(other.name) != digest(other):
            raise PackagingError(
                f"{other.name} has other bytes when it is built {other.parent.name}"
            )
    return files


def package(root: Path = ROOT, dist: Path = DIST) -> list[Path]:
    """Build, check, and put sdist and wheel into dist/ with their checksums."""
    with TemporaryDirectory(prefix="fedner-package-") as name:
        files = built_alike(root, Path(name))
        found = [each for path in files for each in problems(path, root)]
        if found:
            raise PackagingError("\n       ".join(found))
        dist.mkdir(exist_ok=True)
        kept = [Path(shutil.copy(path, dist / path.name)) for path in files]
    lines = sorted(f"{digest(path)}  {path.name}\n" for path in kept)
    (dist / "SHA256SUMS").write_text("".join(lines), "utf-8")
    return kept


def main() -> None:
    """Build and show what was built."""
    files = package()
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    subprocess.run(command, check=True)
    print(f"fedner {version()}: built three times with the same bytes, contents as git tracks them")
    for path in files:
        print(f"{digest(path)}  {path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(finish(main))
