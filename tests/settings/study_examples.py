"""A small study and the settings of its platforms, for tests."""

from typing import Any

from fedner.settings import PlatformSettings, Study, parse_as

STUDY: dict[str, Any] = {
    "training": {"rounds": 3},
    "platforms": [
        {"name": "clinic", "public_size": 400, "labels": ["ADE"]},
        {"name": "ward", "public_size": 250},
    ],
}


def study(**changes: Any) -> Study:
    return parse_as(Study, STUDY | changes, "study.toml")


def own(name: str = "clinic", **changes: Any) -> PlatformSettings:
    return parse_as(PlatformSettings, {"name": name, "data": "notes", **changes}, "platform.toml")
