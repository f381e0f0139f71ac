"""`make sbom`: what an environment with fedner holds, as a CycloneDX file, valid and complete.

python -m scripts.packaging.sbom --extras flare,privacy
python -m scripts.packaging.sbom --environment /opt/fedner/bin/python
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.packaging.build import package
from scripts.packaging.places import (
    DIST,
    ROOT,
    PackagingError,
    finish,
    version,
    wanted_extras,
    with_extras,
)
from scripts.packaging.pythons import OLDEST, clean_environment, environment, found

_INSTALLED = """
import importlib.metadata as m
print("\\n".join(f"{each.name} {each.version}" for each in m.distributions()))
"""


def normal(name: str) -> str:
    """Return the name of a distribution as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(python: Path) -> set[tuple[str, str]]:
    """Return name and version of every distribution of an environment."""
    run = subprocess.run(
        [str(python), "-c", _INSTALLED],
        env=clean_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    pairs = (line.split(" ", 1) for line in run.stdout.splitlines())
    return {(normal(name), each) for name, each in pairs}


def check(sbom: dict[str, object], expected: Iterable[tuple[str, str]]) -> None:
    """See that a bill of materials lists exactly what is installed.

    Raises:
        PackagingError: If anything is missing, foreign, or of another version.
    """
    parts = list(sbom.get("components", []))  # type: ignore[call-overload]
    metadata = sbom.get("metadata", {})
    root = metadata.get("component") if isinstance(metadata, dict) else None
    listed = {(normal(each["name"]), each.get("version", "")) for each in [*parts, root] if each}
    differ = sorted(f"{name} {each}" for name, each in listed ^ set(expected))
    if differ:
        raise PackagingError(f"the SBOM and the environment differ in: {', '.join(differ)}")


def write(python: Path, out: Path) -> Path:
    """Write the bill of materials of an environment; cyclonedx-py holds it to its schema."""
    command = ["cyclonedx_py", "environment", str(python), "--output-format", "JSON"]
    command += ["--spec-version", "1.6", "--output-reproducible", "--validate"]
    command += ["--output-file", str(out)]
    subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    check(json.loads(out.read_text("utf-8")), installed(python))
    return out


def main() -> None:
    """Write the bill of materials of an environment, or of a fresh one for some extras."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", default="flare,privacy", help="or `all`")
    parser.add_argument("--environment", type=Path, help="the Python of an environment instead")
    parser.add_argument("--out", type=Path, default=DIST / f"fedner-{version()}.cdx.json")
    given = parser.parse_args()
    if given.environment is not None:
        print(write(given.environment.absolute(), given.out))
        return
    wheel = next(path for path in package() if path.suffix == ".whl")
    with TemporaryDirectory(prefix="fedner-sbom-") as place:
        python = environment(found([OLDEST])[OLDEST], Path(place))
        wanted = with_extras(wheel, wanted_extras(given.extras))
        command = [str(python), "-m", "pip", "install", "--quiet", wanted]
        subprocess.run(command, env=clean_environment(), check=True)
        print(write(python, given.out))


if __name__ == "__main__":
    sys.exit(finish(main))
