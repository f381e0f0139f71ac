"""The home of a server: its newest run, or a named one, by the files that stand there."""

from pathlib import Path

from fedner.engines.flare.job_ends import last_begin
from fedner.errors import FednerError
from fedner.runs.deployment.homes import ServerHome
from fedner.runs.watch.folders import FolderSource, server_source
from fedner.runs.watch.snapshot import Snapshot, Standing
from fedner.runs.watch.source import Silent, Sink
from fedner.settings import nearest


class ServerSource:
    """A run of a server; without a name the newest, also when another begins."""

    def __init__(self, home: Path, run: str | None = None, sink: Sink | None = None) -> None:
        """Name the home.

        Args:
            home: The server's home.
            run: The run; None follows the newest.
            sink: Who else hears of every round.

        Raises:
            FednerError: There is no run of that name.
        """
        self._runs = ServerHome(home).runs
        self._wanted = run
        self._sink = sink or Silent()
        self._held: FolderSource | None = None
        if run is not None and run not in self._names():
            raise FednerError(f"{home} has no run {run!r}", nearest(run, self._names()))

    def look(self) -> bool:
        """Read the rounds that are new.

        Raises:
            FednerError: A record is damaged.
        """
        folder = self._folder()
        if folder is None:
            return False
        if self._held is None or self._held.folder != folder:
            self._held = server_source(folder, self._sink)
        return self._held.look()

    def snapshot(self) -> Snapshot:
        """Return what is to be shown now."""
        if self._held is None:
            words = "this server has no run yet: fedner federation train"
            return Snapshot("", "", "coordinator", Standing("waiting", words))
        return self._held.snapshot()

    def cost_one(self) -> bool:
        """Ask the accountant for one more epsilon.

        Raises:
            FednerError: It is not installed.
        """
        return self._held is not None and self._held.cost_one()

    def close(self) -> None:
        """Nothing is held between two looks."""

    def _names(self) -> list[str]:
        return [each.name for each in self._runs.iterdir()] if self._runs.is_dir() else []

    def _folder(self) -> Path | None:
        if self._wanted is not None:
            return self._runs / self._wanted
        folders = [self._runs / name for name in self._names()]
        return max(folders, key=_begun, default=None)


def _begun(folder: Path) -> tuple[float, str]:
    """Return when the newest job of a run began, or its folder was made."""
    return (last_begin(folder) or folder.stat().st_mtime, folder.name)
