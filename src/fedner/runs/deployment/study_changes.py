"""What differs between two studies, key by key: shown before a platform accepts another one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fedner.settings import Study


@dataclass(frozen=True, slots=True)
class Change:
    """One key of a study that has another value.

    Attributes:
        key: Its path, as people write it: `training.rounds`, `platforms.north.labels`.
        before: Its value as JSON; "nothing" where there was none.
        after: Its new value as JSON; "nothing" where there is none.
    """

    key: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.key}: {self.before} -> {self.after}"


def study_changes(before: Study, after: Study) -> tuple[Change, ...]:
    """Return every key that differs; none only where both have the same digest."""
    old, new = _leaves(json.loads(before.canonical)), _leaves(json.loads(after.canonical))
    keys = sorted({*old, *new})
    return tuple(
        Change(key, _shown(old, key), _shown(new, key))
        for key in keys
        if old.get(key, ...) != new.get(key, ...)
    )


def _leaves(table: dict[str, Any]) -> dict[str, Any]:
    named = {each["name"]: each for each in table["platforms"]}
    order = {"platforms (in order)": list(named)}
    return dict(_walk("", table | {"platforms": named})) | order


def _walk(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict) or not value:
        yield place, value
        return
    for key, inner in value.items():
        yield from _walk(f"{place}.{key}" if place else key, inner)


def _shown(leaves: dict[str, Any], key: str) -> str:
    if key not in leaves:
        return "nothing"
    return json.dumps(leaves[key], ensure_ascii=False)  # whole: nothing hides behind an ellipsis
