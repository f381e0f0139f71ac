"""bfloat16 and int8 on slow links: within the stated error, nothing lost, hostile codes refused."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from dp_killed_run import dp_platform
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_platform import initial, random_platform
from safetensors.torch import load as load_safetensors
from tagger_platforms import NAMES, first_shared, tagger_platform
from torch import Tensor

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.errors import FednerError
from fedner.federated import orders
from fedner.federated.algorithms import FedAvgSettings, fedavg, fedner
from fedner.federated.answering import answers
from fedner.federated.dp_steps import DPSteps
from fedner.federated.encoding import (
    decode,
    decode_update,
    encode,
    encode_update,
    largest_error,
    order_down,
    scales_shape,
)
from fedner.federated.engine import Engine
from fedner.federated.message_bytes import order_from_bytes, to_bytes, update_from_bytes
from fedner.federated.messages import Order, Update, payload_bytes
from fedner.federated.orders import OrderRefusedError
from fedner.federated.platform import LocalSettings, Platform
from fedner.federated.run import RunRecord, RunSettings, run
from fedner.federated.screening import NormRule, Screen
from fedner.federated.server_noise import ServerNoise
from fedner.federated.summation import Summation
from fedner.federated.tensor_bytes import NotFiniteError
from fedner.models.partition import Partition
from fedner.privacy.entropy import SeededSimulation
from fedner.privacy.mechanisms import (
    PLATFORM,
    PLATFORM_CENTRAL,
    UNIT_CENTRAL,
    UNIT_LOCAL,
    Asked,
    PlatformPrivacy,
    require_fitting,
)
from fedner.privacy.sampling import Units
from fedner.settings.sections import Encoding
from fedner.tensors import SharedState, norm

SMALLER: tuple[Encoding, ...] = ("bfloat16", "int8")
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=20)
NUMBERS = st.floats(-(2.0**100), 2.0**100, width=32)
TENSORS = arrays.arrays(np.float32, SHAPES, elements=NUMBERS).map(torch.from_numpy)


def state(**tensors: Tensor) -> SharedState:
    return Partition(tuple(tensors), ()).shared_state(tensors)


@pytest.mark.parametrize("encoding", SMALLER)
@given(tensor=TENSORS)
@settings(max_examples=60, deadline=None)
def test_what_is_decoded_lies_within_the_stated_error(encoding: Encoding, tensor: Tensor) -> None:
    before = tensor.clone()
    sent = encode(tensor, encoding)
    found = decode(sent)
    assert torch.equal(tensor, before), "inputs are never changed"
    assert found.shape == tensor.shape
    assert found.dtype == torch.float32
    assert bool(((found.double() - tensor.double()).abs() <= largest_error(tensor, encoding)).all())
    assert sent.codes.dtype == {"bfloat16": torch.bfloat16, "int8": torch.int8}[encoding]
    if sent.scales is not None:
        assert tuple(sent.scales.shape) == scales_shape(tensor.shape)


@pytest.mark.parametrize("encoding", SMALLER)
@given(
    rounds=st.lists(
        arrays.arrays(np.float32, (3, 20), elements=st.floats(-100, 100, width=32)),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=40, deadline=None)
def test_over_rounds_nothing_is_lost_but_the_last_step(
    encoding: Encoding, rounds: list[np.ndarray[Any, np.dtype[np.float32]]]
) -> None:
    feedback: dict[str, Tensor] = {}
    sent = asked = torch.zeros(3, 20, dtype=torch.float64)
    step = torch.zeros(3, 20)
    for number, each in enumerate(rounds, start=1):
        update = Update("p", number, state(a=torch.from_numpy(each)))
        kept = {key: tensor.clone() for key, tensor in feedback.items()}
        encoded = encode_update(update, encoding, feedback)
        assert all(torch.equal(feedback[key], kept[key]) for key in kept), "inputs stay"
        last = update.tensors["a"] + feedback.get("tensors/a", 0.0)
        step = largest_error(last, encoding)
        sent = sent + decode_update(encoded.update).tensors["a"].double()
        asked = asked + update.tensors["a"].double()
        feedback = encoded.feedback
    rounding = 1e-4 * len(rounds)  # float32 additions
    assert bool(((sent - asked).abs() <= step + rounding).all())


def test_without_feedback_small_changes_would_be_lost() -> None:
    """The property above can fail: a number below half a step is never sent without feedback."""
    tensor = torch.full((1, 20), 0.3)
    tensor[0, 0] = 100.0
    update = Update("p", 1, state(a=tensor))
    with_it = without = torch.zeros(1, 20)
    feedback: dict[str, Tensor] = {}
    for _ in range(10):
        sent = encode_update(update, "int8", feedback)
        feedback = sent.feedback
        with_it = with_it + decode_update(sent.update).tensors["a"]
        without = without + decode_update(encode_update(update, "int8", {}).update).tensors["a"]
    assert float(without[0, 1]) == 0.0
    assert float(with_it[0, 1]) == pytest.approx(3.0, abs=0.4)


@pytest.mark.parametrize("encoding", SMALLER)
def test_one_byte_form_that_others_can_read(encoding: Encoding) -> None:
    update = Update("p", 1, state(a=torch.randn(30, 40), b=torch.randn(7)), state(a=torch.ones(2)))
    sent = encode_update(update, encoding, {}).update
    data = to_bytes(sent)
    back = update_from_bytes(data)
    assert to_bytes(back) == data
    for one, other in ((sent.tensors, back.tensors), (sent.scales, back.scales)):
        assert all(torch.equal(one[name], other[name]) for name in one)
    read = load_safetensors(data)
    assert read["tensors/a"].dtype == sent.tensors["a"].dtype
    assert payload_bytes(sent) == payload_bytes(back) < payload_bytes(update) / 1.9
    order = order_down(Order("run", 1, update.tensors), encoding)
    assert payload_bytes(order) * 2 == payload_bytes(Order("run", 1, update.tensors))
    assert torch.equal(order_from_bytes(to_bytes(order)).shared["a"], order.shared["a"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_no_code(value: float) -> None:
    with pytest.raises(NotFiniteError):
        encode_update(Update("p", 1, state(a=torch.tensor([1.0, value]))), "int8", {})


@pytest.mark.parametrize("encoding", SMALLER)
def test_the_largest_numbers_stay_finite(encoding: Encoding) -> None:
    largest = torch.full((2,), torch.finfo(torch.float32).max)
    assert bool(decode(encode(largest, encoding)).isfinite().all())
    assert bool(decode(encode(torch.tensor([1e-44, 0.0]), encoding)).isfinite().all())


WIDE = state(a=torch.ones(2, 20), b=torch.ones(3))
SOUND = encode_update(Update("p", 1, WIDE), "int8", {}).update
BROADCAST = Order("run", 1, WIDE, batches={"p": 1, "q": 1})


def with_scales(a: Tensor, **others: Tensor) -> Update:
    return replace(SOUND, scales=SharedState({**SOUND.scales, "tensors/a": a, **others}))


HOSTILE: dict[str, tuple[Update, str]] = {
    "NaN": (with_scales(torch.tensor([torch.nan, 1.0])), "form"),
    "infinite": (with_scales(torch.tensor([torch.inf, 1.0])), "form"),
    "negative": (with_scales(torch.tensor([-1.0, 1.0])), "form"),
    "too large": (with_scales(torch.tensor([3e38, 1.0])), "not-finite"),
    "one for all": (with_scales(torch.ones(1)), "form"),
    "too many": (with_scales(torch.ones(40)), "form"),
    "wide": (with_scales(torch.ones(2, dtype=torch.float64)), "form"),
    "unknown": (with_scales(torch.ones(2), **{"tensors/z": torch.ones(1)}), "form"),
    "none": (replace(SOUND, scales=SharedState({})), "form"),
    "float32": (Update("p", 1, WIDE), "dtype"),
    "bfloat16": (encode_update(Update("p", 1, WIDE), "bfloat16", {}).update, "dtype"),
    "shape": (
        replace(SOUND, tensors=SharedState({**SOUND.tensors, "a": torch.ones(40).char()})),
        "shape",
    ),
    "codes": (
        replace(SOUND, tensors=SharedState({**SOUND.tensors, "b": torch.full((3,), -128).char()})),
        "form",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_codes_and_scales_are_refused_and_the_round_goes_on(kind: str) -> None:
    hostile, code = HOSTILE[kind]
    screen = Screen(NormRule(), encoding="int8")
    other = replace(SOUND, platform="q")
    taken = list(screen.accepted_updates([hostile, other], BROADCAST))
    assert [each.platform for each in taken] == ["q"]
    assert [(each.platform, each.code) for each in screen.refusals] == [("p", code)]
    assert taken[0].tensors["a"].dtype == torch.float32
    assert screen.accepted["q"].num_bytes == payload_bytes(other) < payload_bytes(taken[0])


def test_codes_are_refused_in_a_study_of_float32() -> None:
    screen = Screen(NormRule())
    assert list(screen.accepted_updates([SOUND], BROADCAST)) == []
    assert [each.code for each in screen.refusals] == ["dtype"]
    scaled = replace(Update("p", 1, WIDE), scales=SOUND.scales)
    assert list(screen.accepted_updates([scaled], BROADCAST)) == []
    assert [each.code for each in screen.refusals] == ["form"]


def test_orders_of_a_round_come_in_bfloat16_and_scores_are_of_float32() -> None:
    own = random_platform("alpha", encoding="int8")
    order = Order("run", 1, initial(0.1, 0.2), batches={"alpha": 4})
    with pytest.raises(OrderRefusedError, match=r"float32; expected torch\.bfloat16"):
        own.run_round(fedner(), order)
    update = own.run_round(fedner(), order_down(order, "int8"))
    assert update.tensors["shared.a"].dtype == torch.int8
    assert own.shared()["shared.a"].dtype == torch.float32
    assert own.scores(replace(order, verb="evaluate")) is not None
    with pytest.raises(OrderRefusedError, match=r"bfloat16; expected torch\.float32"):
        own.scores(replace(order_down(order, "int8"), verb="evaluate"))


def test_an_update_that_is_not_finite_leaves_what_was_left_over_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orders, "MOST_WEIGHT", 3.4e38)  # even if nothing else kept them out
    own = random_platform("alpha", encoding="int8")
    own.feedback = {"tensors/shared.a": torch.tensor([0.5])}
    order = order_down(Order("run", 1, initial(3e38, -3e38), batches={"alpha": 4}), "int8")
    with pytest.raises(NotFiniteError):
        own.run_round(fedner(), order)
    assert own.feedback["tensors/shared.a"].tolist() == [0.5]


SIZES = dict.fromkeys(NAMES, 40)


def tagger(encoding: Encoding, name: str) -> Platform:
    return tagger_platform(name, dropout=0.0, settings=LocalSettings(encoding=encoding))


def trained(kind: str, encoding: Encoding, folder: Path, rounds: int = 3) -> RunRecord:
    algorithm = fedner()
    made = answers(partial(tagger, encoding), algorithm, folder)
    engine: Engine
    if kind == "workers":
        engine = Workers(made, NAMES, first_shared(dropout=0.0), workers=2)
    else:
        engine = InProcess(made, NAMES, as_bytes=kind == "bytes")
    plan = RunSettings("t", rounds, 12, SIZES, checkpoint_every=1, encoding=encoding)
    resume = folder.exists()
    try:
        start = first_shared(dropout=0.0)
        return run(algorithm, engine, start, plan, 7, folder, resume=resume)
    finally:
        engine.close()


@pytest.mark.parametrize("encoding", SMALLER)
def test_taggers_come_to_the_same_bits_on_every_engine_and_after_a_stop(
    encoding: Encoding, tmp_path: Path
) -> None:
    whole = trained("serial", encoding, tmp_path / "serial")
    trained("bytes", encoding, tmp_path / "stopped", rounds=2)
    for kind, folder in (("workers", "workers"), ("bytes", "stopped")):
        other = trained(kind, encoding, tmp_path / folder)
        assert all(
            torch.equal(whole.server.shared[name], other.server.shared[name])
            for name in whole.server.shared
        )
        assert [each.bytes_up for each in other.rounds] == [each.bytes_up for each in whole.rounds]
    plain = trained("serial", "float32", tmp_path / "float32", rounds=1)
    up, down = (
        [next(iter(getattr(done.rounds[0], part).values())) for done in (plain, whole)]
        for part in ("bytes_up", "bytes_down")
    )
    assert up[0] / up[1] == pytest.approx({"bfloat16": 2.0, "int8": 4.0}[encoding], rel=0.15)
    assert down[0] == 2 * down[1]
    assert all(each.dtype == torch.float32 for each in whole.server.shared.values())


@pytest.mark.parametrize("encoding", SMALLER)
def test_whole_weights_and_hidden_sums_are_refused(encoding: Encoding) -> None:
    algorithm = fedavg(FedAvgSettings(sends="weights"))
    plan = RunSettings("t", 1, 4, {"alpha": 4}, encoding=encoding)
    build = partial(random_platform, encoding=encoding)
    engine = InProcess(answers(build, algorithm), ["alpha"])
    with pytest.raises(FednerError, match="whole weights"):
        run(algorithm, engine, initial(), plan, 7)
    with pytest.raises(FednerError, match="whole weights"):
        build("alpha").run_round(algorithm, Order("t", 1, initial(), batches={"alpha": 4}))
    hidden = Summation("masks", lambda name: name, lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(FednerError, match="summation 'masks'"):
        run(fedner(), engine, initial(), replace(plan, summation=hidden), 7)


SOURCE = SeededSimulation(3)


@pytest.mark.parametrize("encoding", SMALLER)
@pytest.mark.parametrize("mechanism", [UNIT_LOCAL, PLATFORM, PLATFORM_CENTRAL, UNIT_CENTRAL])
def test_under_dp_only_what_keeps_its_proof_is_encoded(mechanism: Any, encoding: Encoding) -> None:
    asked = Asked(encoding=encoding)
    if mechanism is not UNIT_CENTRAL:
        require_fitting(mechanism, asked, "here")
        return
    with pytest.raises(FednerError, match=r"transport\.encoding"):
        require_fitting(mechanism, asked, "here")
    unit = Units("sentence", tuple((place,) for place in range(12)))
    steps = DPSteps(PlatformPrivacy(mechanism, 1.0, 1.0, 12, source=SOURCE), (unit,))
    own = random_platform("alpha", privacy=steps, encoding=encoding)
    order = order_down(Order("t", 1, initial(), batches={"alpha": 4}), encoding)
    with pytest.raises(FednerError, match=r"transport\.encoding"):
        own.run_round(fedner(), order)
    noise = ServerNoise(mechanism, 1.0, 1.0, source=SOURCE)
    plan = RunSettings("t", 1, 4, {"alpha": 12}, noise=noise, encoding=encoding)
    engine = InProcess(answers(random_platform, fedner()), ["alpha"])
    with pytest.raises(FednerError, match=r"transport\.encoding"):
        run(fedner(), engine, initial(), plan, 7)


def test_the_server_bounds_what_it_decoded_before_it_adds_the_noise() -> None:
    """Remainders may bring a decoded update above C: the sum never moves by more than C."""
    noise = ServerNoise(PLATFORM_CENTRAL, 1.0, 0.0, source=SOURCE)
    update = encode_update(Update("p", 1, state(a=torch.full((20,), 9.0))), "int8", {}).update
    broadcast = Order("run", 1, state(a=torch.zeros(20)), batches={"p": 1})
    screen = Screen(NormRule(None, None), takes_float64=True, encoding="int8")
    (taken,) = screen.accepted_updates([update], broadcast)
    fold = noise.rule(1, broadcast.shared)()
    fold.add(taken.tensors, 1.0)
    assert norm(taken.tensors) > 40
    assert norm(fold.result()) == pytest.approx(1.0, rel=1e-5)


def down(round_: int) -> Order:
    order = Order("run", round_, initial(), batches={"alpha": 4})
    return order_down(order, "int8")


def test_under_dp_codes_are_made_of_noised_values_alone_and_resent_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noised: list[SharedState] = []
    update_of = DPSteps.update

    def watched(self: DPSteps, tensors: SharedState, path: Any) -> SharedState:
        noised.append(update_of(self, tensors, path))
        return noised[-1]

    monkeypatch.setattr(DPSteps, "update", watched)
    own = dp_platform(tmp_path, 100.0, "alpha", "int8")
    first = own.run_round(fedner(), down(1))
    again_from: dict[str, Tensor] = {}
    for round_, sent in ((1, first), (2, own.run_round(fedner(), down(2)))):
        expected = encode_update(Update("alpha", round_, noised[round_ - 1]), "int8", again_from)
        again_from = expected.feedback
        assert all(torch.equal(sent.tensors[n], expected.update.tensors[n]) for n in sent.tensors)
        assert all(torch.equal(sent.scales[n], expected.update.scales[n]) for n in sent.scales)
    assert all(torch.equal(own.feedback[key], each) for key, each in again_from.items())
    own.close()
    later = dp_platform(tmp_path, 100.0, "alpha", "int8")  # after a kill: nothing but the ledger
    again = later.run_round(fedner(), down(2))
    assert len(noised) == 2, "nothing was worked out anew"
    assert to_bytes(replace(again, event=None)) == to_bytes(replace(sent, event=None))
    assert later.feedback.keys() == again_from.keys()
    assert all(torch.equal(later.feedback[key], each) for key, each in again_from.items())
    later.close()


@pytest.mark.parametrize("encoding", SMALLER)
def test_under_dp_failed_work_is_noise_alone_in_the_same_form(
    encoding: Encoding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = dp_platform(tmp_path, 100.0, "alpha", encoding)
    sound = own.run_round(fedner(), down(1))
    kept = {key: tensor.clone() for key, tensor in own.feedback.items()}

    def broken(*_: object) -> None:
        raise RuntimeError("patient Jane Doe")

    monkeypatch.setattr(Platform, "_work", broken)
    alone = own.run_round(fedner(), down(2))
    for one, other in ((alone.tensors, sound.tensors), (alone.scales, sound.scales)):
        assert {n: t.dtype for n, t in one.items()} == {n: t.dtype for n, t in other.items()}
    if encoding == "bfloat16":  # one number by itself has no remainder in int8
        assert any(not torch.equal(own.feedback[key], each) for key, each in kept.items())
    own.close()
