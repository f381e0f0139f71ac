"""What a wheel and an sdist must hold, and must not: checked against what git tracks."""

import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from scripts.packaging.places import PackagingError

_METADATA = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
_BESIDE_SOURCES = {
    "PKG-INFO",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    ".gitignore",
}


def sources(root: Path) -> set[str]:
    """Return the files below src/ that belong to the package, as git knows them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        raise PackagingError(f"{root} is no git checkout: what belongs to the package is not known")
    names = {name for name in listed.stdout.split("\0") if name}
    return {name for name in names if (root / name).is_file()}


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of the files of a wheel or an sdist."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                yield name, wheel.read(name)
        return
    with tarfile.open(archive) as sdist:
        for member in sdist.getmembers():
            if not member.isfile():
                raise PackagingError(f"{archive.name}: {member.name} is not a plain file")
            file = sdist.extractfile(member)
            yield member.name, file.read() if file else b""


def _compare(archive: str, found: set[str], expected: set[str]) -> list[str]:
    missing = [f"{archive} lacks {name}" for name in sorted(expected - found)]
    foreign = [f"{archive} holds {name}, which is not tracked" for name in sorted(found - expected)]
    return missing + foreign


def _wheel_problems(name: str, found: set[str], tracked: set[str]) -> list[str]:
    info = {each.partition("/")[0] for each in found if ".dist-info/" in each}
    expected = {each.removeprefix("src/") for each in tracked}
    expected |= {f"{folder}/{each}" for folder in info for each in _METADATA}
    return _compare(name, found, expected)


def _sdist_problems(name: str, found: set[str], tracked: set[str]) -> list[str]:
    top = name.removesuffix(".tar.gz") + "/"
    inner = {each.removeprefix(top) for each in found}
    deployed = {each for each in inner if each.startswith("deploy/")}
    return _compare(name, inner, tracked | _BESIDE_SOURCES | deployed)


def problems(archive: Path, root: Path) -> list[str]:
    """Return everything that is wrong with the contents of a wheel or an sdist."""
    held = dict(members(archive))
    check = _wheel_problems if archive.suffix == ".whl" else _sdist_problems
    found = check(archive.name, set(held), sources(root))
    places = [re.escape(str(place).encode()) for place in (root, Path.home()) if place != Path("/")]
    machine = re.compile(rb"(?:" + b"|".join(places) + rb")(?=[/\"'\s])")
    for name, data in held.items():
        if machine.search(data):
            found.append(f"{archive.name}: {name} names a folder of this machine")
    return found
