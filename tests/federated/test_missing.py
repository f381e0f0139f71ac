"""A platform that is missing at any verb: the quorum decides, and the record has it by name."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.algorithms import fedner
from fedner.federated.answering import answers
from fedner.federated.messages import Failure, Order, Reply, Update, Verb
from fedner.federated.participation import Participation
from fedner.federated.run import RunRecord, RunSettings, run

SIZES = {"alpha": 12, "beta": 10, "gamma": 5}
WHOLE: tuple[Verb, ...] = ("round", "evaluate", "save", "finish", "begin")


class Silent:
    """An engine that loses what one platform answers to one verb, or spoils it."""

    def __init__(self, verb: str, folder: Path, spoil: Any = None) -> None:
        self.verb, self.spoil = verb, spoil
        self._engine = InProcess(answers(random_platform, fedner(), folder), list(SIZES))
        self.platforms = self._engine.platforms

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        for reply in self._engine.ask(orders, timeout):
            order = orders[reply.platform]
            if (reply.platform, order.verb) != ("beta", self.verb):
                yield reply
            elif self.spoil is not None:
                yield self.spoil(reply)

    def close(self) -> None:
        self._engine.close()


def go(
    verb: str, folder: Path, quorum: int | None, *, resume: bool = False, spoil: Any = None
) -> RunRecord:
    plan = RunSettings(
        "test", 4 if resume else 2, 6, SIZES, Participation(quorum=quorum),
        evaluate_every=1, checkpoint_every=1,
    )  # fmt: skip
    engine = Silent(verb, folder, spoil)
    try:
        return run(fedner(), engine, initial(), plan, 7, folder, resume=resume)
    finally:
        engine.close()


def missed(done: RunRecord) -> set[tuple[str, str, str]]:
    noted = [*done.missing, *(each for record in done.rounds for each in record.failures)]
    return {(each.platform, each.verb, each.code) for each in noted}


@pytest.mark.parametrize("verb", WHOLE)
def test_without_a_quorum_everybody_must_have_answered(verb: str, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match=r"2 of 3 .* \(beta: it did not answer in time\)"):
        go(verb, tmp_path / "run", None)


@pytest.mark.parametrize("verb", WHOLE)
def test_with_a_quorum_the_run_goes_on_and_has_it_by_name(verb: str, tmp_path: Path) -> None:
    done = go(verb, tmp_path / "run", 2)
    assert len(done.rounds) == 2
    assert missed(done) == {("beta", verb, "no-reply")}
    if verb == "finish":
        assert set(done.reports) == {"alpha", "gamma"}
    if verb == "save":
        assert not list((tmp_path / "run" / "platforms" / "beta").glob("*.part"))
    with pytest.raises(FednerError, match="expected at least 3"):
        go(verb, tmp_path / "again", 3)


def test_missing_at_load_is_missing_at_the_beginning(tmp_path: Path) -> None:
    go("", tmp_path / "run", None)
    with pytest.raises(FednerError, match="round 2, load: 2 of 3"):
        go("load", tmp_path / "run", None, resume=True)
    done = go("load", tmp_path / "run", 2, resume=True)
    assert (done.resumed_from, len(done.rounds)) == (2, 4)
    assert missed(done) == {("beta", "load", "no-reply")}


SPOILT = {
    "another type": lambda reply: Update("beta", reply.round),
    "another round": lambda reply: type(reply)("beta", 99),
    "its own words": lambda reply: Failure("beta", reply.round, "patient Jane Doe"),
    "hostile": lambda reply: type(reply)("beta", None),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_reply_that_is_none_is_a_missing_platform(name: str, tmp_path: Path) -> None:
    done = go("evaluate", tmp_path / "run", 2, spoil=SPOILT[name])
    assert missed(done) == {("beta", "evaluate", "malformed")}
    assert set(done.rounds[0].scores) == {"alpha", "gamma"}


def test_resume_takes_the_newest_round_of_a_quorum(tmp_path: Path) -> None:
    """beta lost its newest state: with a quorum it goes on from its older one."""
    folder = tmp_path / "run"
    go("", folder, 2)
    (folder / "platforms" / "beta" / "round-000002.safetensors").unlink()
    assert go("", folder, None, resume=True).resumed_from == 1, "all of them: round 1"
    go("", tmp_path / "other", 2)
    (tmp_path / "other" / "platforms" / "beta" / "round-000002.safetensors").unlink()
    assert go("", tmp_path / "other", 2, resume=True).resumed_from == 2


def test_a_new_run_drops_what_platforms_stored_of_an_old_one(tmp_path: Path) -> None:
    whole = go("", tmp_path / "whole", None)
    go("", tmp_path / "run", None)
    (tmp_path / "run" / "rounds.jsonl").unlink()
    again = go("", tmp_path / "run", None)
    assert [each.losses for each in again.rounds] == [each.losses for each in whole.rounds]
