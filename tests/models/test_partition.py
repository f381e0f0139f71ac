"""A partition is total and disjoint, goes by whole dotted parts, and lets no typo pass."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.models.partition import PRESETS, lies_under, partition

NAMES = (
    "embeddings.characters.embedding.weight",
    "embeddings.characters.convolution.bias",
    "word_cnn.convolutions.0.weight",
    "bilstm.lstm.weight_ih_l0",
    "emissions.weight",
    "emissions.bias",
    "decoder.transitions",
)


def test_the_cut_of_the_paper() -> None:
    split = partition(NAMES, "fedner")
    assert split.shared == tuple(sorted(NAMES[:3]))
    assert split.private == tuple(sorted(NAMES[3:]))


@given(names=st.sets(st.sampled_from(NAMES)), cut=st.sampled_from(sorted(PRESETS)))
def test_total_and_disjoint_or_refused(names: set[str], cut: str) -> None:
    try:
        split = partition(names, cut)
    except FednerError:
        assert not any(lies_under(n, p) for n in names for p in PRESETS[cut])
        return
    assert sorted(split.shared + split.private) == sorted(names)
    assert not set(split.shared) & set(split.private)


def test_cuts_grow() -> None:
    everything = list(PRESETS.values())
    for smaller, larger in pairwise(everything):
        assert all(any(lies_under(prefix, other) for other in larger) for prefix in smaller)


def test_whole_dotted_parts() -> None:
    split = partition(["fc1.weight", "fc10.weight", "fc1"], ["fc1"])
    assert split.shared == ("fc1", "fc1.weight")
    assert split.private == ("fc10.weight",)


def test_own_prefixes_must_all_match() -> None:
    with pytest.raises(FednerError, match="word_ccn") as caught:
        partition(NAMES, ["embeddings", "word_ccn"])
    assert "word_cnn.convolutions.0" in caught.value.hint


def test_a_named_cut_may_lack_a_module_but_not_all() -> None:
    assert partition(["word_cnn.weight", "decoder.start"], "fedner").shared == ("word_cnn.weight",)
    with pytest.raises(FednerError, match=r"embeddings\.words"):
        partition(NAMES, "words")
    assert partition(NAMES, "nothing").shared == ()
    with pytest.raises(FednerError, match="no partition preset 'fednerd'"):
        partition(NAMES, "fednerd")


def test_states_are_cut_alike() -> None:
    state = {name: torch.full((2,), float(i)) for i, name in enumerate(NAMES)}
    split = partition(state, "fedner")
    shared, private = split.shared_state(state), split.private_state(state)
    assert {**shared, **private}.keys() == state.keys()
    assert shared["word_cnn.convolutions.0.weight"] is state["word_cnn.convolutions.0.weight"]
