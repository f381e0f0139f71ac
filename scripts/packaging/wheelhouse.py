"""`make wheelhouse`: a folder that installs fedner on a machine without a network.

    python -m scripts.packaging.wheelhouse --extras flare,privacy --python 3.11

It holds fedner's wheel, those of all it depends on, a list of them with hashes (requirements.txt),
SHA256SUMS, the bill of materials, and what to type. It is tried before it is handed over: installed
into a clean environment and used, both without a network.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.packaging import first_steps, sbom
from scripts.packaging.build import digest, package
from scripts.packaging.first_steps import Install
from scripts.packaging.places import (
    DIST,
    PackagingError,
    finish,
    version,
    wanted_extras,
    with_extras,
)
from scripts.packaging.pythons import OLDEST, clean_environment, environment, find

INSTALL = """\
fedner {version} with {extras}, for Python {python} on {platform}.

On the machine without a network, in this folder:

    sha256sum --check SHA256SUMS
    python{python} -m venv /opt/fedner
    /opt/fedner/bin/pip install --no-index --find-links . --require-hashes -r requirements.txt
    /opt/fedner/bin/fedner --version

pip asks no index and takes no file whose hash is not in requirements.txt. Another Python or another
kind of machine needs a folder of its own. sbom.cdx.json (CycloneDX 1.6) lists what is installed.
"""


def fill(python: Path, wheel: Path, extras: list[str], out: Path) -> None:
    """Fetch the wheels of all that a wheel depends on; build those that are published as sources.

    pip's own settings hold: an index inside the house, a folder with a torch for CPUs.
    """
    wanted = with_extras(wheel, extras)
    command = [str(python), "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(out), wanted]
    subprocess.run(command, env=clean_environment(), check=True)


def locked(wheels: list[Path]) -> str:
    """Return a requirements file that names each wheel by version and hash."""
    lines = []
    for path in sorted(wheels):
        name, number = path.name.split("-")[:2]
        lines.append(f"{sbom.normal(name)}=={number} --hash=sha256:{digest(path)}\n")
    return "".join(lines)


def checksums(folder: Path) -> str:
    """Return the lines of SHA256SUMS: every file of a folder but itself."""
    paths = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(f"{digest(path)}  {path.name}\n" for path in paths)


def without_network() -> tuple[str, ...]:
    """Return the command that runs another without any network, or nothing where none may."""
    for prefix in (("unshare", "--net"), ("unshare", "--map-root-user", "--net")):
        if shutil.which(prefix[0]):
            tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
            if tried.returncode == 0:
                return prefix
    return ()


def install(folder: Path, python: Path, prefix: tuple[str, ...]) -> None:
    """Check the sums and install as INSTALL.txt says, cut off from the network."""
    sums = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    subprocess.run(sums, cwd=folder, capture_output=True, text=True, check=True)
    command = [*prefix, str(python), "-m", "pip", "install", "--quiet", "--no-index"]
    command += ["--find-links", ".", "--require-hashes", "-r", "requirements.txt"]
    bare = {key: value for key, value in clean_environment().items() if key[:4] != "PIP_"}
    bare |= {"PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(command, cwd=folder, env=bare, capture_output=True, text=True, check=True)


def _facts(python: Path) -> str:
    asked = "import sysconfig; print(sysconfig.get_platform())"
    return subprocess.run(
        [str(python), "-c", asked], capture_output=True, text=True, check=True
    ).stdout.strip()


def make(interpreter: str, name: str, extras: list[str], out: Path, network: bool = False) -> None:
    """Fill a folder, install from it without a network, use that, and write what is beside."""
    wheel = next(path for path in package() if path.suffix == ".whl")
    prefix = () if network else without_network()
    if not prefix and not network:
        raise PackagingError("this machine lets nobody cut a network (unshare): add --with-network")
    out.mkdir(parents=True)
    with TemporaryDirectory(prefix="fedner-wheelhouse-") as place:
        python = environment(interpreter, Path(place) / "environment")
        fill(python, wheel, extras, out)
        (out / "requirements.txt").write_text(locked(list(out.glob("*.whl"))), "utf-8")
        said = ", ".join(extras) or "no extras"
        text = INSTALL.format(version=version(), extras=said, python=name, platform=_facts(python))
        (out / "INSTALL.txt").write_text(text, "utf-8")
        (out / "SHA256SUMS").write_text(checksums(out), "utf-8")
        install(out, python, prefix)
        empty = Path(place) / "empty"
        empty.mkdir()
        used = Install(python, empty, prefix)
        first_steps.look(used, version())
        first_steps.train_and_predict(used)
        sbom.write(python, out / "sbom.cdx.json")
    (out / "SHA256SUMS").write_text(checksums(out), "utf-8")
    cut = f"without a network ({' '.join(prefix)})" if prefix else "with --no-index"
    print(f"{out}: {len(list(out.glob('*.whl')))} wheels, installed and used {cut}")


def main() -> None:
    """Make a wheelhouse for one Python."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", default="flare,privacy", help="a list, `all`, or nothing")
    parser.add_argument("--python", default=OLDEST, metavar="3.X")
    parser.add_argument("--out", type=Path, help="a folder that is not there yet")
    parser.add_argument(
        "--with-network", action="store_true", help="do not cut the network while it is tried"
    )
    given = parser.parse_args()
    interpreter = find(given.python)
    if interpreter is None:
        raise PackagingError(f"Python {given.python} is not on this machine")
    out = given.out or DIST / f"wheelhouse-fedner-{version()}-python{given.python}"
    if out.exists():
        raise PackagingError(f"{out} is there already: remove it, or name another with --out")
    try:
        make(interpreter, given.python, wanted_extras(given.extras), out, given.with_network)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # half a wheelhouse would be carried along
        raise


if __name__ == "__main__":
    sys.exit(finish(main))
