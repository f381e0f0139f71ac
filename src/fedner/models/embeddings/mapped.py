"""Folders of arrays that are memory-mapped, yet cannot be cut short or altered unnoticed.

A sealed folder holds one big matrix and a few small files. Opening it checks the length of every
file and the digest of every small one, which takes milliseconds; the matrix is cut into blocks of
rows, and a block is checked before the first of its rows is used. So gigabytes open at once, and
still no number is used that was not written.

The folder is filled under a temporary name and moved into place whole: what has the final name is
complete.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedner.durable import OWNER_ONLY, sync_folder, write_bytes
from fedner.errors import FednerError
from fedner.sealed import seal_of

ABOUT = "about.json"
BLOCKS = "blocks.npy"
BLOCK_BYTES = 1 << 17
DIGEST_BYTES = 16


class CheckedMatrix:
    """A memory-mapped matrix whose blocks are checked before they are first used.

    Attributes:
        name: The file, for messages.
        hint: What to do when a block is not what was written.
    """

    def __init__(
        self, matrix: NDArray[np.generic], digests: NDArray[np.uint8], name: str, hint: str
    ) -> None:
        self.name = name
        self.hint = hint
        self._matrix = matrix
        self._digests = digests
        self._rows_per_block = _rows_per_block(matrix)
        self._is_checked = np.zeros(len(digests), dtype=np.bool_)

    @property
    def num_rows(self) -> int:
        """How many rows the matrix has."""
        return int(self._matrix.shape[0])

    @property
    def dimension(self) -> int:
        """How many columns it has."""
        return int(self._matrix.shape[1])

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.generic]:
        """Return a copy of the chosen rows."""
        if rows.size:
            self._check(np.unique(rows // self._rows_per_block))
        return np.take(self._matrix, rows, axis=0)

    def between(self, start: int, stop: int) -> NDArray[np.generic]:
        """Return a read-only view of the rows from `start` up to `stop`."""
        if stop > start:
            first, last = start // self._rows_per_block, (stop - 1) // self._rows_per_block
            self._check(np.arange(first, last + 1))
        return self._matrix[start:stop]

    def whole(self) -> NDArray[np.generic]:
        """Return a read-only view of all rows."""
        return self.between(0, self.num_rows)

    def _check(self, blocks: NDArray[np.int64]) -> None:
        for block in blocks[~self._is_checked[blocks]]:
            start = int(block) * self._rows_per_block
            found = _digest(self._matrix[start : start + self._rows_per_block])
            if found != self._digests[block].tobytes():
                raise FednerError(
                    f"{self.name}: the rows from {start:,} on are not what was written",
                    self.hint,
                )
            self._is_checked[block] = True


@contextmanager
def filling(final: Path) -> Iterator[Path]:
    """Give a fresh folder that takes the name `final` when the block ends well.

    If another process was faster, its folder stays and this one is dropped: both hold the same.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_name(f".{final.name[:100]}.{secrets.token_hex(6)}.part")
    temporary.mkdir()
    try:
        yield temporary
        publish(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish(temporary: Path, final: Path) -> None:
    """Move a sealed folder to its final name, unless that is taken already."""
    sync_folder(temporary)
    with suppress(FileExistsError):
        try:
            temporary.rename(final)
        except OSError:
            # Moving onto a folder that is not empty has several error numbers among systems.
            if not (final / ABOUT).is_file():
                raise
    sync_folder(final.parent)


def seal(
    folder: Path,
    kind: str,
    version: int,
    matrix: str,
    about: Mapping[str, object],
    *,
    owner_only: bool = False,
) -> None:
    """Write the digests of everything in `folder`, and the record that opening checks.

    Args:
        folder: Where the files are, all of them complete.
        kind: What the folder holds, in words.
        version: The version of its layout.
        matrix: The file that holds the big matrix.
        about: What the caller wants to read back; plain JSON values.
        owner_only: Whether nobody but the owner may read the files.
    """
    array = np.load(folder / matrix, mmap_mode="r", allow_pickle=False)
    step = _rows_per_block(array)
    digests = [_digest(array[start : start + step]) for start in range(0, len(array), step)]
    table = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
    np.save(folder / BLOCKS, table, allow_pickle=False)
    files = {}
    # A record from a seal that was cut off is written anew below.
    for path in sorted(path for path in folder.iterdir() if path.name != ABOUT):
        with path.open("rb") as handle:
            digest = (
                "" if path.name == matrix else hashlib.file_digest(handle, "sha256").hexdigest()
            )
            os.fsync(handle.fileno())
        if owner_only:
            path.chmod(OWNER_ONLY)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": digest}
    record = {"kind": kind, "version": version, "matrix": matrix, "files": files, **about}
    sealed = {**record, "seal": seal_of(record)}
    write_bytes(folder / ABOUT, json.dumps(sealed, indent=1).encode(), owner_only=owner_only)


def unseal(folder: Path, kind: str, version: int, hint: str) -> tuple[dict[str, object], Path]:
    """Check a sealed folder and return its record and the path of its matrix.

    Raises:
        FednerError: If it is of another kind or version, or a file is missing or altered.
    """
    try:
        record = json.loads((folder / ABOUT).read_bytes())
        seal_found = record.pop("seal")
        is_whole = seal_found == seal_of(record)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise FednerError(f"{folder / ABOUT} is missing or not readable", hint) from None
    if not is_whole:
        raise FednerError(f"{folder / ABOUT} was altered: it does not fit its seal", hint)
    if (record["kind"], record["version"]) != (kind, version):
        raise FednerError(
            f"{folder} holds {record['kind']} of version {record['version']}; "
            f"expected {kind} of version {version}",
            hint,
        )
    for name, expected in record["files"].items():
        _check_file(folder / name, expected["bytes"], expected["sha256"], hint)
    return record, folder / record["matrix"]


def open_matrix(path: Path, hint: str) -> CheckedMatrix:
    """Open the matrix of a folder that `unseal` has checked."""
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
        digests = np.load(path.parent / BLOCKS, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise _altered(path, hint) from None
    if matrix.ndim != 2 or len(digests) != -(-len(matrix) // _rows_per_block(matrix)):
        raise _altered(path, hint)
    return CheckedMatrix(matrix, digests, str(path), hint)


def _altered(path: Path, hint: str) -> FednerError:
    return FednerError(f"{path} was altered: it is not the matrix that was written", hint)


def _check_file(path: Path, num_bytes: int, sha256: str, hint: str) -> None:
    try:
        found = path.stat().st_size
        if found != num_bytes:
            raise FednerError(f"{path} has {found:,} bytes; expected {num_bytes:,}", hint)
        if sha256:
            with path.open("rb") as handle:
                digest = hashlib.file_digest(handle, "sha256").hexdigest()
            if digest != sha256:
                raise FednerError(f"{path} was altered: its digest is not the recorded one", hint)
    except OSError as error:
        raise FednerError(f"{path} cannot be read: {error.strerror}", hint) from error


def _rows_per_block(matrix: NDArray[np.generic]) -> int:
    row_bytes = int(matrix.shape[1]) * matrix.dtype.itemsize
    return max(1, BLOCK_BYTES // max(1, row_bytes))


def _digest(rows: NDArray[np.generic]) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(rows).data).digest()[:DIGEST_BYTES]
