"""Limits of a policy beside the owner's grant: of one study over its runs, and of all together."""

from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.privacy.accountant import rdp_epsilon, tally
from fedner.privacy.budget import Budget
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger
from fedner.privacy.ledger_chain import ReleaseEntry
from fedner.privacy.ledger_limits import Limit

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

STEP = GaussianRelease(2.0, 0.1, "document", 1.0, 400)
GRANT = Budget(50.0, 1e-5, "document", accountant="rdp")


def of(count: int) -> Budget:
    """Return the budget that so many steps fit exactly."""
    steps = {step: count for _, step in tally([STEP])}
    return Budget(rdp_epsilon(steps, 1e-5), 1e-5, "document", accountant="rdp")


def charged(ledger: Ledger, run: str, round_: int, study: str) -> bool:
    """Whether the ledger takes a charge; each round is a request of its own."""
    try:
        ledger.charge(run, round_, f"{run} {round_}", STEP, study=study)
    except FednerError:
        return False
    return True


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger", GRANT)


def names(entries: tuple[ReleaseEntry, ...]) -> list[str]:
    return [entry.charge.study for entry in entries]


def test_a_study_has_its_limit_over_all_its_runs(ledger: Ledger) -> None:
    ledger.limit([Limit("policy.epsilon", of(3), "a")])
    assert [charged(ledger, "run", number, "a") for number in range(1, 5)] == [True] * 3 + [False]
    assert not charged(ledger, "another", 1, "a")
    assert charged(ledger, "run", 9, "b"), "another study"
    assert names(ledger.releases) == ["a", "a", "a", "b"]


def test_all_studies_together_have_theirs(ledger: Ledger) -> None:
    ledger.limit([Limit("policy.epsilon_in_all", of(2))])
    assert [charged(ledger, study, 1, study) for study in "abc"] == [True, True, False]


def test_what_was_spent_before_counts_also_after_opening_again(
    ledger: Ledger, tmp_path: Path
) -> None:
    charged(ledger, "run", 1, "a")
    ledger.close()
    with Ledger.open(tmp_path / "ledger") as again:
        again.limit([Limit("policy.epsilon", of(2), "a"), Limit("policy.epsilon_in_all", of(3))])
        assert charged(again, "run", 2, "a")
        assert not charged(again, "run", 3, "a")
        assert charged(again, "next", 1, "b")
        assert not charged(again, "next", 2, "b")


def test_a_request_that_waits_for_its_answer_is_not_counted_twice(ledger: Ledger) -> None:
    ledger.limit([Limit("policy.epsilon", of(2), "a")])
    for _ in range(3):
        assert charged(ledger, "run", 1, "a")
    assert charged(ledger, "run", 2, "a")
    assert not charged(ledger, "run", 3, "a")


def test_a_refusal_names_the_key_and_writes_nothing(ledger: Ledger) -> None:
    ledger.limit([Limit("policy.epsilon", of(1), "a")])
    charged(ledger, "run", 1, "a")
    mark = ledger.mark
    with pytest.raises(FednerError, match=r"^policy\.epsilon: Refused: 1 more step"):
        ledger.charge("run", 2, "b", STEP, study="a")
    assert ledger.mark == mark


def test_a_limit_never_raises_the_grant(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "poor", of(1)) as ledger:
        ledger.limit([Limit("policy.epsilon", of(9), "a")])
        ledger.charge("run", 1, "a", STEP, study="a")
        with pytest.raises(FednerError, match=r"^Refused: 1 more step"):
            ledger.charge("run", 2, "b", STEP, study="a")


def test_a_ledger_from_before_studies_were_named_is_read(ledger: Ledger) -> None:
    ledger.charge("run", 1, "a", STEP)
    assert names(ledger.releases) == [""]
    ledger.limit([Limit("policy.epsilon", of(1), "a"), Limit("policy.epsilon_in_all", of(2))])
    assert charged(ledger, "run", 2, "a"), "an unnamed charge is of no study"
    assert not charged(ledger, "run", 3, "b"), "and counts in all"
