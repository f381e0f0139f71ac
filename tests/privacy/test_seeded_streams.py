"""Simulations repeat, also in years to come: draws from a seed, as literals.

Another stream is as random, but a study that is run again with its seed would differ.
"""

from fedner.privacy.entropy import SeededSimulation, random_words
from fedner.privacy.sampling import Units, draw_sentences, poisson_sample, slice_of

SOURCE = SeededSimulation(5).at("round", 3)


def test_words_follow_from_seed_and_path() -> None:
    assert random_words(SOURCE, 2, "a").tolist() == [1751653057883862339, 15841768254457168110]
    assert random_words(SOURCE, 2, "b").tolist() == [14244191345642647928, 17138196930068989956]


def test_units_of_a_step() -> None:
    assert poisson_sample(20, 0.3, SOURCE).tolist() == [6, 10, 14, 15, 18]


def test_sentences_of_the_units_of_a_step() -> None:
    units = Units("document", tuple(tuple(range(7 * at, 7 * at + 7)) for at in range(4)))
    draw = draw_sentences(units, 1.0, SOURCE, max_sentences=2)
    assert draw.units_B == (0, 0, 1, 1, 2, 2, 3, 3)
    assert draw.sentences == (2, 5, 9, 11, 15, 19, 24, 25)


def test_slices_of_units() -> None:
    assert [slice_of(f"patient {at}", 3, "3 slices by patient") for at in range(8)] == [
        1,
        0,
        2,
        1,
        1,
        1,
        1,
        0,
    ]
