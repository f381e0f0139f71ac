"""What a file is when it is not text, by its first bytes: its name for people, and what to do.

A suffix says what somebody called a file; its content says what it is. Only kinds that people mix
up with text files are listed: office documents, PDF, images, archives and a few more.
"""

import io
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

HEAD_BYTES: Final = 64 * 1024
"""How much of a file is enough to name it."""

_AS_TEXT = "Save it as plain text in UTF-8 (Save as > Plain text), and use that file."
_UNPACK = "Unpack it, and use the text files in it."
_OCR = "It holds no text: run text recognition (OCR) first."
_NO_NOTE = "Use files of plain text in UTF-8."


class FileKind(NamedTuple):
    """A kind of file that is not text.

    Attributes:
        name: What it is, with its article: "a Word document (.docx)".
        hint: What to do to get at its text.
        may_be_corpus: Whether one of fedner's readers may know what to do with it.
    """

    name: str
    hint: str
    may_be_corpus: bool = False


BINARY: Final = FileKind("binary data (it has NUL bytes)", _NO_NOTE, True)
WORD: Final = FileKind("a Word document (.docx)", _AS_TEXT)
ZIP: Final = FileKind("a zip archive", _UNPACK, True)
WIDE: Final = FileKind(
    "text in UTF-16 or UTF-32",
    "Convert it to UTF-8, for example with: iconv -f UTF-16 -t UTF-8.",
    True,
)

# The first match counts. An offset other than 0 is where the mark stands.
_MARKS: Final[tuple[tuple[int, bytes, FileKind], ...]] = (
    (
        0,
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        FileKind("an old Office document (.doc, .xls, .ppt or .msg)", _AS_TEXT),
    ),
    (
        0,
        b"%PDF-",
        FileKind("a PDF", "Extract its text, for example with: pdftotext FILE.pdf FILE.txt."),
    ),
    (0, b"{\\rtf", FileKind("a Rich Text document (.rtf)", _AS_TEXT)),
    (0, b"\x89PNG\r\n\x1a\n", FileKind("a PNG image", _OCR)),
    (0, b"\xff\xd8\xff", FileKind("a JPEG image", _OCR)),
    (0, b"GIF87a", FileKind("a GIF image", _OCR)),
    (0, b"GIF89a", FileKind("a GIF image", _OCR)),
    (0, b"II*\x00", FileKind("a TIFF image", _OCR)),
    (0, b"MM\x00*", FileKind("a TIFF image", _OCR)),
    (8, b"WEBP", FileKind("a WebP image", _OCR)),
    (4, b"ftyphei", FileKind("a HEIC image", _OCR)),
    (128, b"DICM", FileKind("a DICOM image", _OCR)),
    (0, b"\x1f\x8b", FileKind("gzip-compressed data (.gz)", _UNPACK, True)),
    (0, b"\xfd7zXZ\x00", FileKind("xz-compressed data (.xz)", _UNPACK, True)),
    (0, b"BZh", FileKind("bzip2-compressed data (.bz2)", _UNPACK, True)),
    (0, b"(\xb5/\xfd", FileKind("zstd-compressed data (.zst)", _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind("a 7-Zip archive", _UNPACK)),
    (0, b"Rar!\x1a\x07", FileKind("a RAR archive", _UNPACK)),
    (257, b"ustar", FileKind("a tar archive", _UNPACK, True)),
    (0, b"SQLite format 3\x00", FileKind("an SQLite database", _NO_NOTE)),
    (0, b"PAR1", FileKind("a Parquet table", _NO_NOTE, True)),
    (0, b"\x7fELF", FileKind("a program", _NO_NOTE)),
    (0, b"\xff\xfe", WIDE),
    (0, b"\xfe\xff", WIDE),
    (0, b"\x00\x00\xfe\xff", WIDE),
)
# What a zip archive is, by the names in it.
_ZIPPED: Final = (
    ("word/", WORD),
    ("xl/", FileKind("an Excel workbook (.xlsx)", "Save the sheet as text or CSV in UTF-8.")),
    ("ppt/", FileKind("a PowerPoint file (.pptx)", _AS_TEXT)),
    ("META-INF/container.xml", FileKind("an e-book (.epub)", _AS_TEXT)),
    ("META-INF/manifest.xml", FileKind("an OpenDocument file (.odt or .ods)", _AS_TEXT)),
)
_ZIP_MARKS: Final = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")


def kind_of_file(path: Path) -> FileKind | None:
    """Return what a file is when it is not text, by its beginning; None for text.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return kind_of(file.read(HEAD_BYTES))


def kind_of(data: bytes) -> FileKind | None:
    """Return what `data`, a file or its beginning, is when it is not text; None for text.

    Text is whatever has no mark of another kind and no NUL byte: whether its bytes can be decoded
    is for those who decode them.
    """
    if data.startswith(_ZIP_MARKS):
        return _zipped(data)
    for at, mark, kind in _MARKS:
        if data.startswith(mark, at) and _is_certain(mark, data):
            return kind
    if b"\0" not in data:
        return None
    # ASCII in UTF-16 has a NUL in every other byte.
    return WIDE if 0.3 < data.count(0) / len(data) < 0.8 and _alternates(data) else BINARY


def _is_certain(mark: bytes, data: bytes) -> bool:
    """Whether a mark of plain letters is more than the first word of a text."""
    if not mark.isascii() or not mark.decode().isalnum():
        return True
    return not _is_utf8(data)


def _is_utf8(data: bytes) -> bool:
    """Whether the bytes are printable UTF-8; a character that the end cuts off may be missing."""
    try:
        data[: max(1, len(data) - 3)].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _alternates(data: bytes) -> bool:
    even, odd = data[::2].count(0), data[1::2].count(0)
    return min(even, odd) * 10 < max(even, odd)


def _zipped(data: bytes) -> FileKind:
    """Name what a zip archive holds: its list of names, or the names seen at its beginning."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        # Cut off: every member begins with its name.
        names = [start for start, _ in _ZIPPED if start.encode() in data]
    for start, kind in _ZIPPED:
        if any(name.startswith(start) for name in names):
            return kind
    return ZIP
