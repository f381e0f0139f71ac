import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import save

from fedner.errors import FednerError
from fedner.federated.messages import (
    Broadcast,
    Update,
    broadcast_from_bytes,
    broadcast_to_bytes,
    payload_bytes,
    update_from_bytes,
    update_to_bytes,
)
from fedner.models.partition import Partition
from fedner.privacy.events import GaussianRelease, to_json
from fedner.tensors import SharedState

FLOATS = arrays.arrays(
    st.sampled_from([np.float32, np.float64]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    elements=st.floats(-1e6, 1e6, width=32),
)
STATES = st.dictionaries(st.text("ab./ü", min_size=1, max_size=5), FLOATS, max_size=4)


def shared(arrays_by_name: dict[str, Any]) -> SharedState:
    tensors = {name: torch.from_numpy(np.array(each)) for name, each in arrays_by_name.items()}
    return Partition(tuple(sorted(tensors)), ()).shared_state(tensors)


def alike(one: SharedState, other: SharedState) -> bool:
    return set(one) == set(other) and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


EVENT = {
    "release": to_json(GaussianRelease(1.5, 0.1, "patient", 1.0, 500)),
    "ledger": {
        "ledger": "ab" * 16,
        "counter": 9,
        "digest": "0a" * 32,
        "previous": "0b" * 32,
        "earlier": "0c" * 32,
    },
}


@given(STATES, STATES, st.none() | st.floats(0, 1e9), st.none() | st.floats(0, 1))
def test_updates_come_back_as_they_went(
    tensors: dict[str, Any], extra: dict[str, Any], loss: float | None, f1: float | None
) -> None:
    scores = None if f1 is None else {"strict_f1": f1}
    sent = Update("p", 3, shared(tensors), shared(extra), loss, scores, EVENT)
    got = update_from_bytes(update_to_bytes(sent))
    assert alike(got.tensors, sent.tensors)
    assert alike(got.extra, sent.extra)
    facts = (got.platform, got.round, got.loss, got.scores, got.event)
    assert facts == ("p", 3, loss, scores, EVENT)


@given(STATES, STATES)
def test_broadcasts_come_back_as_they_went(tensors: dict[str, Any], extra: dict[str, Any]) -> None:
    sent = Broadcast("run", 9, shared(tensors), shared(extra), {"p": 3, "q": 1})
    got = broadcast_from_bytes(broadcast_to_bytes(sent))
    assert alike(got.shared, sent.shared)
    assert alike(got.extra, sent.extra)
    assert (got.run, got.round, got.batches) == ("run", 9, {"p": 3, "q": 1})


def test_payload_counts_tensors() -> None:
    update = Update("p", 1, shared({"a": np.zeros((3, 2), np.float32)}), shared({"b": np.zeros(2)}))
    assert payload_bytes(update) == 24 + 16


FACTS = {
    "form": "update/1",
    "platform": "p",
    "round": 1,
    "loss": 0.5,
    "scores": {"strict_f1": 0.5},
    "event": None,
}


def mark(**changes: object) -> dict[str, Any]:
    return {**EVENT, "ledger": {**EVENT["ledger"], **changes}}


def forged(facts: dict[str, Any], tensors: dict[str, torch.Tensor] | None = None) -> bytes:
    return save(tensors or {}, {"fedner": json.dumps(facts)})


def test_the_forged_message_is_good_before_it_is_spoilt() -> None:
    assert update_from_bytes(forged(FACTS)).loss == 0.5


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda facts: facts.update(text="secret"), "fields"),
        (lambda facts: facts.pop("event"), "fields"),
        (lambda facts: facts.update(form="update/2"), "another form"),
        (lambda facts: facts.update(round="1"), "round '1'"),
        (lambda facts: facts.update(round=True), "round True"),
        (lambda facts: facts.update(loss=float("nan")), "no facts"),
        (lambda facts: facts.update(round=0), "round 0"),
        (lambda facts: facts.update(round=2**40), "round 1099511627776"),
        (lambda facts: facts.update(platform=""), "a platform that is no name"),
        (lambda facts: facts.update(platform="\x1b[2J"), "a platform that is no name"),
        (lambda facts: facts.update(event={"noise": 1.5}), "an unsound event"),
        (lambda facts: facts.update(event={**EVENT, "text": "Jane"}), "an unsound event"),
        (lambda facts: facts.update(event=mark(counter="9")), "an unsound event"),
        (lambda facts: facts.update(event=mark(counter=True)), "an unsound event"),
        (lambda facts: facts.update(event=mark(digest="../etc")), "an unsound event"),
        (lambda facts: facts.update(scores={"Drug": 0.5}), "scores"),
        (lambda facts: facts.update(scores={"strict_f1": "many"}), "scores"),
        (lambda facts: facts.update(event="text"), "event"),
    ],
)
def test_spoilt_facts_are_refused(spoil: Callable[[dict[str, Any]], None], reason: str) -> None:
    facts = dict(FACTS)
    spoil(facts)
    with pytest.raises(FednerError, match=f"message refused: it has {reason}"):
        update_from_bytes(forged(facts))


@pytest.mark.parametrize(
    ("name", "tensor", "reason"),
    [
        ("tensors/a", torch.tensor([1.0, float("inf")]), "not finite"),
        ("extra/a", torch.tensor([float("nan")]), "not finite"),
        ("tensors/a", torch.tensor([1, 2]), "torch.int64"),
        ("tensors/a", torch.tensor([1.0]).half(), "torch.float16"),
        ("private/a", torch.tensor([1.0]), "a tensor 'private/a'"),
        ("tensors/", torch.tensor([1.0]), "a tensor 'tensors/'"),
    ],
)
def test_unsound_tensors_are_refused(name: str, tensor: torch.Tensor, reason: str) -> None:
    with pytest.raises(FednerError, match=reason):
        update_from_bytes(forged(FACTS, {name: tensor}))


def test_unsound_tensors_are_not_even_sent() -> None:
    with pytest.raises(FednerError, match="not finite"):
        update_to_bytes(Update("p", 1, shared({"a": np.array([np.nan])})))


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FednerError, match="message refused"):
        update_from_bytes(data)


@given(st.data())
def test_cut_or_altered_headers_never_raise_anything_else(data: st.DataObject) -> None:
    whole = update_to_bytes(Update("p", 1, shared({"a": np.ones(3, np.float32)})))
    cut = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255))
    altered = whole[:cut] + bytes([byte]) + whole[cut + 1 :]
    for damaged in (whole[:cut], altered):
        try:
            got = update_from_bytes(damaged)
        except FednerError:
            continue
        assert set(got.tensors) | set(got.extra)
