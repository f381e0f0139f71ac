from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.federated.sampling import Cursor, Sampler, slice_indices


@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 4))
def test_an_epoch_shows_every_sentence_once(size: int, batch: int, epochs: int) -> None:
    sampler = Sampler([np.arange(size) * 3], 1, "p")
    steps = -(-size // batch)
    for _ in range(epochs):
        drawn = [sampler.draw(batch) for _ in range(steps)]
        assert sorted(np.concatenate(drawn).tolist()) == [3 * each for each in range(size)]
        assert all(len(each) == batch for each in drawn[:-1])


def test_epochs_and_platforms_have_orders_of_their_own() -> None:
    def orders(platform: str, seed: int) -> list[list[int]]:
        sampler = Sampler([np.arange(30)], seed, platform)
        return [sampler.draw(30).tolist() for _ in range(2)]

    first, second = orders("p", 1)
    assert first != second
    assert orders("p", 1) == [first, second]
    assert orders("q", 1)[0] != first
    assert orders("p", 2)[0] != first


@given(st.integers(1, 30), st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_a_cursor_is_all_that_is_needed_to_go_on(
    size: int, batches: list[int], data: st.DataObject
) -> None:
    stop = data.draw(st.integers(0, len(batches)))
    whole = Sampler([np.arange(size)], 3, "p")
    expected = [whole.draw(batch).tolist() for batch in batches]
    before = Sampler([np.arange(size)], 3, "p")
    drawn = [before.draw(batch).tolist() for batch in batches[:stop]]
    after = Sampler([np.arange(size)], 3, "p", Cursor(**asdict(before.cursor)))
    drawn += [after.draw(batch).tolist() for batch in batches[stop:]]
    assert drawn == expected


def test_slices_are_entered_one_after_the_other() -> None:
    sampler = Sampler([np.array([1, 2]), np.array([5, 6, 7])], 1, "p")
    assert sorted(sampler.draw(2).tolist()) == [1, 2]
    sampler.enter(1)
    assert sampler.size == 3
    assert sorted(sampler.draw(9).tolist()) == [5, 6, 7]
    sampler.enter(1)
    assert sampler.cursor.position == 3


def test_slices_of_the_incremental_schedule_are_disjoint_and_total() -> None:
    sentences = [Sentence.of(["word"] if at % 5 else []) for at in range(40)]
    parts = slice_indices([*sentences, sentences[1]], 0.1, seed=2)
    assert len(parts) == 10
    held = np.concatenate(parts).tolist()
    assert len(set(held)) == len(held)
    assert sorted(held) == [at for at in range(41) if at % 5 or at == 40]


def test_a_platform_without_sentences_is_named() -> None:
    with pytest.raises(FednerError, match="platform 'p' has no sentence"):
        Sampler([np.arange(0)], 1, "p")
