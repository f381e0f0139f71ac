"""One platform and its orders: where it goes on from, whose folder it is, whose orders it takes."""

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from linear_platform import initial, random_platform

from fedner.durable import owner_folder
from fedner.federated.algorithms import fedner
from fedner.federated.answering import Answering
from fedner.federated.checkpoints import stored_rounds
from fedner.federated.folder_lock import held_by_this_process
from fedner.federated.messages import Failure, Order, Reply, ScoreReport, Update, Verb
from fedner.federated.platform import Platform


def answering(folder: Path | None = None, **options: Any) -> Answering:
    return Answering("alpha", random_platform, fedner(), folder, **options)


def order(round_: int, verb: Verb = "round") -> Order:
    if verb in ("round", "evaluate", "finish"):
        return Order("run", round_, initial(0.5), batches={"alpha": 4}, verb=verb)
    return Order("run", round_, verb=verb)


def done(reply: Reply) -> Update:
    assert isinstance(reply, Update), reply
    return reply


def take(own: Answering, *rounds: int, saves: bool = True) -> None:
    for number in rounds:
        done(own(order(number)))
        if saves:
            done(own(order(number, "save")))


def same(one: Reply, other: Reply) -> bool:
    return all(
        torch.equal(tensor, done(other).tensors[name]) for name, tensor in done(one).tensors.items()
    )


def test_begin_says_which_rounds_are_stored(tmp_path: Path) -> None:
    own = answering(tmp_path / "alpha")
    assert done(own(order(0, "begin"))).stored == ()
    take(own, 1, 2, 3)
    assert done(own(order(0, "begin"))).stored == (2, 3), "the last two are kept"
    assert done(answering()(order(0, "begin"))).stored == ()


def test_a_new_process_goes_on_from_the_round_before(tmp_path: Path) -> None:
    whole, first = answering(), answering(tmp_path / "alpha")
    take(whole, 1, 2, 3, saves=False)
    take(first, 1, 2, 3)
    first.close()
    assert same(answering(tmp_path / "alpha")(order(4)), whole(order(4)))


def test_missed_rounds_are_as_if_nobody_had_asked(tmp_path: Path) -> None:
    """Its process ended after round 4, of which only round 2 was stored."""
    partial, first = answering(), answering(tmp_path / "alpha")
    take(partial, 1, 2, saves=False)
    take(first, 1, 2)
    take(first, 3, 4, saves=False)
    first.close()
    assert same(answering(tmp_path / "alpha")(order(5)), partial(order(5)))


def test_what_is_newer_than_the_round_before_is_dropped(tmp_path: Path) -> None:
    whole, first = answering(), answering(tmp_path / "alpha")
    take(whole, 1, 2, saves=False)
    take(first, 1, 2, 3)
    first.close()
    again = answering(tmp_path / "alpha")
    assert same(again(order(3)), whole(order(3)))
    assert stored_rounds(tmp_path / "alpha") == [2]


@pytest.mark.parametrize(("round_", "stored"), [(3, (2, 3)), (2, (2,)), (9, (2, 3)), (1, ())])
def test_load_goes_on_from_the_newest_that_is_not_newer(
    round_: int, stored: tuple[int, ...], tmp_path: Path
) -> None:
    own, fresh = answering(tmp_path / "alpha"), answering()
    take(own, 1, 2, 3)
    take(fresh, *range(1, max(stored, default=0) + 1), saves=False)
    assert done(own(order(round_, "load"))).stored == stored
    assert same(own(order(10)), fresh(order(10)))


def test_a_platform_that_rests_goes_on_where_it_was(tmp_path: Path) -> None:
    own, other = answering(tmp_path / "alpha"), answering()
    for number in (1, 2):
        assert same(own(order(number)), other(order(number)))
        own.rest()
    done(own(order(2, "save")))  # it need not wake for that
    own.close()
    assert same(answering(tmp_path / "alpha")(order(3)), other(order(3)))


def test_a_state_that_is_damaged_is_a_failure_at_load(tmp_path: Path) -> None:
    own = answering(tmp_path / "alpha")
    take(own, 1)
    path = tmp_path / "alpha" / "round-000001.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert own(order(1, "load")) == Failure("alpha", 1, "error")


def test_without_a_folder_nothing_is_stored() -> None:
    own = answering()
    assert own(order(1, "save")) == Failure("alpha", 1, "error")
    assert own(order(1, "load")) == Failure("alpha", 1, "error")
    take(own, 1, saves=False)
    assert done(own(order(0, "load"))).stored == ()
    assert same(own(order(1)), answering()(order(1))), "it began anew"


@pytest.mark.parametrize("verb", ["begin", "round", "evaluate", "save", "load", "finish", "sum"])
def test_orders_of_another_study_are_refused(verb: Verb, tmp_path: Path) -> None:
    own = answering(tmp_path / "alpha", study="ab")
    spoilt = replace(order(1, verb), phase=1)
    for study in ("", "cd"):
        refused = own(replace(spoilt, study=study))
        assert refused == Failure("alpha", 1, "order-refused")
    assert not (tmp_path / "alpha").exists(), "nothing was touched"
    if verb not in ("sum", "load"):
        assert not isinstance(own(replace(spoilt, study="ab")), Failure)


def test_orders_that_are_none_are_refused() -> None:
    for spoilt in (
        replace(order(1), verb="delete"),  # type: ignore[arg-type]
        replace(order(1), round=-1),
        replace(order(1), phase="1"),  # type: ignore[arg-type]
        Order("run", 1, verb="sum", phase=1),  # the sum is plain
    ):
        reply = answering()(spoilt)
        assert isinstance(reply, Failure)
        assert reply.code == "order-refused"


def test_finish_gets_a_checked_order_and_the_private_part() -> None:
    seen: list[float] = []

    def finish(final: Order, platform: Platform) -> ScoreReport:
        seen.extend(
            float(each) for each in (final.shared["shared.a"], *platform.private().values())
        )
        return ScoreReport(platform.name, final.round)

    own = answering(finish=finish)
    take(own, 1, saves=False)
    assert own(order(1, "finish")) == ScoreReport("alpha", 1)
    assert seen[0] == 0.5
    assert seen[1] != 0.0
    hostile = replace(order(1, "finish"), shared=initial(float("nan")))
    assert own(hostile) == Failure("alpha", 1, "order-refused")
    assert len(seen) == 2


# The folder is that of one process.


def _hold(folder: Path, pipe: Any, seconds: float) -> None:
    with held_by_this_process(folder):
        pipe.send("held")
        time.sleep(seconds)


@pytest.mark.parametrize(("seconds", "is_free"), [(0.4, True), (30.0, False)])
def test_a_successor_waits_for_an_orphan_and_no_longer(
    seconds: float, is_free: bool, tmp_path: Path
) -> None:
    folder = owner_folder(tmp_path / "alpha")
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    orphan = context.Process(target=_hold, args=(folder, there, seconds))
    orphan.start()
    assert here.recv() == "held"
    own = answering(folder, patience=10.0 if is_free else 0.3)
    try:
        reply = own(order(1, "save"))
        if is_free:
            assert done(reply).stored == (1,)
        else:
            assert reply == Failure("alpha", 1, "folder-in-use")
            assert stored_rounds(folder) == [], "nothing was written"
    finally:
        orphan.kill()
        orphan.join()
    assert done(own(order(2, "save"))).stored[-1] == 2, "the lock ends with its process"
