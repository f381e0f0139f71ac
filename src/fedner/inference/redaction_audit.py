"""What was replaced where: a list that stays at home, and from which a stopped redaction goes on.

The first line says how texts were redacted, every other line what became of one file: places, types
and the digest of what was read, no words. A line is on the disk before the file that it speaks of,
and that file appears whole or not at all. After kill -9 a line may therefore lack its file, which
is then done again, but no redacted file lacks its line.
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from fedner.durable import append_whole, write_bytes
from fedner.errors import FednerError
from fedner.inference.redact import Replacement

KIND: Final = "redaction audit"
VERSION: Final = 1
_HALF = re.compile(r"\.(.+)\.[0-9a-f]{12}\.part", re.DOTALL)
_OTHER_PLACE = "Choose another --out and another --audit."


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """What became of one file.

    Attributes:
        source: The file, below the input.
        target: Where its redacted text stands, below the output.
        digest: The SHA-256 of what was read.
        replacements: What was replaced, in order of the text.
    """

    source: str
    target: str
    digest: str
    replacements: tuple[Replacement, ...]

    def __repr__(self) -> str:
        return f"AuditRecord(replacements={len(self.replacements)})"


class Audit:
    """The open list of a redaction that is under way."""

    def __init__(self, descriptor: int | None, done: Mapping[str, AuditRecord]) -> None:
        self._descriptor = descriptor
        self.done = done

    def add(self, record: AuditRecord) -> None:
        """Put a line on the disk."""
        if self._descriptor is None:
            return
        append_whole(self._descriptor, _line(asdict(record)))
        os.fsync(self._descriptor)


@contextmanager
def open_audit(
    path: Path | None, settings: Mapping[str, Any], targets: Collection[Path]
) -> Iterator[Audit]:
    """Begin a list, or go on with the one that the same redaction began.

    Args:
        path: Where the list stands, which nobody but the owner may read; None for no list.
        settings: How texts are redacted.
        targets: Where redacted texts will stand.

    Raises:
        FednerError: The list there is of another redaction, or something would be overwritten.
    """
    if path is None:
        refuse_existing(targets)
        yield Audit(None, {})
        return
    if not os.path.lexists(path):
        refuse_existing(targets)
        header = {"fedner": KIND, "version": VERSION, **settings}
        write_bytes(path, _line(header), owner_only=True, overwrite=False)
    with _opened(path):
        done = _begun(path, settings, targets)
        with _opened(path) as descriptor:  # it may be another file now, without lines of no use
            yield Audit(descriptor, done)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open the list; no other process has it open, and the lock ends with this one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        _lock(descriptor, path)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: nothing to lock with
        return
    try:
        # A record lock: it is the process that holds it, however often it opens the file.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise FednerError(
            f"{path}: another process is redacting", "Wait until it ends, or choose another --out."
        ) from error


def _begun(
    path: Path, settings: Mapping[str, Any], targets: Collection[Path]
) -> dict[str, AuditRecord]:
    """Return what has been done before; lines without their file are taken out of the list.

    Raises:
        FednerError: The list there is of another redaction, or something would be overwritten.
    """
    header, records = _read(path)
    _check_settings(path, header, settings)
    root = Path(str(settings["target"]))
    done = {each.source: each for each in records if os.path.lexists(root / each.target)}
    if len(done) < len(records) or not path.read_bytes().endswith(b"\n"):
        lines = [_line(header), *(_line(asdict(each)) for each in done.values())]
        write_bytes(path, b"".join(lines), owner_only=True)
    _remove_halves(root, targets)
    own = {root / each.target for each in done.values()}
    refuse_existing([each for each in targets if each.resolve() not in own])
    return done


def _remove_halves(root: Path, targets: Collection[Path]) -> None:
    """Remove what a start that was killed had not finished writing (`durable.writing`)."""
    names = {each.name[:100] for each in targets}
    for folder, _, files in os.walk(root):
        for name in files:
            found = _HALF.fullmatch(name)
            if found is not None and found[1] in names:
                Path(folder, name).unlink(missing_ok=True)


def refuse_existing(targets: Collection[Path]) -> None:
    """Refuse to write where something is."""
    there = [str(each) for each in targets if os.path.lexists(each)]
    if there:
        files = "1 file is" if len(there) == 1 else f"{len(there):,} files are"
        raise FednerError(
            f"{files} already there: {', '.join(there[:5])}",
            "Choose another --out: redacting never overwrites.",
        )


def read_audit(path: Path) -> list[AuditRecord]:
    """Return what became of each file, in the order in which they were redacted.

    Raises:
        FednerError: It is no list of a redaction.
    """
    return _read(path)[1]


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _read(path: Path) -> tuple[dict[str, Any], list[AuditRecord]]:
    """Return header and records; a last line that is cut short is left out."""
    try:
        first, *others = path.read_bytes().split(b"\n")[:-1]
        header = json.loads(first)
        records = [_record(json.loads(line)) for line in others]
    except OSError as error:
        raise FednerError(f"{path} cannot be read: {error.strerror}", _OTHER_PLACE) from error
    except (ValueError, TypeError, KeyError) as error:
        raise FednerError(
            f"{path} is not the audit list of a redaction: {error}", _OTHER_PLACE
        ) from error
    if not isinstance(header, dict) or header.get("fedner") != KIND:
        raise FednerError(f"{path} is no audit list of a redaction", _OTHER_PLACE)
    return header, records


def _record(fields: dict[str, Any]) -> AuditRecord:
    replacements = tuple(Replacement(**each) for each in fields["replacements"])
    return AuditRecord(fields["source"], fields["target"], fields["digest"], replacements)


def _check_settings(path: Path, header: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    expected = {"fedner": KIND, "version": VERSION, **json.loads(json.dumps(settings))}
    differing = sorted(
        name for name in {*expected, *header} if expected.get(name) != header.get(name)
    )
    if differing:
        name = differing[0]
        raise FednerError(
            f"{path} is of another redaction: {name} was {header.get(name)}, now it is "
            f"{expected.get(name)}",
            f"To go on with it, use the same options as then. To begin again: {_OTHER_PLACE}",
        )
