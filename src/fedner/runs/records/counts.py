"""counts.json: the counts of every unit, so that runs are compared without their data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedner.corpus.groups import Unit
from fedner.runs.records.border import as_json


@dataclass(frozen=True, slots=True)
class MethodCounts:
    """The counts of a method, unit by unit.

    Attributes:
        strict: Right, wrongly predicted and missed mentions.
        relaxed: Predicted, predicted and touching, gold, gold and touched mentions.
    """

    strict: tuple[tuple[int, int, int], ...]
    relaxed: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """The counts of a platform's test part.

    Attributes:
        unit: What a unit is.
        test_digest: Names the test part: texts and gold mentions.
        methods: The counts by method.
    """

    unit: Unit
    test_digest: str
    methods: Mapping[str, MethodCounts]

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return as_json(self)
