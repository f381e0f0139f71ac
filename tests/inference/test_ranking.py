"""What is annotated next: uncertainty for what it costs, diversity, both, and a random choice."""

from collections.abc import Iterable, Sequence

import pytest

from fedner.inference.ranking import CANDIDATES_PER_PLACE, Ranking, ranked, uncertainty_of

# Two kinds of text, the first of them uncertain; three of each kind are alike.
WORDS = ("rash after aspirin", "fever since monday", "slept well", "walks again")
TEXTS = [f"{WORDS[at % 4]} {'abc'[at // 4]}" for at in range(12)]
DOUBTS = [[0.9, 0.8, 0.2, 0.1][at % 4] - 0.01 * (at // 4) for at in range(12)]


def chosen(by: Ranking, count: int, known: Sequence[str] = (), seed: int = 0) -> list[int]:
    asked: list[int] = []

    def texts_of(numbers: Sequence[int]) -> Iterable[str]:
        asked.extend(numbers)
        return (TEXTS[each] for each in numbers)

    found = ranked(by, DOUBTS, texts_of, count, known, seed)
    assert len(set(found)) == len(found) == min(count, len(TEXTS))
    if by in ("uncertainty", "random"):
        assert asked == [], "words do not count"
    if by == "both":
        assert len(asked) == min(CANDIDATES_PER_PLACE * count, len(TEXTS))
    return found


def test_uncertainty_is_for_what_a_text_costs() -> None:
    assert uncertainty_of(6.0, 20) == pytest.approx(0.2)
    assert uncertainty_of(3.0, 20) < uncertainty_of(3.0, 10), "a longer text costs more"
    assert uncertainty_of(0.6, 1) < uncertainty_of(6.0, 20), "opening a short one costs too"
    assert uncertainty_of(0.0, 0) == 0.0
    assert uncertainty_of(-1e-9, 5) == 0.0, "rounding is no certainty above all"


def test_by_uncertainty_alone_texts_may_be_alike() -> None:
    assert chosen("uncertainty", 3) == [0, 4, 8]
    assert chosen("uncertainty", 99)[-1] == 11


def test_by_both_the_uncertain_ones_are_taken_no_two_alike() -> None:
    first, second = chosen("both", 2)
    assert {first % 4, second % 4} == {0, 1}
    assert chosen("both", 12, seed=1) == chosen("both", 12, seed=2), "nothing is drawn"


def test_what_is_like_an_annotated_text_comes_later() -> None:
    (without,) = chosen("both", 1)
    assert without % 4 == 0
    candidates = [0, 4, 8, 1, 5, 9]
    after = chosen("both", 2, known=[TEXTS[each] for each in (0, 4, 8)])
    assert set(after) <= set(candidates)
    assert after[0] % 4 == 1


def test_by_diversity_alone_uncertainty_does_not_count() -> None:
    assert {each % 4 for each in chosen("diversity", 4)} == {0, 1, 2, 3}


def test_a_random_choice_is_named_by_its_seed() -> None:
    assert chosen("random", 5, seed=1) == chosen("random", 5, seed=1)
    assert chosen("random", 5, seed=1) != chosen("random", 5, seed=2)
    assert sorted(chosen("random", 12)) == list(range(12))
