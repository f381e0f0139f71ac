"""The platform's own book of what it released: append-only, checksummed, durable, over all studies.

A release is *charged before the data are touched* and its noised bytes are stored before they are
sent. Asked again for the same run, round and broadcast, the platform resends those bytes at no new
cost; anything else is a new release, and one that would exceed the budget is refused here, by the
platform itself, before any work.

How a release is written; each call returns only after its last step:
  `charge` (before data are touched)
  1. one line of JSON with the request, its cost and the digest of the line before (a hash chain);
  2. the witness: counter and digest of the last line, in a second place outside the folder;
  `answer` (before anything is sent)
  3. the payload, and what the platform keeps beside it, into files of their own;
  4. one line with their digests and the counter of the charge;
  5. the witness again.
Each step is synchronised to the disk, file and folder, before the next begins.

After a crash (kill -9, power failure) the ledger opens as follows. A whole line is counted, whether
or not its bytes left: charges count, answered or not. A charge without an answer waits: the same
request is worked out anew under that charge, once, since nothing of the first attempt was sent; any
other request is charged by itself. A torn last line is dropped only if the witness proves that the
line before was the last one whose writing returned; in any other case opening is refused.

What can be detected: a changed, removed, inserted or reordered line; a cut end; a lost or changed
payload; an older copy of the folder put back, or the folder deleted (the witness is ahead); another
ledger put in its place. What cannot be detected here: folder *and* witness put back together, as by
restoring a whole disk image, or an owner who rewrites both (the chain has no secret key). For that,
every release carries a `LedgerMark` (`ledger_marks`): the server refuses a ledger that went back.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from fedner.durable import write_bytes
from fedner.errors import FednerError
from fedner.privacy.accountant import Spend, epsilon
from fedner.privacy.budget import Budget, BudgetGate
from fedner.privacy.events import Event
from fedner.privacy.ledger_chain import (
    AnswerLine,
    BudgetLine,
    Chain,
    ChargeLine,
    ReleaseEntry,
    appended,
)
from fedner.privacy.ledger_files import (
    LINES,
    append_durably,
    default_witness,
    locked,
    make_owner_only,
    note_failure,
    os_user,
    read_checked,
    recover,
)
from fedner.privacy.ledger_limits import Limit, SpendingLimits
from fedner.privacy.ledger_marks import LedgerMark, encode_mark
from fedner.privacy.ledger_refusals import not_opened, other_budget
from fedner.privacy.unit_key import make_key

_PAYLOADS = "payloads"


@dataclass(frozen=True, slots=True)
class Release:
    """A recorded release: what leaves, what stays, and the mark that travels with it.

    Attributes:
        payload: The bytes that are transmitted.
        kept: What the platform itself needs to take the same step again (the noised private part);
            is never transmitted.
        mark: Where the ledger stands now. It travels beside the payload, not in it: of a release
            that is sent again the bytes are the old ones, the mark is the new one.
        is_resent: Whether it was recorded earlier and cost nothing now.
    """

    payload: bytes
    kept: bytes
    mark: LedgerMark
    is_resent: bool


class Ledger:
    """An open ledger; one process at a time may hold it. Use it in a `with` block or close it."""

    def __init__(
        self, folder: Path, witness: Path, lock: int, chain: Chain, gate: BudgetGate
    ) -> None:
        self._folder = folder
        self._witness = witness
        self._lock: int | None = lock
        self._chain = chain
        self._gate = gate
        self._limits = SpendingLimits()
        self._index = {_key(entry): entry for entry in chain.releases}

    @classmethod
    def open(
        cls,
        folder: Path,
        budget: Budget | None = None,
        *,
        witness: Path | None = None,
        is_simulation: bool = False,
        public_units: int | None = None,
    ) -> "Ledger":
        """Open the ledger in `folder`, or begin one with a budget, and see to its integrity.

        What may be spent is what the owner granted (`ledger_owner`): opening never changes it.

        Args:
            folder: Where it stands; only the owner may read it.
            budget: None takes the owner's. A given one begins the ledger where there is none, and
                must be the ledger's own otherwise.
            witness: The file of the second place; best on another disk. By default it stands beside
                the folder.
            is_simulation: Whether it is for seeded runs. A deployed ledger takes no simulated
                release, nor the other way round.
            public_units: The public number of units, recorded where the ledger is begun.

        Raises:
            FednerError: If there is none and no budget is given, if it has another budget, if
                another process holds it, if it was tampered with, cut or put back to an older
                state, or if what is in it does not fit the budget's unit.
        """
        witness = default_witness(folder) if witness is None else witness
        if budget is None and not ((folder / LINES).exists() or witness.exists()):
            raise not_opened(folder)
        make_owner_only(folder)
        make_owner_only(folder / _PAYLOADS)
        lock = locked(folder)
        try:
            chain = recover(folder, witness, _now(), is_simulation=is_simulation)
            granted = chain.budget or budget
            if granted is None:
                raise not_opened(folder)
            if budget is not None and budget != granted:
                raise other_budget(folder, granted, budget)
            gate = BudgetGate(granted, [line.event for line in chain.releases])
            ledger = cls(folder, witness, lock, chain, gate)
            ledger._discard_orphans()
            if chain.budget is None:
                ledger.grant(granted, public_units)
        except BaseException:
            os.close(lock)
            raise
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let other processes open the ledger."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def mark(self) -> LedgerMark:
        """Where the ledger stands."""
        return self._chain.mark

    @property
    def releases(self) -> tuple[ReleaseEntry, ...]:
        """Every release, answered or not, in the order of the charges."""
        return self._chain.releases

    def newest_round(self, run: str, platform: str = "") -> int:
        """Return the latest round of a run that a platform was charged for; 0 before the first."""
        rounds = [
            entry.round
            for entry in self._chain.releases
            if entry.run == run and entry.charge.platform in ("", platform)
        ]
        return max(rounds, default=0)

    @property
    def budget(self) -> Budget:
        """What the owner granted."""
        return self._gate.budget

    @property
    def grants(self) -> tuple[BudgetLine, ...]:
        """Every budget that was ever granted, in order."""
        return self._chain.grants

    def limit(self, limits: Iterable[Limit]) -> None:
        """Let the platform's policy bound releases too, from now until the ledger is closed.

        What was spent before counts. The owner's grant holds beside every limit.

        Raises:
            FednerError: If a limit protects another unit than what was released.
        """
        self._limits = SpendingLimits(limits, self._chain.releases)

    def grant(self, budget: Budget, public_units: int | None = None) -> BudgetLine:
        """Record, for the owner, what may be spent from now on; a run never calls this.

        A deployed ledger gets its key with the first grant.

        Args:
            budget: What may be spent in all, over everything that was ever released.
            public_units: The public number of units; None keeps what was declared before.

        Raises:
            FednerError: If what was released protects another unit than the budget's.
        """
        self._require_open()
        gate = BudgetGate(budget, [line.event for line in self._chain.releases])
        digest = self._chain.key_digest
        if not (digest or self._chain.opening.is_simulation):
            digest = make_key(self._folder)
        line = BudgetLine(
            budget,
            _now(),
            who=os_user(),
            old=self._chain.budget,
            public_units=self._chain.public_units if public_units is None else public_units,
            key_digest=digest,
        )
        self._append(line)
        self._gate = gate
        return line

    def stored(self, run: str, round_number: int, broadcast_digest: str) -> Release | None:
        """Return the answer recorded for this run, round and broadcast, if there is one.

        Raises:
            FednerError: If its payload is gone or was changed.
        """
        entry = self._index.get((run, round_number, broadcast_digest))
        if entry is None or entry.answer is None:
            return None
        answer = entry.answer
        payload = self._read_payload(answer.payload_sha256, answer.payload_bytes)
        kept = self._read_payload(answer.kept_sha256, answer.kept_bytes)
        return Release(payload, kept, self.mark, is_resent=True)

    def require(self, event: Event, study: str = "") -> None:
        """Raise unless `event` may be released: ask before the work of computing it.

        Args:
            event: What the release costs.
            study: The digest of the study that asks, for limits of one study.

        Raises:
            FednerError: If it would exceed the budget, protects something else, or is a simulation
                in a deployed ledger.
        """
        self._require_open()
        if event.is_simulation != self._chain.opening.is_simulation:
            raise FednerError(
                "A seeded release was to be recorded in the ledger of a deployed platform, or a "
                "deployed one in that of a simulation.",
                "Keep simulations in a ledger of their own: seeded noise protects nobody.",
            )
        self._gate.require(event)
        self._limits.require(event, study)

    def charge(
        self,
        run: str,
        round_number: int,
        broadcast_digest: str,
        event: Event,
        platform: str = "",
        study: str = "",
    ) -> None:
        """Count the cost of a release, durably, before the data are touched.

        Guarantee:
            When this returns, the cost is on the disk: whatever happens next, it is counted. A
            request that was charged before and never answered is not charged again.

        Args:
            run: The run that asks.
            round_number: The round that it asks for.
            broadcast_digest: Names the request; it must name all that decides the answer.
            event: What the release costs, from public facts alone.
            platform: Whose release it is, where several platforms write to one ledger.
            study: The digest of the study that asks.

        Raises:
            FednerError: If the release is refused (see `require`) or was answered before; nothing
                is written then.
        """
        self._require_open()
        entry = self._index.get((run, round_number, broadcast_digest))
        if entry is not None and entry.answer is None and entry.event == event:
            return
        if entry is not None:
            raise FednerError(
                f"Round {round_number} of run {run!r} was charged before, for this very request.",
                "Send the stored answer: another one would be another release.",
            )
        self.require(event, study)
        asked = (run, round_number, platform, broadcast_digest)
        self._append(ChargeLine(*asked, event, _now(), study))
        self._gate.admit(event)
        self._limits.admit(event, study)

    def answer(
        self,
        run: str,
        round_number: int,
        broadcast_digest: str,
        payload: bytes,
        *,
        kept: bytes = b"",
    ) -> Release:
        """Store what a charged request is answered with, durably, before it is sent.

        Guarantee:
            When this returns, the bytes are on the disk, and no other answer can follow.

        Raises:
            FednerError: If there is no such charge, or it has an answer; nothing is written then.
        """
        self._require_open()
        entry = self._index.get((run, round_number, broadcast_digest))
        if entry is None or entry.answer is not None:
            raise FednerError(
                f"Round {round_number} of run {run!r} has no charge that waits for an answer.",
                "Charge the release before the data are used.",
            )
        for data in (payload, kept):
            self._write_payload(data)
        line = AnswerLine(
            charge=entry.counter,
            payload_sha256=_digest(payload),
            payload_bytes=len(payload),
            kept_sha256=_digest(kept),
            kept_bytes=len(kept),
            time=_now(),
        )
        self._append(line)
        return Release(payload, kept, self.mark, is_resent=False)

    def record(
        self,
        run: str,
        round_number: int,
        broadcast_digest: str,
        event: Event,
        payload: bytes,
        *,
        kept: bytes = b"",
    ) -> Release:
        """Charge and answer at once what needs no work on the data; or return the stored answer.

        Raises:
            FednerError: If the release is refused (see `require`); nothing is written then.
        """
        earlier = self.stored(run, round_number, broadcast_digest)
        if earlier is not None:
            return earlier
        self.charge(run, round_number, broadcast_digest, event)
        return self.answer(run, round_number, broadcast_digest, payload, kept=kept)

    def note_failure(self, text: str) -> None:
        """Keep for the owner's eyes why the work on a charged release failed; it is never sent."""
        note_failure(self._folder, f"{_now()} {text}")

    def spent(self, run: str | None = None, *, delta: float | None = None) -> Spend:
        """Return what was spent in all, or by one run."""
        return _spent(self._chain, run, self._gate.budget.delta if delta is None else delta)

    def forget_payloads(self, run: str, before_round: int) -> int:
        """Delete stored bytes of rounds that nobody will ask for again; their cost stays.

        A later request for such a round is refused, never answered anew.

        Returns:
            How many releases lost their bytes.
        """
        self._require_open()
        kept = {
            digest
            for entry in self._chain.releases
            if entry.run != run or entry.round >= before_round
            for digest in entry.digests
        }
        count = 0
        for entry in self._chain.releases:
            if entry.run == run and entry.round < before_round:
                found = [
                    self._payload_file(digest)
                    for digest in entry.digests
                    if digest not in kept and self._payload_file(digest).exists()
                ]
                for file in found:
                    file.unlink()
                count += bool(found)
        return count

    def _append(self, line: BudgetLine | ChargeLine | AnswerLine) -> None:
        self._require_open()
        chain, encoded = appended(self._chain, line)
        try:
            append_durably(self._folder / LINES, encoded)
            write_bytes(self._witness, encode_mark(chain.mark), owner_only=True)
        except BaseException:
            # What is on the disk is unknown now; the next opening finds out.
            self.close()
            raise
        self._chain = chain
        self._index = {_key(entry): entry for entry in chain.releases}

    def _require_open(self) -> None:
        if self._lock is None:
            raise FednerError(f"The ledger {self._folder} is closed.", "Open it again.")

    def _payload_file(self, digest: str) -> Path:
        return self._folder / _PAYLOADS / digest

    def _write_payload(self, data: bytes) -> None:
        if data:
            write_bytes(self._payload_file(_digest(data)), data, owner_only=True)

    def _read_payload(self, digest: str, size: int) -> bytes:
        if size == 0:
            return b""
        file = self._payload_file(digest)
        try:
            data = file.read_bytes()
        except OSError as error:
            raise FednerError(
                f"The stored release {file} cannot be read: {error.strerror or error}.",
                "It was released once; answering again would be another release. Restore the "
                "file, or go on with the next round.",
            ) from error
        if len(data) != size or _digest(data) != digest:
            raise FednerError(
                f"The stored release {file} was changed: its digest differs from the ledger's.",
                "Restore the file, or go on with the next round.",
            )
        return data

    def _discard_orphans(self) -> None:
        """Delete payloads without an entry: their `answer` never returned: they were not sent."""
        known = {digest for entry in self._chain.releases for digest in entry.digests}
        for file in (self._folder / _PAYLOADS).iterdir():
            if file.name not in known:
                file.unlink()


def read_spent(
    folder: Path,
    run: str | None = None,
    *,
    delta: float | None = None,
    witness: Path | None = None,
) -> Spend:
    """Return what the ledger in `folder` says was spent, without opening it for writing.

    Works while a run holds the ledger. A line that is just being written is not counted.

    Raises:
        FednerError: If there is no ledger, it was tampered with or cut, or no delta is known.
    """
    chain = read_checked(folder, default_witness(folder) if witness is None else witness)
    if delta is None:
        if chain.budget is None:
            raise FednerError(f"The ledger in {folder} has no budget yet.", "Name the delta.")
        delta = chain.budget.delta
    return _spent(chain, run, delta)


def _spent(chain: Chain, run: str | None, delta: float) -> Spend:
    return epsilon([each.event for each in chain.releases if run in (None, each.run)], delta)


def _key(entry: ReleaseEntry) -> tuple[str, int, str]:
    return entry.run, entry.round, entry.charge.broadcast


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
