"""From mentions that may be discontinuous and overlap to the flat ones that tags can carry.

A tagger gives every token one tag, so something has to go. What goes is a named policy, and every
change is counted.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fedner.corpus.document import Span
from fedner.errors import FednerError

FlattenPolicy = Literal["longest", "first-fragment", "contiguous"]

FLATTEN_POLICIES: Final[dict[FlattenPolicy, str]] = {
    "longest": (
        "longest-first hull: a discontinuous mention becomes the stretch from its first to its "
        "last character; among overlapping mentions the longest wins"
    ),
    "first-fragment": (
        "first fragment: a discontinuous mention is cut to its first fragment; among overlapping "
        "mentions the longest wins"
    ),
    "contiguous": (
        "contiguous only: discontinuous mentions are dropped; among overlapping mentions the "
        "longest wins"
    ),
}


@dataclass(frozen=True, slots=True)
class Flattening:
    """What flattening did, in mentions; records add up.

    Attributes:
        given: How many mentions went in: those kept and all those dropped.
        kept: How many flat mentions came out, hulls and cut ones among them.
        hulled: How many of those kept were discontinuous and became their hull.
        cut_to_first: How many of those kept were discontinuous and became their first fragment.
        dropped_discontinuous: How many were dropped for being discontinuous.
        dropped_overlapping: How many were dropped for a longer mention in their place.
        dropped_duplicates: How many said the same as another: same fragments, same label.
    """

    given: int = 0
    kept: int = 0
    hulled: int = 0
    cut_to_first: int = 0
    dropped_discontinuous: int = 0
    dropped_overlapping: int = 0
    dropped_duplicates: int = 0

    def __add__(self, other: "Flattening") -> "Flattening":
        return Flattening(
            self.given + other.given,
            self.kept + other.kept,
            self.hulled + other.hulled,
            self.cut_to_first + other.cut_to_first,
            self.dropped_discontinuous + other.dropped_discontinuous,
            self.dropped_overlapping + other.dropped_overlapping,
            self.dropped_duplicates + other.dropped_duplicates,
        )


def flatten(
    spans: Iterable[Span], policy: FlattenPolicy = "longest"
) -> tuple[tuple[Span, ...], Flattening]:
    """Return contiguous mentions in text order, none overlapping another, and what changed.

    Length is counted in characters after a discontinuous mention was reduced; between mentions of
    one length the earlier start wins, then the label that sorts first. The order of `spans` has no
    influence.

    Raises:
        FednerError: If there is no such policy.
    """
    if policy not in FLATTEN_POLICIES:
        known = ", ".join(FLATTEN_POLICIES)
        raise FednerError(
            f'flattening policy: found "{policy}"; expected one of {known}',
            f"Choose one of {known}.",
        )
    given = list(spans)
    distinct = set(given)
    # Contiguous mentions first: where a hull says the same as one of them, the hull is the copy.
    candidates = sorted(distinct, key=lambda span: span.is_discontinuous)
    if policy == "contiguous":
        candidates = [span for span in candidates if not span.is_discontinuous]
    flat = [_reduce(span, policy) for span in candidates]
    winners = longest_first([(span.start, span.end, span.label) for span in flat])
    reduced = sum(candidates[winner].is_discontinuous for winner in winners)
    return tuple(flat[winner] for winner in winners), Flattening(
        given=len(given),
        kept=len(winners),
        hulled=reduced if policy == "longest" else 0,
        cut_to_first=reduced if policy == "first-fragment" else 0,
        dropped_discontinuous=len(distinct) - len(candidates),
        dropped_overlapping=len(candidates) - len(winners),
        dropped_duplicates=len(given) - len(distinct),
    )


def _reduce(span: Span, policy: FlattenPolicy) -> Span:
    """Return a contiguous mention in place of `span`."""
    if not span.is_discontinuous:
        return span
    start, end = span.fragments[0] if policy == "first-fragment" else (span.start, span.end)
    return Span.of(start, end, span.label)


def longest_first(ranges: Sequence[tuple[int, int, str]]) -> list[int]:
    """Return which of the labelled ranges stay, in text order, when the longest are placed first.

    Ties go to the earlier start, then to the label that sorts first, then to the order given.
    """
    order = sorted(
        range(len(ranges)),
        key=lambda index: (
            ranges[index][0] - ranges[index][1],
            ranges[index][0],
            ranges[index][2],
            index,
        ),
    )
    starts: list[int] = []
    placed: list[int] = []
    for index in order:
        start, end, _ = ranges[index]
        at = bisect_left(starts, start)
        if at < len(starts) and starts[at] < end:
            continue
        if at and ranges[placed[at - 1]][1] > start:
            continue
        starts.insert(at, start)
        placed.insert(at, index)
    return placed
