"""The words of the field: standard names in settings, commands, code and pages."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import BaseModel
from typer.main import get_command

from fedner.cli.app import app
from fedner.federated.algorithms import ALGORITHMS
from fedner.settings import Settings

ROOT = Path(__file__).resolve().parents[1]

# Each of these has a standard name: optimizer, learning_rate, batch_size, max_grad_norm, ...
NO_KEYS = {
    "alone", "average", "batch", "clip", "control_epochs", "controls", "encoder_rate",
    "finish_epochs", "kind", "local_rate", "noise", "optimiser", "part", "pooled", "private",
    "rate", "rule", "server", "warmup",
}  # fmt: skip
NO_OPTIONS = NO_KEYS - {"kind", "part"}
# Words that mean nothing else here, so that no text needs them.
NO_WORDS = re.compile(
    r"optimiser|finish_epochs|control_epochs|what_left|still_rows|private_steps|PrivateSteps"
    r"|PrivateSettings|encoder_rate|last stretch|told at once"
    r"|\b(?:pooled|remedy|remedies|mend|mended|mends)\b",
    re.IGNORECASE,
)


def keys_of(kind: Any) -> Iterator[str]:
    """Yield the names of a section's keys, and of the sections within it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        held = {name: field.annotation for name, field in kind.model_fields.items()}
    elif isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        held = {each.name: hints[each.name] for each in fields(kind)}
    else:
        for inner in get_args(kind):
            yield from keys_of(inner)
        return
    for name, annotation in held.items():
        yield name
        yield from keys_of(annotation)


@pytest.mark.parametrize("kind", [Settings, *(row.settings for row in ALGORITHMS.values())])
def test_settings_have_the_names_that_people_search_for(kind: type) -> None:
    found = set(keys_of(kind))
    assert len(found) > 4
    assert found & NO_KEYS == set()


def options_of(command: Any) -> Iterator[str]:
    for option in command.params:
        yield from (each.lstrip("-") for each in option.opts)
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)


def test_commands_have_the_names_that_people_search_for() -> None:
    found = set(options_of(get_command(app)))
    assert {"batch-size", "noise-multiplier", "method"} <= found
    assert found & {each.replace("_", "-") for each in NO_OPTIONS} == set()


def test_code_and_pages_use_the_words_of_the_field() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile"]
    for folder in ("src", "docs", "examples"):
        pages += sorted((ROOT / folder).rglob("*"))
    wrong = []
    for path in pages:
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in (".py", ".md", ".toml", ".css", ""):
            continue
        if path.is_file():
            lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            wrong += [f"{name}:{number}: {line}" for number, line in lines if NO_WORDS.search(line)]
    assert wrong == []
