"""Releases through the ledger: budgets, resends after a kill, marks that went back."""

import random
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from dp_killed_run import ROUNDS, SIZES, dp_platform, engine_in, main, plan
from linear_platform import initial

from fedner.errors import FednerError
from fedner.federated.algorithms import fedner
from fedner.federated.dp_steps import BudgetSpentError
from fedner.federated.message_bytes import to_bytes
from fedner.federated.messages import Order, Update
from fedner.federated.orders import RoundPassedError
from fedner.federated.participation import Participation
from fedner.federated.run import run
from fedner.federated.screening import NormRule, Screen
from fedner.privacy.ledger import read_spent
from fedner.privacy.ledger_files import default_witness
from lives import Life

KILLS, GRANTED = 3, 5  # fewer rounds than the run has, all lives together


def ask(round_: int = 1, shift: float = 0.0) -> Order:
    return Order("run", round_, initial(shift), batches={"alpha": 4})


def test_asked_again_it_sends_the_same_bytes_at_no_new_cost(tmp_path: Path) -> None:
    own = dp_platform(tmp_path, 100.0, "alpha")
    first = own.run_round(fedner(), ask())
    after = {name: tensor.clone() for name, tensor in own.private().items()}
    own.run_round(fedner(), ask(2))
    again = own.run_round(fedner(), ask())
    assert to_bytes(replace(again, event=None)) == to_bytes(replace(first, event=None))
    assert all(bool((own.private()[name] == each).all()) for name, each in after.items())
    assert own.last_round == 1
    assert len(own.privacy.ledger.releases) == 2  # type: ignore[union-attr]
    with pytest.raises(RoundPassedError):
        own.run_round(fedner(), ask(shift=0.5))
    assert len(own.privacy.ledger.releases) == 2  # type: ignore[union-attr]
    other = own.run_round(fedner(), ask(2, shift=0.5))  # of the newest round: a new release
    assert to_bytes(replace(other, event=None, round=1)) != to_bytes(replace(first, event=None))
    assert len(own.privacy.ledger.releases) == 3  # type: ignore[union-attr]
    own.close()


def test_a_spent_budget_is_a_failure_that_stops_or_not_by_the_rule(tmp_path: Path) -> None:
    budget = 0.4
    for quorum in (None, 1):
        folder = tmp_path / str(quorum)
        engine = engine_in(folder, budget)
        chosen = replace(plan(60, 60), participation=Participation(None, quorum))
        with pytest.raises(FednerError, match="budget"):
            run(fedner(), engine, initial(), chosen, 7, folder)
        engine.close()
        for name in SIZES:
            spent = read_spent(folder / "ledgers" / name)
            assert 0 < spent.rdp <= budget
            assert spent.unit == "sentence"
    lines = (tmp_path / "1" / "rounds.jsonl").read_text().splitlines()
    assert '"code": "budget-spent"' in lines[-1], "the others went on without it"
    assert len(lines) > len((tmp_path / "None" / "rounds.jsonl").read_text().splitlines())


def test_a_refused_round_leaves_no_trace_in_the_private_weights(tmp_path: Path) -> None:
    own = dp_platform(tmp_path, 0.3, "alpha")
    number = 0
    before = own.state()
    with suppress(BudgetSpentError):
        for number in range(1, 500):
            before = own.state()
            own.run_round(fedner(), ask(number))
    assert 1 < number < 499
    after = own.state()
    assert after.facts == before.facts
    assert all(bool((after.tensors[key] == each).all()) for key, each in before.tensors.items())
    own.close()


def test_a_ledger_that_went_back_is_refused_by_the_server(tmp_path: Path) -> None:
    own = dp_platform(tmp_path, 100.0, "alpha")
    own.run_round(fedner(), ask(1))
    ledger = tmp_path / "ledgers" / "alpha"
    own.close()
    # A whole older disk: folder and witness together. The platform itself cannot tell.
    shutil.copytree(ledger, tmp_path / "older")
    shutil.copy(default_witness(ledger), tmp_path / "older-witness")
    own = dp_platform(tmp_path, 100.0, "alpha")
    screen = Screen(NormRule())
    for number in (2, 3):
        update = own.run_round(fedner(), ask(number))
        assert list(screen.accepted_updates([update], ask(number))) == [update]
    own.close()
    shutil.rmtree(ledger)
    shutil.copytree(tmp_path / "older", ledger)
    shutil.copy(tmp_path / "older-witness", default_witness(ledger))
    own = dp_platform(tmp_path, 100.0, "alpha")
    back: Update = own.run_round(fedner(), ask(4))
    own.close()
    assert list(screen.accepted_updates([back], ask(4))) == []
    assert [each.code for each in screen.refusals] == ["ledger"]
    assert "went back" in screen.refusals[0].message
    assert "alpha" in screen.events, "what it released is counted all the same"


def test_killed_and_resumed_it_never_pays_twice_for_one_broadcast(tmp_path: Path) -> None:
    chance = random.Random(3)
    folder = tmp_path / "run"
    assert KILLS * (GRANTED + 1) < ROUNDS, "no life can reach the end of the run"
    for _ in range(KILLS):
        life = Life(main, folder)
        life.grant(chance.randint(1, GRANTED))
        time.sleep(chance.uniform(0.0, 0.05))
        life.kill()
    assert Life(main, folder).finish() == f"done {ROUNDS}"
    for name in SIZES:
        spent = read_spent(folder / "ledgers" / name, "kill")
        # One release for each round: a broadcast that came again was answered from the book.
        assert spent.steps == ROUNDS, name
        assert not spent.is_simulation
        payloads = list((folder / "ledgers" / name / "payloads").iterdir())
        assert len(payloads) <= 2 * 4 + 2, "old bytes go when nobody can ask for them again"
