"""Which types a platform's files annotate, which of them train, and what does not fit.

A type that is declared but never found would be trained to an F1 of 0.0 without a word; a type that
is found but neither declared nor mapped would be taught as "O". Both are problems before a run
begins. Leaving a type out on purpose is said in the settings: `label_map = { Finding = "" }`.

Under deployed differential privacy whether a run begins must not depend on protected texts: there
the same problems are warnings on the platform's own screen, and the run begins
(`platform_data.load_platforms`).
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedner.settings import PlatformEntry, SettingProblem, closest, nearest

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class TypeRow:
    """What became of the mentions of one type.

    Attributes:
        type: The platform's own name of it; of a type that is left out, the name in the files.
        sources: The names that it has in the files.
        mentions: How many mentions the files have.
        skipped: How many of them lenient reading could not place.
        left_out: How many of them `labels` or `label_map` leave out.
        flattened: How many of them flattening and token borders left without a place.
        kept: How many train or test the tagger.
    """

    type: str
    sources: tuple[str, ...]
    mentions: int
    skipped: int
    left_out: int
    flattened: int
    kept: int


@dataclass(frozen=True, slots=True)
class AnnotatedTypes:
    """Mentions by type on their way from the files to the tagger; records add up.

    Attributes:
        found: Mentions that were read, by their type in the files; 0 for a type that the files
            name as annotated and never mention.
        skipped: Mentions that lenient reading could not place, by their type in the files.
        kept: Entities that train or test the tagger, by the platform's own types.
        label_map: New names of types; an empty one leaves a type out.
    """

    found: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    label_map: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: "AnnotatedTypes") -> "AnnotatedTypes":
        return AnnotatedTypes(
            {
                name: self.found.get(name, 0) + other.found.get(name, 0)
                for name in (*self.found, *other.found)
            },
            Counter(self.skipped) + Counter(other.skipped),
            Counter(self.kept) + Counter(other.kept),
            {**self.label_map, **other.label_map},
        )

    def renamed(self, name: str) -> str:
        """Return what a type of the files is called on the platform; empty where it is left out."""
        return self.label_map.get(name, name)

    def rows(self, labels: Sequence[str]) -> list[TypeRow]:
        """Return what became of every type: the platform's own first, then those left out."""
        names = sorted({*self.found, *self.skipped})
        rows = []
        for label in labels:
            sources = tuple(name for name in names if self.renamed(name) == label)
            found, skipped = self._counted(sources)
            kept = self.kept.get(label, 0)
            rows.append(
                TypeRow(label, sources, found + skipped, skipped, 0, max(0, found - kept), kept)
            )
        for name in names:
            found, skipped = self._counted((name,))
            if self.renamed(name) not in labels and found + skipped:
                rows.append(TypeRow(name, (name,), found + skipped, skipped, found, 0, 0))
        return rows

    def _counted(self, names: Iterable[str]) -> tuple[int, int]:
        chosen = list(names)
        found = sum(self.found.get(name, 0) for name in chosen)
        return found, sum(self.skipped.get(name, 0) for name in chosen)


def left_out_words(rows: Iterable[TypeRow]) -> str:
    """Return in one line what the tagger never sees of a platform's mentions; empty if nothing."""
    lost: dict[str, list[str]] = {}
    for row in rows:
        causes = {
            "by labels or label_map": row.left_out,
            "by flattening": row.flattened,
            "by lenient reading": row.skipped,
        }
        for cause, count in causes.items():
            lost.setdefault(cause, []).extend([f"{count:,} {row.type}"] if count else [])
    return "; ".join(f"{', '.join(types)} {cause}" for cause, types in lost.items() if types)


@dataclass(frozen=True, slots=True)
class Wording:
    """How the user spells types: as keys of a federation file, or as options of a command.

    Attributes:
        labels: What declares types.
        label_map: What renames them.
        is_options: Whether these are options of a command.
    """

    labels: str = "labels"
    label_map: str = "label_map"
    is_options: bool = False

    def mapping(self, pairs: Mapping[str, str]) -> str:
        """Return how these types are renamed, ready to be copied."""
        if self.is_options:
            return " ".join(f"{self.label_map} {old}={new}" for old, new in pairs.items())
        inner = ", ".join(f"{_key(old)} = {json.dumps(new)}" for old, new in pairs.items())
        return f"{self.label_map} = {{ {inner} }}"


IN_FILE = Wording()
IN_OPTIONS = Wording("--labels", "--label-map", is_options=True)


def label_problems(
    platform: PlatformEntry, types: AnnotatedTypes, wording: Wording = IN_FILE
) -> Iterator[SettingProblem]:
    """Yield every way in which a platform's declared types and its files do not fit.

    Args:
        platform: What the file declares.
        types: What the data have.
        wording: How the user spells it.
    """
    yield from _map_problems(types, wording)
    if platform.labels is None:
        return
    mapped = {types.renamed(name) for name in types.found} - {""}
    absent = [label for label in platform.labels if label not in mapped]
    known = {"", *platform.labels}
    strange = sorted(
        name for name, count in types.found.items() if count and types.renamed(name) not in known
    )
    for label in absent:
        near = closest(label, strange or sorted(types.found))
        yield SettingProblem(
            wording.labels,
            f"{label!r}, which the data do not have",
            f"types of the data ({_listed(sorted(types.found))})",
            _absent_hint(label, near, wording),
        )
        strange = [name for name in strange if name != near]  # said already
    if strange:
        counted = _listed([f"{name} ({types.found[name]:,} mentions)" for name in strange])
        yield SettingProblem(
            wording.labels,
            f"types of the data that are neither declared nor mapped: {counted}",
            f"every type of the data in {wording.labels} or {wording.label_map}",
            f"Add them to {wording.labels}, or leave them out on purpose: "
            f"{wording.mapping(dict.fromkeys(strange, ''))}.",
        )


def _map_problems(types: AnnotatedTypes, wording: Wording) -> Iterator[SettingProblem]:
    known = sorted({*types.found, *types.skipped})
    for old in types.label_map:
        if old not in known:
            yield SettingProblem(
                wording.label_map,
                f"{old!r}, which the data do not have",
                f"types of the data ({_listed(known)})",
                nearest(old, known),
            )


def _absent_hint(label: str, near: str | None, wording: Wording) -> str:
    """Return the nearest type of the data, and how it is given the declared name."""
    if near is None:
        return "Declare only types that the data have."
    renaming = wording.mapping({near: label})
    return f"Did you mean {near!r}? Declare that, or rename it: {renaming}."


def without_mentions(labels: Sequence[str], trained: Mapping[str, int]) -> list[str]:
    """Return the types that no training sentence mentions: no tagger can learn them."""
    return [label for label in labels if not trained.get(label)]


def _key(name: str) -> str:
    """Return a name as a key of TOML."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    shown = ", ".join(names[:MOST_NAMED]) or "none"
    return f"{shown} and {more:,} more" if more > 0 else shown
