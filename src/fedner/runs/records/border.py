"""Where records meet JSON: written field by field, read strictly, refused by file and key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationError

from fedner.errors import FednerError
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores
from fedner.settings import dotted

UNHARMED = "Use an undamaged copy of the run, or train it again."
_MOST_SHOWN = 60
Kind = TypeVar("Kind")


def _by(form: type[Scores] | type[NoisedScores]) -> Callable[[object], object]:
    """Return what reads scores by their own form, and reports problems as pydantic expects."""

    def read(stated: object) -> object:
        if isinstance(stated, form):
            return stated
        if not isinstance(stated, dict):
            raise ValueError("not a record of scores")
        try:
            return form.from_dict(stated)
        except FednerError as error:
            raise ValueError(error.message) from None

    return read


# Scores have a JSON form of their own: counts with the measures that follow from them.
JsonScores = Annotated[Scores, PlainValidator(_by(Scores)), PlainSerializer(Scores.as_dict)]
JsonNoised = Annotated[
    NoisedScores, PlainValidator(_by(NoisedScores)), PlainSerializer(NoisedScores.as_dict)
]


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    """Return what reads and writes a kind of record; to make one takes longer than to use it."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def as_json(record: Any) -> dict[str, Any]:
    """Return a record, a frozen dataclass, in the form that JSON can carry."""
    stated: dict[str, Any] = _adapter(type(record)).dump_python(record, mode="json")
    return stated


def from_json(kind: type[Kind], text: str | bytes, where: str) -> Kind:
    """Return the record that a JSON text holds.

    Args:
        kind: A frozen dataclass.
        text: The JSON.
        where: Names it in messages.

    Raises:
        FednerError: It is no JSON, lacks a key or has a value of another type; the key is named.
    """
    try:
        found: Kind = _adapter(kind).validate_json(text, strict=True)
        return found
    except ValidationError as error:
        raise FednerError(f"{where} is damaged: {_told(error)}", UNHARMED) from None


def _told(error: ValidationError) -> str:
    """Return the first problem: key, value found, value expected."""
    first, more = error.errors()[0], error.error_count() - 1
    key = dotted([part for part in first["loc"] if part != "[key]"])
    words = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] == "missing":
        words = "missing"
    elif first["type"] != "json_invalid":
        shown = json.dumps(first["input"], ensure_ascii=False, default=str)
        words += f"; found {shown if len(shown) <= _MOST_SHOWN else shown[:_MOST_SHOWN] + '...'}"
    also = f" (and {more:,} more problems)" if more else ""
    return f"{key}: {words}{also}" if key else f"{words}{also}"


def read_as(kind: type[Kind], path: Path, hint: str) -> Kind:
    """Read the record that a JSON file holds.

    Args:
        kind: A frozen dataclass.
        path: The file.
        hint: What to do where it is missing.

    Raises:
        FednerError: It is not there, or damaged.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise FednerError(f"{path.parent} has no {path.name}", hint) from None
    except OSError as error:
        raise FednerError(f"{path} cannot be read: {error}", UNHARMED) from error
    return from_json(kind, text, str(path))
