"""The secure sum comes to the plain sum, whoever drops out; else it stays unopened."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from secure_rounds import (
    Federation,
    masked,
    named,
    order_of,
    plain_mean,
    plan_for,
    random_update,
    summation_for,
)

from fedner.errors import FednerError
from fedner.federated.messages import Failure, Order, SumMessage, Update
from fedner.federated.opened_totals import OpenedTotals
from fedner.federated.secure import platform_side
from fedner.federated.summation import SumRefusedError
from fedner.privacy.sum_terms import SumTerms
from fedner.tensors import SharedState


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.getLogger("fedner.federated.answering").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("fedner.federated.answering").setLevel(logging.NOTSET)


@st.composite
def rounds(draw: st.DrawFn) -> tuple[list[str], int, int, dict[int, list[str]]]:
    """Platforms, who may collude, the quorum, and who drops out from which phase on."""
    number = draw(st.integers(4, 20))
    colluding = draw(st.integers(0, min(3, number - 3)))
    terms = SumTerms(number, colluding, quorum=1)
    most = terms.most_missing
    quorum = draw(st.integers(terms.least_quorum, number))
    gone = draw(
        st.lists(st.sampled_from(named(number)), unique=True, max_size=min(most, number - quorum))
    )
    drops: dict[int, list[str]] = {}
    for name in gone:
        drops.setdefault(draw(st.integers(1, 5)), []).append(name)
    return named(number), colluding, quorum, drops


@settings(max_examples=10, deadline=None)
@given(rounds())
def test_the_sum_is_the_plain_sum_whoever_drops_out(
    drawn: tuple[list[str], int, int, dict[int, list[str]]],
) -> None:
    names, colluding, quorum, drops = drawn
    plan = plan_for(names, colluding, quorum)
    updates = {name: random_update(name) for name in names}
    taken = Federation(summation_for(plan), updates, drops).take(order_of(names), quorum)
    early = {name for phase, gone in drops.items() if phase <= 3 for name in gone}
    survivors = set(names) - early
    assert set(taken.combined.platforms) == survivors
    error = plan.grid.largest_error(len(survivors)) * plan.factor
    for key, expected in plain_mean(updates, survivors).items():
        found = taken.combined.tensors[key]
        assert found.dtype == torch.float32
        # What float32 rounds comes on top of the stated error.
        assert ((found - expected).abs() <= error + expected.abs() * 2.0**-23).all()


@pytest.mark.parametrize("number", [3, 4, 5, 8, 9])
@pytest.mark.parametrize("phase", [1, 2, 3, 4, 5])
def test_with_one_platform_too_few_the_round_stays_unopened(number: int, phase: int) -> None:
    names = named(number)
    terms = SumTerms(number, 1, quorum=1)
    updates = {name: random_update(name) for name in names}
    least = terms.least_survivors if phase <= 3 else terms.threshold
    gone = names[: number - least + 1]
    federation = Federation(summation_for(plan_for(names, 1, 1)), updates, {phase: gone})
    with pytest.raises(FednerError, match="so it was not opened"):
        federation.take(order_of(names), 1)
    with pytest.raises(FednerError, match="expected all"):
        Federation(summation_for(plan_for(names)), updates, {phase: names[:1]}).take(
            order_of(names)
        )


def test_how_many_platforms_it_takes() -> None:
    def least(number: int, colluding: int) -> tuple[int, int, int]:
        terms = SumTerms(number, colluding, quorum=1)
        return terms.threshold, terms.least_survivors, terms.most_missing

    assert least(3, 1) == (3, 3, 0), "three platforms tolerate no drop-out"
    assert least(4, 1) == (3, 3, 1)
    assert least(10, 1) == (6, 6, 4)
    assert least(10, 3) == (7, 7, 3)
    assert least(3, 0) == (2, 2, 1)
    for number in range(2, 30):
        for colluding in range(number - 1):
            threshold = SumTerms(number, colluding).threshold
            assert 2 * threshold > number + colluding >= 2 * (threshold - 1)
            assert threshold <= number
    assert SumTerms(10, 1, quorum=8).least_survivors == 8
    assert SumTerms(10, 1).least_survivors == 10, "without a quorum all are in it"
    assert SumTerms(10, 1, quorum=8).least_honest == 7
    for number, colluding in ((2, 1), (1, 0), (4, 3), (5, -1)):
        with pytest.raises(FednerError, match="secure sum"):
            SumTerms(number, colluding)


def test_three_rounds_after_each_other_and_a_platform_that_comes_back(tmp_path: Path) -> None:
    names = named(4)
    updates = {name: random_update(name) for name in names}
    federation = Federation(summation_for(plan_for(names, 1, 3), tmp_path / "sums"), updates)
    for round_, drops in ((1, {}), (2, {3: ["p01"]}), (3, {})):
        federation.drops = drops
        taken = federation.take(order_of(names, round_), 3)
        assert len(taken.combined.platforms) == 4 - bool(drops)
        opened = [federation.side(name) for name in taken.combined.platforms]
        assert all(side._round is None for side in opened), "no secret outlives its round"


def test_what_leaves_is_masked_and_never_the_same_twice() -> None:
    names = named(3)
    updates = {
        name: replace(
            random_update(name), tensors=SharedState({"a": torch.ones(5), "b": torch.ones(2, 3)})
        )
        for name in names
    }
    seen, plan = [], plan_for(names)
    for round_ in (1, 2):
        federation = Federation(summation_for(plan), updates)
        federation.take(order_of(names, round_))
        for message in masked(federation.replies).values():
            words = torch.cat([each.reshape(-1) for each in message.tensors.values()])
            assert words.dtype == torch.int64
            # A masked number is any of 2^64: one may be small by chance, two never are.
            assert (words.abs() > 2**40).sum() >= len(words) - 1, "of 1.0 nothing is to be seen"
            assert round(plan.scales[message.platform] * 2**36) not in words.tolist()
            seen += words.tolist()
    assert len(set(seen)) == len(seen) == 2 * 3 * 11


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 2.0**40])
def test_numbers_that_cannot_be_summed_are_refused_before_they_are_masked(wrong: float) -> None:
    names = named(4)
    updates = {name: random_update(name) for name in names}
    bad = SharedState({**updates["p01"].tensors, "a": torch.tensor([0.0, wrong, 0, 0, 0])})
    updates["p01"] = replace(updates["p01"], tensors=bad)
    federation = Federation(summation_for(plan_for(names, 1, 3)), updates)
    taken = federation.take(order_of(names), 3)
    assert "p01" not in taken.combined.platforms
    (gone,) = taken.missing
    assert (gone.platform, gone.code) == ("p01", "error" if wrong == 2.0**40 else "not-finite")
    assert "p01" not in masked(federation.replies)


def test_the_norm_is_checked_by_the_platform_itself() -> None:
    names = named(4)
    updates = {name: random_update(name) for name in names}
    updates["p02"] = replace(
        updates["p02"], tensors=SharedState({"a": torch.full((5,), 1e4), "b": torch.zeros(2, 3)})
    )
    plan = plan_for(names, 1, 3, norm_bound=2e4)
    taken = Federation(summation_for(plan), updates).take(order_of(names), 3)
    assert [(gone.platform, gone.code) for gone in taken.missing] == [("p02", "sum-refused")]
    whole = Federation(summation_for(replace(plan, norm_bound=3e4)), updates)
    assert len(whole.take(order_of(names), 3).combined.platforms) == 4


def test_an_update_whose_cost_nobody_counted_is_not_sent() -> None:
    names = named(3)
    updates = {name: random_update(name) for name in names}
    federation = Federation(summation_for(plan_for(names, must_be_charged=True)), updates)
    with pytest.raises(FednerError, match="0 of 3 platforms gave"):
        federation.take(order_of(names))
    assert not masked(federation.replies)


def refusals(federation: Federation) -> list[Failure]:
    return [each for each in federation.replies if isinstance(each, Failure)]


def lying(federation: Federation, phase: int, lie: object) -> None:
    def alter(name: str, order: Order) -> Order:
        return lie(name, order) if order.phase == phase else order  # type: ignore[operator]

    federation.alter = alter
    with pytest.raises(FednerError):
        federation.take(order_of(federation.platforms), 3)
    assert {each.code for each in refusals(federation)} == {"sum-refused"}
    shares = [e for e in federation.replies if not isinstance(e, Failure) and e.phase == 5]
    assert len(shares) < 3, "not enough to open anything"


def without(order: Order, gone: str) -> Order:
    batches = {name: size for name, size in order.batches.items() if name != gone}
    relayed = {name: data for name, data in order.relayed.items() if name != gone}
    return replace(order, batches=batches, relayed=relayed)


@pytest.fixture
def four() -> Federation:
    names = named(4)
    updates = {name: random_update(name) for name in names}
    return Federation(summation_for(plan_for(names, 1, 3)), updates)


def test_a_server_that_tells_platforms_different_survivors(four: Federation) -> None:
    """Half of them are told that p03 is in the sum: both secrets of p03 would be opened."""
    lying(four, 4, lambda name, order: order if name < "p02" else without(order, "p03"))


def test_a_server_that_tells_platforms_different_members(four: Federation) -> None:
    """p00 has no mask with p03: what the server opens is masked still, and p00 helps no more."""

    def lie(name: str, order: Order) -> Order:
        return without(order, "p03") if name == "p00" else order

    four.alter = lambda name, order: lie(name, order) if order.phase == 3 else order
    taken = four.take(order_of(four.platforms), 3)
    assert [(each.platform, each.code) for each in taken.missing] == [("p00", "sum-refused")]
    expected = plain_mean(four.updates, four.platforms)
    assert ((taken.combined.tensors["a"] - expected["a"]).abs() > 1).all()
    four.alter = lambda name, order: lie(name, order) if order.phase >= 3 else order
    with pytest.raises(FednerError):  # told the same list of survivors, it signs another one
        four.take(order_of(four.platforms, 2), 3)


def test_a_server_that_forwards_a_list_signed_by_too_few(four: Federation) -> None:
    def lie(_: str, order: Order) -> Order:
        return replace(order, relayed=dict(list(order.relayed.items())[:2]))

    lying(four, 5, lie)


def test_a_server_that_invents_signatures_or_keys(four: Federation) -> None:
    def forged(_: str, order: Order) -> Order:
        return replace(order, relayed=dict.fromkeys(order.relayed, b"\x01" * 64))

    lying(four, 5, forged)
    updates = four.updates
    mallory = Federation(summation_for(plan_for(four.platforms, 1, 3)), updates)
    other = mallory.side("p03").phase(replace(order_of(four.platforms), verb="sum", phase=1))

    def swapped(name: str, order: Order) -> Order:
        keys = {**order.relayed, "p02": other.entries["p03"]}
        return order if name == "p02" else replace(order, relayed=keys)

    again = Federation(summation_for(plan_for(four.platforms, 1, 3)), updates)
    lying(again, 2, swapped)


def test_keys_of_another_round_are_refused(four: Federation) -> None:
    four.take(order_of(four.platforms, 1), 3)
    old = {name: order.relayed for name, order in four.orders if order.phase == 2}

    def replayed(name: str, order: Order) -> Order:
        own = {name: order.relayed[name]}
        return replace(order, relayed={**old[name], **own})

    four.alter = lambda name, order: replayed(name, order) if order.phase == 2 else order
    with pytest.raises(FednerError):
        four.take(order_of(four.platforms, 2), 3)


def test_a_key_that_was_used_before_is_refused_even_if_signed(
    four: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    four.take(order_of(four.platforms, 1), 3)
    pair = platform_side.make_pair()
    monkeypatch.setattr(platform_side, "make_pair", lambda: pair)
    with pytest.raises(FednerError, match="0 of 4"):
        four.take(order_of(four.platforms, 2), 3)
    assert {each.code for each in refusals(four)} == {"sum-refused"}


@pytest.mark.parametrize("phase", [2, 3, 4, 5])
def test_phases_out_of_turn_are_refused(four: Federation, phase: int) -> None:
    """Also one that comes a second time: keys would mask twice, or shares be given twice."""
    order = order_of(four.platforms)
    begun = replace(order, verb="sum", phase=phase)
    verb = "round" if phase == 3 else "sum"
    reply = four.answered("p00", replace(begun, verb=verb))
    assert isinstance(reply, Failure)
    four.take(order, 3)
    last = [given for name, given in four.orders if name == "p00" and given.phase == phase][-1]
    assert isinstance(four.answered("p00", last), Failure)


def test_a_platform_without_others_is_not_summed(four: Federation) -> None:
    def lonely(name: str, order: Order) -> Order:
        return replace(order, batches={name: 1})

    lying(four, 1, lonely)
    stranger = order_of([*four.platforms[:3], "stranger"])
    assert isinstance(four.answered("p00", replace(stranger, verb="sum", phase=1)), Failure)


def test_a_lying_server_runs_a_round_again_without_one_platform(tmp_path: Path) -> None:
    """The difference of both sums would be the update of p03."""
    names = named(4)
    updates = {name: random_update(name) for name in names}

    def federation() -> Federation:
        made = Federation(summation_for(plan_for(names, 1, 3)), updates)
        for name in names:  # each keeps its own record, and its process is a new one
            record = tmp_path / f"{name}.jsonl"
            made.sides[name] = summation_for(plan_for(names, 1, 3), record).at_platform(name)
        return made

    federation().take(order_of(names), 3)
    for run in ("run", "another run of the same study"):
        again = federation()
        again.drops = {1: ["p03"]}
        with pytest.raises(FednerError, match="0 of 3 platforms"):
            again.take(order_of(names, run=run), 3)
        refused = [each for each in refusals(again) if each.platform != "p03"]
        assert {(each.platform, each.code) for each in refused} == {
            (name, "sum-refused") for name in names[:3]
        }
        assert not [e for e in again.replies if not isinstance(e, Failure) and e.phase == 5]
    same = federation().take(order_of(names), 3)
    assert len(same.combined.platforms) == 4, "the same list may be opened again, after a crash"


class StoppedError(Exception):
    """The job was stopped."""


def restarted(folder: Path, quorum: int = 3) -> Federation:
    """Four platforms whose processes are new ones, with the records of the old ones."""
    plan = plan_for(named(4), 1, quorum)
    made = Federation(summation_for(plan), {name: random_update(name) for name in named(4)})
    for name in named(4):
        made.sides[name] = summation_for(plan, folder / f"{name}.jsonl").at_platform(name)
    return made


def test_a_job_that_ends_while_shares_come_loses_no_sum(tmp_path: Path) -> None:
    """p03 dies in the last phase, and the job with it; p03 never comes back."""
    sums, order = OpenedTotals(tmp_path / "sums"), order_of(named(4))
    first = restarted(tmp_path)

    def stop(name: str, order: Order) -> Order:
        if (name, order.phase) == ("p03", 5):
            raise StoppedError
        return order

    first.alter = stop
    with pytest.raises(StoppedError):
        first.take(order, 3, sums)
    again = restarted(tmp_path)
    again.drops = {1: ["p03"]}
    taken = again.take(order, 3, sums)
    assert taken.combined.platforms == tuple(named(4)), "what was opened before"
    expected = plain_mean(again.updates, named(4))
    assert torch.allclose(taken.combined.tensors["b"], expected["b"].float())
    assert not [e for e in again.replies if not isinstance(e, Failure) and e.phase > 1]
    later = restarted(tmp_path)
    later.drops = {1: ["p03"]}
    assert len(later.take(order_of(named(4), 2), 3, sums).combined.platforms) == 3
    other = replace(order, shared=SharedState({"a": torch.ones(5), "b": torch.zeros(2, 3)}))
    with pytest.raises(FednerError, match="0 of 3"):  # a sum of other weights is none of these
        later.take(other, 3, sums)


def test_a_round_that_was_opened_without_a_platform_is_opened_so_again(tmp_path: Path) -> None:
    sums, order = OpenedTotals(tmp_path / "sums"), order_of(named(4))
    first = restarted(tmp_path)
    first.drops = {3: ["p01"]}
    before = first.take(order, 3, sums)
    taken = restarted(tmp_path).take(order, 3, sums)
    assert [(each.platform, each.code) for each in taken.missing] == [("p01", "sum-left-out")]
    assert taken.combined.platforms == ("p00", "p02", "p03")
    for key, tensor in before.combined.tensors.items():
        assert torch.equal(tensor, taken.combined.tensors[key])


def test_wrong_shares_are_noticed(four: Federation) -> None:
    side = four.side("p00")
    told = side.phase

    def wrong(order: Order) -> object:
        reply = told(order)
        if order.phase != 5:
            return reply
        altered = {name: data[:-1] + bytes([data[-1] ^ 1]) for name, data in reply.entries.items()}
        return replace(reply, entries=altered)

    side.phase = wrong  # type: ignore[method-assign, assignment]
    with pytest.raises(FednerError, match="do not fit what it announced"):
        four.take(order_of(four.platforms), 3)


# What one platform refuses, one check after the other; words tell which of them it was.


def order_at(federation: Federation, phase: int, quorum: int | None = 3) -> Order:
    """Take a round up to the moment in which p00 gets the order of a phase; return that order."""
    caught: list[Order] = []

    def stop(name: str, order: Order) -> Order:
        if (name, order.phase) == ("p00", phase):
            caught.append(order)
            raise StoppedError
        return order

    federation.alter = stop
    with pytest.raises(StoppedError):
        federation.take(order_of(federation.platforms), quorum)
    return caught[0]


def relaying(order: Order, **changed: bytes | None) -> Order:
    relayed = {**order.relayed, **changed}
    return replace(
        order, relayed={name: data for name, data in relayed.items() if data is not None}
    )


def naming(order: Order, *names: str) -> Order:
    return replace(order, batches=dict.fromkeys(names, 1))


ALTERED: dict[str, tuple[int, Callable[[Order], Order], str]] = {
    "a stranger in phase 1": (1, lambda o: naming(o, "p00", "p01", "p02", "x"), "not in the study"),
    "a round without itself": (1, lambda o: naming(o, "p01", "p02", "p03", "p03"), "or not it"),
    "a smaller round": (1, lambda o: naming(o, "p00", "p01", "p02"), "has 3 platforms"),
    "keys of too few": (2, lambda o: without(without(o, "p02"), "p03"), "2 platforms announced"),
    "keys of fewer than named": (2, lambda o: relaying(o, p03=None), "keys are missing"),
    "keys of more than named": (2, lambda o: naming(o, "p00", "p01", "p02"), "keys are missing"),
    "its own keys changed": (2, lambda o: relaying(o, p00=o.relayed["p01"]), "came back changed"),
    "keys that cannot be read": (2, lambda o: relaying(o, p01=b"\0"), "cannot be read"),
    "keys of another name": (2, lambda o: relaying(o, p01=o.relayed["p02"]), "not signed by it"),
    "shares of too few": (3, lambda o: without(without(o, "p02"), "p03"), "2 platforms shared"),
    "shares of fewer than named": (3, lambda o: relaying(o, p03=None), "shares are missing"),
    "shares of a platform without keys": (
        3, lambda o: relaying(naming(o, *o.batches, "x"), x=b""), "shares are missing",
    ),
    "shares that came without keys in place of another's": (
        3, lambda o: relaying(naming(without(o, "p03"), "p00", "p01", "p02", "x"), x=b""),
        "shares are missing",
    ),
    "members without itself": (3, lambda o: naming(o, "p01", "p02", "p03"), "are without it"),
    "too few survivors": (4, lambda o: naming(o, "p00", "p01"), "2 platforms sent values"),
    "a survivor that is no member": (4, lambda o: naming(o, *o.batches, "x"), "others than the"),
    "a list without itself": (4, lambda o: naming(o, "p01", "p02", "p03"), "others than the"),
    "signatures of too few": (
        5, lambda o: relaying(o, p02=None, p03=None), "2 platforms signed",
    ),
    "signatures without its own": (5, lambda o: relaying(o, p00=None), "others than the surv"),
    "a signature of a stranger": (5, lambda o: relaying(o, x=b""), "others than the survivors"),
    "a signature of another": (
        5, lambda o: relaying(o, p01=o.relayed["p02"]), "'p01' signed another list",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ALTERED)
def test_every_check_of_a_platform(four: Federation, case: str) -> None:
    phase, lie, words = ALTERED[case]
    order = lie(order_at(four, phase))
    side = four.side("p00")
    with pytest.raises(SumRefusedError, match=words):
        _ = side.protect(order, four.updates["p00"]) if phase == 3 else side.phase(order)


@pytest.mark.parametrize("change", [{"round": 2}, {"run": "other"}, {"study": "6" * 64}])
@pytest.mark.parametrize("phase", [2, 3, 4, 5])
def test_keys_serve_one_round_of_one_run(
    four: Federation, phase: int, change: dict[str, object]
) -> None:
    order = replace(order_at(four, phase), **change)  # type: ignore[arg-type]
    side = four.side("p00")
    with pytest.raises(SumRefusedError, match="another one than it has keys of"):
        _ = side.protect(order, four.updates["p00"]) if phase == 3 else side.phase(order)


def test_no_phase_can_be_left_out(four: Federation) -> None:
    last = replace(order_at(four, 4), phase=5)
    with pytest.raises(SumRefusedError, match="out of turn"):
        four.side("p00").phase(last)
    with pytest.raises(SumRefusedError, match="none of its"):
        four.side("p00").phase(replace(last, phase=3))


def test_the_same_key_for_two_purposes_is_refused(
    four: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two keys of one platform are alike: no earlier round has shown them."""
    pairs = iter([platform_side.make_pair()] * 2 + [platform_side.make_pair() for _ in range(6)])
    monkeypatch.setattr(platform_side, "make_pair", lambda: next(pairs))
    with pytest.raises(FednerError, match="0 of 4"):
        four.take(order_of(four.platforms), 3)


def test_signatures_are_of_these_keys_and_these_members(four: Federation) -> None:
    """The list of another attempt of the same round, with the same names, does not count."""
    other = Federation(summation_for(plan_for(four.platforms, 1, 3)), four.updates)
    old = order_at(other, 5)
    order = order_at(four, 5)
    mixed = {**old.relayed, "p00": order.relayed["p00"]}
    with pytest.raises(SumRefusedError, match="signed another list"):
        four.side("p00").phase(replace(order, relayed=mixed))


def test_damaged_shares_of_one_platform_are_left_out(four: Federation) -> None:
    def damaged(name: str, order: Order) -> Order:
        if (name, order.phase) != ("p00", 3):
            return order
        shares = order.relayed["p01"]
        return relaying(order, p01=shares[:-1] + bytes([shares[-1] ^ 1]))

    four.alter = damaged
    taken = four.take(order_of(four.platforms), 3)
    assert len(taken.combined.platforms) == 4, "three others gave theirs"
    (given_,) = [e for e in four.replies if isinstance(e, SumMessage) and e.phase == 5
                 and e.platform == "p00"]  # fmt: skip
    assert set(given_.entries) == {"p00", "p02", "p03"}


def test_the_server_refuses_masked_values_of_another_type(four: Federation) -> None:
    side = four.side("p00")
    protect = side.protect

    def narrow(order: Order, update: Update) -> SumMessage:
        sent = protect(order, update)
        return replace(sent, tensors={name: each.int() for name, each in sent.tensors.items()})

    side.protect = narrow  # type: ignore[method-assign]
    with pytest.raises(FednerError, match="masked values of 'p00' are of type int32"):
        four.take(order_of(four.platforms), 3)


def test_a_mask_key_that_does_not_fit_is_noticed(four: Federation) -> None:
    four.drops = {3: ["p03"]}
    for name in four.platforms:
        side = four.side(name)
        side.phase = partial(wrong_keys, side.phase)  # type: ignore[method-assign]
    with pytest.raises(FednerError, match="shares of 'p03' do not fit"):
        four.take(order_of(four.platforms), 3)


def wrong_keys(told: Callable[[Order], SumMessage], order: Order) -> SumMessage:
    reply = told(order)
    if order.phase != 5:
        return reply
    entries = {
        name: data[:-1] + bytes([data[-1] ^ 1]) if data[:1] == b"d" else data
        for name, data in reply.entries.items()
    }
    return replace(reply, entries=entries)


def test_masked_values_are_noted_before_they_leave(tmp_path: Path) -> None:
    """Under DP a round that is asked for again is then another release."""
    federation = restarted(tmp_path)
    order = order_at(federation, 4)
    assert [federation.side(name).num_sent(order) for name in federation.platforms] == [1] * 4
    again = restarted(tmp_path)
    assert again.side("p00").num_sent(order) == 1
    assert again.side("p00").num_sent(replace(order, round=2)) == 0
    assert again.side("p00").num_sent(replace(order, run="other")) == 0


def test_a_list_is_signed_together_with_the_members_it_is_of(four: Federation) -> None:
    """p00 hears that p03 never dealt shares, the others that it dropped out: one list, two sums."""
    four.drops = {3: ["p03"]}
    four.alter = lambda name, order: (
        without(order, "p03") if (name, order.phase) == ("p00", 3) else order
    )
    with pytest.raises(FednerError, match="0 of 3"):
        four.take(order_of(four.platforms), 3)
    assert {each.code for each in refusals(four) if each.platform != "p03"} == {"sum-refused"}


def test_shares_of_another_length_are_left_out(
    four: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = platform_side.sealed_for

    def short(*given: object) -> bytes:
        *others, sender, recipient, data = given
        kept = data[:-1] if (sender, recipient) == ("p01", "p00") else data  # type: ignore[index]
        return real(*others, sender, recipient, kept)  # type: ignore[arg-type]

    monkeypatch.setattr(platform_side, "sealed_for", short)
    taken = four.take(order_of(four.platforms), 3)
    assert len(taken.combined.platforms) == 4
    (given_,) = [e for e in four.replies if isinstance(e, SumMessage) and e.phase == 5
                 and e.platform == "p00"]  # fmt: skip
    assert set(given_.entries) == {"p00", "p02", "p03"}
