"""Groups of sentences that must stay together, and the ways of sharing groups out.

A group is a tuple of positions in a sequence of sentences: one sentence, one document or one
patient. `splits.py` and `platforms.py` decide who gets how much, and return positions; that a group
never falls on two sides is seen to here.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.seeds import PathPart, seeded

Unit = Literal["sentence", "document", "patient"]
Group = tuple[int, ...]
Indices = tuple[int, ...]
"""Positions in a sequence of sentences, ascending."""


# What to do where a sentence does not say to which document or patient it belongs.
_HINTS: dict[str, str] = {
    "document": "Give every document an id, or take the sentences one by one.",
    "patient": "Say whose text every document is with --patients, --patient-column or "
    "--patient-pattern, or go by document if no patient has more than one.",
}
_MAX_NAMED = 5


def groups_of(sentences: Sequence[Sentence], by: Unit) -> tuple[Group, ...]:
    """Return the groups of `sentences`, in the order in which they first occur.

    Args:
        sentences: The sentences.
        by: What must stay together.

    Raises:
        FednerError: Where a sentence does not say whose it is.
    """
    if by == "sentence":
        return tuple((position,) for position in range(len(sentences)))
    if by not in _HINTS:
        raise FednerError(f"by: found {by!r}; expected sentence, document or patient.")
    members: dict[str, list[int]] = {}
    unknown: list[Sentence] = []
    for position, sentence in enumerate(sentences):
        owner = sentence.document if by == "document" else sentence.patient
        if owner:
            members.setdefault(owner, []).append(position)
        else:
            unknown.append(sentence)
    if unknown:
        raise FednerError(
            f"Grouping by {by}: {len(unknown):,} of {len(sentences):,} sentences have no {by} id"
            f"{_in_documents(unknown)}.",
            _HINTS[by],
        )
    return tuple(map(tuple, members.values()))


@dataclass(frozen=True, slots=True)
class Grouping:
    """Sentences by what must stay together; all that a random split needs to know of them.

    Attributes:
        by: What a group is.
        groups: The positions of each group's sentences, in the order of first occurrence.
    """

    by: Unit
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, sentences: Sequence[Sentence], by: Unit) -> "Grouping":
        """Return the grouping of `sentences`; raises where one does not say whose it is."""
        return cls(by, groups_of(sentences, by))

    @property
    def size(self) -> int:
        """How many sentences there are."""
        return num_sentences(self.groups)

    def shuffled(self, seed: int, *path: PathPart) -> list[Group]:
        """Return the groups in the random order of the stream that `path` names under `seed`."""
        return shuffled(self.groups, seed, *path)


def _in_documents(sentences: Sequence[Sentence]) -> str:
    """Return in words which documents sentences belong to."""
    names = list(dict.fromkeys(each.document for each in sentences if each.document))
    if not names:
        return ""
    noun = "document" if len(names) == 1 else "documents"
    shown = ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
    return f" ({len(names):,} {noun}: {shown})"


def shuffled(groups: Sequence[Group], seed: int, *path: PathPart) -> list[Group]:
    """Return `groups` in the random order of the stream that `path` names under `seed`."""
    order = seeded(seed, *path).permutation(len(groups)).tolist()
    return [groups[position] for position in order]


def num_sentences(groups: Sequence[Group]) -> int:
    """Return how many sentences `groups` hold together."""
    return sum(map(len, groups))


def gather(groups: Sequence[Group]) -> Indices:
    """Return the positions of all sentences of `groups`, ascending."""
    return tuple(sorted(position for group in groups for position in group))


def take(sentences: Sequence[Sentence], indices: Sequence[int]) -> tuple[Sentence, ...]:
    """Return the sentences at `indices`."""
    return tuple(sentences[index] for index in indices)


def apportion(weights: Sequence[float], total: int) -> list[int]:
    """Return whole numbers that add up to `total` and stand to each other as `weights` do.

    Largest remainders are rounded up first; between equal ones, the earlier.

    >>> apportion([1, 1, 1], 10)
    [4, 3, 3]
    """
    weight = sum(weights)
    exact = [total * part / weight for part in weights]
    quotas = [int(part) for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda at: quotas[at] - exact[at])
    for at in by_remainder[: total - sum(quotas)]:
        quotas[at] += 1
    return quotas


def deal(groups: Sequence[Group], quotas: Sequence[float]) -> list[list[Group]]:
    """Hand out `groups` in their order, each to the part that is furthest below its quota.

    With groups of one sentence and whole quotas that add up, every quota is met exactly. With equal
    quotas and the largest groups first this is the classic balancing of loads.
    """
    parts: list[list[Group]] = [[] for _ in quotas]
    heap = [(-quota, at) for at, quota in enumerate(quotas)]
    heapq.heapify(heap)
    for group in groups:
        excess, at = heap[0]
        parts[at].append(group)
        heapq.heapreplace(heap, (excess + len(group), at))
    return parts


def deal_evenly(groups: Sequence[Group], num_parts: int) -> list[list[Group]]:
    """Hand out `groups` so that the parts have as equal a number of sentences as balancing gives.

    Groups of one sentence give sizes that differ by at most one. No part stays empty where there
    are at least as many groups as parts.
    """
    largest_first = sorted(groups, key=len, reverse=True)
    return deal(largest_first, [0] * num_parts)


def nearest_subset(sizes: Sequence[int], target: int) -> list[int]:
    """Return positions of `sizes` whose sum is as near to `target` as that of any choice.

    Neither nothing nor everything is ever chosen. Of choices with the target's very sum, one within
    the shortest possible head of `sizes` is taken, so that the order decides. Between a sum below
    and one as far above, the one below is taken.

    Args:
        sizes: At least two positive numbers.
        target: A number from 1 to the sum of `sizes` less 1.
    """
    # A sum beyond twice the target is further away than any smaller one that is not zero.
    ceiling = min(sum(sizes) - 1, max(2 * target, min(sizes)))
    within = (1 << (ceiling + 1)) - 1
    reachable = 1  # bit s: some choice among the sizes so far has the sum s
    reached_by: dict[int, int] = {}  # the position that first made a sum reachable
    for position, size in enumerate(sizes):
        fresh = (reachable << size) & within & ~reachable
        for reached in _bits_of(fresh):
            reached_by[reached] = position
        reachable |= fresh
        if target in reached_by:
            break
    left = min(reached_by, key=lambda reached: (abs(reached - target), reached))
    chosen = []
    while left:
        chosen.append(reached_by[left])
        left -= sizes[chosen[-1]]
    return chosen[::-1]


def _bits_of(number: int) -> Iterator[int]:
    """Yield the places of the ones in `number`, lowest first."""
    if not number:
        return
    lowest = (number & -number).bit_length() - 1
    digits = bin(number >> lowest)[:1:-1]
    place = digits.find("1")
    while place >= 0:
        yield lowest + place
        place = digits.find("1", place + 1)


def check_share(name: str, share: float, *, whole: bool = False) -> None:
    """Raise unless `share` lies between 0 and 1, both excluded; `whole` admits 1 as well."""
    if not (0 < share < 1 or (whole and share == 1)):
        expected = "above 0 and at most 1" if whole else "between 0 and 1, both excluded"
        raise FednerError(
            f"{name}: found {share}; expected a share {expected}.",
            "Write 20 % as 0.2.",
        )
