"""FLARE's audit log at the server, kept to a size.

FLARE writes a line for every command of an admin session, and never begins a new file. The watchdog
looks after the jobs twice a second: 20 MB a day. Here its looks are left out, and the file is
rotated as the other logs are.
"""

import logging
from logging.handlers import RotatingFileHandler
from typing import Any

from fedner.engines.flare.session import COMMAND, LOST, PRESENT
from fedner.runs.deployment.homes import WATCHDOG
from fedner.runs.deployment.kits import LOG_BYTES, LOG_FILES

_LOOKS = ("list_jobs", f"{COMMAND} {LOST}", f"{COMMAND} {PRESENT}")


class _RotatedFile:
    """What an auditor writes to, in place of its file."""

    def __init__(self, path: str) -> None:
        self._handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES - 1)

    def write(self, line: str) -> None:
        """Write a line."""
        self._handler.emit(logging.makeLogRecord({"msg": line.rstrip("\n")}))

    def flush(self) -> None:
        """Do nothing: every line is flushed."""

    def close(self) -> None:
        """Close the file."""
        self._handler.close()


def bound_audit_log() -> None:
    """Let auditors of this process rotate their file and leave out the watchdog's looks."""
    from nvflare.fuel.sec.audit import Auditor

    begin, add = Auditor.__init__, Auditor.add_event

    def begin_rotated(self: Any, audit_file_name: str) -> None:
        begin(self, audit_file_name)
        self.audit_file.close()
        self.audit_file = _RotatedFile(audit_file_name)

    def add_told(self: Any, user: str, action: str, ref: str = "", msg: str = "") -> str:
        if user == WATCHDOG and action.startswith(_LOOKS):
            return ""
        return str(add(self, user, action, ref, msg))

    Auditor.__init__, Auditor.add_event = begin_rotated, add_told
