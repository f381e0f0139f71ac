"""Both sides of encrypted rounds: the plain run, drop-outs in every phase, servers that lie."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest
import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import WeightedMean, combine
from fedner.federated.algorithms.algorithm import Server
from fedner.federated.algorithms.fedavg import fedavg
from fedner.federated.encrypted import platform_side
from fedner.federated.encrypted.announcements import make_secret
from fedner.federated.encrypted.ciphertexts import Ciphertexts, decrypt, encrypt
from fedner.federated.encrypted.kept_key import ENDED_FILE, KEY_FILE, KeptKey
from fedner.federated.encrypted.keys import KeylessContext, keyless_context
from fedner.federated.encrypted.mirror import MirrorPlan
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.encrypted.phases import (
    ANNOUNCE,
    APPLY,
    CIPHERTEXTS,
    COMPARE,
    ENCRYPT,
    HAND_OVER,
    SETTLE,
)
from fedner.federated.encrypted.plan import EncryptionPlan
from fedner.federated.encrypted.platform_side import PlatformSide, as_tensors
from fedner.federated.encrypted.server_side import ServerSide
from fedner.federated.encrypted.server_side import announced as parsed
from fedner.federated.messages import Order, SumMessage, Update, Verb
from fedner.federated.secure.identities import SimulatedIdentity
from fedner.federated.secure.opened import OpenedSums
from fedner.federated.secure_sum import mean_scales
from fedner.federated.summation import SumRefusedError, relayed_entries
from fedner.tensors import SharedState

STUDY = "5" * 64
NAMES = ["a", "b", "c", "d"]
WEIGHTS = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
BATCHES = dict.fromkeys(NAMES, 3)
PARAMETERS = CkksParameters.for_range(4, 4.0)
NUM_NUMBERS = 11
Gone = Mapping[int, Collection[str]]


def initial() -> SharedState:
    return SharedState({"v": torch.linspace(-1, 1, 5), "w": torch.ones(2, 3)})


def plan_for(**options: object) -> EncryptionPlan:
    scales, factor = mean_scales(WEIGHTS)
    mirror = MirrorPlan(fedavg(), WEIGHTS)
    plan = EncryptionPlan(PARAMETERS, mirror, scales, factor, 2, lambda _: BATCHES)
    return replace(plan, **options)  # type: ignore[arg-type]


def pull(name: str, round_: int, shared: Mapping[str, torch.Tensor]) -> Update:
    """Return what a platform makes of the weights: a pull towards its own optimum."""
    tensors = {key: (ord(name) / 100 - each) * 0.3 + round_ * 0.001 for key, each in shared.items()}
    return Update(name, round_, SharedState(tensors))


@cache
def keyless() -> KeylessContext:
    return keyless_context(PARAMETERS)


@dataclass
class Federation:
    """A coordinator without weights, and platforms that pull; some drop out of phases.

    Attributes:
        plan: What everybody knows.
        folder: Where platforms keep keys; None keeps them in memory.
        totals: The sums of all rounds, as the coordinator keeps them.
    """

    plan: EncryptionPlan = field(default_factory=plan_for)
    folder: Path | None = None
    sides: dict[str, PlatformSide] = field(default_factory=dict)
    totals: dict[int, tuple[tuple[str, ...], Ciphertexts]] = field(default_factory=dict)
    messages: list[SumMessage] = field(default_factory=list)

    def side(self, name: str) -> PlatformSide:
        if name not in self.sides:
            folder = None if self.folder is None else self.folder / name
            self.sides[name] = PlatformSide(
                self.plan,
                SimulatedIdentity(STUDY, name),
                KeptKey(PARAMETERS, folder),
                OpenedSums(),
                name,
            )
        return self.sides[name]

    def order(self, round_: int, phase: int, names: Sequence[str]) -> Order:
        batches = {name: BATCHES[name] for name in names}
        verb: Verb = "round" if phase == ENCRYPT else "sum"
        order = Order("run", round_, batches=batches, verb=verb, study=STUDY, phase=phase)
        return replace(order, shared=initial()) if round_ == 1 else order

    def apply(self, name: str, order: Order, total: Ciphertexts) -> SumMessage:
        return self.side(name).phase(replace(order, total=as_tensors(total)))

    def said(self, message: SumMessage) -> SumMessage:
        self.messages.append(message)
        return message

    def take(
        self, round_: int, gone: Gone | None = None, not_handed_over: str = ""
    ) -> tuple[str, ...]:
        """Take a round; return whose updates are in it.

        Args:
            round_: The round.
            gone: Who is gone in which phase.
            not_handed_over: Whose answer to the second phase is lost.
        """
        left = list(NAMES)

        def present(phase: int) -> list[str]:
            return [name for name in left if name not in (gone or {}).get(phase, ())]

        server = ServerSide(keyless(), round_, NUM_NUMBERS, self.plan.least)
        order = self.order(round_, ANNOUNCE, NAMES)
        came = {name: self.said(self.side(name).phase(order)) for name in present(ANNOUNCE)}
        found, left = parsed(came), list(came)
        relayed = {name: each.entries[name] for name, each in came.items()}
        order = self.order(round_, HAND_OVER, left)
        came = {
            name: self.said(self.side(name).phase(replace(order, relayed=relayed)))
            for name in present(HAND_OVER)
        }
        came = {name: each for name, each in came.items() if name not in not_handed_over}
        left, told = list(came), relayed_entries(came)
        for name in left:
            self.catch_up(name, found[name].held.after, round_, told.get(name, {}))
        order = self.order(round_, ENCRYPT, NAMES)
        for name in present(ENCRYPT):
            asked = self.side(name).filled(replace(order, relayed=told.get(name, {})))
            update = pull(name, round_, asked.shared)
            server.add(self.said(self.side(name).protect(asked, update)))
        self.totals[round_] = names, total = server.total()
        order = self.order(round_, APPLY, names)
        for name in present(APPLY):
            self.apply(name, replace(order, relayed=told.get(name, {})), total)
        return names

    def catch_up(self, name: str, after: int, round_: int, relayed: Mapping[str, bytes]) -> None:
        for missed in range(after + 1, round_):
            names, total = self.totals[missed]
            order = replace(self.order(missed, APPLY, names), relayed=relayed)
            self.apply(name, order, total)

    def weights(self, name: str, round_: int) -> SharedState:
        order = replace(self.order(round_, 0, []), verb="evaluate", shared=SharedState({}))
        return self.side(name).filled(order).shared


def plain(rounds: Sequence[Collection[str]]) -> Server:
    """Return the server of the same rounds in the clear."""
    algorithm = fedavg()
    server = algorithm.init(initial())
    for round_, names in enumerate(rounds, 1):
        updates = [pull(name, round_, server.shared) for name in sorted(names)]
        combined = combine(iter(updates), WEIGHTS, WeightedMean, 12, {})
        server = algorithm.advance(server, combined)
    return server


def assert_equal_to_plain(found: SharedState, rounds: Sequence[Collection[str]]) -> None:
    for key, weight in plain(rounds).shared.items():
        assert (found[key] - weight).abs().max() <= 1e-6


def test_rounds_equal_plain_ones_and_all_copies_are_the_same() -> None:
    federation = Federation()
    rounds = [federation.take(round_) for round_ in range(1, 6)]
    assert rounds == [tuple(NAMES)] * 5
    for name in NAMES:
        assert_equal_to_plain(federation.weights(name, 5), rounds)
    first = federation.weights("a", 5)
    for name in NAMES[1:]:
        other = federation.weights(name, 5)
        assert all(torch.equal(first[key], other[key]) for key in first)


DROPS: dict[str, Gone] = {
    "before it announced": dict.fromkeys(range(1, 5), "c"),
    "before it handed over": dict.fromkeys(range(2, 5), "c"),
    "before its values": dict.fromkeys(range(3, 5), "c"),
    "before it took the step": {APPLY: "c"},
    "the maker of the key, before it announced": dict.fromkeys(range(1, 5), "a"),
    "the maker of the key, before its values": dict.fromkeys(range(3, 5), "a"),
    "the maker of the key, before the step": {APPLY: "a"},
    "two": {ENCRYPT: "b", APPLY: "bd"},
}


@pytest.mark.parametrize("when", [1, 3])
@pytest.mark.parametrize("what", DROPS)
def test_who_drops_out_catches_up_and_has_the_same_weights(what: str, when: int) -> None:
    federation, rounds = Federation(), []
    for round_ in range(1, 7):
        is_gone = when <= round_ < when + 2  # for two rounds
        rounds.append(federation.take(round_, DROPS[what] if is_gone else None))
    assert rounds[-1] == tuple(NAMES)
    assert len({*map(len, rounds)}) <= 2
    for name in NAMES:
        assert_equal_to_plain(federation.weights(name, 6), rounds)


def test_the_key_is_handed_over_once_and_new_in_each_run(tmp_path: Path) -> None:
    federation = Federation(folder=tmp_path)
    federation.take(1)
    handed = [each for each in federation.messages if each.phase == HAND_OVER and each.entries]
    assert [(each.platform, sorted(each.entries)) for each in handed] == [("a", ["b", "c", "d"])]
    federation.messages.clear()
    federation.take(2)
    assert not any(each.entries for each in federation.messages if each.phase == HAND_OVER)
    files = {(tmp_path / name / KEY_FILE).read_bytes() for name in NAMES}
    assert len(files) == 1
    assert (tmp_path / "a" / KEY_FILE).stat().st_mode & 0o077 == 0
    kept = KeptKey(PARAMETERS, tmp_path / "a")
    assert kept.read(STUDY, "run") is not None
    assert kept.read(STUDY, "another run") is None


def test_a_key_that_was_never_handed_over_gives_way_to_the_one_that_others_went_on_with() -> None:
    federation = Federation()
    with pytest.raises(SumRefusedError, match="did not come from 'a'"):
        federation.take(1, not_handed_over="a")
    without = dict.fromkeys(range(1, 5), "a")
    rounds = [federation.take(1, without), federation.take(2, without), federation.take(3)]
    assert rounds[-1] == tuple(NAMES)
    rounds.append(federation.take(4))
    keys = {name: federation.side(name)._kept.read(STUDY, "run") for name in NAMES}
    assert len({each.name for each in keys.values() if each is not None}) == 1
    assert_equal_to_plain(federation.weights("a", 4), rounds)


def test_a_platform_that_begins_again_has_its_key_and_a_stored_copy(tmp_path: Path) -> None:
    federation = Federation(folder=tmp_path)
    rounds = [federation.take(1), federation.take(2)]
    federation.side("b").store(tmp_path / "copies", 2)
    with pytest.raises(SumRefusedError, match="not after round 3"):
        federation.side("b").store(tmp_path / "copies", 3)
    del federation.sides["b"]
    federation.side("b").load(tmp_path / "copies", 2, initial())
    rounds.append(federation.take(3))
    del federation.sides["b"]
    federation.side("b").load(tmp_path / "copies", 2, initial())  # behind by one round
    rounds.append(federation.take(4))
    assert_equal_to_plain(federation.weights("b", 4), rounds)


def test_nothing_that_leaves_holds_the_key_or_an_update() -> None:
    federation = Federation()
    federation.take(1)
    secret = federation.side("a")._kept.read(STUDY, "run")
    assert secret is not None
    sent = b"".join(
        part
        for each in federation.messages
        for part in (*each.entries.values(), *(t.numpy().tobytes() for t in each.tensors.values()))
    )
    assert secret.data[60:300] not in sent
    row = pull("a", 1, initial()).tensors["v"]
    assert row.numpy().tobytes()[:8] not in sent
    assert row.double().numpy().tobytes()[:8] not in sent


def test_a_platform_that_works_together_with_the_server_reads_every_update() -> None:
    """What the docs say that encryption does not do: every platform has the key."""
    federation = Federation()
    federation.take(1)
    secret = federation.side("b")._kept.read(STUDY, "run")
    assert secret is not None
    for message in federation.messages:
        if message.phase == ENCRYPT:
            data = message.tensors[CIPHERTEXTS].numpy().tobytes()
            found = decrypt(secret.key, Ciphertexts(NUM_NUMBERS, data), NUM_NUMBERS)
            name = message.platform
            sent = pull(name, 1, initial()).tensors
            expected = torch.cat([sent["v"], sent["w"].reshape(-1)]) * federation.plan.scales[name]
            assert torch.allclose(torch.from_numpy(found).float(), expected, atol=1e-6)


def total_of(federation: Federation, name: str, value: float) -> Ciphertexts:
    secret = federation.side(name)._kept.read(STUDY, "run")
    assert secret is not None
    return encrypt(secret.key, [value] * NUM_NUMBERS, 1.0)


def test_platforms_that_were_given_different_sums_notice_and_end_the_key(tmp_path: Path) -> None:
    federation = Federation(folder=tmp_path)
    federation.take(1)
    federation.take(2, {APPLY: "d"})
    order = federation.order(2, APPLY, NAMES)
    federation.apply("d", order, total_of(federation, "d", 0.001))
    with pytest.raises(SumRefusedError, match="at d are others than its own"):
        federation.take(3)
    assert (tmp_path / "a" / ENDED_FILE).is_file()
    del federation.sides["a"]  # and it stays so
    with pytest.raises(SumRefusedError, match="key of this run was ended"):
        federation.side("a").phase(federation.order(3, ANNOUNCE, NAMES))


def test_a_sum_that_does_not_decrypt_ends_the_key() -> None:
    federation = Federation()
    federation.take(1)
    federation.take(2, {APPLY: NAMES})
    order = federation.order(2, APPLY, NAMES)
    other = make_secret(PARAMETERS)
    wrong = encrypt(other.key, [0.1] * NUM_NUMBERS, 1.0)
    with pytest.raises(SumRefusedError, match="does not decrypt"):
        federation.apply("a", order, wrong)
    with pytest.raises(SumRefusedError, match="key of this run was ended"):
        federation.apply("a", order, federation.totals[2][1])
    # What is wrong for everybody to see ends nothing.
    with pytest.raises(FednerError, match="brings no encrypted sum"):
        federation.side("b").phase(order)
    with pytest.raises(FednerError, match="a message of"):
        federation.apply("b", order, Ciphertexts(NUM_NUMBERS, b""))
    federation.apply("b", order, federation.totals[2][1])


def test_sums_out_of_turn_or_of_too_few_are_refused() -> None:
    federation = Federation()
    federation.take(1)
    _, total = federation.totals[1]
    for order, words in (
        (federation.order(1, APPLY, NAMES), "not that of its next round"),
        (federation.order(3, APPLY, NAMES), "not that of its next round"),
        (federation.order(2, APPLY, ["a"]), "too few"),
    ):
        with pytest.raises(SumRefusedError, match=words):
            federation.apply("a", order, total)
    order = replace(federation.order(2, APPLY, []), batches={"a": 1, "b": 1, "stranger": 1})
    with pytest.raises(SumRefusedError, match="not chosen"):
        federation.apply("a", order, total)


def test_phases_out_of_turn_and_orders_without_weights_are_refused() -> None:
    federation = Federation()
    side = federation.side("a")
    with pytest.raises(SumRefusedError, match="out of turn"):
        side.phase(federation.order(1, HAND_OVER, NAMES))
    with pytest.raises(SumRefusedError, match="none of its"):
        side.phase(federation.order(1, 7, NAMES))
    with pytest.raises(SumRefusedError, match="not after round 1"):
        side.filled(federation.order(2, ENCRYPT, NAMES))
    with pytest.raises(SumRefusedError, match="other platforms than the study"):
        side.phase(federation.order(1, ANNOUNCE, ["a", "b"]))
    side.phase(federation.order(1, ANNOUNCE, NAMES))
    with pytest.raises(SumRefusedError, match="out of turn"):
        side.protect(federation.order(1, ENCRYPT, NAMES), pull("a", 1, initial()))


def test_platforms_that_compute_other_bits_are_refused_by_name_and_keep_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    federation = Federation()
    monkeypatch.setattr(platform_side, "arithmetic", lambda _: b"other")
    federation.side("c").phase(federation.order(1, ANNOUNCE, NAMES))
    monkeypatch.undo()
    told = announced(federation)
    order = replace(federation.order(1, HAND_OVER, NAMES), relayed=told)
    with pytest.raises(SumRefusedError, match="c would compute other bits"):
        federation.side("a").phase(order)
    assert federation.side("a")._kept.read(STUDY, "run") is None, "none was made"


def at_work(federation: Federation, round_: int = 1) -> tuple[PlatformSide, Order]:
    """Return the first platform after its second phase, and the order of the third."""
    told = announced(federation, round_)
    order = federation.order(round_, HAND_OVER, NAMES)
    for name in NAMES:
        federation.side(name).phase(replace(order, relayed=told))
    side = federation.side("a")
    return side, side.filled(federation.order(round_, ENCRYPT, NAMES))


def test_updates_leave_only_for_the_study_s_platforms_of_this_very_round() -> None:
    update = pull("a", 1, initial())
    for changes, words in (
        ({"batches": {"a": 3, "b": 3, "c": 3}}, "other platforms than the study chooses"),
        ({"run": "another"}, "another one than it announced for"),
        ({"study": "6" * 64}, "another one than it announced for"),
    ):
        side, order = at_work(Federation())
        with pytest.raises(SumRefusedError, match=words):
            side.protect(replace(order, **changes), update)


def test_what_left_is_counted_before_it_leaves() -> None:
    side, order = at_work(Federation())
    assert side.num_sent(order) == 0
    side.protect(order, pull("a", 1, initial()))
    assert side.num_sent(order) == 1


def test_a_key_comes_from_its_giver_alone_and_a_sum_alone() -> None:
    federation = Federation()
    told = announced(federation)
    order = replace(federation.order(1, HAND_OVER, NAMES), relayed=told)
    sealed = {name: federation.side(name).phase(order).entries for name in NAMES}["a"]
    side, work = federation.side("b"), federation.order(1, ENCRYPT, NAMES)
    both = side.filled(replace(work, relayed={"a": sealed["b"], "c": b"more"}))
    with pytest.raises(SumRefusedError, match="did not come from 'a'"):
        side.protect(both, pull("b", 1, initial()))
    federation = Federation()
    federation.take(1)
    federation.take(2, {APPLY: NAMES})
    total = as_tensors(federation.totals[2][1])
    more = replace(federation.order(2, APPLY, NAMES), total=total | {"more": torch.zeros(1)})
    with pytest.raises(SumRefusedError, match="brings no encrypted sum"):
        federation.side("a").phase(more)


def test_a_key_that_ended_is_not_taken_from_others_either() -> None:
    kept, secret = KeptKey(PARAMETERS), make_secret(PARAMETERS)
    kept.end(secret)
    with pytest.raises(SumRefusedError, match="was ended"):
        kept.keep(STUDY, "run", secret)
    assert kept.read(STUDY, "run") is None


def announced(federation: Federation, round_: int = 1) -> dict[str, bytes]:
    order = federation.order(round_, ANNOUNCE, NAMES)
    return {name: federation.side(name).phase(order).entries[name] for name in NAMES}


def test_a_round_that_was_taken_is_not_announced_again() -> None:
    federation = Federation()
    federation.take(1)
    federation.take(2)
    for round_ in (1, 2):
        with pytest.raises(SumRefusedError, match="is after round 2 already"):
            federation.side("a").phase(federation.order(round_, ANNOUNCE, NAMES))
    federation.side("a").phase(federation.order(2, COMPARE, NAMES))


def test_too_few_are_no_round_and_may_compare_their_copies_after_the_last() -> None:
    federation = Federation(plan_for(least=3))
    federation.take(1)
    two = ["a", "b"]
    for first, second in ((ANNOUNCE, HAND_OVER), (COMPARE, SETTLE)):
        round_ = 2 if first == ANNOUNCE else 1
        order = replace(federation.order(round_, first, NAMES), shared=SharedState({}))
        told = {name: federation.side(name).phase(order).entries[name] for name in two}
        order = replace(order, phase=second, batches=dict.fromkeys(two, 1), relayed=told)
        if first == ANNOUNCE:
            with pytest.raises(SumRefusedError, match="2 platforms announced; expected 3 or more"):
                federation.side("a").phase(order)
        else:
            assert not federation.side("a").phase(order).entries


def test_announcements_that_are_missing_changed_or_of_strangers_are_refused() -> None:
    for alter, words in (
        (lambda told: {key: told[key] for key in "abc"}, "missing"),
        (lambda told: told | {"a": told["b"]}, "came back changed"),
        (lambda told: told | {"b": told["c"]}, "not signed"),
    ):
        federation = Federation()
        order = federation.order(1, HAND_OVER, NAMES)
        relayed = alter(announced(federation))
        with pytest.raises(SumRefusedError, match=words):
            federation.side("a").phase(replace(order, relayed=relayed))


def test_a_platform_without_the_key_sends_nothing_until_it_comes_from_its_giver() -> None:
    federation = Federation()
    told = announced(federation)
    order = replace(federation.order(1, HAND_OVER, NAMES), relayed=told)
    sealed = federation.side("a").phase(order).entries
    for name in "bc":
        assert not federation.side(name).phase(order).entries
    work = federation.order(1, ENCRYPT, NAMES)
    update = pull("b", 1, initial())
    with pytest.raises(SumRefusedError, match="did not come from 'a'"):
        federation.side("b").protect(federation.side("b").filled(work), update)
    side = federation.side("c")
    of_another = side.filled(replace(work, relayed={"a": sealed["b"]}))
    with pytest.raises(FednerError, match="altered in transit"):
        side.protect(of_another, pull("c", 1, initial()))


def test_norm_and_cost_are_checked_before_anything_is_encrypted() -> None:
    for options, words in (
        ({"norm_bound": 0.01}, "norm above"),
        ({"must_be_charged": True}, "cost nobody counted"),
    ):
        with pytest.raises(SumRefusedError, match=words):
            Federation(plan_for(**options)).take(1)


def test_the_server_takes_each_platform_once_and_only_ciphertexts() -> None:
    federation = Federation()
    federation.take(1)
    values = [each for each in federation.messages if each.phase == ENCRYPT]
    server = ServerSide(keyless(), 1, NUM_NUMBERS, 2)
    server.add(values[0])
    with pytest.raises(FednerError, match="twice"):
        server.add(values[0])
    with pytest.raises(FednerError, match="at least 2"):
        server.total()
    for tensors in ({}, {"other": torch.zeros(3)}, {CIPHERTEXTS: torch.zeros(2, 2)}):
        with pytest.raises(FednerError, match="is not ciphertexts"):
            server.add(replace(values[1], tensors=tensors))
    with pytest.raises(FednerError, match="a message"):
        server.add(replace(values[1], tensors={CIPHERTEXTS: torch.zeros(9, dtype=torch.uint8)}))
