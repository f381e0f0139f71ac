"""The disclosure record: complete, chained, on disk before a reply leaves, whole after kills."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from guarded_sites import guarded, order_of, site_of

from fedner.errors import FednerError
from fedner.federated.message_bytes import to_bytes
from fedner.federated.messages import Failure, Order, Reply, SumMessage, Update
from fedner.runs.disclosure_record import (
    RECORD,
    DisclosureRecord,
    Protection,
    head_of,
    read_record,
)
from fedner.settings import Settings
from fedner.tensors import SharedState

Make = Callable[..., Settings]
ORDER = Order("run", 3, study="d" * 64, batches={"clinic": 4})
UPDATE = Update(
    "clinic", 3, SharedState({"word_cnn.weight": torch.tensor([[3.0, 4.0], [0.0, 0.0]])}), loss=0.5
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / RECORD


def filled(path: Path, count: int = 4) -> DisclosureRecord:
    record = DisclosureRecord(path)
    for _ in range(count):
        record.append(ORDER, UPDATE, asked_by="server")
    return record


def test_a_line_tells_what_was_sent_to_whom_and_how_it_was_protected(path: Path) -> None:
    written = DisclosureRecord(path).append(
        ORDER, UPDATE, asked_by="server", protection=Protection("unit-local", 1e-6)
    )
    (line,) = read_record(path).lines
    assert line == written
    assert (line.entry, line.asked_by, line.study, line.run) == ("sent", "server", "d" * 64, "run")
    assert (line.verb, line.round, line.kind, line.code) == ("round", 3, "Update", "")
    assert line.tensors == (
        {"name": "word_cnn.weight", "shape": [2, 2], "type": "float32", "norm": 5.0},
    )
    message = to_bytes(UPDATE)
    assert line.num_bytes == len(message)
    assert line.message_digest == hashlib.sha256(message).hexdigest()
    assert (line.has_loss, line.has_scores, line.mechanism) == (True, False, "unit-local")
    assert line.epsilon is None, "it cost nothing that anybody counted"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        (Update("c", 3, extra=SharedState({"w": torch.ones(2)})), ["extra/w"]),
        (SumMessage("c", 3, 1, tensors={"w": torch.ones(2, dtype=torch.int64)}), ["w"]),
        (Failure("c", 3, "budget-spent"), []),
    ],
)
def test_every_reply_has_a_line(path: Path, reply: Reply, names: list[str]) -> None:
    line = DisclosureRecord(path).append(ORDER, reply, asked_by="server")
    assert [each["name"] for each in line.tensors] == names
    assert line.code == getattr(reply, "code", "")
    assert line.is_update == (not line.code)


def test_refused_jobs_are_on_record(path: Path) -> None:
    record = filled(path, 1)
    record.append_refusal("e" * 64, ["policy-rounds", "policy-unit"], asked_by="server", run="r")
    assert read_record(path).lines[1].code == "policy-rounds, policy-unit"
    assert record.num_answers("e" * 64) == {}
    assert record.num_answers("d" * 64)["round"] == 1
    assert record.began("r") is None


def test_epsilon_of_a_release_is_on_record(tiny: Make, tmp_path: Path, ledgers: Any) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    from fedner.privacy.accountant import epsilon
    from fedner.privacy.events import from_json

    site = site_of(tiny(*ledgers(500.0), "privacy.noise_multiplier=1.0"), tmp_path / "sites")
    answer = guarded(site, tmp_path)
    assert isinstance(answer(order_of(site)), Update)
    answer.close()
    (line,) = read_record(tmp_path / RECORD).lines
    assert line.event is not None
    event = from_json(line.event["release"])
    assert line.epsilon == pytest.approx(epsilon([event], 1e-5).pld)  # type: ignore[list-item]
    assert (line.mechanism, line.delta, line.has_loss) == ("unit-local", 1e-5, False)
    assert {each["name"] for each in line.tensors} == set(site.blueprint.partition.shared)


# Tampering.


def changed(line: bytes) -> bytes:
    return line.replace(b'"asked_by":"server"', b'"asked_by":"nobody"')


def resealed(line: bytes) -> bytes:
    """Return a changed line whose own digest is right."""
    record = json.loads(line)
    record["asked_by"] = "nobody"
    del record["digest"]
    text = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    record["digest"] = hashlib.sha256(text).hexdigest()
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"


TAMPERED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": lambda lines: [lines[0], changed(lines[1]), *lines[2:]],
    "changed and sealed": lambda lines: [lines[0], resealed(lines[1]), *lines[2:]],
    "the last, changed and sealed": lambda lines: [*lines[:-1], resealed(lines[-1])],
    "removed": lambda lines: [lines[0], *lines[2:]],
    "swapped": lambda lines: [lines[1], lines[0], *lines[2:]],
    "twice": lambda lines: [lines[0], lines[0], *lines[1:]],
    "without its beginning": lambda lines: lines[1:],
    "without its end": lambda lines: lines[:-1],
    "torn at its end": lambda lines: [*lines[:-1], lines[-1][:-9]],
    "empty": lambda lines: lines[:0],
}


@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_is_found_by_readers_and_writers(path: Path, how: str) -> None:
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(TAMPERED[how](lines)))
    with pytest.raises(FednerError, match="disclosure record"):
        read_record(path)
    with pytest.raises(FednerError, match="disclosure record"):
        DisclosureRecord(path).append(ORDER, UPDATE, asked_by="server")


def test_a_torn_line_behind_one_that_the_head_never_saw_comes_from_no_crash(path: Path) -> None:
    filled(path, 2)
    head = head_of(path).read_bytes()
    filled(path, 2)
    path.write_bytes(path.read_bytes()[:-9])
    head_of(path).write_bytes(head)
    with pytest.raises(FednerError, match="its head does not explain"):
        DisclosureRecord(path).append(ORDER, UPDATE, asked_by="server")


@pytest.mark.parametrize("head", [b"", b"x", b"{}", b'{"counter": -1, "digest": "a"}', None])
def test_a_head_that_is_gone_or_damaged_is_found(path: Path, head: bytes | None) -> None:
    filled(path)
    if head is None:
        head_of(path).unlink()
    else:
        head_of(path).write_bytes(head)
    with pytest.raises(FednerError, match="head"):
        read_record(path)


def test_a_deleted_record_is_found(path: Path) -> None:
    filled(path)
    path.unlink()
    with pytest.raises(FednerError, match="ends with line 0; its head saw line 4"):
        read_record(path)


# Kills.


def test_a_kill_at_any_byte_loses_no_line_that_was_sent(path: Path) -> None:
    """The head stands at the last line that was sent; what came after is torn anywhere."""
    filled(path, 3)
    sent, head = path.read_bytes(), head_of(path).read_bytes()
    filled(path, 1)
    whole = path.read_bytes()
    for cut in range(len(sent), len(whole) + 1):
        path.write_bytes(whole[:cut])
        head_of(path).write_bytes(head)
        arrived = cut >= len(whole) - 1  # all but the end of the line
        assert len(read_record(path).lines) == 3 + arrived
        if cut in (len(sent), len(sent) + 1, cut // 97 * 97, len(whole) - 1, len(whole)):
            filled(path, 1)
            assert len(read_record(path).lines) == 4 + arrived


def test_a_line_is_on_the_disk_before_the_head_and_both_before_it_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, written = os.fsync, DisclosureRecord.append

    def synced(handle: int) -> None:
        steps.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    filled(path, 1)
    monkeypatch.setattr("os.fsync", synced)
    written(DisclosureRecord(path), ORDER, UPDATE, asked_by="server")
    assert steps[0] == RECORD
    assert steps[1].startswith(f".{RECORD}.head")
    assert steps[2:] == ["home"], "and the folder"


def test_a_kill_at_any_byte_of_the_very_first_line(path: Path) -> None:
    filled(path, 1)
    whole = path.read_bytes()
    head_of(path).unlink()
    for cut in (0, 1, len(whole) // 2, len(whole) - 1, len(whole)):
        head_of(path).unlink(missing_ok=True)
        path.write_bytes(whole[:cut])
        filled(path, 1)
        assert len(read_record(path).lines) == 1 + (cut >= len(whole) - 1)


_WRITER = """
    import sys
    from pathlib import Path
    import torch
    from fedner.federated.messages import Order, Update
    from fedner.runs.disclosure_record import DisclosureRecord
    from fedner.tensors import SharedState

    record = DisclosureRecord(Path(sys.argv[1]))
    update = Update("clinic", 3, SharedState({"w": torch.ones(2)}))
    for number in range(int(sys.argv[2])):
        record.append(Order("run", number + 1), update, asked_by="server")
        print(number, flush=True)
"""


def writer(path: Path, count: int) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", textwrap.dedent(_WRITER), str(path), str(count)]
    return subprocess.Popen(program, stdout=subprocess.PIPE)


def test_a_killed_process_and_its_successor(path: Path) -> None:
    process = writer(path, 10_000)
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    said = len(process.stdout.read().splitlines()) + 5
    process.wait()
    process.stdout.close()
    filled(path, 2)
    lines = read_record(path).lines
    assert said + 2 <= len(lines) <= said + 3, "every line that was said, and perhaps one more"


def test_two_processes_write_one_chain(path: Path) -> None:
    processes = [writer(path, 20) for _ in range(2)]
    for process in processes:
        process.communicate()
    assert [line.counter for line in read_record(path).lines] == list(range(40))


def test_a_full_disk_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = filled(path, 2)
    real = os.write

    def half(handle: int, data: Any) -> int:
        real(handle, bytes(data)[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedner.runs.disclosure_record.os.write", half)
        with pytest.raises(FednerError, match="No space left on device"):
            record.append(ORDER, UPDATE, asked_by="server")
    record.append(ORDER, UPDATE, asked_by="server")
    assert len(read_record(path).lines) == 3
