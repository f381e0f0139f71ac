"""brat standoff (Stenetorp et al. 2012): a folder of NAME.txt with NAME.ann, or one such pair.

Stenetorp et al.: "brat: a web-based tool for NLP-assisted text annotation", EACL 2012. Only
text-bound annotations are read; relations, events, attributes, normalisations and notes are
counted and left out. Discontinuous and overlapping mentions stay as they are.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from fedner.corpus.document import Document
from fedner.corpus.files import head, stem
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers import cadec, standoff
from fedner.corpus.readers.folder import reason_or_none
from fedner.corpus.readers.options import NoOptions
from fedner.corpus.readers.reader import Reader

CONFIGURATION = "annotation.conf"

_PROBES = 25
_MAX_WALK = 20_000  # files looked at before a folder counts as something else
_SECTION = re.compile(r"\[\s*(\w+)\s*\]")
_ENTITY_TYPE = re.compile(r"[^\s!<#\[-]\S*")


def recognise(path: Path) -> str | None:
    """Say why a path looks like brat standoff, or None."""
    return reason_or_none(path, _reason)


def stream(path: Path, log: ProblemLog, _options: NoOptions) -> Iterator[Document]:
    """Yield the documents by name: the path of the text below the folder, without `.txt`."""
    if path.is_dir():
        root = path
        texts = standoff.paths_by_name(path, ".txt", log)
        annotations = standoff.paths_by_name(path, ".ann", log)
    else:
        root = path.parent
        texts, annotations = _single(path, ".txt"), _single(path, ".ann")
    if not texts and not annotations:
        problem = Problem(
            "not a corpus", str(path), None, "neither .txt nor .ann", "NAME.txt with NAME.ann",
            "Name the folder that holds them, or choose another format.",
        )  # fmt: skip
        log.report(problem)
    yield from standoff.read_pairs(texts, annotations, root, log)


def declared_labels(path: Path) -> tuple[str, ...]:
    """Return the entity types of the folder's annotation.conf, sorted; none without that file.

    A type that begins with `!` only groups others and cannot be annotated.
    """
    folder = path if path.is_dir() else path.parent
    content = head(folder / CONFIGURATION)
    section, labels = "", set()
    for line in (content or "").split("\n"):
        if match := _SECTION.match(line.strip()):
            section = match[1].lower()
        elif section == "entities" and (match := _ENTITY_TYPE.match(line.strip())):
            labels.add(match[0])
    return tuple(sorted(labels))


def _reason(path: Path) -> str | None:
    if path.is_dir():
        return None if cadec.recognise(path) else _recognise_folder(path)
    name = stem(path).lower()
    if name.endswith(".ann"):
        return _recognise_annotation(path)
    if name.endswith(".txt"):
        annotation = standoff.twin(path, ".ann")
        if annotation is not None and _recognise_annotation(annotation):
            return f"{annotation.name} beside it is standoff annotation"
    return None


def _recognise_folder(folder: Path) -> str | None:
    annotations = (
        file
        for file in islice(standoff.walk(folder), _MAX_WALK)
        if stem(file).lower().endswith(".ann")
    )
    for file in islice(annotations, _PROBES):
        reason = _recognise_annotation(file)
        if reason is not None:
            return reason
    return None


def _recognise_annotation(file: Path) -> str | None:
    verdict = standoff.looks_like_standoff(file)
    if verdict:
        return f"{file.name} has text-bound lines (T1<TAB>Type 0 5<TAB>quote)"
    if verdict is None and standoff.twin(file, ".txt") is not None:
        return f"{file.name} is empty and has its text beside it"
    return None


def _single(path: Path, suffix: str) -> dict[str, Path]:
    """Return the file of a pair that has `suffix`: the path itself or its twin."""
    name = stem(path)
    if not name.lower().endswith((".txt", ".ann")):
        return {}
    found = path if name.lower().endswith(suffix) else standoff.twin(path, suffix)
    return {} if found is None else {name[: -len(suffix)]: found}


READER = Reader(
    name="brat",
    description="brat standoff: NAME.txt with NAME.ann",
    recognise=recognise,
    stream=stream,
    sentences="line",
    options=NoOptions,
    declared_labels=declared_labels,
    reads_subfolders=True,
)
