"""A disk without room: said in fixed words, nothing is left half-written, and it passes."""

import os
import sys
from pathlib import Path

import pytest
from linear_platform import initial, random_platform

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fedner.durable import append_whole, is_disk_full, write_bytes
from fedner.errors import FednerError
from fedner.federated.algorithms import fedner
from fedner.federated.answering import Answering
from fedner.federated.failure_codes import FAILURES
from fedner.federated.messages import Failure, Order, Update, Verb
from fedner.federated.record import RecordFile, RoundRecord, read_rounds
from full_disk import full_disk


def order(round_: int, verb: Verb = "round") -> Order:
    shared = initial(0.5) if verb == "round" else initial(0.5).__class__({})
    return Order("run", round_, shared, batches={"alpha": 4}, verb=verb)


def test_it_is_recognised_behind_our_own_errors(tmp_path: Path) -> None:
    with pytest.raises(FednerError) as caught, full_disk():
        write_bytes(tmp_path / "file", b"content")
    assert is_disk_full(caught.value)
    device = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space") as full:
        os.write(device, b"content")
    os.close(device)
    assert is_disk_full(full.value)
    assert not is_disk_full(FednerError("something else"))
    assert not is_disk_full(None)


def test_what_arrived_of_a_line_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    append_whole(handle, b"first\n")
    with pytest.raises(OSError, match="large"), full_disk(9):
        append_whole(handle, b"second\n")
    append_whole(handle, b"third\n")
    os.close(handle)
    assert path.read_bytes() == b"first\nthird\n"


def test_the_record_of_a_run_stays_whole(tmp_path: Path) -> None:
    record = RecordFile(tmp_path / "rounds.jsonl")
    lines = [RoundRecord(number, 1.0, None, {}, {}, {}, {}) for number in (1, 2)]
    record.append(lines[0])
    size = record.path.stat().st_size
    with pytest.raises(OSError, match="large"), full_disk(size + 10):
        record.append(lines[1])
    assert record.path.stat().st_size == size
    record.append(lines[1])
    record.close()
    assert [each.round for each in read_rounds(record.path)] == [1, 2]


def test_a_platform_says_so_and_goes_on_from_what_is_stored(tmp_path: Path) -> None:
    whole = Answering("alpha", random_platform, fedner())
    own = Answering("alpha", random_platform, fedner(), tmp_path / "alpha")
    expected = [whole(order(number)) for number in (1, 2, 3)]
    for number in (1, 2):
        own(order(number))
        if number == 1:
            own(order(1, "save"))
    with full_disk():
        reply = own(order(2, "save"))
    assert reply == Failure("alpha", 2, "disk-full")
    assert FAILURES["disk-full"] == "its disk is full"
    # Nobody knows what is on the disk: as a new process would, it goes on from round 1.
    for number in (2, 3):
        again, once = own(order(number)), expected[number - 1]
        assert isinstance(again, Update)
        assert isinstance(once, Update)
        assert all((again.tensors[name] == once.tensors[name]).all() for name in once.tensors)
