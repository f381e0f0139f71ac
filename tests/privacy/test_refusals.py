"""A refused budget or event names what is wrong, and what would be right."""

from typing import Any

import pytest

from fedner.errors import FednerError
from fedner.privacy.budget import Budget
from fedner.privacy.events import GaussianRelease, from_json, to_json

RIGHT: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "unit": "sentence"}


@pytest.mark.parametrize("name", ["unit", "adjacency", "accountant"])
def test_a_budget_names_the_choice_that_is_none(name: str) -> None:
    with pytest.raises(FednerError, match=f"^The budget's {name} is 'odd'; expected one of"):
        Budget(**{**RIGHT, name: "odd"})


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.0), ("delta", 0.0), ("delta", 1.0)])
def test_a_budget_names_the_number_that_is_none(name: str, value: float) -> None:
    with pytest.raises(FednerError, match=f"^The budget's {name} is {value}; expected"):
        Budget(**{**RIGHT, name: value})


def test_an_event_without_a_kind_or_of_another_is_refused() -> None:
    record = to_json(GaussianRelease(1.0, 0.1, "sentence", 1.0, 100))
    assert to_json(from_json(record)) == record
    nameless = {key: value for key, value in record.items() if key != "kind"}
    with pytest.raises(FednerError, match="has the kind None; expected one of"):
        from_json(nameless)
    with pytest.raises(FednerError, match="has the kind 7; expected one of"):
        from_json({**record, "kind": 7})
