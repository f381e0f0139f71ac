"""Several inputs of a prediction as one: documents with ids of their own, and nothing twice."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from fedner.corpus.document import Document
from fedner.corpus.problems import ProblemLog
from fedner.corpus.reading import AUTO
from fedner.inference.inputs import PredictionInput, open_input
from fedner.inference.notes import LeftOut, refuse_repeats
from fedner.inference.tables import Columns


def open_inputs(
    sources: Sequence[Path],
    format: str = AUTO,
    encoding: str | None = None,
    stdin: BinaryIO | None = None,
    columns: Columns | None = None,
    *,
    lenient: bool = False,
) -> PredictionInput:
    """Open one input or several, one after the other; see `open_input`.

    The ids of several inputs begin with the name of theirs: of a folder its own, of a file that is
    a single note they are just its name. Where two inputs have one name, it is the path as given.

    Args:
        sources: Files, folders, or "-" once.
        format: The format of all of them.
        encoding: The encoding of all of them.
        stdin: Standard input.
        columns: The columns of tables.
        lenient: Whether to go on without texts of a corpus that are broken.

    Raises:
        FednerError: One of them cannot be opened, or is named twice.
    """
    refuse_repeats(sources)
    opened = [open_input(each, format, encoding, stdin, columns) for each in sources]
    if len(opened) == 1:
        (only,) = opened
        return only if lenient else replace(only, documents=only.whole())
    left_out = [each for one in opened for each in one.left_out]
    log = ProblemLog()
    names = _names(sources)
    documents = _joined(opened, names, left_out, log, lenient=lenient)
    files = tuple(dict.fromkeys(file for one in opened for file in one.files))
    counts = [one.total for one in opened if one.total is not None]
    total = sum(counts) if len(counts) == len(opened) else None
    said = ", ".join(map(str, sources[:3])) + (", ..." if len(sources) > 3 else "")
    return PredictionInput(documents, files, left_out, log, said, total)


def _joined(
    opened: Sequence[PredictionInput],
    names: Sequence[str],
    left_out: list[LeftOut],
    log: ProblemLog,
    *,
    lenient: bool,
) -> Iterator[Document]:
    """Yield the documents of all inputs; what each leaves out on the way is passed on."""
    for one, name in zip(opened, names, strict=True):
        known = len(one.left_out)
        for document in one.documents if lenient else one.whole():
            left_out += one.left_out[known:]
            known = len(one.left_out)
            yield replace(
                document, id=_id(document, one, name), source=_source(document, one, name)
            )
        left_out += one.left_out[known:]
        log.counts.update(one.log.counts)


def _is_file(one: PredictionInput) -> bool:
    return len(one.files) == 1 and str(one.files[0]) == one.source


def _id(document: Document, one: PredictionInput, name: str) -> str:
    """Return the id of a document among those of several inputs."""
    if one.total == 1 and _is_file(one):
        return name[:-4] if name.lower().endswith(".txt") else name
    return f"{name}/{document.id}"


def _source(document: Document, one: PredictionInput, name: str) -> str:
    """Return where a document comes from: the file, and the row or line behind a colon."""
    if not _is_file(one):
        return f"{name}/{document.source}"
    return name + document.source.removeprefix(one.files[0].name)


def _names(sources: Sequence[Path]) -> list[str]:
    """Return what each input is called among the others: no two alike."""
    for said in (_own_name, _as_given):
        names = [said(each) for each in sources]
        # Without `.txt`, as ids have it, and without case, as files of ids may have it.
        if len({name.casefold().removesuffix(".txt") for name in names}) == len(names):
            return names
    return [Path(os.path.realpath(each)).as_posix().lstrip("/") for each in sources]


def _own_name(path: Path) -> str:
    return path.name or path.resolve().name


def _as_given(path: Path) -> str:
    """Return a path as it was given, without what leads upwards or to the root."""
    parts = [part for part in Path(os.path.normpath(path)).parts if part not in ("..", os.sep)]
    return "/".join(parts) or path.resolve().name
