"""Every command in README and docs exists, with its options and arguments; TOML has known keys."""

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pytest
from pages import PAGES, ROOT, Block, blocks, prose
from pydantic import BaseModel
from typer.main import get_command

from fedner.cli.app import app
from fedner.federated.algorithms import ALGORITHMS
from fedner.settings import PlatformSettings, Settings, Study

COMMANDS = get_command(app)
EVERYWHERE = {"--debug", "--help", "-h", "--version"}
PROGRAM = re.compile(r"(?:^|[\s|&(])(?:[\w./-]*/bin/)?fedner (?=[a-z])(.*)")
MODULE = re.compile(r"python[\d.]* -m ((?:fedner|scripts|benchmarks)[\w.]*)")
SCRIPT = re.compile(r"python[\d.]* ((?:docs|tests|benchmarks|scripts)/\S+\.py)")
TARGET = re.compile(r"`make ([a-z-]+)")
# Programs of others that pages call; what they do here is tried by the tests of the pages on
# deployment, or is nothing that fedner can test.
FOREIGN = re.compile(
    r"^(?:ss|sleep|find|openssl|useradd|install|cp|cd|tar|systemctl|systemd-analyze|python3|\S+/pip"
    r"|python3\.11|runuser|curl|docker|export|git|pip|podman|sha256sum|tensorboard|\.venv|cat|make"
    r"|python|fedner)\b"
)
OTHERS_FEDNER = re.compile(
    r"^(?:useradd|install) "
)  # lines in which fedner is a user, not a program
# What programs of others read, or what is printed: nothing that a test could run.
OTHER_LANGUAGES = {"html", "http", "ini", "json", "text", "xml", "yaml"}
# Blocks without a command, by how they begin, and what they are.
OUTPUTS = {
    "version, visible, errors": "the rooms of the house",
    "file → reader → Corpus": "how data walk",
    "Of 1,000 mentions": "what `fedner redaction calibrate` prints",
    "error: federation.toml": "an error, shortened",
    "RUN/": "the folder of a run",
    '{"out": "found.jsonl"': "what `fedner predict --json` prints",
    '{"error": {"kind"': "the form of an error",
    "server {": "a reverse proxy, of nginx",
    "2026-11-18T": "lines of the log of `fedner serve`",
    "<View>": "the labelling setup of Label Studio",
    "policy-mechanism:": "what the Python above it prints: test_docs_snippets.py",
}


def shell_lines(block: Block) -> Iterator[str]:
    """Yield the lines of a block that are commands, continued ones joined, without comments."""
    text = re.sub(r"\\\n\s*", " ", block.text)
    for line in text.splitlines():
        said = line.removeprefix("$ ")
        if said.strip() and not said.lstrip().startswith("#"):
            yield said


SHELL = [each for each in blocks() if each.language in ("", "bash", "console", "sh")]
LINES = [
    pytest.param(match[1], id=f"{block.page}: {match[1][:70]}")
    for block in SHELL
    for line in shell_lines(block)
    if (match := PROGRAM.search(line)) and not OTHERS_FEDNER.match(line)
]


def found_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that words name, and what is left of them."""
    command, left = COMMANDS, list(words)
    while hasattr(command, "commands"):
        assert left, f"no command in {words}"
        assert left[0] in command.commands, f"there is no command {left[0]!r} ({words})"
        command = command.commands[left.pop(0)]
    return command, left


def problem_with(line: str) -> str | None:
    """Return what is wrong with a whole command, as its own parser says it."""
    usage = line.replace("[--", "--").replace("]", "").replace(" | --", " --")
    command, given = found_command(shlex.split(usage.split(" | ")[0], comments=True))
    given = [each for each in given if each not in EVERYWHERE]
    parser = command.make_parser(command.context_class(command))
    try:
        values, extra, _ = parser.parse_args(given)
    except Exception as error:  # noqa: BLE001 - typer's errors have moved between its releases
        return str(error)
    missing = [each.name for each in command.params if each.required and not values.get(each.name)]
    return f"too many: {extra}" if extra else f"missing: {missing}" if missing else None


@pytest.mark.parametrize("line", LINES)
def test_every_command_of_the_pages_parses(line: str) -> None:
    assert problem_with(line) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("data inspect notes/ --lenientt", "lenientt"),
        ("data inspect", "missing"),
        ("train a.toml b.toml", "too many"),
    ],
)
def test_a_wrong_command_is_seen(line: str, said: str) -> None:
    assert said in str(problem_with(line))
    with pytest.raises(AssertionError, match="no command 'inspekt'"):
        problem_with("data inspekt notes/")


def options_of(command: Any) -> Iterator[str]:
    for each in command.params:
        yield from (*each.opts, *each.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_within_sentences_exist(path: Path) -> None:
    said = re.findall(r"`(?:\.venv/bin/)?fedner ([a-z][^`]*)`", prose(path).replace("\n", " "))
    for line in said:
        words = [each.strip("[].,") for each in line.split()]
        command, left = COMMANDS, words
        while hasattr(command, "commands") and left and left[0] in command.commands:
            command, left = command.commands[left[0]], left[1:]
        assert command is not COMMANDS, f"there is no `fedner {line}`"
        is_open = hasattr(command, "commands") and left and re.fullmatch("[a-z]+", left[0])
        assert not is_open, f"there is no `fedner {line}`"
        known = {*options_of(command), *EVERYWHERE}
        asked = {each.split("=")[0] for each in left if re.match(r"--?[a-z]", each)}
        assert asked <= known, f"`fedner {line}` has no {sorted(asked - known)}"


def test_modules_scripts_and_targets_that_pages_name_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for module in MODULE.findall(text):
            assert find_spec(module) is not None, f"{path.name}: {module}"
        for script in SCRIPT.findall(text):
            assert (ROOT / script).is_file(), f"{path.name}: {script}"
        assert set(TARGET.findall(text)) <= targets, path.name


def test_targets_in_blocks_are_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    called = [
        line.split()[1] for each in SHELL for line in shell_lines(each) if line[:5] == "make "
    ]
    assert set(called) <= set(targets)


def test_every_block_is_code_that_is_checked_or_output_with_a_name() -> None:
    used = set()
    for block in blocks():
        if block.language in ("python", "toml"):
            continue  # test_docs_snippets.py, and the test below
        if block.language in OTHER_LANGUAGES:
            continue
        assert block in SHELL, f"{block.name}: nothing checks {block.language}"
        if any(FOREIGN.match(line) for line in shell_lines(block)):
            continue
        [start] = [each for each in OUTPUTS if block.text.startswith(each)] or [None]
        assert start, f"{block.name}: neither a command nor a known output"
        used.add(start)
    assert used == OUTPUTS.keys()


def known_keys() -> set[str]:
    models: list[Any] = [Settings, Study, PlatformSettings]
    for model in models:  # grows as sections are found
        for field in model.model_fields.values():
            held = [field.annotation, *get_args(field.annotation)]
            held += [inner for each in held for inner in get_args(each)]
            inner = [each for each in held if isinstance(each, type)]
            models += [x for x in inner if issubclass(x, BaseModel) and x not in models]
    own = {each.name for row in ALGORITHMS.values() for each in fields(row.settings)}
    local = {"epochs", "steps", "batch_size", "optimizer", "max_grad_norm"}
    return {name for model in models for name in model.model_fields} | own | local


def keys_of(table: dict[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield key
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict) and key not in ("types", "label_map", "options"):
                yield from keys_of(inner)


TOML = [pytest.param(each.text, id=each.name) for each in blocks() if each.language == "toml"]


@pytest.mark.parametrize("text", TOML)
def test_toml_of_the_pages_has_keys_that_there_are(text: str) -> None:
    assert set(keys_of(tomllib.loads(text))) - known_keys() == set()
