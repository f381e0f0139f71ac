"""The key of a run where a platform keeps it: a file for the owner alone, or memory.

A key whose sum did not decrypt, or whose copies of the state differ, is ended: its name is noted
durably before the platform says that it refuses, and no sum is decrypted with it again. So a server
that alters sums to learn of the noise gets one answer for each key.
"""

from dataclasses import dataclass, field
from pathlib import Path

from fedner.durable import owner_folder, sync_folder, write_bytes
from fedner.errors import FednerError
from fedner.federated.encrypted.announcements import RunSecret, secret_from_bytes
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.secure.wire import packed, unpacked
from fedner.federated.summation import KeyEndedError

KEY_FILE, ENDED_FILE = "run-key", "ended-run-keys"
_FORM = b"fedner run key/1"
_NAME_BYTES = 32


@dataclass(slots=True, repr=False)
class KeptKey:
    """The key of the newest run, and the names of those that ended.

    Attributes:
        parameters: Those of the encryption.
        folder: Where both files lie; None keeps them in memory, for simulations.
    """

    parameters: CkksParameters
    folder: Path | None = None
    _secret: RunSecret | None = None
    _run: tuple[str, str] = ("", "")
    _ended: set[bytes] | None = field(default=None)

    def read(self, study: str, run: str) -> RunSecret | None:
        """Return the key of a run; None where this platform has none.

        Raises:
            KeyEndedError: If the key was ended.
            FednerError: If a file is damaged.
        """
        if self._run != (study, run):
            self._secret, self._run = self._stored(study, run), (study, run)
        if self._secret is not None:
            self._require_living(self._secret)
        return self._secret

    def keep(self, study: str, run: str, secret: RunSecret) -> None:
        """Keep the key of a run, in place of that of the run before.

        Raises:
            KeyEndedError: If it was ended.
        """
        self._require_living(secret)
        if self.folder is not None:
            owner_folder(self.folder)
            data = packed(_FORM, study, run, secret.data)
            write_bytes(self.folder / KEY_FILE, data, owner_only=True)
        self._secret, self._run = secret, (study, run)

    def forget(self, study: str, run: str) -> None:
        """Remove the key of a run that is done; the names of those that ended stay."""
        if self.folder is not None and self._stored_run() == (study.encode(), run.encode()):
            (self.folder / KEY_FILE).unlink(missing_ok=True)
            sync_folder(self.folder)
        if self._run == (study, run):
            self._secret, self._run = None, ("", "")

    def end(self, secret: RunSecret) -> None:
        """Note, durably, that a key must not be used again."""
        ended = self._names() | {secret.name}
        if self.folder is not None:
            owner_folder(self.folder)
            data = b"".join(sorted(ended))
            write_bytes(self.folder / ENDED_FILE, data, owner_only=True)
        self._ended = ended

    def _require_living(self, secret: RunSecret) -> None:
        if secret.name in self._names():
            raise KeyEndedError(
                "the key of this run was ended: a sum did not decrypt, or copies of the state "
                "differed",
                "Ask who runs the server what happened, then begin another run.",
            )

    def _names(self) -> set[bytes]:
        if self._ended is None:
            path = None if self.folder is None else self.folder / ENDED_FILE
            data = path.read_bytes() if path is not None and path.is_file() else b""
            if len(data) % _NAME_BYTES:
                raise FednerError(f"{path} is damaged", "Restore it from your backup.")
            self._ended = {
                data[begin : begin + _NAME_BYTES] for begin in range(0, len(data), _NAME_BYTES)
            }
        return self._ended

    def _stored_run(self) -> tuple[bytes, bytes] | None:
        """Return study and run of the stored key, readable or not; None where there is none."""
        path = None if self.folder is None else self.folder / KEY_FILE
        if path is None or not path.is_file():
            return None
        try:
            _, study, run, _ = unpacked(path.read_bytes(), 4)
        except FednerError:
            return None
        return study, run

    def _stored(self, study: str, run: str) -> RunSecret | None:
        path = None if self.folder is None else self.folder / KEY_FILE
        if path is None or not path.is_file():
            return None
        try:
            form, of_study, of_run, data = unpacked(path.read_bytes(), 4)
            if form != _FORM:
                raise FednerError("another form")
            if (of_study, of_run) != (study.encode(), run.encode()):
                return None  # of an earlier run
            return secret_from_bytes(self.parameters, data)
        except FednerError as error:
            raise FednerError(
                f"{path} is damaged: {error.message}",
                "Remove it: another platform of the run will send the key again.",
            ) from error
