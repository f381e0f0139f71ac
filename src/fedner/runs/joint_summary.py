"""The records of several platforms, or of one, as one record: the form that reports read."""

from collections.abc import Mapping
from typing import Any


def joint_facts(sites: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts of all platforms as one record."""
    first = next(iter(sites.values()))
    common = {key: first[key] for key in ("title", "rounds", "shared", "private", "versions")}
    platforms = {name: each["data"] for name, each in sites.items()}
    return {
        **common,
        "synthetic": all(each["synthetic"] for each in platforms.values()),
        "public_sizes": {name: each["public_size"] for name, each in sites.items()},
        "platforms": platforms,
    }


def joint_disclosure(sites: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what every platform disclosed as one record; what all have in common stands once."""
    first = next(iter(sites.values()))
    notes = dict.fromkeys(note for each in sites.values() for note in each["notes"])
    return {
        "platforms": {
            name: {key: value for key, value in each.items() if key not in ("never", "notes")}
            for name, each in sites.items()
        },
        "never": first["never"],
        "notes": list(notes),
    }
