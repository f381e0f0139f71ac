"""Notes as people have them: files of text, decoded so that offsets hold, and their bytes again.

Prediction and redaction read files through here, so that they see the same text: that of the whole
file, line ends as they are, without its byte-order mark. What is not text is refused by its
content, with its name; nothing is guessed and nothing is replaced.
"""

import codecs
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fedner.corpus.file_kinds import BINARY, WIDE, FileKind, kind_of
from fedner.corpus.files import checked_encoding
from fedner.errors import FednerError

MAX_BYTES: Final = 16 * 1024 * 1024
"""The largest note: it is read as one document, in memory."""

_WIDE_MARKS: Final = {
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
}


class TextFileError(FednerError):
    """A file that cannot be read as text.

    Attributes:
        why: What it is, or what is wrong with it, in a few words.
    """

    def __init__(self, path: Path, why: str, hint: str, *, is_text: bool = True) -> None:
        said = f"{path}: {why}" if is_text else f"{path} is not text: it is {why}"
        super().__init__(said, hint)
        self.why = why


@dataclass(frozen=True, slots=True)
class TextFile:
    """A decoded file.

    Attributes:
        path: Where it stands.
        text: Its text, line ends as they are, without a byte-order mark.
        mark: The bytes of its byte-order mark; most files have none.
        encoding: How the text was decoded.
    """

    path: Path
    text: str
    mark: bytes = b""
    encoding: str = "utf-8"

    def encoded(self, text: str) -> bytes:
        """Return another text as the bytes of such a file.

        Raises:
            FednerError: The encoding lacks a character of the text.
        """
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise FednerError(
                f"{self.path}: {text[error.start]!r} cannot be written in {self.encoding}",
                "Convert the file to UTF-8.",
            ) from error


def read_text_file(path: Path, encoding: str | None = None) -> TextFile:
    """Read and decode one file.

    Args:
        path: The file.
        encoding: How it is encoded; None for UTF-8.

    Raises:
        TextFileError: It cannot be read, is something else than text, is not in that encoding, or
            is too large.
        FednerError: There is no such encoding.
    """
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise TextFileError(path, "not a regular file", "Name a file, or pipe it into -.")
        if state.st_size > MAX_BYTES:
            raise TextFileError(
                path,
                f"{state.st_size:,} bytes; a note has at most {MAX_BYTES:,}",
                "Split it into one file for each note; `predict --format lines` reads a file of "
                "any size, each line as a document.",
            )
        data = path.read_bytes()
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        hint = "Check the path." if is_missing else "Check its permissions."
        raise TextFileError(path, f"cannot be read: {error.strerror or error}", hint) from error
    return decode_text(data, path, encoding)


def decode_text(data: bytes, path: Path, encoding: str | None = None) -> TextFile:
    """Return the bytes of a file, or of standard input, as text; see `read_text_file`."""
    name = text_encoding(encoding)
    is_wide = name.startswith(("utf-16", "utf-32"))
    kind = kind_of(data)
    if kind is not None and not (is_wide and kind == WIDE):
        raise not_text(path, kind)
    mark, codec = mark_of(data, name)
    try:
        text = data[len(mark) :].decode(codec)
    except UnicodeDecodeError as error:
        raise _undecodable(path, data, len(mark) + error.start, name) from error
    if "\0" in text:
        raise not_text(path, BINARY)
    file = TextFile(path, text, mark, codec)
    if file.encoded(text) != data:
        raise TextFileError(
            path, f"cannot be written again byte for byte in {name}", "Convert it to UTF-8."
        )
    return file


def text_encoding(given: str | None) -> str:
    """Return the proper name of an encoding of text.

    Raises:
        FednerError: There is no such encoding.
    """
    name = checked_encoding(given or "utf-8")
    return "utf-8" if name == "utf-8-sig" else name


def not_text(path: Path, kind: FileKind) -> TextFileError:
    """Return the error for a file that is something else than text."""
    named = "Name the encoding: --encoding utf-16. " if kind == WIDE else ""
    return TextFileError(path, kind.name, named + kind.hint, is_text=False)


def mark_of(data: bytes, name: str) -> tuple[bytes, str]:
    """Return the byte-order mark at the beginning, and the codec for what follows it."""
    if name == "utf-8":
        return codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b"", name
    for mark, codec in _WIDE_MARKS.get(name[:6], ()):
        if data.startswith(mark) and name in (name[:6], codec):
            return mark, codec
    return b"", f"{name}-le" if name in _WIDE_MARKS else name


def _undecodable(path: Path, data: bytes, at: int, name: str) -> TextFileError:
    line = data.count(b"\n", 0, at) + 1
    return TextFileError(
        path,
        f"not {name.upper()}: byte 0x{data[at]:02x} in line {line:,}",
        "Name the encoding of the file with --encoding, such as cp1252 (Windows) or latin-1; "
        "or convert it to UTF-8, for example with: iconv -f CP1252 -t UTF-8.",
    )
