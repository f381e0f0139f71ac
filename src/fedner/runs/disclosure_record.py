"""A platform's record of everything that it ever sent: one hash chain over all its runs.

One line for each reply (and for each refused job), on the disk before the reply leaves: what was
asked and by whom, names, shapes and norms of the tensors, bytes and digest of the message,
mechanism and epsilon. The record stays at the platform.

How a line is written; `append` returns only after the last step:
  1. the line, with the digest of the line before, synchronised to the disk;
  2. the head: number and digest of the last line, in a file beside it.
So a torn last line was never sent: the head proves it, and the next opening drops it. A head that
is ahead means that lines were cut off. What cannot be detected: record *and* head put back
together, or an owner who rewrites both. Note the digest of the last line elsewhere, and `fedner
platform record --expect DIGEST` tells whether the record still holds it.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedner.chained import GENESIS, LINKS, follows, linked, self_consistent
from fedner.durable import OWNER_ONLY, owner_folder, sync_folder, write_bytes
from fedner.errors import FednerError

if TYPE_CHECKING:  # a process that only records refusals never loads torch
    from torch import Tensor

    from fedner.federated.messages import Order, Reply
    from fedner.privacy.accountant import AccountantName
    from fedner.privacy.events import GaussianRelease
    from fedner.settings import Study

RECORD = "disclosure-record.jsonl"
SENT, REFUSED = "sent", "refused"
_HEAD_SUFFIX = ".head"
_RESTORE = "Restore record and head from their newest backup; until then nothing is sent."


@dataclass(frozen=True, slots=True)
class Protection:
    """How what is sent was protected, as the study says.

    Attributes:
        mechanism: Its name; "none" where nothing protects it.
        delta: That of epsilon.
        accountant: Whose epsilon counts.
    """

    mechanism: str = "none"
    delta: float = 1e-5
    accountant: "AccountantName" = "pld"


def protection_of(study: "Study") -> Protection:
    """Return how a study protects what its platforms send."""
    from fedner.settings import mechanism_name

    held = study.privacy
    return Protection(mechanism_name(study), held.delta, held.accountant)


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One line of the record.

    Attributes:
        entry: "sent", or "refused" for a job that the platform did not take part in, and for a
            request that belongs to no job.
        time: When, by the platform's clock.
        asked_by: Who asked, as the connection names it.
        study: The digest of the study.
        run: The run.
        verb: What was asked for; empty of a job.
        round: The round.
        kind: The message type of the reply.
        code: Why it failed or was refused; empty where something was sent.
        tensors: Name, shape, type and norm of each tensor in the reply.
        num_bytes: The bytes of the whole message.
        message_digest: Its SHA-256.
        num_received: The bytes of tensors that came with the order.
        has_loss: Whether it named the training loss.
        has_scores: Whether it named scores.
        mechanism: What protected it.
        epsilon: What this release alone cost; None where nothing bounds it.
        delta: That of epsilon.
        event: The release, as the accountant has it; None without differential privacy.
        phase: The phase of a summation that was answered; 0 outside one.
        counter: The number of the line.
        digest: Its digest.
    """

    entry: str
    time: str
    asked_by: str
    study: str
    run: str
    verb: str = ""
    round: int = 0
    kind: str = ""
    code: str = ""
    tensors: tuple[Mapping[str, Any], ...] = ()
    num_bytes: int = 0
    message_digest: str = ""
    num_received: int = 0
    has_loss: bool = False
    has_scores: bool = False
    mechanism: str = "none"
    epsilon: float | None = None
    delta: float | None = None
    event: Mapping[str, Any] | None = None
    phase: int = 0
    counter: int = 0
    digest: str = ""

    @property
    def is_answer(self) -> bool:
        """Whether an order was answered, neither refused nor failed."""
        return self.entry == SENT and not self.code

    @property
    def is_update(self) -> bool:
        """Whether an update left, plain or hidden."""
        return self.is_answer and self.verb == "round"


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record whose chain was verified.

    Attributes:
        lines: In the order of writing.
    """

    lines: tuple[RecordLine, ...] = ()

    @property
    def digest(self) -> str:
        """The digest of the last line: note it elsewhere."""
        return self.lines[-1].digest if self.lines else GENESIS


class DisclosureRecord:
    """The open record of a platform; several processes may append to it, one line at a time."""

    def __init__(self, path: Path) -> None:
        """Name the record; no file is touched before the first line.

        Args:
            path: The file, in the platform's home.
        """
        self.path = path
        self._size = -1  # of the file when this process last looked; unknown at first
        self._counter, self._digest = 0, GENESIS

    def append(
        self,
        order: "Order",
        reply: "Reply",
        *,
        asked_by: str,
        protection: Protection | None = None,
        data: bytes | None = None,
    ) -> RecordLine:
        """Record a reply, durably; send it only after this returned.

        Args:
            order: What was asked.
            reply: What will be sent.
            asked_by: Who asked, as the connection names it.
            protection: How the study protects what is sent; None for not at all.
            data: The message as bytes, where they are at hand.

        Raises:
            FednerError: It cannot be written, or the record was tampered with. Send nothing then.
        """
        from fedner.federated.message_bytes import to_bytes
        from fedner.federated.messages import Failure, release_of
        from fedner.runs.reply_log import sent_of

        held = protection or Protection()
        message = to_bytes(reply) if data is None else data
        event = None if isinstance(reply, Failure) else release_of(reply)
        facts = asdict(sent_of(order, reply))
        facts |= {"num_bytes": len(message), "message_digest": sha256(message).hexdigest()}
        return self._write(
            RecordLine(
                entry=SENT,
                time=_now(),
                asked_by=asked_by,
                study=order.study,
                tensors=tuple(_described(reply)),
                mechanism=held.mechanism,
                epsilon=None if event is None else _cost(event, held),
                delta=None if event is None else held.delta,
                **facts,
            )
        )

    def append_refusal(
        self, study: str, codes: Sequence[str], *, asked_by: str, run: str = "", verb: str = ""
    ) -> RecordLine:
        """Record that a job, or a request that belongs to none, was refused, and with which codes.

        Args:
            study: The digest of the job's study; empty where there is none.
            codes: Why.
            asked_by: Who asked, as the connection names it.
            run: The run of the job.
            verb: What was asked for, where it was no job.

        Raises:
            FednerError: It cannot be written, or the record was tampered with.
        """
        code = ", ".join(codes)
        return self._write(RecordLine(REFUSED, _now(), asked_by, study, run, verb, code=code))

    def began(self, run: str) -> datetime | None:
        """Return when the first order of a run was answered; None before it."""
        for line in read_record(self.path).lines:
            if line.entry == SENT and line.run == run:
                return datetime.fromisoformat(line.time)
        return None

    def num_answers(self, study: str) -> "Counter[str]":
        """Return how many orders of a study were answered in all its runs, by their verbs."""
        lines = read_record(self.path).lines
        return Counter(line.verb for line in lines if line.is_answer and line.study == study)

    def _write(self, line: RecordLine) -> RecordLine:
        try:
            with self._held() as handle:
                encoded, digest = linked(_fields(line), self._counter, self._digest)
                self._size = -1  # whatever happens now, look again unless all went well
                _write_all(handle, encoded)
                os.fsync(handle)
                write_bytes(head_of(self.path), _head(self._counter, digest), owner_only=True)
                self._size, self._digest = os.fstat(handle).st_size, digest
                self._counter += 1
        except OSError as error:
            raise FednerError(
                f"cannot write {self.path}: {error.strerror or error}",
                "Nothing is sent without being recorded. Check that the disk has room.",
            ) from error
        return _line({**_fields(line), "counter": self._counter - 1, "digest": digest})

    @contextmanager
    def _held(self) -> Iterator[int]:
        """Open the file for this process alone, whole and behind its last line."""
        import fcntl

        owner_folder(self.path.parent)
        is_new = not self.path.exists()
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if is_new:
                sync_folder(self.path.parent)
            if os.fstat(handle).st_size != self._size:
                self._counter, self._digest = _recovered(self.path, handle)
            yield handle
        finally:
            os.close(handle)


def head_of(path: Path) -> Path:
    """Return where the head of a record stands."""
    return path.with_name(path.name + _HEAD_SUFFIX)


def read_record(path: Path) -> ReadRecord:
    """Return a platform's record, its chain verified; empty where there is none.

    Works while a process writes to it: a line that is just being written is left out.

    Raises:
        FednerError: It was changed, cut, reordered or put back to an older state.
    """
    seen = _read_head(path)  # first: a writer adds the line before it moves the head
    records, _ = _verified(path, _bytes(path), seen)
    return ReadRecord(tuple(_line(record) for record in records))


def _recovered(path: Path, handle: int) -> tuple[int, str]:
    """Return the number of lines and the last digest; what a crash tore is put right."""
    data, seen = _bytes(path), _read_head(path)
    records, torn = _verified(path, data, seen)
    last = len(records) - 1
    if torn:
        if seen is not None and seen[0] != last:
            raise _tampered(path, "ends in a damaged line that its head does not explain")
        os.ftruncate(handle, len(data) - len(torn))
        os.fsync(handle)
    elif data and not data.endswith(b"\n"):
        _write_all(handle, b"\n")  # all of the line but its end arrived
        os.fsync(handle)
    digest = records[-1]["digest"] if records else GENESIS
    if records and (seen is None or seen[0] < last):
        write_bytes(head_of(path), _head(last, digest), owner_only=True)
    return len(records), digest


def _verified(
    path: Path, data: bytes, seen: tuple[int, str] | None
) -> tuple[list[dict[str, Any]], bytes]:
    """Return the lines of a record and the torn rest, if they continue what the head saw."""
    records: list[dict[str, Any]] = []
    lines, torn, previous = data.splitlines(keepends=True), b"", GENESIS
    for number, raw in enumerate(lines):
        record = self_consistent(raw)
        if record is None and number == len(lines) - 1:
            torn = raw
            break
        if record is None:
            raise _tampered(path, f"was changed in line {number + 1}")
        if not follows(record, number, previous):
            raise _tampered(path, f"has lost or moved lines before line {number + 1}")
        records.append(record)
        previous = record["digest"]
    _require_head(path, records, seen)
    return records, torn


def _require_head(
    path: Path, records: Sequence[Mapping[str, Any]], seen: tuple[int, str] | None
) -> None:
    if seen is None:
        if len(records) > 1:
            raise _tampered(path, f"has no head ({head_of(path).name})")
        return  # the very first line was cut short
    counter, digest = seen
    if counter >= len(records):
        raise _tampered(path, f"ends with line {len(records)}; its head saw line {counter + 1}")
    if records[counter]["digest"] != digest:
        raise _tampered(path, f"has another line {counter + 1} than its head saw")


def _tampered(path: Path, problem: str) -> FednerError:
    return FednerError(f"the disclosure record {path} {problem}", _RESTORE)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise FednerError(f"cannot read {path}: {error.strerror or error}") from error


def _head(counter: int, digest: str) -> bytes:
    return json.dumps({"counter": counter, "digest": digest}).encode() + b"\n"


def _read_head(path: Path) -> tuple[int, str] | None:
    data = _bytes(head_of(path))
    if not data:
        return None
    try:
        record = json.loads(data)
        counter, digest = record["counter"], record["digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise _tampered(path, f"has a damaged head ({head_of(path).name})") from error
    if type(counter) is not int or counter < 0 or not isinstance(digest, str):
        raise _tampered(path, f"has a damaged head ({head_of(path).name})")
    return counter, digest


def _fields(line: RecordLine) -> dict[str, Any]:
    fields = asdict(line)
    return {key: value for key, value in fields.items() if key not in LINKS}


def _line(record: Mapping[str, Any]) -> RecordLine:
    kept = {key: value for key, value in record.items() if key != "previous"}
    try:
        return RecordLine(**{**kept, "tensors": tuple(kept["tensors"])})
    except (KeyError, TypeError) as error:
        raise FednerError(
            "the disclosure record has lines of a form that this version of fedner does not know",
            "Read it with the version that wrote it.",
        ) from error


def _described(reply: "Reply") -> Iterator[Mapping[str, Any]]:

    from fedner.federated.encoding import decode_update
    from fedner.federated.messages import Update

    values = _parts(decode_update(reply) if isinstance(reply, Update) else reply)
    for part, tensors in _parts(reply).items():
        for name, tensor in tensors.items():
            value = values[part][name]  # what the numbers of an encoding stand for
            yield {
                "name": name if part == "tensors" else f"{part}/{name}",
                "shape": list(tensor.shape),
                "type": str(tensor.dtype).removeprefix("torch."),
                "norm": _norm(value.detach()),
            }


def _norm(value: "Tensor") -> float:
    """Return a norm in float64, without a copy of the numbers in float64."""
    import torch

    numbers = value if value.is_floating_point() else value.double()
    return float(torch.linalg.vector_norm(numbers, dtype=torch.float64))


def _parts(reply: "Reply") -> "Mapping[str, Mapping[str, Tensor]]":
    from fedner.federated.messages import SumMessage, Update

    if isinstance(reply, Update):
        return {"tensors": reply.tensors, "extra": reply.extra}
    return {"tensors": reply.tensors} if isinstance(reply, SumMessage) else {}


@lru_cache(maxsize=64)
def _cost(event: "GaussianRelease", held: Protection) -> float | None:
    """Return the epsilon of one release; rounds are alike, and the accountant takes a while."""
    from fedner.privacy.accountant import epsilon
    from fedner.runs.release_costs import finite

    return finite(epsilon([event], held.delta).by(held.accountant))


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
