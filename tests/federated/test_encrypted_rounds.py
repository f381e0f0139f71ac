"""Whole encrypted runs over engines: the plain run, drop-outs, restarts, kept sums, lies."""

import gc
import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.errors import FednerError
from fedner.federated.algorithms import algorithm_named
from fedner.federated.answering import answers
from fedner.federated.checkpoints import platform_folder, read_state, stored_rounds
from fedner.federated.encrypted import kept_totals
from fedner.federated.encrypted.announcements import RunSecret
from fedner.federated.encrypted.kept_key import KEY_FILE
from fedner.federated.encrypted.kept_totals import KeptTotal, KeptTotals
from fedner.federated.encrypted.keys import RunKey
from fedner.federated.encrypted.mirror import MirrorPlan
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.encrypted.phases import ANNOUNCE, APPLY, ENCRYPT, HAND_OVER
from fedner.federated.encrypted.plan import EncryptionPlan
from fedner.federated.encrypted_sum import encrypted_sum
from fedner.federated.engine import Engine
from fedner.federated.messages import Failure, Order, Reply, ScoreReport, SumMessage
from fedner.federated.participation import Participation, choose
from fedner.federated.platform import Platform
from fedner.federated.record import RoundRecord
from fedner.federated.run import RunRecord, RunSettings, run
from fedner.federated.screening import Screen
from fedner.federated.secure.identities import SimulatedIdentity
from fedner.federated.secure_sum import mean_scales
from fedner.federated.sizes import planned_batches, platform_weights
from fedner.federated.summation import PLAIN, Summation
from fedner.tensors import State

NAMES = ["alpha", "beta", "delta", "gamma"]
SIZES = {"alpha": 12, "beta": 10, "delta": 7, "gamma": 5}
STUDY, SEED, BATCH = "ab", 7, 8
Lost = Callable[[str, Order], bool]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.getLogger("fedner.federated.answering").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("fedner.federated.answering").setLevel(logging.NOTSET)


def batches(algorithm: str, asked: Participation, round_: int) -> Mapping[str, int]:
    chosen = choose(asked, list(SIZES), SEED, round_)
    return planned_batches(
        {name: SIZES[name] for name in chosen}, BATCH, algorithm_named(algorithm).batching
    )


def summation(
    algorithm: str, asked: Participation, folder: Path | None = None, **changes: Any
) -> Summation:
    held = algorithm_named(algorithm)
    weights = platform_weights(SIZES, held.weighting)
    scales, factor = mean_scales(weights)
    plan = EncryptionPlan(
        CkksParameters.for_range(len(NAMES), 64.0),
        MirrorPlan(held, weights, changes.pop("ema_decay", None)),
        scales,
        factor,
        asked.quorum or 3,
        partial(batches, algorithm, asked),
        **changes,
    )
    return encrypted_sum(plan, partial(SimulatedIdentity, STUDY), folder)


@dataclass
class Losing:
    """An engine that loses replies, and notes what it carried; else that of another."""

    inner: Engine
    is_lost: Lost = lambda _, __: False
    alter: Callable[[str, Order], Order] = lambda _, order: order
    spoil: Callable[[Reply], Reply] = lambda reply: reply
    orders: list[tuple[str, Order]] = field(default_factory=list)

    @property
    def platforms(self) -> Any:
        return self.inner.platforms

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        sent = {name: self.alter(name, order) for name, order in orders.items()}
        self.orders += sent.items()
        gone = {name for name, order in sent.items() if self.is_lost(name, order)}
        reached = {name: order for name, order in sent.items() if name not in gone}
        if reached:
            yield from map(self.spoil, self.inner.ask(reached, timeout))
        for name in sorted(gone):
            yield Failure(name, orders[name].round, "platform-gone")

    def close(self) -> None:
        self.inner.close()


def finished(kept: dict[str, State], order: Order, platform: Platform) -> ScoreReport:
    kept[platform.name] = {key: each.clone() for key, each in order.shared.items()}
    return ScoreReport(platform.name, order.round)


@dataclass
class Done:
    record: RunRecord
    weights: dict[str, State]
    engine: Losing


def go(
    algorithm: str = "fedner",
    rounds: int = 4,
    *,
    sums: Summation | None = None,
    folder: Path | None = None,
    asked: Participation | None = None,
    is_lost: Lost = lambda _, __: False,
    alter: Callable[[str, Order], Order] = lambda _, order: order,
    spoil: Callable[[Reply], Reply] = lambda reply: reply,
    resume: bool = False,
    engine: Losing | None = None,
    **changes: Any,
) -> Done:
    held, chosen = algorithm_named(algorithm), asked or Participation()
    weights: dict[str, State] = {}
    ema = changes.get("ema_decay")
    used = summation(algorithm, chosen, ema_decay=ema) if sums is None else sums
    if folder is not None and sums is None:
        used = replace(used, at_platform=partial(at_home, algorithm, chosen, folder, ema))
    made = answers(
        random_platform,
        held,
        folder,
        finish=partial(finished, weights),
        study=STUDY,
        summation=used,
        rounds=rounds + 10,
    )
    if engine is None:
        engine = Losing(InProcess(made, NAMES, as_bytes=True), is_lost, alter, spoil)
    every: dict[str, Any] = {} if folder is None else {"checkpoint_every": 1}
    plan = RunSettings(
        "test", rounds, BATCH, SIZES, chosen, study=STUDY, summation=used, **every, **changes
    )
    record = run(held, engine, initial(), plan, SEED, folder, resume=resume)
    return Done(record, weights, engine)


def at_home(
    algorithm: str, asked: Participation, folder: Path, ema: float | None, name: str
) -> Any:
    """A platform's side whose key lies in its own folder."""
    home = platform_folder(folder, name) / "encryption"
    return summation(algorithm, asked, home, ema_decay=ema).at_platform(name)


def plain(algorithm: str = "fedner", rounds: int = 4, **options: Any) -> Done:
    return go(algorithm, rounds, sums=PLAIN, **options)


def assert_alike(found: Done, wanted: Done, names: Collection[str] = NAMES) -> None:
    expected = wanted.record.shared
    assert sorted(found.weights) == sorted(names)
    for name in names:
        for key, weight in expected.items():
            assert (found.weights[name][key] - weight).abs().max() <= 1e-6, (name, key)
    first = found.weights[min(names)]
    for other in found.weights.values():
        assert all(torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("algorithm", ["fedner", "fedavg", "fedadam", "scaffold"])
def test_a_run_is_the_plain_one_and_the_coordinator_has_no_weights(algorithm: str) -> None:
    found, wanted = go(algorithm), plain(algorithm)
    assert_alike(found, wanted)
    assert not found.record.shared
    assert not found.record.server.shared
    later = [order for _, order in found.engine.orders if order.round > 1]
    assert later
    assert not any(order.shared or order.extra for order in later), "it hands out none"
    first = found.record.rounds[0]
    assert set(first.bytes_up) == set(NAMES)
    assert not first.norms
    assert not first.losses


def test_an_average_of_the_weights_is_kept_at_platforms() -> None:
    assert_alike(go(ema_decay=0.9), plain(ema_decay=0.9))


def lost_in(phase: int, who: Collection[str], rounds: Collection[int]) -> Lost:
    """Those whom an order does not reach; what they are given later does."""
    verb, lost = "round" if phase == ENCRYPT else "sum", set()

    def is_lost(name: str, order: Order) -> bool:
        is_phase = order.verb == verb and order.phase == phase
        is_first = (
            name in who and order.round in rounds and is_phase and (name, order.round) not in lost
        )
        lost.update([(name, order.round)] if is_first else [])
        return is_first

    return is_lost


def lost_values(who: Collection[str], rounds: Collection[int]) -> Lost:
    """Those whose values do not come: the same platforms are gone from a plain round."""

    def is_lost(name: str, order: Order) -> bool:
        return name in who and order.round in rounds and order.verb == "round"

    return is_lost


QUORUM = Participation(quorum=3)


def test_fifty_rounds_with_drop_outs_in_every_phase_are_the_plain_ones() -> None:
    drops = {
        phase: (who, range(first, 51, 9))
        for first, (phase, who) in enumerate(
            [(ANNOUNCE, "beta"), (HAND_OVER, "alpha"), (ENCRYPT, "gamma"), (APPLY, "delta")], 2
        )
    }
    losses = [lost_in(phase, [who], rounds) for phase, (who, rounds) in drops.items()]
    without = [
        lost_values([who], rounds) for phase, (who, rounds) in drops.items() if phase != APPLY
    ]

    def any_of(all_: list[Lost]) -> Lost:
        return lambda name, order: any(each(name, order) for each in all_)

    found = go(rounds=50, asked=QUORUM, is_lost=any_of(losses))
    wanted = plain(rounds=50, asked=QUORUM, is_lost=any_of(without))
    assert_alike(found, wanted)
    assert {each.verb for done in found.record.rounds for each in done.failures} == {"round", "sum"}


@pytest.mark.parametrize("phase", [ANNOUNCE, HAND_OVER, ENCRYPT, APPLY])
def test_who_is_gone_for_the_last_rounds_is_brought_to_the_end(phase: int) -> None:
    found = go(asked=QUORUM, is_lost=lost_in(phase, ["beta"], [3, 4]))
    wanted = plain(asked=QUORUM, is_lost=lost_values(["beta"], [3, 4] if phase != APPLY else []))
    if phase == APPLY:  # it cannot be in round 4 before it was given the sum of round 3
        wanted = plain(asked=QUORUM)
    assert_alike(found, wanted)


def test_without_a_quorum_everybody_must_answer() -> None:
    for phase in (ANNOUNCE, HAND_OVER, ENCRYPT, APPLY):
        with pytest.raises(FednerError, match="the connection to it ended"):
            go(is_lost=lost_in(phase, ["beta"], [2]))


def test_platforms_that_were_not_chosen_have_the_weights_too() -> None:
    asked = Participation(sample=3)
    found = go(rounds=6, asked=asked, evaluate_every=2)
    assert_alike(found, plain(rounds=6, asked=asked, evaluate_every=2))
    assert all(set(each.scores) == set(NAMES) for each in found.record.rounds[1::2])


class StopError(Exception):
    """The coordinator ended."""


@pytest.mark.parametrize("phase", [ANNOUNCE, HAND_OVER, ENCRYPT, APPLY])
def test_a_run_that_ended_in_any_phase_goes_on(phase: int, tmp_path: Path) -> None:
    def stopping(name: str, order: Order) -> bool:
        if lost_in(phase, ["gamma"], [3])(name, order):
            raise StopError
        return False

    with pytest.raises(StopError):
        go(folder=tmp_path / "run", is_lost=stopping)
    found = go(folder=tmp_path / "run", resume=True)
    assert found.record.resumed_from == 2
    assert_alike(found, plain())


def test_a_sum_that_was_handed_out_is_never_made_anew(tmp_path: Path) -> None:
    """It ended while some had taken the step of round 3, and beta is gone when it goes on."""

    def stopping(name: str, order: Order) -> bool:
        if order.verb == "save" and order.round == 3:
            raise StopError
        return False

    with pytest.raises(StopError):
        go(folder=tmp_path / "run", is_lost=stopping, asked=QUORUM)
    kept = (tmp_path / "run" / "sums" / "sum-000003.safetensors").read_bytes()

    def gone(name: str, order: Order) -> bool:
        return name == "beta" and order.round == 3 and order.verb in ("sum", "round")

    found = go(folder=tmp_path / "run", resume=True, asked=QUORUM, is_lost=gone)
    assert found.record.resumed_from == 2
    sums = [order for _, order in found.engine.orders if order.phase == APPLY and order.round == 3]
    assert {tuple(sorted(order.batches)) for order in sums} == {tuple(NAMES)}
    data = sums[0].total["ciphertexts"].numpy().tobytes()
    assert data in kept, "the very bytes of before"


def test_sums_are_kept_only_as_long_as_somebody_may_need_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    go(rounds=6, folder=folder)
    assert kept_totals.KeptTotals(folder / "sums").rounds() == [6], "all can go on from round 5"

    def is_away(name: str, order: Order) -> bool:
        return name == "beta" and order.round > 1

    for most in (100, 2):
        monkeypatch.setattr(kept_totals, "MOST_KEPT", most)
        away = tmp_path / f"away {most}"
        go(rounds=6, folder=away, asked=QUORUM, is_lost=is_away)
        assert kept_totals.KeptTotals(away / "sums").rounds() == [2, 3, 4, 5, 6][-most:]
        found = go(rounds=8, folder=away, asked=QUORUM, resume=True)
        told = [each.message for done in found.record.rounds[6:] for each in done.failures]
        assert any("missed more encrypted sums than the server keeps" in each for each in told) == (
            most == 2
        )
        assert ("beta" in found.weights) == (most == 100)


def test_platforms_that_live_on_go_back_with_the_server(tmp_path: Path) -> None:
    found = go(folder=tmp_path, rounds=3)
    (tmp_path / "server" / "round-000003.safetensors").unlink()
    later = {name: dict(each) for name, each in found.weights.items()}
    again = go(folder=tmp_path, rounds=3, resume=True, engine=found.engine)
    assert again.record.resumed_from == 2
    assert not again.record.rounds[2].failures
    for name in NAMES:
        copy, _ = read_state(platform_folder(tmp_path, name) / "server-copy", 3)
        assert all(torch.equal(copy[f"shared/{key}"], each) for key, each in later[name].items())


def test_first_weights_that_are_not_the_model_s_are_refused() -> None:
    """Of a platform that gets them with the sum, since it was gone when all worked."""

    def lying(name: str, order: Order) -> Order:
        if name == "beta" and order.round == 1 and order.phase == APPLY:
            return replace(order, shared=initial(a=1e9))
        return order

    found = go(rounds=1, asked=QUORUM, is_lost=lost_in(ENCRYPT, ["beta"], [1]), alter=lying)
    codes = [(each.platform, each.code) for each in found.record.rounds[0].failures]
    assert codes == [("beta", "platform-gone"), ("beta", "order-refused")]


def total_of(*names: str) -> KeptTotal:
    return KeptTotal(names, {"ciphertexts": torch.zeros(3, dtype=torch.uint8)})


def test_kept_sums_are_of_their_run_and_round_and_none_is_later_than_a_new_one(
    tmp_path: Path,
) -> None:
    for kept in (KeptTotals(), KeptTotals(tmp_path)):
        for round_ in (1, 2, 3):
            kept.keep("run", round_, total_of("a"))
        kept.keep("run", 2, total_of("a", "b"))
        assert kept.rounds() == [1, 2], "what came after was made of other weights"
        found = kept.read("run", 2)
        assert found is not None
        assert found.names == ("a", "b")
    assert KeptTotals(tmp_path).read("another run", 2) is None
    (tmp_path / "sum-000002.safetensors").rename(tmp_path / "sum-000007.safetensors")
    assert KeptTotals(tmp_path).read("run", 7) is None


def test_a_run_that_begins_anew_has_no_sums_of_before(tmp_path: Path) -> None:
    made = summation("fedner", Participation()).blind
    assert made is not None
    rounds = made(algorithm_named("fedner").init(initial()), tmp_path)
    rounds.totals.keep("test", 1, total_of("a"))
    rounds.begin()
    assert rounds.totals.rounds() == []


def test_a_sum_that_was_handed_out_is_not_asked_for_again_where_updates_are_charged(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"

    def stopping(name: str, order: Order) -> bool:
        if order.verb == "save" and order.round == 3:
            raise StopError
        return False

    charged = summation("fedner", QUORUM, must_be_charged=True)
    at_platform = partial(at_home, "fedner", QUORUM, folder, None)
    sums = replace(charged, at_platform=at_platform)  # whose own updates nobody charges here
    with pytest.raises(StopError):
        go(folder=folder, is_lost=stopping, asked=QUORUM, sums=sums)
    found = go(folder=folder, resume=True, asked=QUORUM, sums=sums)
    asked = [order.round for _, order in found.engine.orders if order.verb == "round"]
    assert set(asked) == {4}
    assert len(found.weights) == 4


def test_values_of_another_form_are_in_no_sum() -> None:
    def spoil(reply: Reply) -> Reply:
        if isinstance(reply, SumMessage) and reply.platform == "beta" and reply.tensors:
            return replace(reply, entries={"alpha": b"x"})
        return reply

    found = go(rounds=1, asked=QUORUM, spoil=spoil)
    (done,) = found.record.rounds
    assert sorted(done.bytes_up) == ["alpha", "delta", "gamma"]
    assert [(each.platform, each.code) for each in done.failures] == [("beta", "malformed")]


def test_values_whose_ledger_is_another_are_in_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "takes_cost", lambda _, message, __: message.platform != "beta")
    found = go(rounds=1, asked=QUORUM)
    assert sorted(found.record.rounds[0].bytes_up) == ["alpha", "delta", "gamma"]
    with pytest.raises(FednerError, match="round 1, values: 3 of 4"):
        go(rounds=1)


def test_without_a_quorum_a_platform_that_lost_its_copy_and_the_sums_stops_the_run(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    go(folder=folder, rounds=2)
    shutil.rmtree(platform_folder(folder, "beta") / "server-copy")
    with pytest.raises(FednerError, match=r"3 of 4 .*missed more encrypted sums"):
        go(folder=folder, rounds=3, resume=True)
    shutil.copytree(
        platform_folder(folder, "alpha") / "server-copy",
        platform_folder(folder, "beta") / "server-copy",
    )
    found = go(folder=folder, rounds=3, resume=True)  # that of another platform is the same
    assert_alike(found, plain(rounds=3))


def test_the_key_is_gone_after_the_last_round_and_a_finished_run_can_be_asked_again(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    go(folder=folder, rounds=2)
    homes = [platform_folder(folder, name) for name in NAMES]
    assert not any((home / "encryption" / KEY_FILE).exists() for home in homes)
    assert all(stored_rounds(home / "server-copy") == [1, 2] for home in homes)
    again = go(folder=folder, rounds=2, resume=True)
    assert_alike(again, plain(rounds=2))


def test_platforms_that_are_given_different_sums_notice_in_the_next_round() -> None:
    first: list[Order] = []

    def lying(name: str, order: Order) -> Order:
        """The sum of round 1 once more for delta in round 2: it decrypts, to other weights."""
        if order.phase == APPLY and order.round == 1:
            first.append(order)
        if order.phase == APPLY and order.round == 2 and name == "delta":
            return replace(order, total=first[0].total)
        return order

    with pytest.raises(FednerError, match=r"round 3, sum.*it ended the key"):
        go(alter=lying)
    first.clear()
    with pytest.raises(FednerError, match=r"round 2, sum.*it ended the key"):
        go(alter=lying, rounds=2)  # after the last round too


def test_an_odd_machine_is_named_before_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedner.federated.encrypted import platform_side

    numbers = iter([b"a" * 32, b"a" * 32, b"b" * 32, b"a" * 32])
    monkeypatch.setattr(platform_side, "arithmetic", lambda _: next(numbers))
    with pytest.raises(FednerError, match="delta would compute other bits"):
        go()


def held_keys() -> int:
    gc.collect()
    return sum(type(each) in (RunKey, RunSecret) for each in gc.get_objects())


def is_in_memory(needle: bytes) -> bool:
    """Whether any Python object of this process, or any tensor of bytes, holds some bytes."""
    gc.collect()
    for held in gc.get_objects():
        if type(held) is torch.Tensor and held.dtype == torch.uint8:
            if needle in held.numpy().tobytes():
                return True
            continue
        for each in gc.get_referents(held):
            if type(each) in (bytes, bytearray) and each is not needle and needle in each:
                return True
    return False


def test_the_coordinators_process_has_no_key_in_memory_or_files(tmp_path: Path) -> None:
    """Platforms work in processes of their own; each tells the bytes of its key in its folder."""
    folder, asked = tmp_path / "run", Participation()
    held = algorithm_named("fedner")
    used = summation("fedner", asked)
    used = replace(used, at_platform=partial(at_home, "fedner", asked, folder, None))
    made = answers(random_platform, held, folder, study=STUDY, summation=used, rounds=9)
    plan = RunSettings(
        "test", 3, BATCH, SIZES, asked, study=STUDY, summation=used, checkpoint_every=1
    )
    before, looks = held_keys(), []

    def look(record: RoundRecord) -> None:
        if record.round != 2:
            return  # all objects of the process are looked at: once is enough
        secret = (platform_folder(folder, "beta") / "encryption" / KEY_FILE).read_bytes()[
            20_000:20_064
        ]
        assert len(set(secret)) > 16, "a piece of the key itself"
        own = [each for each in folder.rglob("*") if "platforms" not in each.parts]
        files = [each for each in own if each.is_file()]
        looks.append(len(files))
        assert held_keys() == before
        assert not is_in_memory(secret)
        assert not any(secret in each.read_bytes() for each in files)
        copy = [bytearray(secret)]
        assert is_in_memory(secret), "it would be found"
        del copy

    with Workers(made, NAMES, initial(), workers=2) as engine:
        run(held, engine, initial(), plan, SEED, folder, on_round=look)
    assert len(looks) == 1
    assert looks[-1] >= 3, "record, sums and states"
