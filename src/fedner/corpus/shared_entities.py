"""Entity strings that platforms have in common, and masking them in the training data.

Simulation only: both compare the texts of several platforms in one place, which a federation must
never do. They serve the FedNER paper's count of overlapping entities (341 between its three
corpora: strings that occur on at least two of them) and its Fig. 5, where a growing share of those
is masked to see how much of the gain comes from entities that another platform knows too. The
paper does not say how it masks; the ways offered here are our readings.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, NamedTuple

from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.splits import normalised
from fedner.errors import FednerError
from fedner.seeds import seeded

UNKNOWN_WORD = "<unk>"
NUM_EXAMPLES = 10

Comparison = Literal["string", "string and label"]
Masking = Literal["unknown word", "remove label", "drop sentence"]


class EntityString(NamedTuple):
    """What mentions are compared by.

    Attributes:
        text: The words of the mention in lower case, joined by a blank.
        label: The entity type, or an empty string where only the words are compared.
    """

    text: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class PlatformStrings:
    """The entity strings of one platform.

    Attributes:
        platform: Its name.
        strings: Distinct strings.
        mentions: Mentions.
        shared_strings: Distinct strings that another platform has too.
        shared_mentions: Mentions of those.
    """

    platform: str
    strings: int
    mentions: int
    shared_strings: int
    shared_mentions: int


@dataclass(frozen=True, slots=True)
class PairOverlap:
    """What two platforms have in common.

    Attributes:
        platforms: Their names.
        strings: Distinct strings that both have.
        mentions: Mentions of those on the one and on the other.
    """

    platforms: tuple[str, str]
    strings: int
    mentions: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Overlap:
    """What platforms have in common; `dataclasses.asdict` makes it JSON.

    Attributes:
        strings: Distinct strings that at least two platforms have.
        mentions: Mentions of those, on all platforms together.
        everywhere: Distinct strings that all platforms have.
        platforms: The platforms one by one, in the given order.
        pairs: The platforms two by two.
        examples: The strings in common with the most mentions.
    """

    strings: int
    mentions: int
    everywhere: int
    platforms: tuple[PlatformStrings, ...]
    pairs: tuple[PairOverlap, ...]
    examples: tuple[EntityString, ...]


@dataclass(frozen=True, slots=True)
class MaskCounts:
    """What masking did to one platform's training data.

    Attributes:
        mentions: Mentions that were masked, or that lost their label or sentence.
        tokens: Tokens of those mentions.
        sentences: Sentences that were changed or dropped.
    """

    mentions: int
    tokens: int
    sentences: int


@dataclass(frozen=True, slots=True)
class Masked:
    """Training data with strings in common masked.

    Attributes:
        platforms: The new training sentences by platform.
        counts: What was masked by platform.
        strings: The strings that were masked, sorted.
        num_shared: How many strings there were to choose from.
    """

    platforms: Mapping[str, tuple[Sentence, ...]]
    counts: Mapping[str, MaskCounts]
    strings: tuple[EntityString, ...]
    num_shared: int


def entity_strings(
    sentences: Sequence[Sentence], compare: Comparison = "string"
) -> dict[EntityString, int]:
    """Return the distinct entity strings of `sentences`, sorted, with their number of mentions."""
    _check_comparison(compare)
    counts = Counter(
        _string_of(sentence, entity, compare)
        for sentence in sentences
        for entity in sentence.entities
    )
    return dict(sorted(counts.items()))


def shared_strings(
    platforms: Mapping[str, Sequence[Sentence]], compare: Comparison = "string"
) -> tuple[EntityString, ...]:
    """Return the entity strings that occur on at least two platforms, sorted."""
    _check_platforms(platforms)
    return _on_several([entity_strings(sentences, compare) for sentences in platforms.values()], 2)


def overlap(
    platforms: Mapping[str, Sequence[Sentence]],
    compare: Comparison = "string",
    *,
    num_examples: int = NUM_EXAMPLES,
) -> Overlap:
    """Count the entity strings that platforms have in common, for each pair and for all.

    Args:
        platforms: The sentences of at least two platforms, by name.
        compare: Whether the label of a mention must agree too.
        num_examples: How many of the strings to show.
    """
    _check_platforms(platforms)
    strings = {name: entity_strings(sentences, compare) for name, sentences in platforms.items()}
    shared = _on_several(list(strings.values()), 2)
    mentions = {string: sum(own.get(string, 0) for own in strings.values()) for string in shared}
    return Overlap(
        strings=len(shared),
        mentions=sum(mentions.values()),
        everywhere=len(_on_several(list(strings.values()), len(strings))),
        platforms=tuple(_one(name, own, shared) for name, own in strings.items()),
        pairs=tuple(_pair(a, b, strings[a], strings[b]) for a, b in combinations(strings, 2)),
        examples=tuple(sorted(shared, key=lambda string: -mentions[string])[:num_examples]),
    )


def mask_shared(
    platforms: Mapping[str, Sequence[Sentence]],
    share: float,
    seed: int,
    how: Masking,
    *,
    compare: Comparison = "string",
    shared: Sequence[EntityString] | None = None,
) -> Masked:
    """Mask a share of the strings in common in the training data of every platform.

    Simulation only: it compares the texts of all platforms. Give it training sentences alone; the
    test data stay as they are. With one seed, what is masked at a smaller share is masked at every
    larger one too. Only annotated mentions are masked: the same words without a label stay.

    Args:
        platforms: The training sentences of at least two platforms, by name.
        share: How many of the strings to mask, from 0 to 1.
        seed: Where the randomness comes from.
        how: "unknown word": the tokens of the mention become `UNKNOWN_WORD`, its label and the
            offsets stay. "remove label": the words stay, the label goes. "drop sentence": the
            sentence goes.
        compare: Whether the label of a mention must agree too.
        shared: The strings in common, where they were counted on other data than the training
            sentences (the whole corpora, say); by default `shared_strings(platforms, compare)`.

    Returns:
        New sentences and counts; the input is not changed.
    """
    _check_masking(share, how)
    _check_platforms(platforms)
    _check_comparison(compare)
    known = shared_strings(platforms, compare) if shared is None else tuple(sorted(set(shared)))
    order = seeded(seed, "mask shared entities").permutation(len(known)).tolist()
    chosen = frozenset(known[at] for at in order[: round(share * len(known))])
    results = {
        name: _mask_platform(sentences, chosen, how, compare)
        for name, sentences in platforms.items()
    }
    return Masked(
        platforms={name: sentences for name, (sentences, _) in results.items()},
        counts={name: counts for name, (_, counts) in results.items()},
        strings=tuple(sorted(chosen)),
        num_shared=len(known),
    )


def _check_masking(share: float, how: Masking) -> None:
    if not 0 <= share <= 1:
        raise FednerError(
            f"Share of the strings to mask: found {share}; expected from 0 to 1.",
            "Write 20 % as 0.2.",
        )
    if how not in ("unknown word", "remove label", "drop sentence"):
        raise FednerError(
            f"Way of masking: found {how!r}; expected unknown word, remove label or drop sentence."
        )


def _mask_platform(
    sentences: Sequence[Sentence],
    chosen: frozenset[EntityString],
    how: Masking,
    compare: Comparison,
) -> tuple[tuple[Sentence, ...], MaskCounts]:
    kept: list[Sentence] = []
    num_mentions = num_tokens = num_changed = 0
    for sentence in sentences:
        hit = [
            entity
            for entity in sentence.entities
            if _string_of(sentence, entity, compare) in chosen
        ]
        num_mentions += len(hit)
        num_tokens += sum(entity.end - entity.start for entity in hit)
        num_changed += bool(hit)
        if not hit:
            kept.append(sentence)
        elif how == "unknown word":
            kept.append(_without_words(sentence, hit))
        elif how == "remove label":
            left = tuple(entity for entity in sentence.entities if entity not in hit)
            kept.append(replace(sentence, entities=left))
    return tuple(kept), MaskCounts(num_mentions, num_tokens, num_changed)


def _without_words(sentence: Sentence, mentions: Sequence[Entity]) -> Sentence:
    tokens = list(sentence.tokens)
    for entity in mentions:
        tokens[entity.start : entity.end] = [UNKNOWN_WORD] * (entity.end - entity.start)
    return replace(sentence, tokens=tuple(tokens))


def _string_of(sentence: Sentence, entity: Entity, compare: Comparison) -> EntityString:
    text = normalised(sentence.tokens[entity.start : entity.end])
    return EntityString(text, entity.label if compare == "string and label" else "")


def _on_several(
    strings: Sequence[Mapping[EntityString, int]], at_least: int
) -> tuple[EntityString, ...]:
    platforms_with = Counter(string for own in strings for string in own)
    return tuple(sorted(string for string, num in platforms_with.items() if num >= at_least))


def _one(
    name: str, own: Mapping[EntityString, int], shared: Sequence[EntityString]
) -> PlatformStrings:
    in_common = [own[string] for string in shared if string in own]
    return PlatformStrings(name, len(own), sum(own.values()), len(in_common), sum(in_common))


def _pair(
    first: str,
    second: str,
    of_first: Mapping[EntityString, int],
    of_second: Mapping[EntityString, int],
) -> PairOverlap:
    both = [string for string in of_first if string in of_second]
    mentions = sum(of_first[string] for string in both), sum(of_second[string] for string in both)
    return PairOverlap((first, second), len(both), mentions)


def _check_platforms(platforms: Mapping[str, Sequence[Sentence]]) -> None:
    if len(platforms) < 2:
        raise FednerError(
            f"Entities in common: found {len(platforms)} platform(s); expected at least 2.",
            "Name two or more corpora.",
        )


def _check_comparison(compare: Comparison) -> None:
    if compare not in ("string", "string and label"):
        raise FednerError(
            f"Comparison of entities: found {compare!r}; expected string or string and label."
        )
