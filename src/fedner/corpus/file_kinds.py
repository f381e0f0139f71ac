"""What a file is when it is not text, by its first bytes: its name for people, and what to do.

A suffix says what somebody called a file; its content says what it is. Only kinds that people mix
up with corpora, notes and word vectors are listed: Office files, PDF, images, archives, weights.
"""

import io
import zipfile
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

HEAD_BYTES: Final = 64 * 1024
"""How much of a file is enough to name it."""

_MAX_NAMES: Final = 1_000

_AS_TEXT = "Save it as plain text in UTF-8 (Save as > Plain text), and use that file."
_UNPACK = "Unpack it, and use the text files in it."
_OCR = "It holds no text: run text recognition (OCR) first."
_NO_NOTE = "Use files of plain text in UTF-8."
_AS_TABLE = "Save the table as text: tab-separated columns, or JSONL."
_WEIGHTS = "Name a corpus, or word vectors as text (.txt, .vec) or word2vec binary (.bin)."


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
PDF: Final = FileKind("a PDF", "Extract its text, for example with: pdftotext FILE.pdf FILE.txt.")
ZIP: Final = FileKind("a zip archive", _UNPACK, True)
WIDE: Final = FileKind(
    "text in UTF-16 or UTF-32",
    "Convert it to UTF-8, for example with: iconv -f UTF-16 -t UTF-8.",
    True,
)

_OLD_WORD: Final = FileKind("an old Word document (.doc)", _AS_TEXT)
# All old Office documents begin alike: their names must tell them apart.
_OLD_OFFICE: Final = {
    ".xls": FileKind("an old Excel workbook (.xls)", _AS_TABLE),
    ".ppt": FileKind("an old PowerPoint presentation (.ppt)", _AS_TEXT),
    ".msg": FileKind("an Outlook message (.msg)", _AS_TEXT),
}
_PICKLE: Final = FileKind("a pickle, which is never opened", _WEIGHTS)

# The first match counts. An offset other than 0 is where the mark stands.
_MARKS: Final[tuple[tuple[int, bytes, FileKind], ...]] = (
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLD_WORD),
    (0, b"%PDF-", PDF),
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
    (0, b"SQLite format 3\x00", FileKind("an SQLite database", _AS_TABLE)),
    (0, b"\x89HDF", FileKind("an HDF5 file", _WEIGHTS)),
    (0, b"\x93NUMPY", FileKind("a NumPy array", _WEIGHTS)),
    (0, b"\x80\x02", _PICKLE),
    (0, b"\x80\x03", _PICKLE),
    (0, b"\x80\x04", _PICKLE),
    (0, b"\x80\x05", _PICKLE),
    (0, b"PAR1", FileKind("a Parquet table", _NO_NOTE, True)),
    (0, b"\x7fELF", FileKind("a program", _NO_NOTE)),
    (0, b"\xff\xfe", WIDE),
    (0, b"\xfe\xff", WIDE),
    (0, b"\x00\x00\xfe\xff", WIDE),
)
_SAFETENSORS: Final = FileKind("safetensors weights", _WEIGHTS)
_TORCH: Final = FileKind("PyTorch weights, which hold a pickle that is never opened", _WEIGHTS)
# What a zip archive with a list of content types is, by the folders in it.
_OFFICE: Final = {
    "word/": WORD,
    "xl/": FileKind("an Excel workbook (.xlsx)", _AS_TABLE),
    "ppt/": FileKind("a PowerPoint presentation (.pptx)", _AS_TEXT),
}
_OPEN_DOCUMENT: Final = FileKind("an OpenDocument file (.odt, .ods)", _AS_TEXT)
_EBOOK: Final = FileKind("an e-book (.epub)", _AS_TEXT)
_CONTENT_TYPES, _MANIFEST = "[Content_Types].xml", "META-INF/manifest.xml"
_CONTAINER, _TORCH_PICKLE = "META-INF/container.xml", "/data.pkl"
_ZIP_MARKS: Final = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")


def kind_of_file(path: Path) -> FileKind | None:
    """Return what a file is when it is not text, by its beginning; None for text.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(HEAD_BYTES)
        if data.startswith(_ZIP_MARKS):
            return _zipped(file, data)
    kind = kind_of(data)
    return _OLD_OFFICE.get(path.suffix.lower(), kind) if kind == _OLD_WORD else kind


def kind_of(data: bytes) -> FileKind | None:
    """Return what `data`, a file or its beginning, is when it is not text; None for text.

    Text is whatever has no mark of another kind and no NUL byte: whether its bytes can be decoded
    is for those who decode them.
    """
    if data.startswith(_ZIP_MARKS):
        return _zipped(io.BytesIO(data), data)
    for at, mark, kind in _MARKS:
        if data.startswith(mark, at) and _is_certain(mark, data):
            return kind
    if data[8:10] == b'{"' and not any(data[5:8]):  # the length of a header, then its JSON
        return _SAFETENSORS
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


def _zipped(file: BinaryIO, beginning: bytes) -> FileKind:
    """Name what a zip archive holds, by its list of names or the names at its beginning."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()[:_MAX_NAMES]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        # Cut off: every entry begins with its name.
        known = (_CONTENT_TYPES, *_OFFICE, _MANIFEST, _CONTAINER, "mimetype", _TORCH_PICKLE)
        names = [name for name in known if name.encode() in beginning]
    if _CONTENT_TYPES in names:
        for folder, kind in _OFFICE.items():
            if any(name.startswith(folder) for name in names):
                return kind
    if "mimetype" in names and _MANIFEST in names:
        return _OPEN_DOCUMENT
    if "mimetype" in names and _CONTAINER in names:
        return _EBOOK
    return _TORCH if any(name.endswith(_TORCH_PICKLE) for name in names) else ZIP
