"""What a user does first with a fresh install, tried with its own commands in an empty folder."""

import json
import re
import subprocess
from pathlib import Path

from scripts.packaging.places import PackagingError
from scripts.packaging.pythons import clean_environment

NOTE = "Patient developed nausea after aspirin 100 mg.\n"
SMALL = [
    *("--set", "training.epochs=1"),
    *("--set", "training.finetune_epochs=0"),
    *("--set", "model.hidden=8"),
    *("--set", "model.filters=8"),
]
# A command that asks for a library of an extra; its error must have the line that installs it.
WITHOUT_EXTRAS = {
    "privacy": "privacy plan --examples 1000 --batch-size 10 --epochs 1 --delta 1e-5 --epsilon 3",
    "flare": "platform request north",
    "onnx": "export run --platform forum-posts --to tagger-onnx",
    "office": "predict run --platform forum-posts letter.pdf",
    "serve": "serve run",
}
# Libraries that whole modules are written for: nobody imports those without the extra.
_OF_EXTRAS = {
    "cryptography",
    "h11",
    "nvflare",
    "psutil",
    "spacy",
    "starlette",
    "tensorboard",
    "uvicorn",
}
_IMPORT_ALL = """
import importlib, pkgutil, fedner
from fedner.errors import FednerError
needed = set()

def attempt(call, *arguments):
    try:
        call(*arguments)
    except (ImportError, FednerError) as found:
        error = found if isinstance(found, ImportError) else found.__cause__
        needed.add((error.name or str(error)).partition(".")[0])

skipped = lambda name: attempt(importlib.import_module, name)
for module in pkgutil.walk_packages(fedner.__path__, "fedner.", onerror=skipped):
    if not module.name.endswith(("__main__", "_triton")):
        attempt(importlib.import_module, module.name)
for name in fedner.__all__:
    attempt(getattr, fedner, name)
print(" ".join(sorted(needed)) or "none")
"""


class Install:
    """An environment with fedner, and an empty folder to run it from.

    Args:
        python: The environment's Python.
        folder: The empty folder.
        prefix: What cuts commands off from the network, such as `unshare`; may be empty.
    """

    def __init__(self, python: Path, folder: Path, prefix: tuple[str, ...] = ()) -> None:
        self.python, self.folder, self.prefix = python, folder, prefix

    def run(self, *command: str, code: int = 0) -> str:
        """Run a program of the environment; return all that it printed.

        Raises:
            PackagingError: If it ends otherwise than expected, or our own code is warned of.
        """
        called = [*self.prefix, str(self.python.parent / command[0]), *command[1:]]
        run = subprocess.run(
            called, cwd=self.folder, text=True, check=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**clean_environment(), "PYTHONWARNINGS": "default", "COLUMNS": "100"},
        )  # fmt: skip
        said = " ".join(command)
        if run.returncode != code:
            raise PackagingError(f"{said}: exit code {run.returncode}\n{run.stdout[-4000:]}")
        if warned := re.search(r".*/fedner/\S+:\d+: \w*Warning.*", run.stdout):
            raise PackagingError(f"{said} warns: {warned.group()}")
        return run.stdout


def _expect(found: bool, what: str, text: str) -> None:
    if not found:
        raise PackagingError(f"{what}; found:\n{text[-2000:]}")


def look(install: Install, version: str, missing: frozenset[str] = frozenset()) -> None:
    """Import everything, and ask for version and help.

    Args:
        install: The environment.
        version: What it must say.
        missing: Dependencies that it lacks on purpose.
    """
    place = install.run("python", "-c", "import fedner; print(fedner.__file__)")
    inside = "site-packages/fedner/__init__.py" in place
    _expect(inside, "fedner is not imported from the environment", place)
    said = install.run("fedner", "--version")
    _expect(version in said, f"`fedner --version` does not say {version}", said)
    said = install.run("fedner", "--help")
    for name in ("train", "predict", "platform"):
        _expect(f" {name} " in said, f"`fedner --help` does not list {name}", said)
    compiled = ["python", "-W", "error", "-m", "compileall", "-q", "-f"]
    install.run(*compiled, str(Path(place.strip()).parent))
    needed = set(install.run("python", "-W", "ignore", "-c", _IMPORT_ALL).split()) - {"none"}
    wanted = needed - missing - _OF_EXTRAS
    _expect(not wanted, f"imports fail of {', '.join(sorted(wanted))}", "")


def read_and_score(install: Install) -> None:
    """Do what needs no torch: read a corpus, convert it, and score it against itself."""
    (install.folder / "note.conll").write_text(
        "Nausea\tB-ADE\nafter\tO\naspirin\tB-Drug\n", "utf-8"
    )
    said = install.run("fedner", "data", "inspect", "note.conll")
    _expect("Drug" in said, "`fedner data inspect` does not list the label Drug", said)
    install.run("fedner", "data", "convert", "note.conll", "note.jsonl", "--to", "jsonl")
    said = install.run("fedner", "score", "note.conll", "note.jsonl")
    _expect("100.0" in said, "a corpus does not score 100 against itself", said)


def train_and_predict(install: Install) -> None:
    """Train a small federation on built-in text, and find entities with it."""
    install.run("fedner", "init")
    said = install.run("fedner", "train", "federation.toml", "--out", "run", "--json", *SMALL)
    _expect('"scores"' in said or "strict" in said, "training reported no scores", said)
    for name in ("report.html", "MODEL_CARD.md"):
        _expect((install.folder / "run" / name).is_file(), f"training wrote no {name}", said)
    (install.folder / "note.txt").write_text(NOTE, "utf-8")
    said = install.run(
        "fedner", "predict", "run", "--platform", "forum-posts", "note.txt", "--out", "found.jsonl"
    )
    lines = (install.folder / "found.jsonl").read_text("utf-8").splitlines()
    _expect(json.loads(lines[1])["text"] == NOTE, "the prediction has another text", said)


def ask_for_extras(install: Install) -> None:
    """See that what needs an extra names it and the line that installs it; after training."""
    (install.folder / "letter.pdf").write_bytes(b"%PDF-1.4\n%%EOF\n")
    for extra, command in WITHOUT_EXTRAS.items():
        said = install.run("fedner", *command.split(), code=2)
        line = f"pip install 'fedner[{extra}]'"
        _expect(line in said, f"`fedner {command}` does not say: {line}", said)
