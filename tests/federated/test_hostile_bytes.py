"""The server survives any bytes from a platform: only refusals come out of any decoder.

A few hundred inputs each here; 10,000 each in the tests marked slow.
"""

import json
import random
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fuzz import ODD, dumped, hostile_bytes, mutated
from linear_platform import initial

from fedner.engines.frames import INLINE, Frame, read_frame
from fedner.errors import FednerError
from fedner.federated.aggregate import in_canonical_order
from fedner.federated.encoding import encode_update
from fedner.federated.failure_codes import FAILURES
from fedner.federated.message_bytes import (
    order_from_bytes,
    reply_from_bytes,
    reply_in,
    to_bytes,
    update_from_bytes,
)
from fedner.federated.messages import (
    Failure,
    Message,
    Order,
    Reply,
    ScoreReport,
    SumMessage,
    Update,
    failure,
    mark_of,
    release_of,
)
from fedner.federated.record import RoundRecord, missing
from fedner.federated.screening import NormRule, Screen
from fedner.federated.tensor_bytes import copied_bytes
from fedner.privacy.events import GaussianRelease, Slice, from_json, to_json
from fedner.privacy.ledger_marks import LedgerMark, check_mark, decode_mark, mark_from_json
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Counts, Scores
from fedner.settings.sections import Encoding

FEW, MANY = 300, 10_000
COUNTS = [FEW, pytest.param(MANY, marks=pytest.mark.slow)]

RELEASE = GaussianRelease(1.5, 0.1, "patient", 1.0, 500, slice=Slice("3 slices", "1"))
MARK = LedgerMark("ab" * 16, 7, "0a" * 32, "0b" * 32, "0c" * 32)
EVENT = {"release": to_json(RELEASE), "ledger": asdict(MARK)}
UPDATE = Update("alpha", 3, initial(1.0, 2.0), initial(), 0.5, EVENT, (1, 2))
IN_INT8 = encode_update(UPDATE, "int8", {}).update
BROADCAST = Order(
    "run", 3, initial(), initial(), {"alpha": 4, "beta": 2}, study="ab", relayed={"beta": b"key"}
)  # fmt: skip
NOISED = NoisedScores(3.0, 1.0, -2.0, 6.0, replace(RELEASE, sampling_probability=1.0))
PLAIN = Scores(strict={"X": Counts(1, 2, 3)})
REPLIES: dict[str, Reply] = {
    "update": UPDATE,
    "update in int8": IN_INT8,
    "update in bfloat16": encode_update(UPDATE, "bfloat16", {}).update,
    "scores": ScoreReport("alpha", 3, {"federated": PLAIN, "local-only": PLAIN}),
    "noised scores": ScoreReport("alpha", 3, {}, NOISED, {"release": to_json(NOISED.event)}),
    "summation": SumMessage("alpha", 3, 1, {"beta": b"key"}, {"tensors/a": torch.tensor([1, 2])}),
    "failure": failure("alpha", 3, "error"),
}


def spoilt_tensors(whole: bytes) -> Callable[[random.Random], bytes]:
    """Make safetensors messages whose header or facts were spoilt by structure."""
    length = struct.unpack("<Q", whole[:8])[0]
    header, body = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    facts = json.loads(header["__metadata__"]["fedner"])

    def spoil(chance: random.Random) -> bytes:
        changed = header
        if chance.random() < 0.7:
            stated = dumped(mutated(facts, chance), chance).decode(errors="surrogatepass")
            changed = {**header, "__metadata__": {"fedner": stated}}
        else:
            changed = mutated(header, chance)
        packed = dumped(changed, chance)
        return struct.pack("<Q", len(packed)) + packed + body

    return spoil


def spoilt_json(value: Any) -> Callable[[random.Random], bytes]:
    return lambda chance: dumped(mutated(value, chance), chance)


def outcomes(
    decode: Callable[[bytes], object], whole: bytes, spoil: Any, count: int
) -> Counter[str]:
    """Decode hostile inputs; anything but an accepted value or a refusal is raised."""
    found: Counter[str] = Counter()
    for data in hostile_bytes(whole, spoil, count, seed=count):
        try:
            decode(data)
            found["taken"] += 1
        except FednerError as error:
            found["refused"] += 1
            found["long"] += len(str(error)) > 2_000
    assert not found.pop("long", 0), "refusals do not repeat what was sent"
    assert sum(found.values()) == count
    return found


def worker_reply(data: bytes) -> object:
    """Read what a worker sends through its pipe."""
    frame = read_frame(data)
    if frame.kind != INLINE:
        raise FednerError("another kind of frame")
    return reply_in(copied_bytes(frame.rest))


def screened(data: bytes, encoding: Encoding = "float32") -> object:
    """Decode and screen: what is taken must have been checked, and the record must be written."""
    update = update_from_bytes(data)
    screen = Screen(NormRule(), encoding=encoding)
    screen.marks["alpha"] = MARK
    taken = list(screen.accepted_updates([update], BROADCAST))
    refusals = tuple(screen.refusals)
    record = RoundRecord(3, 0.0, None, {}, {}, {}, {}, refusals, (), {}, screen.events)
    json.loads(record.line())
    if not taken:
        raise FednerError("refused by the screen")
    return taken


def as_json(decode: Callable[[Any], object]) -> Callable[[bytes], object]:
    from fedner.federated.strict_json import read_json

    def run(data: bytes) -> object:
        value = read_json(data)
        if not isinstance(value, dict):
            raise FednerError("no object")
        return decode(value)

    return run


def whole_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def framed(data: bytes) -> bytes:
    return Frame(INLINE, 1, length=len(data), rest=data).to_bytes()


def in_frames(message: Message) -> Callable[[random.Random], bytes]:
    spoil = spoilt_tensors(to_bytes(message))
    return lambda chance: framed(spoil(chance))


DECODERS: dict[str, tuple[Callable[[bytes], object], bytes, Any]] = {
    "update": (update_from_bytes, to_bytes(UPDATE), spoilt_tensors(to_bytes(UPDATE))),
    "screened update": (screened, to_bytes(UPDATE), spoilt_tensors(to_bytes(UPDATE))),
    "screened update in int8": (
        partial(screened, encoding="int8"),
        to_bytes(IN_INT8),
        spoilt_tensors(to_bytes(IN_INT8)),
    ),
    "order": (order_from_bytes, to_bytes(BROADCAST), spoilt_tensors(to_bytes(BROADCAST))),
    **{
        f"reply: {name}": (reply_from_bytes, to_bytes(each), spoilt_tensors(to_bytes(each)))
        for name, each in REPLIES.items()
    },
    "event": (as_json(from_json), whole_json(EVENT["release"]), spoilt_json(EVENT["release"])),
    "mark": (as_json(mark_from_json), whole_json(asdict(MARK)), spoilt_json(asdict(MARK))),
    "witness": (
        lambda data: decode_mark(data, Path("witness")),
        whole_json(asdict(MARK)),
        spoilt_json(asdict(MARK)),
    ),
    "noised scores": (
        as_json(NoisedScores.from_dict),
        whole_json(NOISED.as_dict()),
        spoilt_json(NOISED.as_dict()),
    ),
    "scores": (
        as_json(Scores.from_dict),
        whole_json(PLAIN.as_dict()),
        spoilt_json(PLAIN.as_dict()),
    ),
    "reply of a worker": (worker_reply, framed(to_bytes(UPDATE)), in_frames(UPDATE)),
}  # fmt: skip


@pytest.mark.parametrize("name", DECODERS)
def test_the_message_is_good_before_it_is_spoilt(name: str) -> None:
    decode, whole, _ = DECODERS[name]
    decode(whole)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", DECODERS)
def test_only_refusals_come_out_of_a_decoder(name: str, count: int) -> None:
    found = outcomes(*DECODERS[name], count)
    print(f"\n{name}: {count:,} inputs, {found['refused']:,} refused, {found['taken']:,} taken")
    assert found["refused"] > count / 3, "most inputs are spoilt indeed"


def test_what_a_decoder_takes_is_sound() -> None:
    """An input that is taken has facts of the right types, whatever was done to it."""
    _, whole, spoil = DECODERS["update"]
    taken = 0
    for data in hostile_bytes(whole, spoil, 2_000, seed=5):
        try:
            update = update_from_bytes(data)
        except FednerError:
            continue
        taken += 1
        assert isinstance(update.platform, str)
        assert type(update.round) is int
        assert update.loss is None or type(update.loss) is float
        if update.event is not None:
            assert isinstance(release_of(update), GaussianRelease)
            mark = mark_of(update)
            assert mark is None or type(mark.counter) is int
        to_bytes(update)
    assert taken > 10


# Objects: what an engine of another kind might hand on unread.


def hostile_update(chance: random.Random) -> Any:
    tensors: list[Any] = [
        initial(), None, {}, [], {"shared.a": None}, {"shared.a": 1.0, "shared.b": 2.0},
        {"shared.a": torch.ones(1).to_sparse(), "shared.b": torch.ones(1)},
        {"shared.a": torch.ones(1, dtype=torch.complex64), "shared.b": torch.ones(1)},
        {"shared.a": torch.ones(1, dtype=torch.int8), "shared.b": torch.ones(1)},
        {"shared.a": torch.full((1,), float("nan")), "shared.b": torch.ones(1)},
        {"shared.a": torch.ones(1, device="meta"), "shared.b": torch.ones(1)},
        {1: torch.ones(1), None: torch.ones(1)},
    ]  # fmt: skip
    changed = mutated({"event": EVENT, "stored": [1, 2], "loss": 0.5}, chance)
    stated = changed if isinstance(changed, dict) else {}
    return Update(
        chance.choice(("alpha", "alpha", "beta", *ODD)),
        chance.choice((3, 3, 3, *ODD)),
        chance.choice((initial(), *tensors)),
        chance.choice((initial(), *tensors)),
        stated.get("loss"),
        stated.get("event"),
        stated.get("stored", ()),  # a list is none of the right type: sometimes that
    )


@pytest.mark.parametrize("count", COUNTS)
def test_the_screen_refuses_hostile_objects_and_goes_on(count: int) -> None:
    chance = random.Random(count)
    screen = Screen(NormRule())
    honest = replace(UPDATE, platform="beta", event=None)
    for _ in range(count):
        screen.marks = {"alpha": MARK}
        replies = [hostile_update(chance)]
        if chance.random() < 0.1:
            replies.append(Failure(*(chance.choice(ODD) for _ in range(3))))
        if replies[0].platform != "beta":
            replies.append(honest)
        ordered = in_canonical_order(replies, ["alpha", "beta"])
        taken = [each.platform for each in screen.accepted_updates(ordered, BROADCAST)]
        assert set(taken) <= {"alpha", "beta"}
        assert "beta" in taken or replies[0].platform == "beta"
        for each in screen.failures:
            assert each.message == FAILURES[each.code]
        refusals = tuple(screen.refusals)
        failures = tuple(missing(each, "round") for each in screen.failures)
        record = RoundRecord(
            3, 0.0, None, {}, {}, {}, {}, refusals, failures, {}, screen.events
        )  # fmt: skip
        json.loads(record.line())
        assert all(len(each.platform) < 600 for each in screen.refusals)


@pytest.mark.parametrize("counter", ["9", 9.0, None, True, -1, 10**40])
def test_a_counter_that_is_no_number_is_refused(counter: object) -> None:
    """The mark "9" of a platform ended the server: it compared text with a number."""
    mark = {**asdict(MARK), "counter": counter}
    screen = Screen(NormRule())
    screen.marks["alpha"] = MARK
    update = replace(UPDATE, event={**EVENT, "ledger": mark})
    assert list(screen.accepted_updates([update], BROADCAST)) == []
    assert [each.code for each in screen.refusals] == ["form"]
    assert screen.marks["alpha"] == MARK
    check_mark("alpha", MARK, MARK)


def test_failures_travel_without_words() -> None:
    data = to_bytes(Failure("alpha", 3, "budget-spent"))
    assert FAILURES["budget-spent"].encode() not in data
    spoilt = data.replace(b"budget-spent", b"epsilon 3.9!")
    with pytest.raises(FednerError, match="an unknown code"):
        reply_from_bytes(spoilt)
