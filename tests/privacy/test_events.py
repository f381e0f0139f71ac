"""Recorded releases: what they refuse, and that they survive JSON."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.privacy.events import (
    Adjacency,
    DeclaredUse,
    Event,
    GaussianRelease,
    Purpose,
    Slice,
    Unit,
    from_json,
    to_json,
)

GOOD: dict[str, Any] = {
    "noise_multiplier": 1.0,
    "sampling_probability": 0.1,
    "unit": "sentence",
    "max_norm": 1.5,
    "public_units": 100,
}
names = st.text(min_size=1, max_size=8)
releases = st.builds(
    GaussianRelease,
    noise_multiplier=st.floats(0, 100),
    sampling_probability=st.floats(1e-6, 1),
    unit=st.sampled_from(get_args(Unit)),
    max_norm=st.floats(1e-3, 1e3),
    public_units=st.integers(1, 10**7),
    steps=st.integers(1, 10**6),
    purpose=st.sampled_from(get_args(Purpose)),
    slice=st.none() | st.builds(Slice, names, names),
    max_sentences=st.none() | st.integers(1, 50),
    is_simulation=st.booleans(),
)


@given(releases | st.builds(DeclaredUse, names, st.booleans()))
def test_survives_json(event: Event) -> None:
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("noise_multiplier", -1.0),
        ("noise_multiplier", float("nan")),
        ("sampling_probability", 0.0),
        ("sampling_probability", 1.01),
        ("max_norm", 0.0),
        ("public_units", 0),
        ("steps", 0),
        ("unit", "word"),
        ("adjacency", "swap"),
        ("purpose", "fun"),
        ("max_sentences", 0),
    ],
)
def test_a_senseless_release_is_refused(field: str, value: Any) -> None:
    with pytest.raises(FednerError, match="cannot be recorded"):
        GaussianRelease(**{**GOOD, field: value})


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(FednerError, match=r"max_norm -1.*public size 0"):
        GaussianRelease(**{**GOOD, "max_norm": -1.0, "public_units": 0})


def test_replacing_a_unit_moves_the_sum_twice_as_far() -> None:
    whole = {**GOOD, "sampling_probability": 1.0, "unit": "platform", "adjacency": "replace_one"}
    assert GaussianRelease(**whole).effective_multiplier == 0.5
    assert "replace_one" in get_args(Adjacency)
    with pytest.raises(FednerError, match="replace_one"):
        GaussianRelease(**{**whole, "sampling_probability": 0.5})


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "laplace"},
        {"kind": ["gaussian"]},
        {"extra": 1},
        {"steps": 1.5},
        {"steps": True},
        {"max_norm": "1"},
        {"is_simulation": 0},
        {"slice": {"slicing": "a"}},
    ],
)
def test_unknown_json_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FednerError):
        from_json({**to_json(GaussianRelease(**GOOD)), **change})


def test_a_missing_field_is_refused() -> None:
    record = to_json(GaussianRelease(**GOOD))
    del record["max_norm"]
    with pytest.raises(FednerError, match="max_norm"):
        from_json(record)
