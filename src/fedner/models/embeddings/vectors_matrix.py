"""The matrix of a row-mapped table, a `.npy` file of floats, streamed a block of rows at a time.

NumPy's own reader makes room for what the header claims before it looks whether the file has it,
and hands the header to a parser of Python that fails in many ways. Only what `numpy.save` writes
for such a matrix is read here.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedner.errors import FednerError

BLOCK_BYTES = 1 << 20
MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 1 << 12
_LENGTH_BYTES = {b"\x01": 2, b"\x02": 4, b"\x03": 4}
_HEADER = re.compile(
    rb"\{'descr': '([<>]f[248])', 'fortran_order': False, 'shape': \((\d{1,18}), (\d{1,18})\), \}"
    rb" *\n"
)
MOST_DIMENSIONS = 1 << 16
HINT = "Save the vectors with numpy.save as an array of finite floats, words x dimension."


def read_matrix_header(source: BinaryIO, path: Path) -> tuple[int, int, "np.dtype[np.floating]"]:
    """Read up to the numbers; return rows, columns and the type of the numbers.

    Raises:
        FednerError: It is no `.npy` file, or no matrix of floats row by row.
    """
    found = _HEADER.fullmatch(_header(source))
    if found is None:
        raise FednerError(
            f"{path} is no .npy matrix of floats, words x dimension, row by row", HINT
        )
    descr, rows, columns = (group.decode("ascii") for group in found.groups())
    num_rows, dimension = int(rows), int(columns)
    if num_rows < 1 or not 0 < dimension <= MOST_DIMENSIONS:
        raise FednerError(
            f"{path} has {num_rows:,} rows of {dimension:,} numbers; expected at least one row, of "
            f"1 to {MOST_DIMENSIONS:,}",
            HINT,
        )
    return num_rows, dimension, np.dtype(descr)


def _header(source: BinaryIO) -> bytes:
    """Return the header as text; nothing where the file begins otherwise, or it is too long."""
    opening = source.read(8)
    if opening[:6] != MAGIC or opening[6:7] not in _LENGTH_BYTES:
        return b""
    length = int.from_bytes(source.read(_LENGTH_BYTES[opening[6:7]]), "little")
    return source.read(length) if length <= LONGEST_HEADER else b""


def matrix_rows(
    source: BinaryIO, path: Path, num_rows: int, dimension: int, dtype: "np.dtype[np.floating]"
) -> Iterator[NDArray[np.float32]]:
    """Give the rows after the header, block by block.

    Raises:
        FednerError: The file is cut short or goes on, or a number is not finite in float32.
    """
    row_bytes = dimension * dtype.itemsize
    at_a_time = max(1, BLOCK_BYTES // row_bytes)
    for start in range(0, num_rows, at_a_time):
        wanted = min(at_a_time, num_rows - start)
        block = _read(source, wanted * row_bytes)
        if len(block) < wanted * row_bytes:
            found = start + len(block) // row_bytes
            raise FednerError(
                f"{path} is cut short: {found:,} of {num_rows:,} rows", "Fetch the file again."
            )
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            rows = np.frombuffer(block, dtype).reshape(wanted, dimension).astype(np.float32)
        is_finite_R = np.isfinite(rows).all(axis=1)
        if not is_finite_R.all():
            row = start + int(np.argmin(is_finite_R))
            raise FednerError(f"{path}: row {row:,} has a number that is not finite", HINT)
        yield rows
    if source.read(1):
        raise FednerError(f"{path} goes on after its {num_rows:,} rows", "Fetch the file again.")


def _read(source: BinaryIO, num_bytes: int) -> bytes:
    """Read as many bytes as there are, up to `num_bytes`; compressed files give them in pieces."""
    parts, missing = [], num_bytes
    while missing and (part := source.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
