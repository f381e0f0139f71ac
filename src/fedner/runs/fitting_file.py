"""A federation file that fits data which are there: read first, then written, then read back."""

import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from fedner.corpus import archives
from fedner.corpus.groups import Unit
from fedner.corpus.inspection import Inspection, inspect, inspect_all
from fedner.errors import FednerError
from fedner.runs.checks import checked
from fedner.runs.platform_data import load_platforms
from fedner.settings import SYNTHETIC
from fedner.settings.writing import to_toml

_FIRST_PLATFORM = "[[platforms]]"
_MANY_SENTENCES = 2_000
_FEWEST_GROUPS = 10  # documents or patients that a split can go by
_LEAST_BATCH = 8  # sentences of each platform in a joint batch
# What the example's small model is for few sentences; many get the recipe's own sizes.
_FOR_MANY = {
    r"^(hidden|filters|character_filters|character_dimension|dropout) = ": r"# \1 = ",
    r"^dimension = 48 ": "dimension = 100",
    r"^buckets = 4096 ": "buckets = 16384",
    r"learning_rate = 0\.004": "learning_rate = 0.001",
    r"^epochs = 12 ": "epochs = 15 ",
}


@dataclass(frozen=True, slots=True)
class SeenPlatform:
    """What the data of a platform look like.

    Attributes:
        name: The platform.
        data: How the file names its data.
        format: What they were recognised as; empty for built-in ones.
        sentences: How many there are.
        documents: How many there are.
        patients: How many are named.
        labels: The types that are annotated, the most frequent first.
        by: What a split keeps together.
        test_data: How the file names a test part of its own; None takes a share.
        num_problems: What strict reading would refuse.
        num_undecoded: How many of these are lines that are no UTF-8.
        repeats: Files that hold the same sentences, in words.
    """

    name: str
    data: str
    format: str = ""
    sentences: int = 0
    documents: int = 0
    patients: int = 0
    labels: tuple[str, ...] = ()
    by: Unit = "document"
    test_data: str | None = None
    num_problems: int = 0
    num_undecoded: int = 0
    repeats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FittingFile:
    """A federation file and what it was made from.

    Attributes:
        text: The file, commented.
        platforms: What the data look like.
    """

    text: str
    platforms: tuple[SeenPlatform, ...]


def fitting_file(places: Sequence[tuple[str, str]], folder: Path) -> FittingFile:
    """Return a federation file for data that are there; what it says was tried on them.

    Args:
        places: The name of each platform, and its data: a file, a folder, or "synthetic:NAME".
        folder: Where the file will be; relative paths are relative to it.

    Raises:
        FednerError: Data cannot be read, or make no platform that can be trained.
    """
    _check_places(places)
    seen = tuple(_named(name, place, folder) for name, place in places)
    text = "\n".join([_head(seen), *(_block(each) for each in seen), _MORE])
    load_platforms(checked(tomllib.loads(text), folder, "the new file"))
    return FittingFile(text, seen)


def _check_places(places: Sequence[tuple[str, str]]) -> None:
    """Refuse names and paths that cannot be right, all together, before anything is read."""
    counts = Counter(name for name, _ in places)
    problems = [f"{name} is named {count} times" for name, count in counts.items() if count > 1]
    for name, place in places:
        path = Path(place).expanduser()
        is_data = place.startswith(SYNTHETIC) or archives.place_of(path) is not None
        if not is_data and not path.exists():
            problems.append(f"{name}: {path}: no such file or folder")
    if problems:
        raise FednerError(
            f"--platform: {'; '.join(problems)}",
            "Every platform needs its own name, and data that exist.",
        )


def _named(name: str, place: str, folder: Path) -> SeenPlatform:
    """Look at the data of a platform; an error says whose they are."""
    try:
        return _seen(name, place, folder)
    except FednerError as error:
        own = "--format" in error.hint  # this command has no such option
        hint = f"{error.hint} Convert others with `fedner data convert`." if own else error.hint
        raise FednerError(f"platform {name}: {error.message}", hint) from error


def _seen(name: str, place: str, folder: Path) -> SeenPlatform:
    """Look at the data of a platform."""
    if place.startswith(SYNTHETIC):
        return SeenPlatform(name, place)
    path = Path(place).expanduser()
    if several := inspect_all(path):
        first = next(iter(several))
        raise FednerError(
            f"{path} holds {len(several)} corpora", f"Name one of them, as {first.path}."
        )
    train, test = _parts(path)
    found = inspect(train, num_examples=0)
    if archives.place_of(path) is None:
        _refuse_unreadable(found)
    return SeenPlatform(
        name,
        _spelled(train, place, folder),
        found.recognition.format,
        found.changes.sentences,
        found.total.documents,
        found.num_patients,
        tuple(label for label, _ in found.total.mentions.most_common()),
        _kept_together(found),
        None if test is None else _spelled(test, place, folder),
        found.log.total,
        found.log.counts["not UTF-8"],
        tuple(map(str, found.repeats)),
    )


def _refuse_unreadable(found: Inspection) -> None:
    """Refuse files that may not be read: lenient reading would go on without them."""
    for each in found.log.problems:
        if each.kind == "unreadable file":
            raise FednerError(f"{each.file} cannot be read: {each.found}", each.hint)


def _parts(path: Path) -> tuple[Path, Path | None]:
    """Return what is trained on, and a test file where a folder has one of each by name."""
    if not path.is_dir():
        return path, None
    held = sorted(each for each in path.iterdir() if each.is_file())
    train, test = (
        [each for each in held if word in re.split(r"[^a-z]+", each.name.lower())]
        for word in ("train", "test")
    )
    return (train[0], test[0]) if len(train) == 1 == len(test) else (path, None)


def _spelled(path: Path, typed: str, folder: Path) -> str:
    """Return a path as the file names it: absolute only where the user typed it so."""
    if Path(typed).expanduser().is_absolute():
        return str(path)
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()


def _kept_together(found: Inspection) -> Unit:
    """Return what a split should keep on one side."""
    if not found.total.without_patient and found.num_patients >= _FEWEST_GROUPS:
        return "patient"
    is_grouped = _FEWEST_GROUPS <= found.total.documents < found.changes.sentences
    return "document" if is_grouped else "sentence"


def _head(seen: Sequence[SeenPlatform]) -> str:
    """Return the example's study, at sizes for so many sentences and platforms."""
    example = files("fedner.runs").joinpath("example.toml").read_text(encoding="utf-8")
    text = example.partition(_FIRST_PLATFORM)[0]
    text = text.replace(
        "This file runs as it is: its three\n# platforms are synthetic and built in. Put your own "
        "in their place.",
        "`fedner init --platform` wrote it\n# for the data below; `fedner check` says what they "
        "come to.",
    )
    is_large = sum(each.sentences for each in seen) >= _MANY_SENTENCES
    batch = max(64 if is_large else 32, _LEAST_BATCH * len(seen))
    changes = {r"^batch_size = 32": f"batch_size = {batch}", **(_FOR_MANY if is_large else {})}
    for pattern, new in changes.items():
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    return text


_MORE = """\
# More keys of a platform (label_map, patients, public_size, ledger, policy and others) stand in
# docs/federation.md, and in the example that `fedner init` writes without --platform.
"""


def _block(each: SeenPlatform) -> str:
    """Return the table of a platform."""
    lines = [_FIRST_PLATFORM, *_keys({"name": each.name, "data": each.data})]
    if each.format:
        counts = f"{each.sentences:,} sentences in {each.documents:,} documents"
        lines += [f"{_keys({'format': each.format})[0]}   # {counts}"]
    if each.num_problems:
        lines.append(
            f"lenient = true   # strict reading refuses {each.num_problems:,} places: "
            "fedner data inspect shows them"
        )
    if each.num_undecoded:
        lines.append(
            f'# encoding = "latin-1"   # {each.num_undecoded:,} of them are not UTF-8: name their '
            "encoding, or their letters are lost"
        )
    if each.test_data is not None:
        lines.append(f"split = {{ {_keys({'test_data': each.test_data})[0]} }}")
    else:
        lines.append(f'split = {{ by = "{each.by}", test = 0.2 }}')
    if each.labels:
        declared = _keys({"labels": list(each.labels)})[0]
        lines.append(f"# {declared}   # as found; declared types are known to all")
    return "\n".join([*lines, ""])


def _keys(pairs: Mapping[str, object]) -> list[str]:
    """Return keys and values as lines of TOML."""
    return to_toml(dict(pairs)).strip().splitlines()
