"""The platform's own book of what it released: append-only, checksummed, durable, over all studies.

A noised update is stored with its entry *before* it leaves. Asked again for the same run, round and
broadcast, the platform resends those bytes at no new cost; anything else is a new release, and one
that would exceed the budget is refused here, by the platform itself.

How a release is written (`record` returns only after the last step, and nothing leaves before):
  1. the payload, into its own file;
  2. one line of JSON with the payload's digest and the digest of the line before (a hash chain);
  3. the witness: counter and digest of the last line, in a second place outside the folder.
Each step is synchronised to the disk, file and folder, before the next begins.

After a crash (kill -9, power failure) the ledger opens as follows. A whole line is counted, whether
or not its bytes left. A torn last line is dropped only if the witness proves that the line before
was the last one whose `record` returned; in any other case opening is refused.

What can be detected: a changed, removed, inserted or reordered line; a cut end; a lost or changed
payload; an older copy of the folder put back, or the folder deleted (the witness is ahead); another
ledger put in its place. What cannot be detected here: folder *and* witness put back together, as by
restoring a whole disk image, or an owner who rewrites both (the chain has no secret key). For that,
every release carries a `LedgerMark`, and the server refuses a platform whose counter went back
(`check_mark`). The marks tell the server how many releases the platform made in all, nothing else.
"""

import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from fedner.durable import write_bytes
from fedner.errors import FednerError
from fedner.privacy.accountant import Spend, epsilon
from fedner.privacy.budget import Budget, BudgetGate, described
from fedner.privacy.events import Event
from fedner.privacy.ledger_chain import (
    BudgetLine,
    Chain,
    LedgerMark,
    ReleaseLine,
    appended,
    encode_mark,
)
from fedner.privacy.ledger_files import (
    LINES,
    append_durably,
    default_witness,
    locked,
    make_private,
    read_checked,
    recover,
)
from fedner.privacy.unit_key import make_key

_PAYLOADS = "payloads"


@dataclass(frozen=True, slots=True)
class Release:
    """A recorded release: what leaves, what stays, and the mark that travels with it.

    Attributes:
        payload: The bytes that leave.
        kept: What the platform itself needs to take the same step again (the noised private part);
            never leaves.
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
        self._index = {_key(line): line for line in chain.releases}

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
        make_private(folder)
        make_private(folder / _PAYLOADS)
        lock = locked(folder)
        try:
            chain = recover(folder, witness, _now(), is_simulation=is_simulation)
            granted = chain.budget or budget
            if granted is None:
                raise not_opened(folder)
            if budget is not None and budget != granted:
                raise _other_budget(folder, granted, budget)
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
    def releases(self) -> tuple[ReleaseLine, ...]:
        """Every release, in order."""
        return self._chain.releases

    @property
    def budget(self) -> Budget:
        """What the owner granted."""
        return self._gate.budget

    @property
    def grants(self) -> tuple[BudgetLine, ...]:
        """Every budget that was ever granted, in order."""
        return self._chain.grants

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
        """Return the release recorded for this run, round and broadcast, if there is one.

        Raises:
            FednerError: If its payload is gone or was changed.
        """
        line = self._index.get((run, round_number, broadcast_digest))
        if line is None:
            return None
        payload = self._read_payload(line.payload_sha256, line.payload_bytes)
        kept = self._read_payload(line.kept_sha256, line.kept_bytes)
        return Release(payload, kept, self.mark, is_resent=True)

    def require(self, event: Event) -> None:
        """Raise unless `event` may be released: ask before the work of computing it.

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
        """Store a release and its cost, durably, before it leaves; or return the one stored before.

        Guarantee:
            When this returns, the bytes and their cost are on the disk. Send what it returns, not
            what was passed in: for a request that was answered before, that is the earlier answer,
            at no new cost.

        Raises:
            FednerError: If the release is refused (see `require`); nothing is written then.
        """
        earlier = self.stored(run, round_number, broadcast_digest)
        if earlier is not None:
            return earlier
        self.require(event)
        for data in (payload, kept):
            self._write_payload(data)
        line = ReleaseLine(
            run=run,
            round=round_number,
            broadcast=broadcast_digest,
            event=event,
            payload_sha256=_digest(payload),
            payload_bytes=len(payload),
            kept_sha256=_digest(kept),
            kept_bytes=len(kept),
            time=_now(),
        )
        self._append(line)
        self._index[_key(line)] = line
        self._gate.admit(event)
        return Release(payload, kept, self.mark, is_resent=False)

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
            for line in self._chain.releases
            if line.run != run or line.round >= before_round
            for digest in (line.payload_sha256, line.kept_sha256)
        }
        count = 0
        for line in self._chain.releases:
            if line.run == run and line.round < before_round:
                found = [
                    self._payload_file(digest)
                    for digest in (line.payload_sha256, line.kept_sha256)
                    if digest not in kept and self._payload_file(digest).exists()
                ]
                for file in found:
                    file.unlink()
                count += bool(found)
        return count

    def _append(self, line: ReleaseLine | BudgetLine) -> None:
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
                "It was released once; answering anew would be another release. Restore the file, "
                "or go on with the next round.",
            ) from error
        if len(data) != size or _digest(data) != digest:
            raise FednerError(
                f"The stored release {file} was changed: its digest differs from the ledger's.",
                "Restore the file, or go on with the next round.",
            )
        return data

    def _discard_orphans(self) -> None:
        """Delete payloads without an entry: their `record` never returned, so they never left."""
        known = {
            digest
            for line in self._chain.releases
            for digest in (line.payload_sha256, line.kept_sha256)
        }
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


def not_opened(folder: Path) -> FednerError:
    """Return the refusal of a folder in which no owner opened a ledger."""
    return FednerError(
        f"There is no privacy ledger in {folder}: nobody granted a budget.",
        f"Let the owner of the data open one: fedner privacy open {folder} --epsilon E --delta D "
        "--unit UNIT --public-size N",
    )


def _other_budget(folder: Path, granted: Budget, asked: Budget) -> FednerError:
    command = f"fedner privacy budget {folder} --epsilon {asked.epsilon:g} --delta {asked.delta:g}"
    hint = f"Only its owner changes that: {command}"
    if (granted.unit, granted.adjacency) != (asked.unit, asked.adjacency):
        hint = "Keep another ledger, with a budget of its own, for another unit."
    return FednerError(
        f"The ledger {folder} grants {described(granted)}; found {described(asked)}.", hint
    )


def os_user() -> str:
    """Return the user of the operating system, whatever the environment says."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return f"user {os.geteuid()}" if hasattr(os, "geteuid") else "unknown"


def check_mark(platform: str, last_seen: LedgerMark | None, new: LedgerMark) -> None:
    """See to it, on the server, that a platform's ledger only moves forward.

    Raises:
        FednerError: If the ledger is another one, went back, or holds another history.
    """
    if last_seen is None or new == last_seen:
        return
    if new.ledger != last_seen.ledger:
        problem = f"is another ledger ({new.ledger}, expected {last_seen.ledger})"
    elif new.counter < last_seen.counter:
        problem = f"went back from entry {last_seen.counter} to {new.counter}"
    elif new.counter == last_seen.counter:
        problem = f"has another entry {new.counter} than it had before"
    elif new.counter == last_seen.counter + 1 and new.previous != last_seen.digest:
        problem = f"has another history before entry {new.counter}"
    else:
        return
    raise FednerError(
        f"The privacy ledger of platform {platform} {problem}: an older state was put back, or the "
        "ledger was replaced, and what it spent since may be forgotten.",
        f"Let {platform} restore its newest ledger before it takes part again.",
    )


def _spent(chain: Chain, run: str | None, delta: float) -> Spend:
    return epsilon([line.event for line in chain.releases if run in (None, line.run)], delta)


def _key(line: ReleaseLine) -> tuple[str, int, str]:
    return line.run, line.round, line.broadcast


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
