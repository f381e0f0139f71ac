"""The files of a ledger: one lock, lines appended durably, and opening after whatever happened.

`ledger.py` says in which order things are written; here stands what follows from what is found.
"""

import os
from contextlib import suppress
from pathlib import Path

from fedner.durable import OWNER_ONLY, write_bytes
from fedner.errors import FednerError
from fedner.privacy.ledger_chain import Chain, opened, read_chain
from fedner.privacy.ledger_marks import LedgerMark, decode_mark, encode_mark

LINES = "ledger.jsonl"
FAILURES = "failures.log"
_LOCK = "lock"
_MOST_FAILURE_BYTES = 10_000_000
_OWNER_FOLDER = 0o700


def default_witness(folder: Path) -> Path:
    """Return the second place where nobody names one: beside the folder, not in it."""
    resolved = Path(os.path.realpath(folder))
    return resolved.with_name(f"{resolved.name}.witness")


def make_owner_only(folder: Path) -> None:
    """Make a folder that only its owner may enter."""
    try:
        folder.mkdir(mode=_OWNER_FOLDER, parents=True, exist_ok=True)
        folder.chmod(_OWNER_FOLDER)
    except OSError as error:
        raise FednerError(
            f"Cannot keep a ledger in {folder}: {error.strerror or error}.",
            "Name a folder that belongs to the user who runs the platform.",
        ) from error


def locked(folder: Path) -> int:
    """Take the ledger's lock and return its descriptor; closing that, or dying, gives it back.

    Raises:
        FednerError: If another process holds the ledger, or the system has no such locks.
    """
    try:
        import fcntl
    except ImportError as error:
        raise FednerError(
            "A ledger needs the file locks of Linux or macOS.", "Run the platform there."
        ) from error
    descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, OWNER_ONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise FednerError(
            f"The privacy ledger {folder} is in use by another process or another platform.",
            "Wait until that run has ended: two runs cannot spend from one budget at the same "
            "time. Two platforms of one run need a ledger each.",
        ) from error
    return descriptor


def append_durably(path: Path, data: bytes) -> None:
    """Add `data` to the end of an existing file, and return when it is on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def os_user() -> str:
    """Return the user of the operating system, whatever the environment says."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return f"user {os.geteuid()}" if hasattr(os, "geteuid") else "unknown"


def note_failure(folder: Path, text: str) -> None:
    """Add to the owner's file of failures, by best effort: nobody else may see that it failed."""
    path = folder / FAILURES
    with suppress(OSError):
        if path.exists() and path.stat().st_size > _MOST_FAILURE_BYTES:
            path.unlink()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, OWNER_ONLY)
        with os.fdopen(descriptor, "ab") as handle:
            handle.write(f"{text}\n".encode(errors="backslashreplace"))


def recover(folder: Path, witness: Path, now: str, *, is_simulation: bool) -> Chain:
    """Return the checked ledger of a folder, fixed where a crash left it; or begin a new one.

    Raises:
        FednerError: If what is found cannot come from a crash alone.
    """
    path = folder / LINES
    for place, name in ((folder, LINES), (witness.parent, witness.name)):
        for leftover in place.glob(f".{name}.*.part"):
            with suppress(OSError):
                leftover.unlink()
    seen, data = _read_witness(witness), _read_lines(path)
    if data is None:
        if seen is not None:
            raise _rolled_back(path, seen, "the ledger is gone")
        chain, first = opened(now, is_simulation=is_simulation)
        write_bytes(path, first, owner_only=True)
        write_bytes(witness, encode_mark(chain.mark), owner_only=True)
        return chain
    found, torn = read_chain(data, path)
    chain = _agreed(found, seen, path, witness)
    _require_kind(chain, path, is_simulation=is_simulation)
    if torn:
        _drop_torn(path, len(data) - len(torn), chain, seen)
    elif not data.endswith(b"\n"):
        append_durably(path, b"\n")  # all of the line but its end arrived: it is counted
    if seen is None or not seen.is_at(chain.mark):
        write_bytes(witness, encode_mark(chain.mark), owner_only=True)
    return chain


def read_checked(folder: Path, witness: Path) -> Chain:
    """Return the ledger of a folder for reading, checked against its witness."""
    path = folder / LINES
    seen = _read_witness(witness)  # first: a writer adds the line before it moves the witness
    data = _read_lines(path)
    if data is None:
        raise FednerError(f"There is no privacy ledger in {folder}.", "Name a ledger's folder.")
    chain, _ = read_chain(data, path)
    return _agreed(chain, seen, path, witness)


def _agreed(chain: Chain | None, seen: LedgerMark | None, path: Path, witness: Path) -> Chain:
    """Return the ledger if it continues what the witness saw."""
    if chain is None:
        raise FednerError(
            f"{path} is not a ledger.",
            "Restore its newest backup. Until then nothing is released.",
        )
    if seen is None:
        if chain.mark.counter == 0:  # the very first opening was cut short
            return chain
        raise FednerError(
            f"The witness {witness} of the ledger {path} is missing: nobody can tell whether the "
            "ledger is complete.",
            "Restore it, or say where it is.",
        )
    if seen.ledger != chain.mark.ledger:
        raise _rolled_back(path, seen, f"another ledger ({chain.mark.ledger}) is in its place")
    if seen.counter > chain.mark.counter:
        raise _rolled_back(path, seen, f"the ledger ends with entry {chain.mark.counter}")
    if chain.digests[seen.counter] != seen.digest:
        raise _rolled_back(path, seen, "the ledger holds another history")
    return chain


def _drop_torn(path: Path, size: int, chain: Chain, seen: LedgerMark | None) -> None:
    """Cut a torn last line, if the witness proves that its writing never returned.

    The witness of entry n is durable before the call that wrote n returns and before line n + 1
    begins. So if it stands at the last whole line, nothing followed from the torn one: of a charge,
    no data were touched; of an answer, nothing was sent. If it stands elsewhere, this is not what a
    crash leaves behind.
    """
    if seen is None or not seen.is_at(chain.mark):
        raise FednerError(
            f"{path} ends in a damaged line, and its witness does not prove that the release was "
            "never sent.",
            "Restore the newest backup of ledger and witness. Until then nothing is released.",
        )
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_kind(chain: Chain, path: Path, *, is_simulation: bool) -> None:
    if chain.opening.is_simulation != is_simulation:
        kinds = {True: "seeded simulations", False: "a deployed platform"}
        raise FednerError(
            f"The ledger {path} is for {kinds[chain.opening.is_simulation]}; this run is one of "
            f"{kinds[is_simulation]}.",
            "Name another folder.",
        )


def _rolled_back(path: Path, seen: LedgerMark, found: str) -> FednerError:
    return FednerError(
        f"The ledger {path} is not the newest: its witness saw entry {seen.counter} of ledger "
        f"{seen.ledger}, but {found}.",
        "An older state was restored, and releases since then are missing from it. Restore the "
        "newest copy. Until then nothing is released.",
    )


def _read_lines(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FednerError(f"Cannot read {path}: {error.strerror or error}.") from error


def _read_witness(path: Path) -> LedgerMark | None:
    data = _read_lines(path)
    return None if data is None else decode_mark(data, path)
