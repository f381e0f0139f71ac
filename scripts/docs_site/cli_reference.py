"""The reference of the command line, as Markdown, read from the commands themselves.

It is made anew with every build of the site, so that it cannot say anything else than `--help`.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer.main import get_command

from fedner.cli.app import app

OPENING = """# The command line

Every command, argument and option, made from the commands themselves when this site was built
(fedner {version}). `fedner COMMAND --help` says the same in a terminal.
"""
HEAD = "| {kind} | what it is | default |\n|---|---|---|"


def commands(command: Any = None, name: str = "fedner") -> Iterator[tuple[str, Any]]:
    """Yield every command and every group below one, with its whole name, itself first."""
    command = get_command(app) if command is None else command
    yield name, command
    for inner, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield from commands(each, f"{name} {inner}")


def pages(version: str) -> dict[str, str]:
    """Return the pages by path: one that lists all commands, one for each of the first level."""
    root = get_command(app)
    found = {"reference/cli/index.md": _overview(root, version)}
    for name, command in root.commands.items():
        parts = [_section(*each) for each in commands(command, f"fedner {name}")]
        found[page_of(name)] = "\n\n".join(parts) + "\n"
    return found


def page_of(name: str) -> str:
    """Return where the page of a command of the first level is."""
    return f"reference/cli/{name}.md"


def _overview(root: Any, version: str) -> str:
    panels: dict[str, list[str]] = {}
    for name, command in root.commands.items():
        inner = ", ".join(f"`{each}`" for each in getattr(command, "commands", {}))
        said = _cell(_first_line(command)) + (f" ({inner})" if inner else "")
        row = f"| [`fedner {name}`]({name}.md) | {said} |"
        panels.setdefault(str(command.rich_help_panel), []).append(row)
    parts = [OPENING.format(version=version), _table("option of all", root.params, root)]
    for panel, rows in panels.items():
        parts.append("\n".join([f"## {panel}\n", "| command | what it does |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _section(name: str, command: Any) -> str:
    """Return one command: its heading, its usage, its words, its tables."""
    level = "#" * (len(name.split()) - 1)
    arguments = [each for each in command.params if _is_argument(each) and not each.hidden]
    options = [each for each in command.params if not _is_argument(each) and not each.hidden]
    parts = [f"{level} {name}"]
    if hasattr(command, "commands"):
        parts.append(_text(command.help))
        return "\n\n".join(parts)
    words = [_shown(each) for each in arguments]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *words])
    parts += [f"```text\n{usage}\n```", _text(command.help)]
    if arguments:
        parts.append(_table("argument", arguments, command))
    if options:
        parts.append(_table("option", options, command))
    return "\n\n".join(parts)


def _table(kind: str, parameters: list[Any], command: Any) -> str:
    kinds = _kinds(command)
    rows = [
        f"| {_names(each, kinds)} | {_cell(each.help)} | {_default(each)} |" for each in parameters
    ]
    return "\n".join([HEAD.format(kind=kind), *rows])


def _names(parameter: Any, kinds: Mapping[str, str]) -> str:
    if _is_argument(parameter):
        return f"`{_metavar(parameter, kinds)}`"
    names = ", ".join(f"`{each}`" for each in [*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} `{_metavar(parameter, kinds)}`"


def _metavar(parameter: Any, kinds: Mapping[str, str]) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    if _is_argument(parameter):
        return str(parameter.name).upper()
    return kinds.get(parameter.name, "TEXT").replace("|", "\\|")


def _kinds(command: Any) -> dict[str, str]:
    """Return what each option takes, of the function's own annotations: typer's inside moves."""
    hints = get_type_hints(inspect.unwrap(command.callback))
    return {name: _word(hint) for name, hint in hints.items()}


def _word(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(str(each) for each in get_args(hint))
    inner = [each for each in get_args(hint) if each is not type(None)]
    if inner:
        return _word(inner[0])
    return {Path: "PATH", int: "INTEGER", float: "NUMBER"}.get(hint, "TEXT")


def _shown(argument: Any) -> str:
    word = _metavar(argument, {})
    return word if argument.required else f"[{word}]"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if value is None or callable(value) or value in ((), [], "", False):
        return ""
    if isinstance(value, bool):
        return f"`{parameter.opts[0]}`"
    inner = value if isinstance(value, (list, tuple)) else [value]
    return ", ".join(f"`{getattr(each, 'value', each)}`" for each in inner)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _first_line(command: Any) -> str:
    return (command.help or "").strip().split("\n\n")[0]


def _text(words: str | None) -> str:
    """Return what a command says of itself, without rich's marks and form feeds."""
    said = (words or "").split("\f")[0].strip()
    return re.sub(r"\[/?(?:bold|dim|italic|green|red|yellow|cyan)\]", "", said)


def _cell(words: str | None) -> str:
    return _text(words).replace("\n", " ").replace("|", "\\|").replace("<", "&lt;")
