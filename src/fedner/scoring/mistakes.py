"""The kinds of mistakes: missed, border, type, spurious. Each gold mention is counted once."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from fedner.corpus.sentence import Entity

MistakeKind = Literal["missed", "border", "type", "spurious"]
MISTAKE_KINDS: tuple[MistakeKind, ...] = get_args(MistakeKind)


class Pairing(NamedTuple):
    """One mention that was not got right.

    Attributes:
        kind: `missed`: nothing found touches the gold mention. `type`: its very tokens were found
            with another type. `border`: something that touches it was found. `spurious`: found
            where no gold mention is left.
        gold: The gold mention; None of a spurious one.
        found: The found mention; None of a missed one.
    """

    kind: MistakeKind
    gold: Entity | None
    found: Entity | None

    @property
    def label(self) -> str:
        """The type that the mistake counts for: that of the gold mention where there is one."""
        held = self.gold or self.found
        return "" if held is None else held.label


def pair_mistakes(gold: Sequence[Entity], found: Sequence[Entity]) -> Iterator[Pairing]:
    """Yield the mistakes of one sentence in the order of the text.

    A gold mention takes, of the wrong ones that touch it, the one in its very place, else one of
    its type, else the first; what is taken is no mistake of its own.
    """
    right = {*gold} & {*found}
    wrong = [each for each in found if each not in right]
    pairings = []
    for mention in gold:
        if mention in right:
            continue
        touching = [each for each in wrong if _touch(each, mention)]
        if not touching:
            pairings.append(Pairing("missed", mention, None))
            continue
        chosen = min(
            touching, key=lambda each: (not _same_place(each, mention), each.label != mention.label)
        )
        wrong.remove(chosen)
        kind: MistakeKind = "type" if _same_place(chosen, mention) else "border"
        pairings.append(Pairing(kind, mention, chosen))
    pairings += [Pairing("spurious", None, each) for each in wrong]
    yield from sorted(
        pairings, key=lambda each: (each.gold or each.found or Entity(0, 0, "")).start
    )


def count_mistakes(
    gold: Sequence[Sequence[Entity]],
    predicted: Sequence[Sequence[Entity]],
    labels: Collection[str],
) -> dict[str, dict[str, int]]:
    """Return how many mistakes of each kind there are, by type; kinds that do not occur are 0.

    Args:
        gold: The gold mentions of each sentence.
        predicted: The found mentions of each sentence.
        labels: The types that count; found mentions of others are left out.
    """
    counts: Counter[tuple[str, MistakeKind]] = Counter()
    for known, found in zip(gold, predicted, strict=True):
        own = [each for each in found if each.label in labels]
        counts.update((each.label, each.kind) for each in pair_mistakes(known, own))
    return {
        label: {kind: counts[label, kind] for kind in MISTAKE_KINDS} for label in sorted(labels)
    }


def by_kind(counts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the counts of each kind over all types."""
    return {kind: sum(each[kind] for each in counts.values()) for kind in MISTAKE_KINDS}


def _touch(one: Entity, other: Entity) -> bool:
    return one.start < other.end and other.start < one.end


def _same_place(one: Entity, other: Entity) -> bool:
    return (one.start, one.end) == (other.start, other.end)
