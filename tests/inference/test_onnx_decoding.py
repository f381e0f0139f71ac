"""The NumPy decoder and the rules for words, against enumeration and against the originals."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.schemes import allowed_transitions, decode, tag_set
from fedner.inference.onnx_decoding import Steps, best_tags, confidences, doubts
from fedner.inference.onnx_words import CharacterRules, WordRules
from fedner.inference.reading import joins
from fedner.models.embeddings.characters import ALPHABET, MAX_LENGTH, encode_words
from fedner.models.embeddings.words import HashedWords

SCHEMES = ("IO", "BIO", "BIOES")


def chain(tags: tuple[str, ...], scheme: str, rng: np.random.Generator) -> Steps:
    """Return random scores, minus infinity where the scheme forbids the step."""
    allowed = allowed_transitions(tags, scheme)
    num_tags = len(tags)
    parts = [
        np.where(np.array(mask), rng.normal(size=np.shape(mask)) * 2, -np.inf)
        for mask in (allowed.start, allowed.end, allowed.step)
    ]
    assert parts[2].shape == (num_tags, num_tags)
    return Steps(*parts)


def score(steps: Steps, emissions_LK: np.ndarray, path: tuple[int, ...]) -> float:
    total = steps.start_K[path[0]] + steps.end_K[path[-1]]
    total += sum(emissions_LK[token, tag] for token, tag in enumerate(path))
    return total + sum(steps.transitions_KK[one, other] for one, other in pairwise(path))


@given(st.integers(0, 10**6), st.sampled_from(SCHEMES), st.lists(st.integers(1, 4), min_size=1))
@settings(max_examples=40, deadline=None)
def test_best_tags_and_confidences_by_enumeration(seed: int, scheme: str, lengths: list[int]):
    lengths = lengths[:3]
    rng = np.random.default_rng(seed)
    tags = tag_set(("A", "B") if scheme != "BIOES" else ("A",), scheme)
    steps = chain(tags, scheme, rng)
    emissions = (rng.normal(size=(len(lengths), max(lengths), len(tags))) * 2).astype(np.float32)
    lengths_B = np.asarray(lengths)
    found = best_tags(steps, emissions, lengths_B)
    mentions, expected = [], []
    doubted = doubts(steps, emissions, found, lengths_B)
    for row, length in enumerate(lengths):
        paths = list(product(range(len(tags)), repeat=length))
        scores = np.array([score(steps, emissions[row].astype(float), path) for path in paths])
        assert tuple(found[row, :length]) == paths[int(scores.argmax())]
        assert not found[row, length:].any()
        shares = np.exp(scores - scores.max())
        assert doubted[row] == pytest.approx(np.log(shares.sum()), abs=1e-9)
        own = tuple(found[row, :length])
        for entity in decode([tags[tag] for tag in own], scheme):
            mentions.append((row, entity))
            inside = slice(entity.start, entity.end)
            # All readings that hold just this mention in just these tags.
            holds = [
                path[inside] == own[inside]
                and entity in decode([tags[tag] for tag in path], scheme)
                for path in paths
            ]
            expected.append(shares[holds].sum() / shares.sum())
    sure = confidences(steps, emissions, found, lengths_B, mentions, np.array(joins(tags, scheme)))
    assert sure == pytest.approx(expected, abs=1e-9)


def test_many_mentions_are_gone_through_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    tags = tag_set(("A",), "BIO")
    steps, emissions = chain(tags, "BIO", rng), rng.normal(size=(6, 30, 3)).astype(np.float32)
    lengths = np.array([30, 30, 22, 9, 2, 1])
    found, joined = best_tags(steps, emissions, lengths), np.array(joins(tags, "BIO"))
    mentions = [
        (row, entity)
        for row in range(6)
        for entity in decode([tags[tag] for tag in found[row, : lengths[row]]], "BIO")
    ]
    assert len(mentions) > 8
    whole = confidences(steps, emissions, found, lengths, mentions, joined)
    monkeypatch.setattr("fedner.inference.onnx_decoding.CELLS_AT_A_TIME", 200)
    parts = confidences(steps, emissions, found, lengths, mentions, joined)
    assert parts == pytest.approx(whole, abs=1e-12)
    assert confidences(steps, emissions, found, lengths, [], joined) == []


def test_the_lower_tag_wins_among_equals() -> None:
    zeros = Steps(np.zeros(3), np.zeros(3), np.zeros((3, 3)))
    emissions = np.zeros((1, 3, 3), np.float32)
    assert best_tags(zeros, emissions, np.array([3])).tolist() == [[0, 0, 0]]


WORDS = st.lists(st.text(max_size=70) | st.text(alphabet=ALPHABET, max_size=70), max_size=8)


@given(WORDS)
def test_codes_of_characters_are_those_of_training(words: list[str]) -> None:
    expected = encode_words(words)
    found = CharacterRules.of(ALPHABET, MAX_LENGTH).encode(words)
    assert found.shape == (len(words), max(1, expected.shape[1]))
    assert np.array_equal(found[:, : expected.shape[1]], expected)
    assert not found[:, expected.shape[1] :].any()


@given(WORDS, st.sampled_from(["never", "always"]), st.integers(1, 1000))
def test_rows_of_hashed_words_are_those_of_training(
    words: list[str], lowercase: str, buckets: int
) -> None:
    source = HashedWords(buckets, 1, lowercase)
    assert WordRules(lowercase, "hash-bucket", buckets).rows(words).tolist() == (
        source.rows(words).tolist()
    )
