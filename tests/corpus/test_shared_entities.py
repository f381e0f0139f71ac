"""Entity strings in common: counts against a slow version, and masking that is nested."""

import copy
import itertools
import json
from collections import Counter
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.shared_entities import (
    UNKNOWN_WORD,
    EntityString,
    entity_strings,
    mask_shared,
    overlap,
    shared_strings,
)
from fedner.errors import FednerError

SEEDS = st.integers(0, 2**32)
HOWS = st.sampled_from(["unknown word", "remove label", "drop sentence"])
COMPARISONS = st.sampled_from(["string", "string and label"])


@st.composite
def sentences(draw):
    """A sentence of few words, so that strings recur, with flat entities."""
    tokens = draw(st.lists(st.sampled_from(["a", "A", "b", "c", "D", "d"]), min_size=1, max_size=6))
    entities, at = [], 0
    while at < len(tokens):
        end = draw(st.integers(at + 1, min(at + 2, len(tokens))))
        if draw(st.booleans()):
            entities.append(Entity(at, end, draw(st.sampled_from(["ADE", "Drug"]))))
        at = end
    return Sentence.of(tokens, tuple(entities))


PLATFORMS = st.lists(st.lists(sentences(), max_size=5).map(tuple), min_size=2, max_size=4).map(
    lambda parts: {f"platform {at}": part for at, part in enumerate(parts)}
)


def slow_keys(sentence, compare):
    """The obvious way to what a sentence mentions."""
    found = []
    for start, end, label in sentence.entities:
        text = " ".join(token.lower() for token in sentence.tokens[start:end])
        found.append((text, label if compare == "string and label" else ""))
    return found


@given(PLATFORMS, COMPARISONS)
def test_overlap_agrees_with_counting_the_obvious_way(platforms, compare):
    bags = {
        name: [key for sentence in part for key in slow_keys(sentence, compare)]
        for name, part in platforms.items()
    }
    every = {key for bag in bags.values() for key in bag}
    shared = {key for key in every if sum(key in bag for bag in bags.values()) >= 2}
    found = overlap(platforms, compare)
    assert set(shared_strings(platforms, compare)) == shared
    assert found.strings == len(shared)
    assert found.mentions == sum(key in shared for bag in bags.values() for key in bag)
    assert found.everywhere == sum(all(key in bag for bag in bags.values()) for key in every)
    for one in found.platforms:
        bag = bags[one.platform]
        assert (one.strings, one.mentions) == (len(set(bag)), len(bag))
        assert one.shared_strings == len(set(bag) & shared)
        assert one.shared_mentions == sum(key in shared for key in bag)
    assert len(found.pairs) == len(platforms) * (len(platforms) - 1) // 2
    for pair in found.pairs:
        first, second = (bags[name] for name in pair.platforms)
        common = set(first) & set(second)
        assert pair.strings == len(common)
        assert pair.mentions == (sum(k in common for k in first), sum(k in common for k in second))
    assert json.loads(json.dumps(asdict(found)))["strings"] == len(shared)


def test_strings_are_lower_cased_joined_by_blanks_sorted_and_counted():
    found = entity_strings(
        [
            Sentence.of(["Severe", "PAIN", "aspirin"], (Entity(0, 2, "ADE"), Entity(2, 3, "Drug"))),
            Sentence.of(["severe", "pain"], (Entity(0, 2, "Symptom"),)),
        ]
    )
    assert list(found.items()) == [(EntityString("aspirin"), 1), (EntityString("severe pain"), 2)]


def test_with_labels_the_same_words_under_two_labels_are_two_strings():
    platforms = {
        "a": [Sentence.of(["pain"], (Entity(0, 1, "ADE"),))],
        "b": [Sentence.of(["Pain"], (Entity(0, 1, "Symptom"),))],
    }
    assert overlap(platforms).strings == 1
    assert overlap(platforms, "string and label").strings == 0


def test_a_string_on_two_of_three_platforms_is_shared_but_not_everywhere():
    def of(*words):
        return [Sentence.of([word], (Entity(0, 1, "Drug"),)) for word in words]

    found = overlap({"a": of("x", "y", "x"), "b": of("x", "z"), "c": of("z", "x", "w")})
    assert (found.strings, found.everywhere, found.mentions) == (2, 1, 6)
    assert found.examples == (EntityString("x"), EntityString("z"))
    assert [pair.strings for pair in found.pairs] == [1, 1, 2]


@given(PLATFORMS, st.floats(0, 1), SEEDS, HOWS, COMPARISONS)
def test_masking_does_what_it_says_and_nothing_else(platforms, share, seed, how, compare):
    before = copy.deepcopy(platforms)
    masked = mask_shared(platforms, share, seed, how, compare=compare)
    assert platforms == before
    shared = shared_strings(platforms, compare)
    assert masked.num_shared == len(shared)
    assert set(masked.strings) <= set(shared)
    assert len(masked.strings) == round(share * len(shared))
    chosen = set(masked.strings)
    for name, part in platforms.items():
        expected, counts = [], Counter()
        for sentence in part:
            hit = [
                entity
                for entity, key in zip(sentence.entities, slow_keys(sentence, compare), strict=True)
                if key in chosen
            ]
            counts.update(mentions=len(hit), sentences=bool(hit))
            counts.update(tokens=sum(end - start for start, end, _ in hit))
            inside = {at for start, end, _ in hit for at in range(start, end)}
            if how == "unknown word":
                words = [
                    UNKNOWN_WORD if at in inside else w for at, w in enumerate(sentence.tokens)
                ]
                expected.append(replace(sentence, tokens=tuple(words)))
            elif how == "remove label":
                left = tuple(e for e in sentence.entities if e not in hit)
                expected.append(replace(sentence, entities=left))
            elif not hit:
                expected.append(sentence)
        assert masked.platforms[name] == tuple(expected)
        assert asdict(masked.counts[name]) == {
            "mentions": counts["mentions"],
            "tokens": counts["tokens"],
            "sentences": counts["sentences"],
        }
    assert masked == mask_shared(platforms, share, seed, how, compare=compare)


@given(PLATFORMS, st.lists(st.floats(0, 1), min_size=2, max_size=4), SEEDS, HOWS)
def test_what_is_masked_at_a_smaller_share_is_masked_at_a_larger_one(platforms, shares, seed, how):
    runs = [mask_shared(platforms, share, seed, how) for share in sorted(shares)]
    for fewer, more in itertools.pairwise(runs):
        assert set(fewer.strings) <= set(more.strings)
        for name in platforms:
            assert fewer.counts[name].mentions <= more.counts[name].mentions


@given(PLATFORMS, SEEDS, HOWS)
def test_nothing_masked_changes_nothing_and_all_masked_leaves_nothing_in_common(
    platforms, seed, how
):
    none = mask_shared(platforms, 0, seed, how)
    assert none.platforms == platforms
    assert not none.strings
    left = mask_shared(platforms, 1, seed, how)
    after = {string.text for string in shared_strings(left.platforms)}
    assert all(UNKNOWN_WORD in text for text in after)
    assert how == "unknown word" or not after


def test_which_strings_are_masked_depends_on_the_seed_not_on_the_way():
    part = [Sentence.of([f"drug{at}"], (Entity(0, 1, "Drug"),)) for at in range(40)]
    platforms = {"a": part, "b": part}
    first = mask_shared(platforms, 0.5, 1, "unknown word").strings
    assert first == mask_shared(platforms, 0.5, 1, "drop sentence").strings
    assert first != mask_shared(platforms, 0.5, 2, "unknown word").strings
    assert len(first) == 20


def test_strings_counted_elsewhere_can_be_given():
    only_here = Sentence.of(["Rare", "drug"], (Entity(0, 2, "Drug"),))
    platforms = {"a": [only_here], "b": []}
    masked = mask_shared(platforms, 1, 0, "unknown word", shared=[EntityString("rare drug")])
    (sentence,) = masked.platforms["a"]
    assert sentence.tokens == (UNKNOWN_WORD, UNKNOWN_WORD)
    assert (sentence.entities, sentence.starts) == (only_here.entities, only_here.starts)
    assert mask_shared(platforms, 1, 0, "unknown word").platforms["a"] == (only_here,)


def test_words_without_a_label_stay():
    mention = Sentence.of(["aspirin", "helps"], (Entity(0, 1, "Drug"),))
    bare = Sentence.of(["aspirin", "helps"])
    masked = mask_shared({"a": [mention, bare], "b": [mention]}, 1, 0, "unknown word")
    assert [s.tokens[0] for s in masked.platforms["a"]] == [UNKNOWN_WORD, "aspirin"]


def test_misuse_is_refused_with_what_was_found():
    platforms = {"a": [], "b": []}
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(FednerError, match=r"found .*; expected from 0 to 1"):
            mask_shared(platforms, share, 0, "unknown word")
    with pytest.raises(FednerError, match="found 'hide'"):
        mask_shared(platforms, 0.5, 0, "hide")
    with pytest.raises(FednerError, match="found 'label'"):
        overlap(platforms, "label")
    with pytest.raises(FednerError, match=r"found 1 platform\(s\); expected at least 2"):
        overlap({"a": []})
    with pytest.raises(FednerError, match=r"found 0 platform\(s\)"):
        mask_shared({}, 0.5, 0, "unknown word")
