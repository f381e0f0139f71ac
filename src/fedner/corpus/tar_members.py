"""The members of a tar stream, one after the other, with bounds on all that is held in memory.

The library of Python reads the extended headers of a member whole, however long they say they are;
here they may have `MAX_HEADER_BYTES`. Its parser of the blocks themselves is used. The formats are
POSIX ustar and pax (IEEE Std 1003.1, "pax Interchange Format") and GNU's long names.
"""

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

MAX_HEADER_BYTES = 1024 * 1024
"""The longest extended header; names have at most some thousand bytes."""

_BLOCK = 512
_CHUNK = 128 * 1024
_RECORD = re.compile(rb"(\d{1,20}) ([^=]+)=")
_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_LONG_LINK = tarfile.GNUTYPE_LONGLINK
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)


class TarError(Exception):
    """A stream that is no valid tar archive."""


class Readable(Protocol):
    """What gives bytes one after the other."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, fewer than `size` only at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """One entry.

    Attributes:
        name: Its path, as the archive has it.
        kind: A file, a folder, or something else.
        what: What else it is, for people.
        chunks: The content; to be taken before the next member is asked for, or left.
    """

    name: str
    kind: Literal["file", "folder", "other"]
    what: str
    chunks: Iterator[bytes]


def members(stream: Readable) -> Iterator[Member]:
    """Yield the members of a tar stream.

    Raises:
        TarError: If the stream is no valid archive, or ends too early.
    """
    extended: dict[str, str] = {}
    while True:
        block = stream.read(_BLOCK)
        if not block or block.count(0) == _BLOCK:
            return
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.HeaderError, ValueError, OverflowError) as error:
            raise TarError(f"no header of a tar archive: {error}") from error
        if header.size < 0:
            raise TarError(f"a member of {header.size} bytes")
        if header.type in (*_PAX, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, _LONG_LINK):
            content = _whole(stream, header.size)
            if header.type in _PAX:
                extended |= _records(content)
            elif header.type == tarfile.GNUTYPE_LONGNAME:
                extended["path"] = _text(content.partition(b"\0")[0])
            continue
        yield from _member(stream, header, extended)
        extended = {}


def _member(
    stream: Readable, header: tarfile.TarInfo, extended: dict[str, str]
) -> Iterator[Member]:
    """Yield the member behind a header, then pass what was not taken of it."""
    name = extended.get("path", header.name)
    size = header.size
    if "size" in extended:
        if not extended["size"].isdecimal() or len(extended["size"]) > 18:
            raise TarError(f"a size of {extended['size'][:40]!r}")
        size = int(extended["size"])
    is_sparse = any(key.startswith("GNU.sparse") for key in extended)
    if header.type in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
        size = 0  # nothing follows, whatever they say of their size
    content = _Content(stream, size)
    if header.type == tarfile.DIRTYPE or (header.type == tarfile.AREGTYPE and name.endswith("/")):
        yield Member(name, "folder", "a folder", iter(()))
    elif header.type in _FILES and not is_sparse:
        yield Member(name, "file", "a file", content.chunks())
    else:
        what = "a sparse file" if is_sparse else _KINDS.get(header.type, "an unknown entry")
        yield Member(name, "other", what, iter(()))
    for _ in content.chunks():
        pass
    _exactly(stream, -size % _BLOCK)


@dataclass(slots=True)
class _Content:
    """What is left of the content of a member."""

    stream: Readable
    left: int

    def chunks(self) -> Iterator[bytes]:
        """Yield what is left."""
        while self.left:
            data = self.stream.read(min(_CHUNK, self.left))
            if not data:
                raise TarError("the archive ends within a file")
            self.left -= len(data)
            yield data


def _whole(stream: Readable, size: int) -> bytes:
    if size > MAX_HEADER_BYTES:
        raise TarError(f"an extended header of {size:,} bytes")
    content = _exactly(stream, size)
    _exactly(stream, -size % _BLOCK)
    return content


def _exactly(stream: Readable, size: int) -> bytes:
    data = stream.read(size) if size else b""
    if len(data) != size:
        raise TarError("the archive ends within an entry")
    return data


def _records(content: bytes) -> dict[str, str]:
    """Return the records of a pax header: the length of the record, a blank, KEY=VALUE, LF."""
    found: dict[str, str] = {}
    position = 0
    while position < len(content) and content[position]:
        match = _RECORD.match(content, position)
        if match is None:
            raise TarError("a malformed extended header")
        stop = position + int(match[1])
        if not match.end() < stop <= len(content):
            raise TarError("a malformed extended header")
        found[_text(match[2])] = _text(content[match.end() : stop - 1])
        position = stop
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
