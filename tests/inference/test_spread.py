"""Which texts stand for many others: vectors of words, the greedy choice against a plain one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.inference.spread import DIMENSION, nearest, spread, text_vectors

TEXTS = (
    "Rash after aspirin 20 mg.",
    "rash after ASPIRIN 30 mg",
    "The patient slept well all night.",
    "Fever and chills on the ward.",
    "...",
)


def test_vectors_have_length_one_and_know_words_alone() -> None:
    vectors = text_vectors(TEXTS)
    assert vectors.shape == (5, DIMENSION)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1, 1, 1, 1, 0])
    similar = vectors @ vectors.T
    assert similar[0, 1] == pytest.approx(1.0), "case, marks and the value of numbers do not count"
    assert abs(similar[0, 2]) < 0.2
    assert 0.05 < similar[2, 3] < 0.9, "they share a word"


def test_rare_words_tell_more_than_frequent_ones() -> None:
    texts = ["the cough", "the nausea", "the the cough", "the night", "the ward", "the day"]
    similar = text_vectors(texts) @ text_vectors(texts).T
    assert similar[0, 2] > 0.9
    assert similar[0, 1] < 0.4


def test_a_word_that_comes_again_counts_less_each_time() -> None:
    vectors = text_vectors(["rash", "rash fever", "rash rash rash rash rash rash fever"])
    assert vectors[1] @ vectors[2] > 0.85


def plain(similar: np.ndarray, count: int, covered: np.ndarray, weights: np.ndarray) -> list[int]:
    """Choose greedily without any shortcut."""
    taken: list[int] = []
    for _ in range(min(count, len(similar))):
        gains = [
            -1.0 if text in taken else np.maximum(similar[text] - covered, 0) @ weights
            for text in range(len(similar))
        ]
        best = int(np.argmax(gains))
        taken.append(best)
        covered = np.maximum(covered, similar[best])
    return taken


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_the_lazy_choice_is_the_greedy_one(seed: int, num_texts: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(num_texts, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    covered = rng.uniform(0, 0.5, num_texts).astype(np.float32)
    weights = rng.uniform(0.1, 1, num_texts)
    before = vectors.copy(), covered.copy()
    similar = np.maximum(vectors @ vectors.T, 0)
    assert spread(vectors, count, covered, weights) == plain(similar, count, covered, weights)
    assert (vectors == before[0]).all()
    assert (covered == before[1]).all()


def test_a_copy_of_what_was_taken_or_is_known_comes_last() -> None:
    vectors = text_vectors([*TEXTS[:4], "rash after aspirin 1 mg"])
    taken = spread(vectors, 5)
    assert taken[0] == 0, "it stands for three"
    assert set(taken[1:3]) == {2, 3}
    known = nearest(vectors, text_vectors([*TEXTS[:4], "x"])[:1])
    assert known[[0, 1, 4]].tolist() == pytest.approx([1, 1, 1], abs=1e-3)
    assert set(spread(vectors, 2, known)) == {2, 3}


def test_what_weighs_more_is_represented_first() -> None:
    vectors = text_vectors(["cough", "fever", "rash"])
    assert spread(vectors, 3, weights_N=np.array([0.1, 0.5, 0.3])) == [1, 2, 0]
    assert spread(vectors, 3) == [0, 1, 2], "of equals the first"


def test_nobody_is_near_where_nothing_is_known() -> None:
    vectors = text_vectors(["cough", "fever"])
    assert nearest(vectors, text_vectors([])).tolist() == [0.0, 0.0]
    assert spread(text_vectors([]), 3) == []
