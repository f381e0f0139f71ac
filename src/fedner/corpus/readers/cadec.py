"""CADEC v2 (Karimi et al. 2015): forum posts, `text/NAME.txt` with `original/NAME.ann`.

Karimi, Metke-Jimenez, Kemp, Wang: "Cadec: A corpus of adverse drug event annotations", Journal of
Biomedical Informatics 55 (2015). The folders `sct/` and `meddra/` hold normalisations of the same
mentions and are left out. The sentences of a post are its non-blank lines. The drug name before
the dot of a file's name is not a patient.
"""

from collections.abc import Iterator
from pathlib import Path

from fedner.corpus.document import Document
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers import standoff
from fedner.corpus.readers.folder import reason_or_none
from fedner.corpus.readers.options import NoOptions
from fedner.corpus.readers.reader import Reader

LABELS = ("ADR", "Disease", "Drug", "Finding", "Symptom")

_PROBES = 25
_DEPTH = 2


def find_root(path: Path) -> Path | None:
    """Return the folder with `text/` and `original/`: the path itself or a folder below it."""
    level = [path]
    for _ in range(_DEPTH + 1):
        for folder in level:
            if (folder / "text").is_dir() and (folder / "original").is_dir():
                return folder
        level = [child for folder in level for child in _folders_in(folder)]
    return None


def recognise(path: Path) -> str | None:
    """Say why a path looks like CADEC, or None."""
    return reason_or_none(path, _reason)


def stream(path: Path, log: ProblemLog, _options: NoOptions) -> Iterator[Document]:
    """Yield the posts by name."""
    root = find_root(path) if path.is_dir() else None
    if root is None:
        problem = Problem(
            "not a corpus", str(path), None, "no folders text/ and original/",
            "text/NAME.txt and original/NAME.ann, as CADEC is distributed",
            "Name the folder that holds the two, or choose another format.",
        )  # fmt: skip
        log.report(problem)
        return
    texts = standoff.paths_by_name(root / "text", ".txt", log)
    annotations = standoff.paths_by_name(root / "original", ".ann", log)
    if not texts and not annotations:
        problem = Problem(
            "not a corpus", str(root), None, "no .txt in text/ and no .ann in original/",
            "text/NAME.txt and original/NAME.ann", "Unpack the distribution again.",
        )  # fmt: skip
        log.report(problem)
    yield from standoff.read_pairs(texts, annotations, root, log)


def declared_labels(_path: Path) -> tuple[str, ...]:
    """Return the five types that CADEC annotates, whether or not they occur."""
    return LABELS


def _reason(path: Path) -> str | None:
    root = find_root(path) if path.is_dir() else None
    if root is None:
        return None
    annotations = [
        file
        for file, _ in zip(standoff.walk(root / "original"), range(_PROBES), strict=False)
        if ".ann" in file.name.lower()
    ]
    verdicts = [standoff.looks_like_standoff(file) for file in annotations]
    if not any(verdict is not False for verdict in verdicts):
        return None
    return f"{root} has text/ and original/ with standoff annotation"


def _folders_in(folder: Path) -> list[Path]:
    try:
        return sorted(
            child
            for child in folder.iterdir()
            if child.is_dir() and not child.name.startswith(".") and child.name != "__MACOSX"
        )
    except OSError:
        return []


READER = Reader(
    name="cadec",
    description="CADEC v2: text/NAME.txt with original/NAME.ann",
    recognise=recognise,
    stream=stream,
    sentences="line",
    options=NoOptions,
    declared_labels=declared_labels,
)
