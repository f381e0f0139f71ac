"""Keys, shares and masks against a second implementation, and the algebra that hides updates."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import reference_sum
import torch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from secure_rounds import (
    STUDY,
    Federation,
    masked,
    named,
    order_of,
    plan_for,
    random_update,
    summation_for,
)

from fedner.errors import FednerError
from fedner.federated.message_bytes import order_from_bytes, reply_from_bytes, to_bytes
from fedner.federated.messages import MOST_ENTRY, Failure, Order, Reply, SumMessage, Update
from fedner.federated.secure import platform_side, server_side, shares
from fedner.federated.secure.identities import SimulatedIdentity
from fedner.federated.secure.keys import (
    agreed,
    derived,
    make_pair,
    opened_from,
    pair_key,
    pair_of,
    sealed_for,
)
from fedner.federated.secure.masks import Mask, add_masks
from fedner.federated.secure.opened import OpenedSums, SumLine
from fedner.federated.secure.shares import PRIME, SHARE_BYTES, join_shares, split_secret
from fedner.federated.secure.wire import Context, packed, unpacked
from fedner.federated.summation import SumRefusedError
from fedner.tensors import SharedState

SECRET = st.binary(min_size=32, max_size=32)
CONTEXT = Context(STUDY, "run", 3, 4, 1, "0x1.0000000000000p-36 64")
SUM = reference_sum.context(STUDY, "run", 3, 4, 1, "0x1.0000000000000p-36 64")


def is_prime(number: int) -> bool:
    """Miller and Rabin's test, with bases that leave no doubt in practice."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47):
        value = pow(base, odd, number)
        if value not in (1, number - 1) and all(
            pow(value, 2**each, number) != number - 1 for each in range(1, twos)
        ):
            return False
    return True


def test_the_field_is_one() -> None:
    assert PRIME == reference_sum.PRIME
    assert is_prime(PRIME)
    assert not is_prime(PRIME + 2)
    assert 2**256 < PRIME < 2 ** (8 * SHARE_BYTES)


@settings(max_examples=30, deadline=None)
@given(SECRET, st.integers(1, 20), st.data())
def test_shares_are_those_of_a_second_implementation(
    secret: bytes, number: int, data: st.DataObject
) -> None:
    threshold = data.draw(st.integers(1, number))
    made = split_secret(secret, range(1, number + 1), threshold)
    some = data.draw(st.permutations(sorted(made)))[:threshold]
    given_ = {point: made[point] for point in some}
    assert reference_sum.secret_of(given_) == secret
    assert join_shares(given_, threshold) == secret
    assert join_shares(made, threshold) == secret, "more than enough"
    if threshold > 1:
        with pytest.raises(FednerError, match="expected"):
            join_shares(dict(list(given_.items())[1:]), threshold)


def test_fewer_shares_than_the_threshold_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a field of 7 numbers: of two shares of three, every secret is equally likely."""
    monkeypatch.setattr(shares, "PRIME", 7)
    seen: dict[tuple[int, int], list[int]] = {}
    for secret in range(7):
        for second in range(7):
            for third in range(7):
                row = [shares._value((secret, second, third), x) for x in (1, 2)]
                seen.setdefault((row[0], row[1]), []).append(secret)
    assert len(seen) == 49
    assert all(sorted(each) == list(range(7)) for each in seen.values())


def test_shares_of_wrong_form_are_refused() -> None:
    made = split_secret(bytes(32), [1, 2, 3], 2)
    for wrong in (made[1][:-1], b"\xff" * SHARE_BYTES):
        with pytest.raises(FednerError, match="not a valid share"):
            join_shares({1: wrong, 2: made[2]}, 2)
    for secret, points, threshold in ((bytes(31), [1, 2], 2), (bytes(32), [1, 1], 2),
                                      (bytes(32), [0, 1], 2), (bytes(32), [1, 2], 3)):  # fmt: skip
        with pytest.raises(FednerError, match="expected different points"):
            split_secret(secret, points, threshold)


def test_key_agreement_is_that_of_rfc_7748() -> None:
    one = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f92ebc099ac97bdf0a2a2f1e0dd")[:32]
    for private in (one, bytes(range(32)), bytes([255] * 32)):
        pair, other = pair_of(private), make_pair()
        assert pair.public == reference_sum.public_of(private)
        assert agreed(private, other.public) == reference_sum.x25519(private, other.public)
        assert agreed(private, other.public) == agreed(other.private, pair.public)
    with pytest.raises(FednerError, match="none"):
        agreed(one, bytes(32))


def test_keys_are_derived_as_in_rfc_5869_for_one_purpose_each() -> None:
    one, two = make_pair(), make_pair()
    key = pair_key(one, two.public, CONTEXT, "a", "b")
    assert key == reference_sum.pair_key(one.private, two.public, SUM, "a", "b")
    assert key == pair_key(two, one.public, CONTEXT, "b", "a"), "both come to the same"
    seed = bytes(range(32))
    assert derived(seed, "self mask", CONTEXT, "a") == reference_sum.self_key(seed, SUM, "a")
    changed = [
        replace(CONTEXT, **change)
        for change in (
            {"study": "6" * 64}, {"run": "other"}, {"round": 4}, {"num_platforms": 5},
            {"colluding": 2}, {"grid": "0x1.0000000000000p-36 32"},
        )
    ]  # fmt: skip
    keys = [pair_key(one, two.public, each, "a", "b") for each in (CONTEXT, *changed)]
    keys += [pair_key(one, two.public, CONTEXT, "a", other) for other in ("c", "bb")]
    keys += [derived(agreed(one.private, two.public), kind, CONTEXT, "a", "b")
             for kind in ("self mask", "shares")]  # fmt: skip
    keys += [derived(agreed(one.private, two.public), "shares", CONTEXT, "b", "a")]
    assert len(set(keys)) == len(keys), "by round, pair, direction and purpose"


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("count", [0, 1, 5, 70_001])
def test_masks_are_those_of_a_second_implementation(dtype: type, count: int) -> None:
    keys = [bytes([each] * 32) for each in (1, 2)]
    words = np.arange(count, dtype=dtype)
    add_masks(words, [Mask(keys[0], 1), Mask(keys[1], -1)])
    bits = 8 * words.itemsize
    plus, minus = (reference_sum.mask(key, count, bits) for key in keys)
    some = range(0, count, 997)  # in Python's own numbers
    assert [int(words[at]) for at in some] == [(at + plus[at] - minus[at]) % 2**bits for at in some]
    add_masks(words, [Mask(keys[1], 1), Mask(keys[0], -1)])
    assert (words == np.arange(count, dtype=dtype)).all(), "they cancel"


def test_what_a_platform_sends_is_what_a_second_implementation_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = named(3)
    made: list[bytes] = []
    seeds: list[bytes] = []
    monkeypatch.setattr(platform_side, "make_pair", lambda: noted(made))
    monkeypatch.setattr(platform_side.secrets, "token_bytes", lambda _: noted_seed(seeds))
    updates = {name: random_update(name) for name in names}
    federation = Federation(summation_for(plan_for(names)), updates)
    federation.take(order_of(names))
    monkeypatch.undo()
    plan = plan_for(names)
    context = reference_sum.context(STUDY, "run", 1, 3, 1, "0x1.0000000000000p-36 64")
    words = {}
    for name in names:
        row = torch.cat([updates[name].tensors[key].reshape(-1) for key in "ab"])
        scaled = [float(each) * plan.scales[name] * 2**36 for each in row]
        words[name] = [round(each) % 2**64 for each in scaled]
    privates = {name: made[2 * place + 1] for place, name in enumerate(names)}
    own_seeds = dict(zip(names, seeds, strict=True))
    for name, message in masked(federation.replies).items():
        sent = torch.cat([message.tensors[f"tensors/{key}"].reshape(-1) for key in "ab"])
        expected = reference_sum.masked_sum_of(words, privates, own_seeds, context, name)
        assert [each % 2**64 for each in sent.tolist()] == expected


def noted(made: list[bytes]) -> object:
    pair = make_pair()
    made.append(pair.private)
    return pair


def noted_seed(seeds: list[bytes]) -> bytes:
    seeds.append(X25519PrivateKey.generate().private_bytes_raw())
    return seeds[-1]


def test_shares_are_sealed_for_one_recipient_and_one_direction() -> None:
    one, two, three = make_pair(), make_pair(), make_pair()
    sealed = sealed_for(one, two.public, CONTEXT, "a", "b", b"shares")
    assert opened_from(two, one.public, CONTEXT, "a", "b", sealed) == b"shares"
    back = sealed_for(two, one.public, CONTEXT, "b", "a", b"shares")
    assert back != sealed
    others = (
        (three, one.public, CONTEXT, "a", "b"),
        (two, three.public, CONTEXT, "a", "b"),
        (two, one.public, replace(CONTEXT, round=4), "a", "b"),
        (two, one.public, CONTEXT, "b", "a"),
    )
    for other in others:
        with pytest.raises(FednerError, match="altered"):
            opened_from(*other, sealed)
    with pytest.raises(FednerError, match="altered"):
        opened_from(two, one.public, CONTEXT, "a", "b", sealed[:-1] + bytes([sealed[-1] ^ 1]))


@given(st.lists(st.binary(max_size=9), max_size=5))
def test_bytes_are_read_in_one_way_only(parts: list[bytes]) -> None:
    data = packed(*parts)
    assert unpacked(data, len(parts)) == parts
    with pytest.raises(FednerError):
        unpacked(data, len(parts) + 1)
    if data:
        with pytest.raises(FednerError):
            unpacked(data[:-1] if parts[-1] else data[:-2], len(parts))


# What c platforms and the server see together: everything but the masks between honest platforms.


def view(
    inputs: Mapping[str, Sequence[float]],
    moved: Mapping[str, int],
    *,
    gone: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[list[Reply], Federation]:
    """Run a round with the same randomness; the masks of some pairs are moved by whole numbers.

    Stands for a random oracle: a key that nobody but two honest platforms knows may stand for any
    stream, each as likely as the others.
    """
    names = sorted(inputs)
    draws = np.random.default_rng(5)
    plan = plan_for(names, 1, 3, scales=dict.fromkeys(names, 1.0), factor=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(platform_side, "make_pair", lambda: pair_of(draws.bytes(32)))
        patch.setattr(platform_side.secrets, "token_bytes", draws.bytes)
        patch.setattr(shares.secrets, "randbelow", lambda _: int.from_bytes(draws.bytes(32), "big"))
        keys: dict[bytes, str] = {}
        real = platform_side.pair_key

        def noting(own: object, public: bytes, context: Context, one: str, other: str) -> bytes:
            key = real(own, public, context, one, other)  # type: ignore[arg-type]
            keys[key] = "-".join(sorted((one, other)))
            return key

        def moved_masks(words: np.ndarray, masks: Sequence[Mask]) -> None:
            add_masks(words, masks)
            for mask in masks:
                words += np.int64(mask.sign * moved.get(keys.get(mask.key, ""), 0)).view(np.uint64)

        for module in (platform_side, server_side):
            patch.setattr(module, "pair_key", noting)
            patch.setattr(module, "add_masks", moved_masks)
        updates = {
            name: Update(name, 1, SharedState({"a": torch.tensor(row, dtype=torch.float64)}))
            for name, row in inputs.items()
        }
        federation = Federation(summation_for(plan), updates, {3: gone} if gone else {})
        order = replace(order_of(names), shared=SharedState({"a": torch.zeros(1)}))
        federation.take(order, 3)
    return federation.replies, federation


def seen(replies: Sequence[Reply]) -> list[tuple[object, ...]]:
    return [
        (each.platform, each.phase, dict(each.entries),
         {name: tensor.tolist() for name, tensor in each.tensors.items()})
        for each in replies
        if isinstance(each, SumMessage)
    ]  # fmt: skip


@pytest.mark.parametrize("corrupt", named(4))
@pytest.mark.parametrize("gone", [(), ("p00",), ("p03",)])
def test_two_inputs_of_the_same_sum_cannot_be_told_apart(
    corrupt: str, gone: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever honest platforms put in: for another input with the same sum there are masks,
    just as likely, with which the server and the corrupt platform see the very same bytes."""
    inputs = {name: [float(place + 1)] for place, name in enumerate(named(4))}
    honest = [name for name in named(4) if name != corrupt and name not in gone]
    first, _ = view(inputs, {}, gone=gone, monkeypatch=monkeypatch)
    for one, other in combinations(honest, 2):
        others = {**inputs, one: [inputs[one][0] + 7.0], other: [inputs[other][0] - 7.0]}
        shift = {f"{one}-{other}": -7 * 2**36}  # the smaller name adds the mask
        again, _ = view(others, shift, gone=gone, monkeypatch=monkeypatch)
        assert seen(again) == seen(first)
        unmoved, _ = view(others, {}, gone=gone, monkeypatch=monkeypatch)
        assert seen(unmoved) != seen(first), "a test that cannot fail shows nothing"


def test_another_sum_can_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = {name: [float(place)] for place, name in enumerate(named(4))}
    first, _ = view(inputs, {}, gone=(), monkeypatch=monkeypatch)
    more = {**inputs, "p00": [5.0]}
    again, _ = view(more, {"p00-p01": -5 * 2**36}, gone=(), monkeypatch=monkeypatch)
    assert seen(again) != seen(first)


@pytest.mark.parametrize("gone", [(), ("p03",)])
def test_no_two_shares_of_one_platform_leave(gone: tuple[str, ...]) -> None:
    """Of each platform either the self mask is opened, or the mask key: never both."""
    names = named(4)
    updates = {name: random_update(name) for name in names}
    federation = Federation(summation_for(plan_for(names, 1, 3)), updates, {3: gone})
    federation.take(order_of(names), 3)
    given_ = [e for e in federation.replies if isinstance(e, SumMessage) and e.phase == 5]
    assert len(given_) == 4 - len(gone)
    for message in given_:
        kinds = {name: data[:1] for name, data in message.entries.items()}
        assert kinds == {name: b"d" if name in gone else b"s" for name in names}


# What is kept of sums.


def line(members: str, values: str = "v", run: str = "run", round_: int = 1) -> SumLine:
    return SumLine("opened", STUDY, run, round_, values, members)


def test_a_round_is_opened_for_one_list_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "home" / "sums.jsonl"
    OpenedSums(path).note_opened(line("all"), is_charged=False)
    assert path.stat().st_mode & 0o777 == 0o600
    kept = OpenedSums(path)
    kept.note_opened(line("all"), is_charged=False)
    kept.note_opened(line("fewer", round_=2), is_charged=False)
    for other in (line("fewer"), line("fewer", "w"), line("fewer", run="again")):
        with pytest.raises(SumRefusedError, match="another list"):
            OpenedSums(path).note_opened(other, is_charged=False)
    with pytest.raises(SumRefusedError, match="another list"):
        OpenedSums(path).note_opened(line("fewer"), is_charged=True)
    OpenedSums(path).note_opened(line("fewer", "noised anew"), is_charged=True)


def test_lines_are_on_the_disk_before_anything_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    path, real = tmp_path / "sums.jsonl", os.fsync

    def fsync(handle: int) -> None:
        synced.append(path.read_bytes())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    kept = OpenedSums(path)
    kept.note_sent(STUDY, "run", 1, "v")
    assert synced[0].count(b"\n") == 1
    kept.note_opened(line("all"), is_charged=False)
    assert synced[-1].count(b"\n") == 2


def test_a_simulated_platform_signs_with_its_own_key() -> None:
    one, two = SimulatedIdentity(STUDY, "a"), SimulatedIdentity(STUDY, "b")
    assert one.is_signed("b", two.public, b"x", two.sign(b"x"))
    assert not one.is_signed("a", two.public, b"x", two.sign(b"x")), "in another's name"
    assert not one.is_signed("b", two.public, b"y", two.sign(b"x"))
    assert SimulatedIdentity("6" * 64, "a").public != one.public


def test_values_that_left_are_counted_by_run_and_round(tmp_path: Path) -> None:
    path = tmp_path / "sums.jsonl"
    for _ in range(2):
        OpenedSums(path).note_sent(STUDY, "run", 1, "v")
    counts = [
        OpenedSums(path).num_sent(STUDY, *each) for each in (("run", 1), ("run", 2), ("x", 1))
    ]
    assert counts == [2, 0, 0]


def test_a_line_more_costs_the_same_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sums.jsonl"
    kept = OpenedSums(path)
    for round_ in range(1, 4):
        kept.note_sent(STUDY, "run", round_, "v")
    looks: list[bytes] = []
    monkeypatch.setattr(OpenedSums, "_read", lambda _, holding=b"": looks.append(holding) or [])
    for round_ in range(4, 9):
        assert kept.num_sent(STUDY, "run", round_) == 0
        kept.note_sent(STUDY, "run", round_, "v")
        kept.note_opened(line("all", round_=round_), is_charged=False)
    assert not looks, "nothing older was looked at"
    kept.num_sent(STUDY, "run", 2)
    kept.note_sent(STUDY, "run", 2, "v")
    assert looks == [b'"round": 2,'], "a round that is taken again"
    monkeypatch.undo()
    assert [OpenedSums(path).num_sent(STUDY, "run", each) for each in (3, 8, 80)] == [1, 1, 0]


def test_a_line_that_a_kill_cut_off_is_dropped_and_a_damaged_one_stops(tmp_path: Path) -> None:
    path = tmp_path / "sums.jsonl"
    OpenedSums(path).note_sent(STUDY, "run", 1, "v")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    kept = OpenedSums(path)
    assert kept.num_sent(STUDY, "run", 1) == 1
    kept.note_sent(STUDY, "run", 1, "v")
    assert path.read_bytes() == whole * 2
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(FednerError, match="is damaged"):
        OpenedSums(path).num_sent(STUDY, "run", 1)


def test_what_platforms_send_each_other_is_bounded_both_ways() -> None:
    most = b"x" * MOST_ENTRY
    up, down = SumMessage("a", 1, 2, {"b": most}), Order("run", 1, verb="sum", phase=3)
    down = replace(down, relayed={"b": most})
    assert reply_from_bytes(to_bytes(up)).entries == {"b": most}  # type: ignore[union-attr]
    assert order_from_bytes(to_bytes(down)).relayed == {"b": most}
    with pytest.raises(FednerError, match="more than 65536 bytes"):
        reply_from_bytes(to_bytes(replace(up, entries={"b": most + b"x"})))
    with pytest.raises(FednerError, match="more than 65536 bytes"):
        order_from_bytes(to_bytes(replace(down, relayed={"b": most + b"x"})))
    with pytest.raises(FednerError, match="unsound event"):
        reply_from_bytes(to_bytes(replace(up, event={"release": {}})))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.binary(max_size=200), st.integers(0, 2**32))
def test_whatever_a_server_relays_nothing_but_a_refusal_comes_of_it(
    phase: int, data: bytes, place: int
) -> None:
    """Bytes of its own, or one byte of the true ones changed."""
    federation = Federation(
        summation_for(plan_for(named(3))), {name: random_update(name) for name in named(3)}
    )

    def alter(name: str, order: Order) -> Order:
        if name != "p00" or order.phase != phase or not order.relayed:
            return order
        true = bytearray(order.relayed["p01"])
        true[place % len(true)] ^= 1
        changed = data if place % 2 else bytes(true)
        return replace(order, relayed={**order.relayed, "p01": changed})

    federation.alter = alter
    try:
        taken = federation.take(order_of(named(3)))
    except FednerError:
        codes = {each.code for each in federation.replies if isinstance(each, Failure)}
        assert codes <= {"sum-refused"}
    else:  # a damaged share of three: nobody can open the sum, so it was not damaged
        assert phase in (3, 4)
        assert len(taken.combined.platforms) == 3
