"""Text files as people have them: plain, .gz or .xz, with byte-order marks, CRLF and worse.

Everything is read as UTF-8, or as the encoding that the user gives, and streamed. What is wrong
goes to the log with its line, and reading goes on: a byte that is not UTF-8 becomes one replacement
character (counted as a change), so that the offsets of a file in a one-byte encoding still hold.
Only LF (or CRLF) ends a line: other Unicode line separators are ordinary characters.
"""

import codecs
import difflib
import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from fedner.corpus.problems import Kind, Problem, ProblemLog
from fedner.durable import writing
from fedner.errors import FednerError

MAX_LINE_CHARACTERS = 1_000_000
"""A longer line is reported; where files are read by lines it is read as an empty one."""

MAX_TEXT_BYTES = 256 * 1024 * 1024
"""The largest file that `read_text` takes into memory at once (after decompression)."""

CHUNK_BYTES = 128 * 1024
"""How much is read at once; below `MAX_LINE_CHARACTERS`, so most blocks need no length check."""

COMPRESSED_SUFFIXES = (".gz", ".xz")

REMARK_BOM = "byte-order mark at the start of the file (ignored)"
REMARK_CRLF = "Windows line ends (CRLF)"
CHANGE_UNDECODED = "bytes that are no text in the file's encoding (stored as U+FFFD)"

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_FOREIGN_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16: it begins with the same two bytes
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_MAX_NUL_SHARE = 0.01
_CORRUPT = (EOFError, zlib.error, lzma.LZMAError, OSError)
_ONE_PER_BYTE = "fedner-one-per-byte"


class Block(NamedTuple):
    r"""Some whole lines of a file.

    Attributes:
        line: The number of the first line, counted from 1.
        text: The lines, each with its "\n" except perhaps the last line of the file.
    """

    line: int
    text: str


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    """Decode every bad byte as one replacement character (the codec itself may join several)."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_ONE_PER_BYTE, _replace_each_byte)


def checked_encoding(name: str) -> str:
    """Return the usual name of a text encoding.

    Raises:
        FednerError: There is no such encoding.
    """
    try:
        found = codecs.lookup(name)
        "a".encode(found.name)
    except (LookupError, ValueError, UnicodeError, TypeError):
        known = ("utf-8", "latin-1", "cp1252", "utf-16", "iso-8859-15", "cp1250", "mac-roman")
        near = difflib.get_close_matches(name.lower(), known, 1)
        hint = f'Did you mean "{near[0]}"?' if near else f"Common ones are {', '.join(known)}."
        raise FednerError(f'encoding: found "{name}"; expected a text encoding', hint) from None
    return found.name


def stem(path: Path) -> str:
    """Return the file's name without `.gz` or `.xz`: `train.txt` for `train.txt.xz`."""
    return path.stem if path.suffix.lower() in COMPRESSED_SUFFIXES else path.name


def display_name(path: Path, root: Path) -> str:
    """Return how documents of `path` are named within the input `root`: short, with `/`."""
    if path == root or not path.is_relative_to(root):
        return stem(path)
    return path.relative_to(root).with_name(stem(path)).as_posix()


def files_in(path: Path) -> list[Path]:
    """Return the regular files of a folder (not of its sub-folders) by name, or the file itself.

    Names that begin with a dot are left out. A folder that cannot be listed has no files.
    """
    if not path.is_dir():
        return [path]
    try:
        return sorted(
            entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.is_file()
        )
    except OSError:
        return []


def head(path: Path, size: int = 65_536) -> str | None:
    """Return the decoded beginning of a file for recognising it; never raises.

    Returns:
        At most `size` bytes' worth of text without a byte-order mark and with CRLF as LF, or None
        if the file cannot be read or is no text (many NUL bytes).
    """
    data = bytearray()
    try:
        if not path.is_file():
            return None
        with opened(path) as stream:
            while len(data) < size and (chunk := stream.read1(size - len(data))):
                data += chunk
    except _CORRUPT:
        if not data:
            return None
    for mark, encoding in _FOREIGN_MARKS.items():
        if data.startswith(mark):  # readers will refuse it, but by the right name
            return data.decode(encoding, errors="replace").replace("\r\n", "\n")
    if data.count(0) > len(data) * _MAX_NUL_SHARE:
        return None
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n")


def read_text(path: Path, log: ProblemLog, *, may_be_empty: bool = False) -> str | None:
    """Return the whole text of a file with its line ends as they are, or None if it has none.

    CRLF is *not* translated: standoff offsets count the characters of the file. A byte-order mark
    is no part of the text.

    Args:
        path: The file.
        log: Where problems go.
        may_be_empty: Whether an empty file is in order (an `.ann` without mentions).
    """
    data = bytearray()
    for chunk in _byte_chunks(path, log, may_be_empty=may_be_empty):
        data += chunk
        if len(data) > MAX_TEXT_BYTES:
            _report(
                log, path, "unreadable file", f"more than {MAX_TEXT_BYTES // 2**20} MiB of text",
                "one document of moderate size", "Split the file.",
            )  # fmt: skip
            return None
    if not data:
        return "" if may_be_empty and path.is_file() else None
    text = _decode(bytes(data), 1, path, log)
    if "\r\n" in text:
        log.remark(REMARK_CRLF)
    if len(text) > MAX_LINE_CHARACTERS:
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > MAX_LINE_CHARACTERS:
                _report_long_line(log, path, number, MAX_LINE_CHARACTERS, kept=True)
    return text


def blocks(
    path: Path, log: ProblemLog, *, max_characters: int = MAX_LINE_CHARACTERS
) -> Iterator[Block]:
    """Stream a file as blocks of whole lines, CRLF as LF; a too long line becomes an empty one.

    The memory taken is a small multiple of the longest line allowed, whatever the file.
    """
    line, has_crlf = 1, False
    for data in _line_blocks(path, log, max_characters):
        if data is None:
            _report_long_line(log, path, line, max_characters)
            yield Block(line, "\n")
            line += 1
            continue
        text = _decode(data, line, path, log)
        if "\r\n" in text:
            has_crlf = True
            text = text.replace("\r\n", "\n")
        if len(text) > max_characters:
            text = _without_long_lines(text, line, path, log, max_characters)
        yield Block(line, text)
        line += text.count("\n")
    if has_crlf:
        log.remark(REMARK_CRLF)


def lines(
    path: Path, log: ProblemLog, *, max_characters: int = MAX_LINE_CHARACTERS
) -> Iterator[tuple[int, str]]:
    """Stream a file line by line: the number, counted from 1, and the line without its end.

    A line that is too long is reported and comes as an empty one.
    """
    for line, text in blocks(path, log, max_characters=max_characters):
        parts = text.split("\n")
        if not parts[-1]:
            parts.pop()
        yield from enumerate(parts, line)


@contextmanager
def atomic_writer(path: Path) -> Iterator[io.TextIOBase]:
    """Open a text file (UTF-8, LF; compressed by suffix) that replaces `path` when all is written.

    The same text gives the same bytes: no time or name stands in the compressed file.
    """
    with writing(path) as raw, compressing(raw, path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
        try:
            yield text
        finally:
            text.detach()  # flushes, and leaves closing to those who opened


@contextmanager
def compressing(raw: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """Write bytes through, compressed if the name of the file says so; the same gives the same."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
            yield cast("BinaryIO", packed)
    elif suffix == ".xz":
        with lzma.LZMAFile(raw, "wb", preset=6) as packed:
            yield cast("BinaryIO", packed)
    else:
        yield raw


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """Open a file for reading bytes, decompressed if its content says that it is compressed."""
    with path.open("rb") as raw:
        magic = raw.read(len(_XZ_MAGIC))
        raw.seek(0)
        if magic.startswith(_GZIP_MAGIC):
            with gzip.GzipFile(fileobj=raw) as packed:
                yield packed
        elif magic == _XZ_MAGIC:
            with lzma.LZMAFile(raw) as packed:
                yield packed
        else:
            yield raw


def _byte_chunks(path: Path, log: ProblemLog, *, may_be_empty: bool) -> Iterator[bytes]:
    """Yield the decompressed bytes without a byte-order mark; what is wrong goes to the log."""
    if path.exists() and not path.is_file():
        found = "a folder" if path.is_dir() else "no regular file"
        _report(log, path, "unreadable file", found, "a file", "Name the files in it.")
        return
    has_bytes = False
    try:
        with opened(path) as stream:
            while chunk := stream.read1(CHUNK_BYTES):
                if not has_bytes:
                    has_bytes = True
                    if log.encoding and not chunk.startswith(codecs.BOM_UTF8):
                        rest = iter(lambda: stream.read1(CHUNK_BYTES), b"")
                        yield from _recoded(chain((chunk,), rest), log.encoding, path, log)
                        return
                    if _is_foreign(chunk, path, log):
                        return
                    chunk = _without_mark(chunk, log)
                yield chunk
    except _CORRUPT as error:
        _report_unreadable(log, path, error)
        return
    if not has_bytes and not may_be_empty:
        _report(log, path, "empty file", "no content", "text", "Remove or restore the file.")


def _recoded(
    chunks: Iterable[bytes], encoding: str, path: Path, log: ProblemLog
) -> Iterator[bytes]:
    """Yield bytes of another encoding as UTF-8; what is no text in it is reported by line."""
    decoder = codecs.getincrementaldecoder(encoding)(errors=_ONE_PER_BYTE)
    line = 1
    for chunk in chain(chunks, (b"",)):
        text = decoder.decode(chunk, final=not chunk)
        if "\ufffd" in text:
            for number, part in enumerate(text.split("\n"), line):
                if count := part.count("\ufffd"):
                    log.changes[CHANGE_UNDECODED] += count
                    _report(
                        log, path, "wrong encoding", f"{count} bytes that are no {encoding}",
                        encoding, "Name the encoding of the file with --encoding.",
                        line=number, kept=True,
                    )  # fmt: skip
        line += text.count("\n")
        if text:
            yield text.encode("utf-8")


def _is_foreign(first: bytes, path: Path, log: ProblemLog) -> bool:
    for mark, encoding in _FOREIGN_MARKS.items():
        if first.startswith(mark):
            _report(
                log, path, "not UTF-8", f"a {encoding} byte-order mark", "UTF-8",
                f"Read it with --encoding {encoding.lower()}, or convert the file.",
            )  # fmt: skip
            return True
    return False


def _without_mark(first: bytes, log: ProblemLog) -> bytes:
    if first.startswith(codecs.BOM_UTF8):
        log.remark(REMARK_BOM)
    return first.removeprefix(codecs.BOM_UTF8)


def _line_blocks(path: Path, log: ProblemLog, max_characters: int) -> Iterator[bytes | None]:
    """Yield bytes of whole lines; None stands for one line beyond any allowed length."""
    rest, is_skipping = bytearray(), False
    limit = 4 * max_characters  # a character of UTF-8 has at most four bytes
    for chunk in _byte_chunks(path, log, may_be_empty=False):
        if is_skipping:
            end = chunk.find(b"\n")
            if end < 0:
                continue
            chunk, is_skipping = chunk[end + 1 :], False
        cut = chunk.rfind(b"\n") + 1
        if cut:
            rest += chunk[:cut]
            yield bytes(rest)
            rest = bytearray(chunk[cut:])
        else:
            rest += chunk
        if len(rest) > limit:
            yield None
            rest, is_skipping = bytearray(), True
    if rest:
        yield bytes(rest)


def _decode(data: bytes, line: int, path: Path, log: ProblemLog) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\n".join(
            _decode_line(part, number, path, log)
            for number, part in enumerate(data.split(b"\n"), line)
        )
    if "\0" in text:
        for number, part in enumerate(text.split("\n"), line):
            if "\0" in part:
                _report(
                    log, path, "NUL byte", f"a NUL at character {part.index(chr(0)) + 1}", "text",
                    "Remove it, or check that this is a text file.", line=number, kept=True,
                )  # fmt: skip
    return text


def _decode_line(data: bytes, line: int, path: Path, log: ProblemLog) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        _report(
            log, path, "not UTF-8",
            f"byte 0x{data[error.start]:02x} at position {error.start + 1} of the line", "UTF-8",
            "Name its encoding, for example --encoding latin-1; lenient reading stores U+FFFD.",
            line=line, kept=True,
        )  # fmt: skip
        text = data.decode("utf-8", errors=_ONE_PER_BYTE)
        log.changes[CHANGE_UNDECODED] += text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
        return text


def _without_long_lines(
    text: str, first: int, path: Path, log: ProblemLog, max_characters: int
) -> str:
    parts = text.split("\n")
    for index, part in enumerate(parts):
        if len(part) > max_characters:
            _report_long_line(log, path, first + index, max_characters)
            parts[index] = ""
    return "\n".join(parts)


def _report_long_line(
    log: ProblemLog, path: Path, line: int, max_characters: int, *, kept: bool = False
) -> None:
    limit = f"{max_characters:,} characters"
    _report(
        log, path, "very long line", f"more than {limit}", f"at most {limit}",
        "Break the line, or check that this is the right file.", line=line, kept=kept,
    )  # fmt: skip


def _report_unreadable(log: ProblemLog, path: Path, error: Exception) -> None:
    if isinstance(error, OSError) and error.errno is not None:
        found, hint = error.strerror or str(error), "Check the path and its permissions."
    else:  # the decompressors say no errno
        found = f"compressed data that is cut short or corrupt ({error})"
        hint = "Copy the file again; what came before the damage was read."
    _report(log, path, "unreadable file", found, "a readable file", hint)


def _report(
    log: ProblemLog,
    path: Path,
    kind: Kind,
    found: str,
    expected: str,
    hint: str,
    *,
    line: int | None = None,
    kept: bool = False,
) -> None:
    log.report(Problem(kind, str(path), line, found, expected, hint, kept))
