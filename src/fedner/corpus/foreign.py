"""Files that are neither a corpus nor word vectors, named for what they are.

People name the file that they have: a letter in Word, a table in Excel, a PDF. The first bytes say
what it is; the name does not count.
"""

import re
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

from fedner.corpus.files import files_in, head

_AS_TEXT = "Save the text as plain text (UTF-8)."
_AS_TABLE = "Save the table as text: tab-separated columns, or JSONL."
_UNPACK = "Unpack it and name the folder; .zip and .tar (plain, .gz, .xz, .bz2) can be read."
_WEIGHTS = "Name a corpus, or word vectors as text (.txt, .vec) or word2vec binary (.bin)."


class Foreign(NamedTuple):
    """What a file is, in words, and what to do about it."""

    name: str
    hint: str


_ZIP_MARK: Final = b"PK\x03\x04"
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MARKS: Final = {
    b"%PDF-": Foreign("a PDF", "Take the text out of it and save it as plain text (UTF-8)."),
    b"{\\rtf": Foreign("rich text (RTF)", _AS_TEXT),
    b"\x89PNG": Foreign("an image", _AS_TEXT),
    b"\xff\xd8\xff": Foreign("an image", _AS_TEXT),
    b"GIF8": Foreign("an image", _AS_TEXT),
    b"II*\x00": Foreign("an image", _AS_TEXT),
    b"SQLite format 3\x00": Foreign("an SQLite database", _AS_TABLE),
    b"\x89HDF": Foreign("an HDF5 file", _WEIGHTS),
    b"\x93NUMPY": Foreign("a NumPy array", _WEIGHTS),
    b"7z\xbc\xaf\x27\x1c": Foreign("a 7z archive", _UNPACK),
    b"Rar!": Foreign("a RAR archive", _UNPACK),
    b"\x80\x02": Foreign("a pickle, which is never opened", _WEIGHTS),
    b"\x80\x03": Foreign("a pickle, which is never opened", _WEIGHTS),
    b"\x80\x04": Foreign("a pickle, which is never opened", _WEIGHTS),
    b"\x80\x05": Foreign("a pickle, which is never opened", _WEIGHTS),
}
# What a zip is when one of its entries begins so.
_IN_ZIP: Final = {
    "word/": Foreign("a Word document (.docx)", _AS_TEXT),
    "xl/": Foreign("an Excel workbook (.xlsx)", _AS_TABLE),
    "ppt/": Foreign("a PowerPoint presentation (.pptx)", _AS_TEXT),
}
_OLD_NAMES: Final = {
    ".xls": Foreign("an old Excel workbook (.xls)", _AS_TABLE),
    ".ppt": Foreign("an old PowerPoint presentation (.ppt)", _AS_TEXT),
    ".msg": Foreign("an Outlook message (.msg)", _AS_TEXT),
}
_OLD_WORD: Final = Foreign("an old Word document (.doc)", _AS_TEXT)
_OPEN_DOCUMENT: Final = Foreign("an OpenDocument file (.odt, .ods)", _AS_TEXT)
_TORCH: Final = Foreign("PyTorch weights, which hold a pickle that is never opened", _WEIGHTS)
_SAFETENSORS: Final = Foreign("safetensors weights", _WEIGHTS)
_HTML: Final = Foreign("a web page (HTML)", _AS_TEXT)
_VECTORS: Final = Foreign(
    "word vectors", "Name them under embeddings.words of a federation file, and a corpus here."
)
_VECTOR_LINE: Final = re.compile(r"\S+(?: -?\d+\.\d+(?:e-?\d+)?){20,} ?")
_VECTOR_HEAD: Final = re.compile(r"\d{2,9} \d{2,4}")


def foreign_file(path: Path) -> Foreign | None:
    """Return what a file is if it is something that people have but nobody reads here."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
        if start.startswith(_ZIP_MARK):
            return _foreign_zip(path)
    except OSError:
        return None
    if start.startswith(_OLD_OFFICE):
        return _OLD_NAMES.get(path.suffix.lower(), _OLD_WORD)
    if start[8:10] == b'{"' and not any(start[5:8]):  # the length of a header, then its JSON
        return _SAFETENSORS
    return next((what for mark, what in _MARKS.items() if start.startswith(mark)), None)


def not_a_corpus(path: Path) -> Foreign | None:
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


def foreign_files(folder: Path, limit: int = 100) -> dict[Foreign, int]:
    """Count what the files of a folder are, as far as they are foreign."""
    found: dict[Foreign, int] = {}
    for file in files_in(folder)[:limit]:
        if (what := foreign_file(file)) is not None:
            found[what] = found.get(what, 0) + 1
    return found


def _foreign_zip(path: Path) -> Foreign | None:
    """Return what a zip is if it is no plain archive, by the names in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()[:1000]
            is_open = "mimetype" in names[:3] and "META-INF/manifest.xml" in names
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None
    if "[Content_Types].xml" in names:
        for beginning, what in _IN_ZIP.items():
            if any(name.startswith(beginning) for name in names):
                return what
    if is_open:
        return _OPEN_DOCUMENT
    return _TORCH if any(name.endswith("/data.pkl") for name in names) else None
