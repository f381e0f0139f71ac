"""From TOML to settings: overrides, and every problem reported together with the nearest key."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fedner.errors import FednerError
from fedner.settings.federation import Settings
from fedner.settings.platform import PlatformSettings
from fedner.settings.policy import ANY_STUDY
from fedner.settings.problems import SettingProblem, SettingsError, nearest
from fedner.settings.sections import SYNTHETIC
from fedner.settings.study import Study, StudyPlatform

MOST_FIXES = 8
FEDERATION_NEEDS = "[training] and one [[platforms]]"
Document = TypeVar("Document", bound=BaseModel)

# A drive letter or a server, then backslashes, up to the end of the quotes.
_WINDOWS_PATH = re.compile(r"[\"']((?:[A-Za-z]:\\|\\\\|\.{1,2}\\)[^\"']*)")

# A length that is set takes the place of the other one.
EITHER_OR = {"training.rounds": "epochs", "training.epochs": "rounds"}

# pydantic's words for kinds of values, in the words of TOML.
EXPECTED = {
    "model_type": "a table",
    "dict_type": "a table",
    "tuple_type": "a list",
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_pattern_mismatch": "a name that can be a folder's: letters (a to z, A to Z), digits, "
    "'-', '_', '.' or blanks, at most 64",
}


def read_toml(path: Path, expected: str = FEDERATION_NEEDS) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Args:
        path: The file.
        expected: What it holds at least, for the message where it holds nothing.

    Raises:
        FednerError: It cannot be read, is not TOML, or holds nothing.
    """
    text = _text_of(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FednerError(f"{path} is not TOML: {error}", _toml_hint(text, str(error))) from error
    if not tables:
        state = "has nothing but comments" if text.strip() else "is empty"
        raise FednerError(
            f"{path} {state}; expected at least {expected}",
            "`fedner init OTHER.toml` writes an example that runs as it is.",
        )
    return tables


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise FednerError(
            f"{path} cannot be read: {error.strerror or error}",
            "Name a file of settings; `fedner init` writes an example of a federation.",
        ) from error
    except UnicodeDecodeError as error:
        raise FednerError(f"{path} is not UTF-8 text: {error}", "Save it as UTF-8.") from error


def _toml_hint(text: str, message: str) -> str:
    """Return how to fix the line that TOML stopped at; backslashes of Windows paths are usual."""
    place = re.search(r"at line (\d+)", message)
    lines = text.split("\n")
    line = lines[int(place[1]) - 1] if place and int(place[1]) <= len(lines) else ""
    windows = _WINDOWS_PATH.search(line)
    if windows is None:
        return "Fix that place."
    return (
        "In double quotes TOML reads a backslash as an escape. Write Windows paths in single "
        f"quotes ('{windows[1]}') or with slashes (\"{windows[1].replace(chr(92), '/')}\")."
    )


def override(tables: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Return the tables with `key=value` set; values are TOML, or else plain text.

    A platform is named by its place or its name: `platforms.0.data`, `platforms.clinic.data`.

    Raises:
        SettingsError: Assignments that lead nowhere, all of them.
    """
    result: dict[str, Any] = json.loads(json.dumps(tables, default=_as_text))
    problems = []
    for assignment in assignments:
        key, sign, value = assignment.partition("=")
        if not sign or not all(key.strip().split(".")):
            found, expected = repr(assignment), "key=value, as in model.hidden=100"
            problems.append(SettingProblem("--set", found, expected))
            continue
        if (problem := _assign(result, key.strip(), _value(value.strip()))) is not None:
            problems.append(problem)
    if problems:
        raise SettingsError("--set", problems)
    return result


def _value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _assign(tables: dict[str, Any], key: str, value: object) -> SettingProblem | None:
    *parts, last = key.split(".")
    place: Any = tables
    for part in parts:
        place = _step(place, part)
        if place is None:
            return SettingProblem(f"--set {key}", repr(part), "a table or a platform of the file")
    if isinstance(place, list):
        return SettingProblem(f"--set {key}", repr(last), "a key within a platform")
    place[last] = value
    if key in EITHER_OR:
        place.pop(EITHER_OR[key], None)
    return None


def _step(place: Any, part: str) -> Any:
    """Return the table or list under `part`, made where it is missing; None where there is none."""
    if isinstance(place, list):
        if part.isdecimal() and int(part) < len(place):
            return place[int(part)]
        named = (each for each in place if isinstance(each, dict) and each.get("name") == part)
        return next(named, None)
    held = place.setdefault(part, {})
    return held if isinstance(held, dict | list) else None


def parse(tables: Mapping[str, Any], source: str = "settings") -> Settings:
    """Return the federation that the tables spell.

    Raises:
        SettingsError: All problems, reported together.
    """
    return parse_as(Settings, tables, source)


def parse_as(kind: type[Document], tables: Mapping[str, Any], source: str) -> Document:
    """Return what the tables spell: a federation, a study, or a platform's own settings.

    Raises:
        SettingsError: All problems, reported together.
    """
    settings, problems = attempt_as(kind, tables)
    if settings is None or problems:
        raise SettingsError(source, problems)
    return settings


def attempt(tables: Mapping[str, Any]) -> tuple[Settings | None, list[SettingProblem]]:
    """Return the federation as far as it can be understood, and everything that is wrong."""
    return attempt_as(Settings, tables)


def attempt_as(
    kind: type[Document], tables: Mapping[str, Any]
) -> tuple[Document | None, list[SettingProblem]]:
    """Return the settings as far as they can be understood, and everything that is wrong.

    What is wrong is taken out and the rest is looked at again, so that problems which only whole
    sections can have are reported together with the others. None means that nothing could be
    understood.
    """
    fixed: dict[str, Any] = json.loads(json.dumps(tables, default=_as_text))
    problems: dict[str, SettingProblem] = {}
    for _ in range(MOST_FIXES):
        try:
            # By way of JSON, strictly: a list is a tuple there, but "3" is no number.
            settings = kind.model_validate_json(json.dumps(fixed), strict=True)
        except ValidationError as error:
            for problem in problems_of(error, kind):
                problems.setdefault(problem.key, problem)
            # Backwards: what is taken out of a list moves only what comes after it.
            for detail in reversed(error.errors(include_url=False)):
                _fix(kind, fixed, detail["loc"])
        else:
            return settings, list(problems.values())
    return None, list(problems.values())


def _fix(kind: type[BaseModel], tables: dict[str, Any], location: Sequence[str | int]) -> None:
    """Take out what is wrong at a location, or stand in for what is missing."""
    place: Any = tables
    for part in location[:-1]:
        place = place[part]
    last = location[-1] if location else None
    if isinstance(place, list) and isinstance(last, int):
        if location[0] == "platforms":
            place[last] = _platform_stand_in(kind, last)
        else:
            del place[last]
    elif isinstance(last, str) and last in place:
        del place[last]
        if last in ("rounds", "epochs"):
            place[last] = 1  # wrong is not missing: one message will do
    elif last == "platforms":
        place[last] = [_platform_stand_in(kind, 0)]
    elif isinstance(last, str):
        number = location[1] if len(location) > 1 else 0
        stand_ins = _stand_ins(number)
        if last in stand_ins:
            place[last] = stand_ins[last]


def _stand_ins(number: str | int) -> dict[str, Any]:
    """Return what is taken for keys that are missing, while the rest is looked at."""
    return {
        "training": {"rounds": 1},
        "name": f"platform-{number}",
        "data": SYNTHETIC,
        "public_size": 1,
        "digest": "0" * 64,
        "dimension": 1,
    }


def _platform_stand_in(kind: type[BaseModel], number: int) -> dict[str, Any]:
    platform = _model_in(kind.model_fields["platforms"].annotation)
    stand_ins = _stand_ins(number)
    held = {} if platform is None else platform.model_fields
    return {key: stand_ins[key] for key, each in held.items() if each.is_required()}


def problems_of(
    error: ValidationError, model: type[BaseModel], prefix: str = ""
) -> list[SettingProblem]:
    """Return what pydantic found, in our words, with the nearest key for each typo."""
    return [_problem(each, model, prefix) for each in error.errors(include_url=False)]


def _problem(detail: ErrorDetails, model: type[BaseModel], prefix: str) -> SettingProblem:
    location = detail["loc"]
    key = prefix + dotted(location)
    if detail["type"] == "extra_forbidden":
        known = _keys_at(model, location[:-1])
        hint = _other_half(model, location) or nearest(str(location[-1]), known)
        return SettingProblem(key, "a key that there is not", _listed(known), hint)
    if detail["type"] == "missing":
        return SettingProblem(key, "nothing", "this key", "Add it.")
    if detail["type"] == "literal_error":
        choices = _choices_at(model, location)
        hint = nearest(str(detail["input"]), choices)
        return SettingProblem(key, shown(detail["input"]), _listed(choices), hint)
    expected = EXPECTED.get(detail["type"])
    if detail["type"] == "string_pattern_mismatch" and _is_digest(location):
        expected = "a SHA-256 digest: 64 of 0-9 and a-f"
        expected += f", or {ANY_STUDY!r}" if "studies" in location else ""
    if expected is None:
        expected = detail["msg"].removeprefix("Input should be ")
    return SettingProblem(key or "the file", shown(detail["input"]), expected)


def _other_half(model: type[BaseModel], location: Sequence[str | int]) -> str:
    """Return where a key belongs that stands in the wrong half of a federation, or nothing."""
    last, is_of_platform = location[-1], location[0] == "platforms" and len(location) == 3
    if model is Study and is_of_platform and last in PlatformSettings.model_fields:
        return "Only the platform itself holds it: it belongs in its platform.toml."
    if model is Study and location == ("engine",):
        return "It belongs to a simulation: to a federation file, or --set engine.KEY=VALUE."
    public = {*Study.model_fields, *StudyPlatform.model_fields}
    if model is PlatformSettings and len(location) == 1 and last in public:
        return "Everyone knows it: it belongs in study.toml."
    return ""


def _is_digest(location: Sequence[str | int]) -> bool:
    return "digest" in location or "studies" in location


def dotted(location: Sequence[str | int]) -> str:
    """Return the path of a key as people write it: `platforms[1].split.test`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def shown(value: object) -> str:
    """Return a value as messages show it: JSON, cut short where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def _listed(names: Sequence[str]) -> str:
    return f"one of {', '.join(names)}" if names else "no key here"


def _field_at(model: type[BaseModel], location: Sequence[str | int]) -> Any:
    """Return the annotation that a location leads to, or None where it leaves the models."""
    annotation: Any = model
    for part in location:
        if isinstance(part, int):
            continue
        held = _model_in(annotation)
        if held is None or part not in held.model_fields:
            return None
        annotation = held.model_fields[part].annotation
    return annotation


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each))), None)


def _keys_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    held = _model_in(_field_at(model, location))
    return [] if held is None else list(held.model_fields)


def _choices_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    annotation = _field_at(model, location)
    stack, found = [annotation], []
    while stack:
        each = stack.pop()
        arguments = get_args(each)
        stack += [argument for argument in arguments if not isinstance(argument, str)]
        found += [argument for argument in arguments if isinstance(argument, str)]
    return found


def _as_text(value: object) -> str:
    """Return a TOML date as text: no key wants one, and the type check then says so."""
    return value.isoformat() if isinstance(value, date | time) else str(value)
