"""`make licences`: docs/licences.md, the licences of all that fedner depends on, by extra.

pip resolves every extra for users from the public index without installing anything; names,
licences and homes are what the distributions say of themselves.
"""

import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripts.packaging.places import DEVELOPMENT, ROOT, extras_for_users, finish, project
from scripts.packaging.pythons import OLDEST, clean_environment, environment, found
from scripts.packaging.sbom import normal

from packaging.requirements import Requirement

PAGE = ROOT / "docs" / "licences.md"
COPYLEFT = re.compile(r"GPL|\bMPL|Mozilla|\bEPL|Eclipse|CDDL|EUPL|Affero|CC-BY-SA")
PROPRIETARY = re.compile(r"NVIDIA|Proprietary", re.I)
_LONGEST = 60
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(.+)")


@dataclass(frozen=True, slots=True)
class Row:
    """One distribution.

    Attributes:
        name: As indexes write it.
        version: What was resolved.
        licence: What it says of its licence, in one line.
        home: Its page.
        extras: What brings it: extras, or "fedner" where everybody has it.
        direct: Whether pyproject.toml names it.
    """

    name: str
    version: str
    licence: str
    home: str
    extras: tuple[str, ...]
    direct: bool

    @property
    def kind(self) -> str:
        """Return "copyleft", "proprietary", "not stated", or nothing for a permissive licence."""
        if self.licence == "not stated":
            return self.licence
        if PROPRIETARY.search(self.licence):
            return "proprietary"
        return "copyleft" if COPYLEFT.search(self.licence) else ""


def licence(metadata: dict[str, Any]) -> str:
    """Return the licence of a distribution: expression, else one line, else classifiers."""
    if expression := metadata.get("license_expression"):
        return expression
    classified = [_CLASSIFIER.fullmatch(each) for each in metadata.get("classifier", [])]
    named = [each.group(1) for each in classified if each]
    line = (metadata.get("license") or "").strip()
    if line and "\n" not in line and len(line) <= _LONGEST and line.upper() != "UNKNOWN":
        return line
    return ", ".join(named) or "not stated"


def home(metadata: dict[str, Any]) -> str:
    """Return the page that a distribution calls its home or its source."""
    told = dict(each.split(", ", 1) for each in metadata.get("project_url", []) if ", " in each)
    urls = {key.lower(): value for key, value in told.items()}
    for key in ("homepage", "home", "source", "source code", "repository", "code", "documentation"):
        if key in urls:
            return urls[key]
    return metadata.get("home_page") or next(iter(told.values()), "")


def reached(
    known: dict[str, dict[str, Any]], name: str, extras: frozenset[str], marks: dict[str, str]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield what a distribution with some extras asks for directly, among those resolved."""
    for line in known[name].get("requires_dist", []):
        wanted = Requirement(line)
        tries = [{**marks, "extra": extra} for extra in ("", *sorted(extras))]
        if wanted.marker is None or any(wanted.marker.evaluate(each) for each in tries):
            target = normal(wanted.name)
            if target in known:
                yield target, frozenset(wanted.extras)


def brought(
    known: dict[str, dict[str, Any]], extras: frozenset[str], marks: dict[str, str]
) -> set[str]:
    """Return everything that fedner with some extras brings, its dependencies' own included."""
    todo, seen = [("fedner", extras)], set()
    while todo:
        step = todo.pop()
        if step not in seen:
            seen.add(step)
            todo += reached(known, *step, marks)
    return {name for name, _ in seen} - {"fedner"}


def rows(report: dict[str, Any], extras: list[str], direct: set[str]) -> list[Row]:
    """Return a row for every distribution that a report of pip resolved."""
    known = {normal(each["metadata"]["name"]): each["metadata"] for each in report["install"]}
    marks = {key: str(value) for key, value in report["environment"].items()}
    always = brought(known, frozenset(), marks)
    by_extra = {extra: brought(known, frozenset({extra}), marks) for extra in extras}
    found_rows = []
    for name in sorted(set(known) - {"fedner"}):
        some = tuple(extra for extra in extras if name in by_extra[extra])
        held, by = known[name], ("fedner",) if name in always else some
        told = (licence(held), home(held))
        found_rows.append(Row(name, held["version"], *told, extras=by, direct=name in direct))
    return found_rows


def direct_dependencies(root: Path = ROOT, names: tuple[str, ...] | None = None) -> set[str]:
    """Return the distributions that pyproject.toml names, of everybody's and of some extras."""
    held = project(root)
    chosen = held["optional-dependencies"]
    lists = [held["dependencies"]] if names is None else []
    lists += [chosen[each] for each in (chosen if names is None else names)]
    return {normal(Requirement(line).name) for each in lists for line in each} - {"fedner"}


def resolve(wanted: list[str], *options: str) -> dict[str, Any]:
    """Return pip's report on what it would install from the public index.

    pip fetches what it reports on: with torch that is gigabytes.
    """
    with TemporaryDirectory(prefix="fedner-licences-") as place:
        python = environment(found([OLDEST])[OLDEST], Path(place) / "environment")
        settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        bare = {**clean_environment(), **settings}
        bare.pop("PIP_FIND_LINKS", None)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip"], env=bare, check=True, capture_output=True)
        out = Path(place) / "report.json"
        command = [*pip, "--dry-run", "--ignore-installed", "--report", str(out), *options, *wanted]
        subprocess.run(command, env=bare, check=True, capture_output=True, text=True, cwd=ROOT)
        return json.loads(out.read_text("utf-8"))


def developers(root: Path = ROOT) -> list[Row]:
    """Return a row for every distribution that the extras for development name themselves."""
    chosen = project(root)["optional-dependencies"]
    lines = {each: [line for line in chosen[each] if line[:7] != "fedner["] for each in DEVELOPMENT}
    wanted = sorted({line for each in lines.values() for line in each})
    found_rows = []
    for each in resolve(wanted, "--no-deps")["install"]:
        held = each["metadata"]
        name = normal(held["name"])
        by = tuple(
            extra
            for extra, named in lines.items()
            if name in {normal(Requirement(line).name) for line in named}
        )
        told = (licence(held), home(held))
        found_rows.append(Row(name, held["version"], *told, extras=by, direct=True))
    return sorted(found_rows, key=lambda row: row.name)


def table(held: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| library | licence | | brought by | version seen |", "|---|---|---|---|---|"]
    for row in held:
        name = f"[{row.name}]({row.home})" if row.home else row.name
        shown = f"**{name}**" if row.direct else name
        kind = f"**{row.kind}**" if row.kind else ""
        by = ", ".join(row.extras)
        lines.append(
            f"| {shown} | {row.licence.replace('|', '/')} | {kind} | {by} | {row.version} |"
        )
    return "\n".join(lines)


_PAGE = """\
# Licences of what fedner depends on

fedner itself is under Apache-2.0. This page lists what it installs: in bold what `pyproject.toml`
names, the rest are their dependencies. "Brought by" is the extra, or *fedner* if always installed.
Licences are those that the distributions state; this is no legal advice. `make licences`
writes this page anew ({when}, Python {python} on Linux x86_64, from the public package index); a
wheelhouse has an SBOM of its exact contents ([install](install.md#the-sbom)).

## Copyleft

{copyleft}

## Proprietary

{proprietary}

## Not stated

{unstated}

## Everything that users install

{everything}

## For development only

Users never install these: `{development}` of `pyproject.toml`. Only direct dependencies.

{developing}
"""


def _listed(held: list[Row], kind: str, nothing: str) -> str:
    chosen = [row for row in held if row.kind == kind]
    lines = [
        f"- `{row.name}`: {row.licence} (brought by {', '.join(row.extras)})" for row in chosen
    ]
    return "\n".join(lines) or nothing


def page(held: list[Row], developing: list[Row], when: datetime.date) -> str:
    """Return the page."""
    copyleft = _listed(held, "copyleft", "Nothing that users install.")
    proprietary = _listed(held, "proprietary", "Nothing that users install.")
    if "nvidia" in proprietary:
        proprietary = (
            "All of these come with the torch of the public index, for Linux, and only with it: "
            "a torch for CPUs\nbrings none of them ([how](install.md#a-torch-for-cpus)).\n\n"
            + proprietary
        )
    return _PAGE.format(
        when=when, python=OLDEST, copyleft=copyleft, proprietary=proprietary,
        unstated=_listed(held, "not stated", "Nothing."), everything=table(held),
        development="`, `".join(DEVELOPMENT), developing=table(developing),
    )  # fmt: skip


def main() -> None:
    """Resolve, and write the page."""
    extras = extras_for_users()
    users = rows(resolve([f".[{','.join(extras)}]"]), extras, direct_dependencies())
    names = {row.name for row in users}
    developing = [row for row in developers() if row.name not in names]
    when = datetime.datetime.now(datetime.UTC).date()
    PAGE.write_text(page(users, developing, when), "utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(users)} for users, {len(developing)} for development")


if __name__ == "__main__":
    sys.exit(finish(main))
