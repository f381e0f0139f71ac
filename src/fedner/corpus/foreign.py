"""Files that are neither a corpus nor word vectors, named for what they are.

People name the file that they have: a letter in Word, a table in Excel, a PDF. The first bytes say
what it is (`file_kinds.py`); the name does not count.
"""

import re
from pathlib import Path
from typing import Final

from fedner.corpus.file_kinds import FileKind, kind_of_file
from fedner.corpus.files import files_in, head

_HTML: Final = FileKind("a web page (HTML)", "Save the text as plain text (UTF-8).")
_VECTORS: Final = FileKind(
    "word vectors", "Name them under embeddings.words of a federation file, and a corpus here."
)
_VECTOR_LINE: Final = re.compile(r"\S+(?: -?\d+\.\d+(?:e-?\d+)?){20,} ?")
_VECTOR_HEAD: Final = re.compile(r"\d{2,9} \d{2,4}")


def foreign_file(path: Path) -> FileKind | None:
    """Return what a file is if it is something that people have but nobody reads here."""
    try:
        kind = kind_of_file(path)
    except OSError:
        return None
    return None if kind is None or kind.may_be_corpus else kind


def not_a_corpus(path: Path) -> FileKind | None:
    """Return what a file is if it is no corpus: also word vectors and web pages."""
    if (found := foreign_file(path)) is not None:
        return found
    beginning = (head(path, 8192) or "").lstrip()
    if re.match(r"<(!doctype html|html)\b", beginning, re.IGNORECASE):
        return _HTML
    lines = [line for line in beginning.split("\n")[:3] if line]
    if lines and _VECTOR_HEAD.fullmatch(lines[0]):
        return _VECTORS
    return _VECTORS if any(_VECTOR_LINE.fullmatch(line) for line in lines) else None


def foreign_files(folder: Path, limit: int = 100) -> dict[FileKind, int]:
    """Count what the files of a folder are, as far as they are foreign."""
    found: dict[FileKind, int] = {}
    for file in files_in(folder)[:limit]:
        if (what := foreign_file(file)) is not None:
            found[what] = found.get(what, 0) + 1
    return found
