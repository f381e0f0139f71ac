"""From settings to TOML that reads back equal, with a line on each table."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from fedner.errors import FednerError
from fedner.settings.platform import PlatformSettings
from fedner.settings.reading import attempt_as
from fedner.settings.study import Study

STUDY_HEADER = """\
# The study: all that everyone in it knows. It says everything, defaults included.
# `fedner study check FILE` looks for problems; every platform checks it before it takes part.
"""
PLATFORM_HEADER = """\
# What this platform alone holds. This file stays at home: nobody else needs it.
# `fedner study check STUDY FILE` says whether both fit.
"""
STUDY_COMMENTS = {
    "types": "entity types that all may know, each described in one line",
    "model": "which tagger; `fedner models` lists the recipes",
    "embeddings": "by name and digest; where they lie is in each platform.toml",
    "partition": "which modules of the tagger are shared; the rest stays private",
    "algorithm": "how updates become new shared weights",
    "local_optimizer": "how each platform steps its private weights",
    "privacy": "differential privacy of what each platform transmits",
    "training": "how long, and in which batches",
    "participation": "who is asked in a round, and which updates are refused",
    "release": "who gets the trained model; every platform's policy must allow it",
    "transport": "how numbers cross: float32, or smaller for slow links; masked or not",
}
PLATFORM_COMMENTS = {
    "split": "what is tested on",
    "label_map": 'type in the file = type in the study; "" leaves a type out',
    "types": "descriptions of types that stay here: neither names nor descriptions are sent",
    "embeddings": "where the study's word vectors and encoder lie here",
    "policy": "what this platform takes part in, and what it sends",
}


def study_toml(study: Study) -> str:
    """Return a study as TOML, with every default written out.

    Raises:
        FednerError: A value has no spelling in TOML.
    """
    tables = _without_none(study.model_dump(mode="json"))
    return _checked(study, STUDY_HEADER + to_toml(tables, STUDY_COMMENTS))


def platform_toml(own: PlatformSettings) -> str:
    """Return a platform's settings as TOML, without what is the default anyway.

    Raises:
        FednerError: A value has no spelling in TOML.
    """
    tables = _without_none(own.model_dump(mode="json", exclude_defaults=True))
    return _checked(own, PLATFORM_HEADER + to_toml(tables, PLATFORM_COMMENTS))


def _without_none(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables without the keys that have no value, at any depth."""
    kept = {key: value for key, value in tables.items() if value is not None}
    for key, value in kept.items():
        if isinstance(value, dict):
            kept[key] = _without_none(value)
        elif isinstance(value, list):
            kept[key] = [_without_none(each) if isinstance(each, dict) else each for each in value]
    return kept


def _checked(settings: BaseModel, text: str) -> str:
    """Return the text if it reads back equal; TOML has no word for None."""
    try:
        again, problems = attempt_as(type(settings), tomllib.loads(text))
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise FednerError(f"the settings cannot be written as TOML: {error}") from error
    if problems or again != settings:
        raise FednerError(
            "the settings cannot be written as TOML: they would read back differently",
            "TOML cannot say None: leave out keys that are None, or give them a value.",
        )
    return text


def to_toml(tables: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """Return tables of plain values as TOML; lists of tables, as the platforms, come last.

    Args:
        tables: Text, numbers, booleans, lists and tables by key.
        comments: A line for the head of a table of the first level.
    """
    known = comments or {}
    plain = {key: value for key, value in tables.items() if not _is_table(value)}
    lines = [_line(key, value) for key, value in plain.items()]
    for key, value in sorted(tables.items(), key=lambda each: isinstance(each[1], list)):
        if _is_table(value):
            lines += _table(key, value, known.get(key, ""))
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, dict) for each in value)
    return isinstance(value, dict)


def _table(key: str, value: Any, comment: str) -> Iterator[str]:
    many = isinstance(value, list)
    head = f"[[{_key(key)}]]" if many else f"[{_key(key)}]"
    for table in value if many else [value]:
        yield ""
        yield f"{head}  # {comment}" if comment else head
        yield from (_line(inner, held) for inner, held in table.items())


def _line(key: str, value: object) -> str:
    return f"{_key(key)} = {_value(value)}"


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else _text(name)


def _value(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inner = ", ".join(_line(key, each) for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    return json.dumps(value)  # true, 3 and 1e-05 are spelt alike


def _text(value: str) -> str:
    # JSON's escapes are TOML's; only the delete character needs one more.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
