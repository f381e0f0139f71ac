"""From TOML to settings: overrides, and every problem reported together with the nearest key."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fedner.errors import FednerError
from fedner.settings.federation import Settings
from fedner.settings.problems import SettingProblem, SettingsError, nearest
from fedner.settings.sections import HASHED, HUB, NO_CONTEXT, SYNTHETIC

MOST_FIXES = 8

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
    "string_pattern_mismatch": "a name that can be a folder's: letters, digits, '-', '_', '.' or "
    "blanks, at most 64",
}


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

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
            f"{path} {state}; expected at least [training] and one [[platforms]]",
            "`fedner init OTHER.toml` writes an example that runs as it is.",
        )
    return tables


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise FednerError(
            f"{path} cannot be read: {error.strerror or error}",
            "Name a federation file; `fedner init` writes an example.",
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


def escape_problems(settings: Settings) -> list[SettingProblem]:
    r"""Return the paths in which a backslash of Windows became a control character of TOML.

    "C:\temp" is valid TOML: a tab and "emp". No path is meant to hold such characters.
    """
    held = settings.embeddings
    paths = {f"embeddings.{key}": getattr(held, key) for key in ("words", "context", "cache")}
    for number, platform in enumerate(settings.platforms):
        key = f"platforms[{number}]"
        paths |= {f"{key}.data": platform.data, f"{key}.ledger": platform.ledger}
        paths[f"{key}.split.test_data"] = platform.split.test_data
    return [
        SettingProblem(
            key,
            _shown(path),
            "a path without control characters",
            "TOML read a backslash as an escape: write Windows paths in single quotes "
            "('C:\\temp\\notes') or with slashes.",
        )
        for key, path in paths.items()
        if path is not None and any(ord(character) < 32 for character in path)
    ]


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
    """Return the settings that the tables spell.

    Raises:
        SettingsError: All the problems at once.
    """
    settings, problems = attempt(tables)
    if settings is None or problems:
        raise SettingsError(source, problems)
    return settings


def attempt(tables: Mapping[str, Any]) -> tuple[Settings | None, list[SettingProblem]]:
    """Return the settings as far as they can be understood, and everything that is wrong.

    What is wrong is taken out and the rest is looked at again, so that problems which only whole
    sections can have are reported together with them. None means that nothing could be understood.
    """
    fixed: dict[str, Any] = json.loads(json.dumps(tables, default=_as_text))
    problems: dict[str, SettingProblem] = {}
    for _ in range(MOST_FIXES):
        try:
            # By way of JSON, strictly: a list is a tuple there, but "3" is no number.
            settings = Settings.model_validate_json(json.dumps(fixed), strict=True)
        except ValidationError as error:
            for problem in problems_of(error, Settings):
                problems.setdefault(problem.key, problem)
            # Backwards: what is taken out of a list moves only what comes after it.
            for detail in reversed(error.errors(include_url=False)):
                _fix(fixed, detail["loc"])
        else:
            return settings, list(problems.values())
    return None, list(problems.values())


def _fix(tables: dict[str, Any], location: Sequence[str | int]) -> None:
    """Take out what is wrong at a location, or stand in for what is missing."""
    place: Any = tables
    for part in location[:-1]:
        place = place[part]
    last = location[-1] if location else None
    if isinstance(place, list) and isinstance(last, int):
        if location[0] == "platforms":
            place[last] = {"name": f"platform-{last}", "data": SYNTHETIC}
        else:
            del place[last]
    elif isinstance(last, str) and last in place:
        del place[last]
        if last in ("rounds", "epochs"):
            place[last] = 1  # wrong is not missing: one message will do
    elif isinstance(last, str):
        number = location[1] if len(location) > 1 else 0
        stand_ins: dict[str, Any] = {
            "training": {"rounds": 1},
            "platforms": [{"name": "platform", "data": SYNTHETIC}],
            "name": f"platform-{number}",
            "data": SYNTHETIC,
        }
        if last in stand_ins:
            place[last] = stand_ins[last]


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
        return SettingProblem(key, "a key that there is not", _listed(known), nearest(
            str(location[-1]), known
        ))  # fmt: skip
    if detail["type"] == "missing":
        return SettingProblem(key, "nothing", "this key", "Add it.")
    if detail["type"] == "literal_error":
        choices = _choices_at(model, location)
        hint = nearest(str(detail["input"]), choices)
        return SettingProblem(key, _shown(detail["input"]), _listed(choices), hint)
    expected = EXPECTED.get(detail["type"])
    if expected is None:
        expected = detail["msg"].removeprefix("Input should be ")
    return SettingProblem(key or "the file", _shown(detail["input"]), expected)


def dotted(location: Sequence[str | int]) -> str:
    """Return the path of a key as people write it: `platforms[1].split.test`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _shown(value: object) -> str:
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


def resolved(settings: Settings, folder: Path) -> Settings:
    """Return the settings with every path made absolute; relative ones are relative to `folder`."""

    def absolute(path: str) -> str:
        return str((folder / Path(path).expanduser()).resolve())

    held = settings.embeddings
    paths = {"words": HASHED, "context": NO_CONTEXT, "cache": None}
    found = {key: getattr(held, key) for key in paths}
    changes = {
        key: absolute(path)
        for key, path in found.items()
        if path != paths[key] and not str(path).startswith(HUB)
    }
    platforms = []
    for platform in settings.platforms:
        data = platform.data if platform.synthetic is not None else absolute(platform.data)
        split = platform.split
        if split.test_data is not None:
            split = split.model_copy(update={"test_data": absolute(split.test_data)})
        ledger = None if platform.ledger is None else absolute(platform.ledger)
        patients = platform.patients
        if patients is not None and patients.file is not None:
            patients = patients.model_copy(update={"file": absolute(patients.file)})
        changed = {"data": data, "split": split, "ledger": ledger, "patients": patients}
        platforms.append(platform.model_copy(update=changed))
    return settings.model_copy(
        update={
            "embeddings": held.model_copy(update=changes),
            "platforms": tuple(platforms),
        }
    )
