"""Poisson sampling over units: its law, its units, and slices that nobody else can move."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.sampling import (
    Units,
    draw_sentences,
    expected_size,
    poisson_sample,
    sampling_probability,
    slice_of,
    units_of,
)

SOURCES: list[Source] = [SystemEntropy(), SeededSimulation(5)]
Z = 6.0  # exceeded by chance once in 500 million times: the system's entropy has no seed


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("probability", [0.002, 0.3, 0.9])
def test_each_unit_takes_part_with_the_probability(source: Source, probability: float) -> None:
    num_units, num_steps = 20_000, 60
    taken = np.zeros((num_steps, num_units))
    for step in range(num_steps):
        taken[step, poisson_sample(num_units, probability, source.at("step", step))] = 1
    total = num_units * num_steps
    spread = Z * math.sqrt(probability * (1 - probability) / total)
    assert abs(taken.mean() - probability) < spread
    assert abs(taken.mean() - 1.5 * probability) > spread
    # Sizes vary as independent draws do: not at all like shuffled batches of a fixed size.
    sizes = taken.sum(axis=1)
    expected = num_units * probability * (1 - probability)
    assert 0.25 * expected < sizes.var() < 2.6 * expected
    both = (taken[:-1] * taken[1:]).mean()
    assert abs(both - probability**2) < 2 * Z * math.sqrt(probability**2 / total)


@pytest.mark.parametrize("source", SOURCES)
def test_draws_are_sorted_indices_and_may_be_empty(source: Source) -> None:
    drawn = poisson_sample(1_000, 0.5, source)
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    assert poisson_sample(1_000, 1.0, source).tolist() == list(range(1_000))
    assert poisson_sample(50, 1e-18, source).size == 0
    assert poisson_sample(0, 0.5, source).size == 0
    empty = draw_sentences(Units("sentence", ((0,), (1,))), 1e-18, source)
    assert (empty.sentences, empty.units_B, empty.num_units) == ((), (), 0)


def test_the_system_never_repeats_and_a_simulation_does() -> None:
    system = SystemEntropy()
    first, second = (poisson_sample(500, 0.5, system.at("step", 0)).tolist() for _ in range(2))
    assert first != second
    seeded = SeededSimulation(1)
    at_zero = poisson_sample(500, 0.5, seeded.at("step", 0)).tolist()
    assert at_zero == poisson_sample(500, 0.5, seeded.at("step", 0)).tolist()
    assert at_zero != poisson_sample(500, 0.5, seeded.at("step", 1)).tolist()


def test_probability_and_divisor_come_from_public_facts() -> None:
    assert sampling_probability(32, 749) == 32 / 749
    assert sampling_probability(64, 32) == 1
    assert expected_size(sampling_probability(32, 749), 749) == pytest.approx(32)
    for batch, units in ((0, 10), (5, 0)):
        with pytest.raises(FednerError, match="Sampling"):
            sampling_probability(batch, units)
    for probability in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(FednerError, match="probability"):
            poisson_sample(10, probability, SystemEntropy())


def sentences(owners: list[int]) -> list[Sentence]:
    bare = Sentence.of(["a"])
    return [replace(bare, document=f"d{owner}", patient=f"p{owner // 2}") for owner in owners]


@given(st.lists(st.integers(0, 5), max_size=30))
def test_units_hold_every_sentence_once(owners: list[int]) -> None:
    data = sentences(owners)
    for unit, num_units in (
        ("sentence", len(owners)),
        ("document", len(set(owners))),
        ("patient", len({owner // 2 for owner in owners})),
    ):
        units = units_of(data, unit)  # type: ignore[arg-type]  # a tuple forgets the literals
        assert len(units) == num_units
        assert Counter(at for group in units.members for at in group) == Counter(range(len(data)))
    for group in units_of(data, "patient").members:
        assert len({data[at].patient for at in group}) == 1


def test_patients_must_be_known() -> None:
    with pytest.raises(FednerError, match="patient"):
        units_of([Sentence.of(["a"])], "patient")


@given(st.lists(st.integers(0, 5), max_size=30), st.none() | st.integers(1, 4), st.integers(0, 99))
def test_a_unit_takes_part_whole_or_with_m_sentences(
    owners: list[int], most: int | None, seed: int
) -> None:
    units = units_of(sentences(owners), "document")
    draw = draw_sentences(units, 0.6, SeededSimulation(seed), max_sentences=most)
    chosen = poisson_sample(len(units), 0.6, SeededSimulation(seed)).tolist()
    assert draw.num_units == len(chosen)
    assert len(draw.sentences) == len(draw.units_B)
    assert list(draw.units_B) == sorted(draw.units_B)  # a unit's sentences stand together
    for number, unit in enumerate(chosen):
        mine = [at for at, of in zip(draw.sentences, draw.units_B, strict=True) if of == number]
        members = units.members[unit]
        assert set(mine) <= set(members)
        assert len(mine) == len(set(mine)) == min(len(members), most or len(members))


@pytest.mark.parametrize("source", SOURCES)
def test_every_sentence_of_a_unit_is_equally_likely(source: Source) -> None:
    units = Units("patient", (tuple(range(5)),))
    counts: Counter[int] = Counter()
    for step in range(2_000):
        counts.update(draw_sentences(units, 1.0, source.at("s", step), max_sentences=2).sentences)
    assert all(abs(counts[at] - 800) < Z * math.sqrt(2_000 * 0.4 * 0.6) for at in range(5))


def test_at_least_one_sentence_of_a_unit() -> None:
    with pytest.raises(FednerError, match="at least 1"):
        draw_sentences(Units("patient", ((0,),)), 1.0, SystemEntropy(), max_sentences=0)


def test_slices_depend_on_the_unit_alone() -> None:
    keys = [f"patient {at}" for at in range(20_000)]
    sizes = Counter(slice_of(key, 10, "tenths") for key in keys)
    assert sorted(sizes) == list(range(10))
    assert all(abs(size - 2_000) < Z * math.sqrt(20_000 * 0.09) for size in sizes.values())
    assert [slice_of(key, 10, "x") for key in keys] != [slice_of(key, 10, "y") for key in keys]
    assert slice_of("a", 10, "tenths") == 5  # for good: a change would break running studies
    with pytest.raises(FednerError, match="slices"):
        slice_of("a", 0, "tenths")
