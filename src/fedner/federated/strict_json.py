"""JSON from another machine: one meaning or none.

Python's reader takes more than JSON (NaN), lets the last of two equal keys win, and gives lone
surrogates that no file can hold. Each of these is refused here, as are texts beyond a size.
"""

import json
from typing import Any, NoReturn

from fedner.errors import FednerError

MOST_BYTES = 10_000_000


def read_json(data: bytes | str, most_bytes: int = MOST_BYTES, *, allows_nan: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        data: The text.
        most_bytes: How long it may be.
        allows_nan: Whether NaN and infinities are read, for the caller to judge.

    Raises:
        FednerError: If it is too long, nested too deeply, or not exactly JSON.
    """
    if len(data) > most_bytes:
        raise FednerError(f"JSON of {len(data):,} bytes; expected at most {most_bytes:,}")
    try:
        text = data.decode() if isinstance(data, bytes) else data
        constant = float if allows_nan else _no_number
        value = json.loads(text, object_pairs_hook=_once, parse_constant=constant)
        if "\\u" in text:  # a lone surrogate can only come of an escape
            _require_text(value)
    except (ValueError, RecursionError) as error:
        raise FednerError("not JSON of one meaning") from error
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _require_text(value: object) -> None:
    """Raise ValueError if a string somewhere in a value is not Unicode text."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, list):
        for each in value:
            _require_text(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            key.encode()
            _require_text(each)
