"""A release: version, CHANGELOG and tag agree, or there is none.

    python scripts/release.py check            what CI asks: do they agree here?
    python scripts/release.py prepare 0.2.0    number, dated section, pages; one commit
    python scripts/release.py tag              the annotated tag v0.2.0 on that commit

`prepare` and `tag` refuse a tree with uncommitted changes. Nothing is pushed.
"""

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = Path("src/fedner/version.py")
CHANGELOG = Path("CHANGELOG.md")
WHEEL_NAMED = re.compile(r"fedner-[\w.]+?(?=-py3-none-any\.whl)")
_VERSION_LINE = re.compile(r'^__version__ = "(.+)"$', re.M)
_SECTION = re.compile(r"^## \[([^\]]+)\](?: - (\S+))?\n(.*?)(?=^## \[|\Z)", re.M | re.S)
_NUMBER = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class ReleaseError(Exception):
    """Why there can be no release yet."""


def git(root: Path, *arguments: str) -> str:
    """Return what git says."""
    run = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if run.returncode:
        raise ReleaseError(f"git {' '.join(arguments)}: {run.stderr.strip()}")
    return run.stdout.strip()


def version(root: Path) -> str:
    """Return the version of the sources."""
    found = _VERSION_LINE.search((root / VERSION_FILE).read_text("utf-8"))
    if found is None:
        raise ReleaseError(f'{VERSION_FILE} has no line __version__ = "..."')
    return found.group(1)


def sections(root: Path) -> dict[str, tuple[str, str]]:
    """Return date and text of every section of the CHANGELOG by its name."""
    text = (root / CHANGELOG).read_text("utf-8")
    return {found[1]: (found[2] or "", found[3].strip()) for found in _SECTION.finditer(text)}


def _parts(number: str) -> tuple[int, ...]:
    found = _NUMBER.fullmatch(number)
    if found is None:
        raise ReleaseError(f"{number!r} is no version: three numbers, as 0.2.0")
    return tuple(int(each) for each in found.groups())


def _refuse_changes(root: Path) -> None:
    changed = git(root, "status", "--porcelain")
    if changed:
        raise ReleaseError(f"the tree has uncommitted changes:\n{changed}")


def _refuse_disagreement(root: Path, number: str) -> str:
    """Return the text of a version's section, if sources and CHANGELOG are that version."""
    problems = []
    if version(root) != number:
        problems.append(f"{VERSION_FILE} says {version(root)}")
    date, text = sections(root).get(number, ("", ""))
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        problems.append(f"{CHANGELOG} has no section ## [{number}] - YEAR-MONTH-DAY")
    elif not text:
        problems.append(f"the section of {number} in {CHANGELOG} is empty")
    if problems:
        raise ReleaseError(f"this is not {number}: {'; '.join(problems)}")
    return text


def check(root: Path) -> str:
    """See that what is here agrees: a tagged commit is the version of its tag, through and through.

    Without a tag: the sources are of the newest release, or of the first that is to come.
    """
    tags = [each for each in git(root, "tag", "--points-at", "HEAD").split() if each[:1] == "v"]
    for tag in tags:
        _refuse_disagreement(root, tag[1:])
    if tags:
        return f"{', '.join(tags)}: version, CHANGELOG and tag agree"
    held = sections(root)
    if "Unreleased" not in held:
        raise ReleaseError(f"{CHANGELOG} has no section ## [Unreleased]")
    newest = next((name for name in held if name != "Unreleased"), None)
    if newest not in (None, version(root)):
        raise ReleaseError(
            f"{VERSION_FILE} says {version(root)}; the newest section of {CHANGELOG} is {newest}"
        )
    return f"no tag here; {version(root)} is " + ("released before" if newest else "to come")


def prepare(root: Path, number: str, today: datetime.date) -> str:
    """Write number, section and pages for a release, and commit them."""
    _refuse_changes(root)
    held = sections(root)
    released = [_parts(name) for name in held if name != "Unreleased"]
    if (released and _parts(number) <= max(released)) or _parts(number) < _parts(version(root)):
        raise ReleaseError(f"{number} is not above what there is: {version(root)}")
    if not held.get("Unreleased", ("", ""))[1]:
        raise ReleaseError(f"the section Unreleased of {CHANGELOG} is empty: nothing to release")
    changes = (root / CHANGELOG).read_text("utf-8")
    heading = f"## [Unreleased]\n\n## [{number}] - {today.isoformat()}\n"
    (root / CHANGELOG).write_text(changes.replace("## [Unreleased]\n", heading, 1), "utf-8")
    sources = (root / VERSION_FILE).read_text("utf-8")
    sources = _VERSION_LINE.sub(f'__version__ = "{number}"', sources)
    (root / VERSION_FILE).write_text(sources, "utf-8")
    for path in sorted((root / "docs").glob("*.md")):
        text = path.read_text("utf-8")
        if (named := WHEEL_NAMED.sub(f"fedner-{number}", text)) != text:
            path.write_text(named, "utf-8")
    _refuse_disagreement(root, number)
    git(root, "commit", "--all", "--message", f"chore: release {number}")
    return f"{number} is committed: run the tests, then `python scripts/release.py tag`"


def tag(root: Path) -> str:
    """Tag HEAD with its version; the tag says what the CHANGELOG says."""
    _refuse_changes(root)
    number = version(root)
    text = _refuse_disagreement(root, number)
    name = f"v{number}"
    if name in git(root, "tag", "--list", name).split():
        raise ReleaseError(f"{name} is tagged already: {git(root, 'rev-parse', f'{name}^0')}")
    message = f"fedner {number}\n\n{text}"
    # Lines that begin with # are headings of the CHANGELOG, not comments.
    git(root, "tag", "--annotate", "--cleanup=verbatim", "--message", message, name)
    return f"{name} is tagged here; `git push origin {name}` sends it"


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("prepare").add_argument("version")
    commands.add_parser("tag")
    given = parser.parse_args(arguments)
    try:
        if given.command == "check":
            print(check(root))
        elif given.command == "prepare":
            print(prepare(root, given.version, datetime.datetime.now(datetime.UTC).date()))
        else:
            print(tag(root))
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
