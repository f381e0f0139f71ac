"""Reading a file of lines while somebody else writes it: only what is new, only whole lines."""

import os
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path

from fedner.errors import FednerError

MOST_BYTES = 2**22  # of one look: a long file is read in several
_SEEN_BYTES = 256
_NEWLINE = b"\n"


@dataclass(frozen=True, slots=True)
class NewLines:
    """What a look found.

    Attributes:
        lines: The new whole lines, without their ends.
        is_anew: Whether these are the first of the file: it was replaced or cut, so that what was
            read of it before does not count any more.
        has_more: Whether another look will find more at once.
    """

    lines: tuple[bytes, ...] = ()
    is_anew: bool = False
    has_more: bool = False


class LineTail:
    """The lines of a file that grows.

    A last line without an end is waited for. A file that was replaced (a run that is resumed writes
    its record anew) or cut is read from its beginning: told by its identity, its size, and the last
    bytes that were read.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most = most_bytes
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._last = b""  # what stands before the offset

    def read(self) -> NewLines:
        """Return what is new since the last look; nothing where there is no file.

        Raises:
            FednerError: The file cannot be read.
        """
        try:
            with self.path.open("rb", buffering=0) as handle:
                return self._read(handle)
        except FileNotFoundError:
            return self._gone()
        except OSError as error:
            raise FednerError(
                f"{self.path} cannot be read: {error.strerror or error}", "Check its permissions."
            ) from error

    def _gone(self) -> NewLines:
        was_there = self._offset > 0
        self._identity, self._offset, self._last = None, 0, b""
        return NewLines(is_anew=was_there)

    def _read(self, handle: RawIOBase) -> NewLines:
        facts = os.fstat(handle.fileno())
        identity = (facts.st_dev, facts.st_ino)
        is_anew = self._offset > 0 and (identity != self._identity or not self._continues(handle))
        if is_anew:
            self._offset, self._last = 0, b""
        self._identity = identity
        data = _part(handle, self._offset, self._most)
        end = data.rfind(_NEWLINE) + 1
        if not end and len(data) == self._most:
            raise FednerError(
                f"{self.path} has a line of more than {self._most:,} bytes",
                "The record was altered: restore it.",
            )
        whole = data[:end]
        self._offset += end
        self._last = (self._last + whole)[-_SEEN_BYTES:]
        return NewLines(tuple(whole.split(_NEWLINE)[:-1]), is_anew, len(data) == self._most)

    def _continues(self, handle: RawIOBase) -> bool:
        """Whether the file still holds what was read last, where it was read."""
        return _part(handle, self._offset - len(self._last), len(self._last)) == self._last


def _part(handle: RawIOBase, offset: int, size: int) -> bytes:
    handle.seek(offset)
    return handle.read(size) or b""
