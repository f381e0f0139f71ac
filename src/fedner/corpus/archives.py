"""Archives in place of folders: .zip and .tar (plain, .gz, .xz, .bz2), read without unpacking them.

The files of an archive are streamed into a folder of fedner's own that nobody else may enter (mode
0700, files 0600) and that is removed when reading ends. Nothing is ever written elsewhere: names
that lead out of the archive (absolute, `..`, a drive) refuse it whole, links and devices are
reported and never made. Limits on size, ratio and number guard against bombs, and are checked while
the content is being unpacked, never from what a header says. Archives in archives stay closed.

`archive.tar.xz!/gold/pubmed` names a folder (or a file) within an archive, `archive.tar.xz!/` all
of it.
"""

import bz2
import gzip
import lzma
import os
import re
import shutil
import stat
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from fedner.corpus.foreign import foreign_file
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.tar_members import TarError, members
from fedner.errors import FednerError

MAX_TOTAL_BYTES = 8 * 1024**3
"""The most that an archive may hold, unpacked."""

MAX_RATIO = 250
"""The most that it may hold for each of its bytes (text seldom shrinks more than twentyfold)."""

FREE_BYTES = 64 * 1024**2
"""So much may come out of the smallest archive, whatever the ratio."""

MAX_MEMBERS = 500_000
"""The most files, folders and other entries."""

MAX_DEPTH = 64
"""The deepest folder."""

MARK = "!"
"""Stands between the name of an archive and a path within it."""

_CHUNK = 128 * 1024
_ZIP_MARKS = (b"PK\x03\x04", b"PK\x05\x06")
_PACKED_MARKS = {b"\x1f\x8b": "gz", b"\xfd7zXZ\x00": "xz", b"BZh": "bz2"}
_TAR_MARK, _TAR_PLACE = b"ustar", 257
_OLD_TAR_SUFFIX = re.compile(r"\.tar(\.\w+)?$|\.t[gxb]z2?$", re.IGNORECASE)
_SUFFIX = re.compile(r"\.zip$|\.tar(\.(gz|xz|bz2))?$|\.t([gx]z|bz2?)$", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")
_CORRUPT = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, TarError, OSError)


class Place(NamedTuple):
    """An archive, and what is meant of it.

    Attributes:
        archive: The file.
        inner: A path within it with `/`, "" for all of it, or None where nobody said.
    """

    archive: Path
    inner: str | None


@dataclass(slots=True, weakref_slot=True)
class Unpacked:
    """The files of an archive in a folder of their own, until `close` or the end of this object.

    Attributes:
        place: Where they come from.
        folder: Where they are.
        problems: What could not be unpacked.
    """

    place: Place
    folder: Path
    problems: ProblemLog = field(default_factory=ProblemLog)
    _remove: "weakref.finalize[..., Unpacked] | None" = None

    def close(self) -> None:
        """Remove the folder."""
        if self._remove is not None:
            self._remove()


def place_of(path: Path) -> Place | None:
    """Return what a path says if it leads to an archive or into one; None for other paths."""
    if path.is_file():
        return Place(path, None) if is_archive(path) else None
    parts = path.parts
    for index, part in enumerate(parts):
        if not part.endswith(MARK) or part == MARK:
            continue
        archive = Path(*parts[:index], part.removesuffix(MARK))
        if archive.is_file() and is_archive(archive):
            return Place(archive, "/".join(parts[index + 1 :]))
    return None


def input_exists(path: Path) -> bool:
    """Whether there is something to read at a path, be it within an archive that exists."""
    return path.exists() or place_of(path) is not None


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or tar archive, by its content; never raises."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
            if start.startswith(_ZIP_MARKS):
                return foreign_file(path) is None  # a letter in Word is a zip too
            file.seek(0)
            with ExitStack() as stack:
                stream = _inflating(file, start, stack)
                block = start if stream is file else stream.read(512)
    except _CORRUPT:
        return _OLD_TAR_SUFFIX.search(path.name) is not None
    if block[_TAR_PLACE : _TAR_PLACE + len(_TAR_MARK)] == _TAR_MARK:
        return True
    return _OLD_TAR_SUFFIX.search(path.name) is not None


def plain_name(place: Place) -> str:
    """Return what people call the corpus at a place."""
    if place.inner:
        return place.inner.rpartition("/")[2]
    return _SUFFIX.sub("", place.archive.name)


def unpacked(place: Place) -> Unpacked:
    """Unpack an archive into a folder of its own.

    Raises:
        FednerError: If a name leads out of the archive, a limit is passed, nothing can be unpacked
            or there is no room.
    """
    folder = Path(tempfile.mkdtemp(prefix="fedner-"))
    found = Unpacked(place, folder)
    found._remove = weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    try:
        _Unpacking(found, place.archive).run()
    except BaseException:
        found.close()
        raise
    return found


@dataclass(slots=True)
class _Unpacking:
    """One run through an archive.

    Attributes:
        target: Where the files go, and the problems.
        archive: The file.
        num_members: How many entries there were so far.
        num_bytes: How many bytes came out so far.
    """

    target: Unpacked
    archive: Path
    num_members: int = 0
    num_bytes: int = 0
    _size: int = 0

    def run(self) -> None:
        """Unpack all of it."""
        try:
            self._size = self.archive.stat().st_size
            with self.archive.open("rb") as file:
                start = file.read(16)
                file.seek(0)
                if start.startswith(_ZIP_MARKS):
                    self._zip(file)
                else:
                    self._tar(file, start)
        except _CORRUPT as error:
            self._report_damage(error)

    def _tar(self, file: BinaryIO, start: bytes) -> None:
        with ExitStack() as stack:
            stream = _inflating(file, start, stack)
            for member in members(_Counted(stream, self)):
                self._count_member()
                if member.kind == "file":
                    self._put(member.name, member.chunks)
                elif member.kind == "other":
                    self._report(member.name, member.what, "a file", "Put the file itself there.")

    def _zip(self, file: BinaryIO) -> None:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                self._count_member()
                mode = info.external_attr >> 16
                name = info.filename.replace("\\", "/")
                if info.is_dir():
                    continue
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                    what = "a link" if stat.S_ISLNK(mode) else "neither file nor folder"
                    self._report(name, what, "a file", "Put the file itself there.")
                elif info.flag_bits & 1:
                    self._report(name, "an encrypted file", "a file", "Unpack it with its key.")
                else:
                    self._put(name, self._zip_chunks(archive, info))

    def _zip_chunks(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
        try:
            with archive.open(info) as stream:
                while chunk := stream.read(_CHUNK):
                    self.count_bytes(len(chunk))
                    yield chunk
        except (NotImplementedError, RuntimeError, ValueError) as error:
            raise zipfile.BadZipFile(f"{info.filename[:80]}: {error}") from error

    def count_bytes(self, size: int) -> None:
        """Count what came out, and stop at a bomb."""
        self.num_bytes += size
        allowed = max(FREE_BYTES, MAX_RATIO * self._size)
        if self.num_bytes > min(allowed, MAX_TOTAL_BYTES):
            limit = min(allowed, MAX_TOTAL_BYTES) // 2**20
            raise FednerError(
                f"{self.archive}: its {self._size:,} bytes unpack to more than {limit:,} MiB",
                f"At most {MAX_RATIO} times its size and {MAX_TOTAL_BYTES // 2**30} GiB are "
                "unpacked; if the archive is in order, unpack it yourself and name the folder.",
            )

    def _count_member(self) -> None:
        self.num_members += 1
        if self.num_members > MAX_MEMBERS:
            raise FednerError(
                f"{self.archive}: more than {MAX_MEMBERS:,} entries",
                "Unpack it yourself and name the folder, if the archive is in order.",
            )

    def _put(self, name: str, chunks: Iterator[bytes]) -> None:
        """Write one file, unless nobody wants it (what macOS and others hide in archives)."""
        parts = self._safe_parts(name)
        if not parts or "__MACOSX" in parts or any(part.startswith(".") for part in parts):
            return
        path = self.target.folder.joinpath(*parts)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except (FileExistsError, NotADirectoryError):
            self._report(name, "a second entry of that name", "every name once", "Pack it again.")
            return
        with os.fdopen(descriptor, "wb") as file:
            for chunk in chunks:
                file.write(chunk)

    def _safe_parts(self, name: str) -> list[str]:
        """Return the parts of a name; refuse the archive if they lead out of it."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        is_outside = name.startswith("/") or _DRIVE.match(name) or ".." in parts or "\0" in name
        if is_outside or len(parts) > MAX_DEPTH:
            raise FednerError(
                f"{self.archive}: the entry {name[:100]!r} leads outside the archive or is "
                "too deep",
                "Such an archive is not read. If you trust it, unpack it yourself with care.",
            )
        return parts

    def _report(self, name: str, found: str, expected: str, hint: str) -> None:
        file = shown(self.target.place.archive, name[:200])
        problem = Problem("unreadable file", file, None, found, expected, hint)
        self.target.problems.report(problem)

    def _report_damage(self, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno is not None:
            raise FednerError(
                f"{self.archive}: cannot be unpacked: {error.strerror or error}",
                "Check the file, and that the folder for temporary files (TMPDIR) has room.",
            ) from error
        if not any(self.target.folder.iterdir()):
            raise FednerError(
                f"{self.archive}: damaged, or not a known kind of archive ({error})",
                "Copy it again; .zip and .tar (plain, .gz, .xz, .bz2) can be read.",
            ) from error
        found = f"damage after {self.num_members} entries ({error})"
        problem = Problem(
            "unreadable file", str(self.archive), None, found, "a whole archive",
            "Copy it again; what came before the damage was read.",
        )  # fmt: skip
        self.target.problems.report(problem)


class _Counted:
    """A stream that counts what comes out of it."""

    def __init__(self, stream: BinaryIO, counter: _Unpacking) -> None:
        self._stream = stream
        self._counter = counter

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer than `size` only at the end."""
        data = self._stream.read(size)
        self._counter.count_bytes(len(data))
        return data


def shown(archive: Path, inner: str) -> str:
    """Return how a path within an archive is written for people, and by them."""
    return f"{archive}{MARK}/{inner}"


def _inflating(file: BinaryIO, start: bytes, stack: ExitStack) -> BinaryIO:
    """Return the stream of a file, decompressed if its first bytes say so."""
    kind = next((kind for mark, kind in _PACKED_MARKS.items() if start.startswith(mark)), None)
    if kind == "gz":
        return cast("BinaryIO", stack.enter_context(gzip.GzipFile(fileobj=file)))
    if kind == "xz":
        return cast("BinaryIO", stack.enter_context(lzma.LZMAFile(file)))
    if kind == "bz2":
        return cast("BinaryIO", stack.enter_context(bz2.BZ2File(file)))
    return file
