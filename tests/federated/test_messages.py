import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import load as load_safetensors
from safetensors.torch import save

from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.federated.message_bytes import (
    order_from_bytes,
    reply_from_bytes,
    to_bytes,
    update_from_bytes,
)
from fedner.federated.messages import (
    METHODS,
    Failure,
    Method,
    Order,
    Reply,
    ScoreReport,
    SumMessage,
    Update,
    payload_bytes,
)
from fedner.federated.score_bytes import scores_to_json
from fedner.models.partition import Partition
from fedner.privacy.events import GaussianRelease, to_json
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Counts, RelaxedCounts, Scores, TokenCounts
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


RELEASE = GaussianRelease(1.5, 0.1, "patient", 1.0, 500)
EVENT = {
    "release": to_json(RELEASE),
    "ledger": {
        "ledger": "ab" * 16,
        "counter": 9,
        "digest": "0a" * 32,
        "previous": "0b" * 32,
        "earlier": "0c" * 32,
    },
}


@given(STATES, STATES, st.none() | st.floats(0, 1e9), st.sets(st.integers(0, 2**31 - 1)))
def test_updates_come_back_as_they_went(
    tensors: dict[str, Any], extra: dict[str, Any], loss: float | None, stored: set[int]
) -> None:
    rounds = tuple(sorted(stored))
    sent = Update("p", 3, shared(tensors), shared(extra), loss, EVENT, rounds)
    got = update_from_bytes(to_bytes(sent))
    assert alike(got.tensors, sent.tensors)
    assert alike(got.extra, sent.extra)
    assert list(got.tensors) == list(sent.tensors), "the order of tensors is kept"
    facts = (got.platform, got.round, got.loss, got.event, got.stored)
    assert facts == ("p", 3, loss, EVENT, rounds)


@given(STATES, STATES)
def test_orders_come_back_as_they_went(tensors: dict[str, Any], extra: dict[str, Any]) -> None:
    relayed = {"q": b"", "r": b"\x00key"}
    batches = {"p": 3, "q": 1}
    sent = Order(
        "run", 9, shared(tensors), shared(extra), batches, "sum", "ab" * 32, 2, relayed
    )  # fmt: skip
    got = order_from_bytes(to_bytes(sent))
    assert alike(got.shared, sent.shared)
    assert alike(got.extra, sent.extra)
    empty = shared({})
    assert replace(got, shared=empty, extra=empty) == replace(sent, shared=empty, extra=empty)


NUMBERS = arrays.arrays(
    st.sampled_from([np.int32, np.int64]),
    arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
    elements=st.integers(-(2**31), 2**31 - 1),
)


@given(
    st.dictionaries(st.text("ab/ü", min_size=1, max_size=5), NUMBERS, max_size=4),
    st.dictionaries(st.text("pq ü", min_size=1, max_size=5), st.binary(max_size=40), max_size=4),
)
def test_messages_of_a_summation_come_back_as_they_went(
    numbers: dict[str, Any], entries: dict[str, bytes]
) -> None:
    tensors = shared(numbers)
    got = reply_from_bytes(to_bytes(SumMessage("p", 3, 1, entries, tensors)))
    assert isinstance(got, SumMessage)
    assert (got.platform, got.round, got.phase, got.entries) == ("p", 3, 1, entries)
    assert alike(shared({name: each.numpy() for name, each in got.tensors.items()}), tensors)


COUNT = st.integers(0, 10**9)
LABELS = st.text("AB ü", min_size=1, max_size=5)


@given(st.dictionaries(LABELS, st.tuples(COUNT, COUNT, COUNT), max_size=4), st.booleans())
def test_score_reports_come_back_as_they_went(
    counts: dict[str, tuple[int, int, int]], has_two: bool
) -> None:
    scores = Scores({label: Counts(*each) for label, each in counts.items()})
    methods: tuple[Method, ...] = METHODS if has_two else ("federated",)
    sent = ScoreReport("p", 3, dict.fromkeys(methods, scores))
    got = reply_from_bytes(to_bytes(sent))
    assert got == sent
    assert isinstance(got, ScoreReport)
    assert list(got.scores["federated"].strict) == list(counts), "their order is kept"


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_noised_score_reports_come_back_as_they_went(count: float, deviation: float) -> None:
    noised = NoisedScores(count, 1.0, 2.0, deviation, RELEASE)
    sent = ScoreReport("p", 3, {}, noised, {"release": to_json(RELEASE)})
    assert reply_from_bytes(to_bytes(sent)) == sent


@pytest.mark.parametrize("code", sorted(FAILURES))
def test_failures_come_back_as_they_went(code: str) -> None:
    assert reply_from_bytes(to_bytes(Failure("p", 0, code))) == Failure("p", 0, code)


def test_what_a_report_under_privacy_may_carry() -> None:
    noised = NoisedScores(1.0, 1.0, 2.0, 3.0, RELEASE)
    event = {"release": to_json(RELEASE)}
    plain = {"federated": Scores({"Drug": Counts(1, 2, 3)})}
    other = {"release": to_json(replace(RELEASE, steps=2))}
    for spoilt, reason in (
        (ScoreReport("p", 1, plain, noised, event), "plain scores beside noised ones"),
        (ScoreReport("p", 1, {}, noised, None), "the event of something else"),
        (ScoreReport("p", 1, {}, noised, other), "the event of something else"),
        (ScoreReport("p", 1, plain, None, event), "an event without noised scores"),
        (ScoreReport("p", 1, {"centralized": plain["federated"]}), "scores of other methods"),  # type: ignore[dict-item]
        (ScoreReport("p", 1, {"federated": Scores({"a\x1b": Counts()})}), "labels are no names"),
    ):
        with pytest.raises(FednerError, match=reason):
            reply_from_bytes(to_bytes(spoilt))


def test_scores_with_something_beside_them_are_refused() -> None:
    scores = scores_to_json(Scores({"Drug": Counts(1, 2, 3)}))
    facts = {"form": "score-report/1", "platform": "p", "round": 1, "noised": None, "event": None}
    good = {**facts, "scores": {"federated": scores}}
    assert isinstance(reply_from_bytes(forged(good)), ScoreReport)
    for spoilt in (
        {**scores, "text": [["Jane", 1]]},
        {**scores, "strict": [["Drug", 1, 2, 3, "Jane"]]},
        {**scores, "strict": [["Drug", 1, 2, 3], ["Drug", 1, 2, 3]]},
        {**scores, "strict": [["Drug", 1, 2, -3]]},
        {**scores, "strict": {}},
        {},
        None,
        [],
    ):
        with pytest.raises(FednerError):
            reply_from_bytes(forged({**good, "scores": {"federated": spoilt}}))


FIELDS = {
    Order: {
        "run": "str",
        "round": "int",
        "shared": "SharedState",
        "extra": "SharedState",
        "batches": "Mapping[str, int]",
        "verb": "Literal['begin', 'round', 'evaluate', 'save', 'load', 'finish', 'sum']",
        "study": "str",
        "phase": "int",
        "relayed": "Mapping[str, bytes]",
        "total": "Mapping[str, Tensor]",
    },
    Update: {
        "platform": "str",
        "round": "int",
        "tensors": "SharedState",
        "extra": "SharedState",
        "loss": "float | None",
        "event": "Mapping[str, Any] | None",
        "stored": "tuple[int, ...]",
        "scales": "SharedState",
    },
    ScoreReport: {
        "platform": "str",
        "round": "int",
        "scores": "Mapping[Literal['federated', 'local-only'], Scores]",
        "noised": "NoisedScores | None",
        "event": "Mapping[str, Any] | None",
    },
    SumMessage: {
        "platform": "str",
        "round": "int",
        "phase": "int",
        "entries": "Mapping[str, bytes]",
        "tensors": "Mapping[str, Tensor]",
        "event": "Mapping[str, Any] | None",
    },
    Failure: {"platform": "str", "round": "int", "code": "str"},
}


INSIDE = {
    Scores: {
        "strict": "Mapping[str, Counts]",
        "relaxed": "Mapping[str, RelaxedCounts]",
        "relaxed_any_type": "Mapping[str, RelaxedCounts]",
        "tokens": "TokenCounts",
        "ignored_predicted": "Mapping[str, int]",
        "ignored_gold": "Mapping[str, int]",
    },
    NoisedScores: {
        "tp": "float",
        "fp": "float",
        "fn": "float",
        "standard_deviation": "float",
        "event": "GaussianRelease",
    },
    Counts: {"tp": "int", "fp": "int", "fn": "int"},
    RelaxedCounts: dict.fromkeys(
        ("predicted", "predicted_touching", "gold", "gold_touched"), "int"
    ),
    TokenCounts: dict.fromkeys(("gold", "predicted", "both"), "Mapping[str, int]"),
}


def named(hint: Any) -> str:
    text = getattr(hint, "__name__", str(hint)) if not get_args(hint) else str(hint)
    return re.sub(r"\b(?:[A-Za-z_]+\.)+(?=[A-Z])", "", text)


def test_these_are_all_fields_that_ever_cross() -> None:
    """Whoever adds a field adds it here, and has thought about what it discloses."""
    assert set(get_args(Reply)) | {Order} == set(FIELDS)
    for kind, expected in (FIELDS | INSIDE).items():
        hints = get_type_hints(kind)
        assert {each.name: named(hints[each.name]) for each in fields(kind)} == expected


def test_the_form_is_that_of_safetensors() -> None:
    update = Update("p", 1, shared({"a": np.ones(3, np.float32), "b": np.ones(2)}))
    found = load_safetensors(to_bytes(update))
    assert {name: each.tolist() for name, each in found.items()} == {
        "tensors/a": [1.0, 1.0, 1.0],
        "tensors/b": [1.0, 1.0],
    }


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1, True], "data_offsets": [0, 8]},
        {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "more": 1},
        {"dtype": "F32", "shape": [1] * 17, "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0]},
    ],
)
def test_tensors_in_odd_places_are_refused(entry: dict[str, Any]) -> None:
    facts = json.dumps({**FACTS, "form": "update/1"})
    header = {"__metadata__": {"fedner": facts}, "tensors/a": entry}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with pytest.raises(FednerError, match="message refused"):
        update_from_bytes(len(text).to_bytes(8, "little") + text + bytes(8))


def test_bytes_beyond_the_end_are_refused() -> None:
    whole = to_bytes(Update("p", 1, shared({"a": np.ones(3, np.float32)})))
    for extra in (b"\x00", b"Jane" * 16):
        with pytest.raises(FednerError, match="bytes beyond its tensors"):
            update_from_bytes(whole + extra)


def test_payload_counts_tensors() -> None:
    update = Update("p", 1, shared({"a": np.zeros((3, 2), np.float32)}), shared({"b": np.zeros(2)}))
    assert payload_bytes(update) == 24 + 16


FACTS = {
    "form": "update/1",
    "platform": "p",
    "round": 1,
    "loss": 0.5,
    "event": None,
    "stored": [],
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
        (lambda facts: facts.update(round=-1), "round -1"),
        (lambda facts: facts.update(stored=[2, 1]), "stored rounds"),
        (lambda facts: facts.update(stored=["1"]), "stored rounds"),
        (lambda facts: facts.update(stored=list(range(2000))), "stored rounds"),
        (lambda facts: facts.update(round=2**40), "round 1099511627776"),
        (lambda facts: facts.update(platform=""), "a platform that is no name"),
        (lambda facts: facts.update(platform="\x1b[2J"), "a platform that is no name"),
        (lambda facts: facts.update(event={"noise": 1.5}), "an unsound event"),
        (lambda facts: facts.update(event={**EVENT, "text": "Jane"}), "an unsound event"),
        (lambda facts: facts.update(event=mark(counter="9")), "an unsound event"),
        (lambda facts: facts.update(event=mark(counter=True)), "an unsound event"),
        (lambda facts: facts.update(event=mark(digest="../etc")), "an unsound event"),
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
        ("tensors/a", torch.tensor([1.0]).half(), "another type"),
        ("private/a", torch.tensor([1.0]), "a tensor 'private/a'"),
        ("tensors/", torch.tensor([1.0]), "a tensor 'tensors/'"),
        ("tensors/" + "a" * 501, torch.tensor([1.0]), "a tensor 'tensors/aaa"),
    ],
)
def test_unsound_tensors_are_refused(name: str, tensor: torch.Tensor, reason: str) -> None:
    with pytest.raises(FednerError, match=reason):
        update_from_bytes(forged(FACTS, {name: tensor}))


def test_large_numbers_whose_sum_overflows_are_finite() -> None:
    sent = Update("p", 1, shared({"a": np.array([3e38, 3e38, -3e38], np.float32)}))
    assert alike(update_from_bytes(to_bytes(sent)).tensors, sent.tensors)


def test_unsound_tensors_are_not_even_sent() -> None:
    with pytest.raises(FednerError, match="not finite"):
        to_bytes(Update("p", 1, shared({"a": np.array([np.nan])})))


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FednerError, match="message refused"):
        update_from_bytes(data)


@given(st.data())
def test_cut_or_altered_headers_never_raise_anything_else(data: st.DataObject) -> None:
    whole = to_bytes(Update("p", 1, shared({"a": np.ones(3, np.float32)})))
    cut = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255))
    altered = whole[:cut] + bytes([byte]) + whole[cut + 1 :]
    for damaged in (whole[:cut], altered):
        try:
            got = update_from_bytes(damaged)
        except FednerError:
            continue
        assert set(got.tensors) | set(got.extra)
