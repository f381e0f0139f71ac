"""Errors cross the border between processes whole, whatever their kind is made of."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from fedner.errors import FednerError
from fedner.federated.dp_steps import BudgetSpentError
from fedner.settings import SettingProblem, SettingsError


def _raise(kind: str) -> None:
    if kind == "settings":
        raise SettingsError("a.toml", [SettingProblem("seed", "-1", "at least 0", "Take 1.")])
    if kind == "budget":
        raise BudgetSpentError("spent", "Wait.")
    raise FednerError("wrong", "Mend it.")


@pytest.mark.parametrize(
    ("kind", "type_", "said"),
    [
        ("plain", FednerError, "wrong\nMend it."),
        ("budget", BudgetSpentError, "spent\nWait."),
        ("settings", SettingsError, "seed: found -1; expected at least 0. Take 1."),
    ],
)
def test_an_error_of_another_process_is_the_same_error(
    kind: str, type_: type[FednerError], said: str
) -> None:
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(FednerError) as caught,
    ):
        pool.submit(_raise, kind).result()
    assert type(caught.value) is type_
    assert said in str(caught.value)
    if isinstance(caught.value, SettingsError):
        assert caught.value.problems[0].key == "seed"
