"""What a path names: the folder of a run, or a home with runs in it."""

from pathlib import Path

from fedner.errors import FednerError
from fedner.federated.run import RECORD
from fedner.runs.deployment.homes import FederationHome, PlatformHome, ServerHome
from fedner.runs.folder import SETTINGS, STUDY
from fedner.runs.reply_log import REPLIES
from fedner.runs.watch.folders import local_source, server_source
from fedner.runs.watch.platforms import folder_source, home_source
from fedner.runs.watch.server_homes import ServerSource
from fedner.runs.watch.source import Sink, Source


def open_source(path: Path, run: str | None = None, sink: Sink | None = None) -> Source:
    """Return where a run is read from.

    Args:
        path: The folder of a run; or the home of a server, of a platform or of the coordinator.
        run: Which run of a home; None follows the newest.
        sink: Who else hears of every round.

    Raises:
        FednerError: The path names nothing that could be watched.
    """
    if FederationHome(path).record.is_file():
        from fedner.runs.watch.federations import FederationSource

        return FederationSource(path, run, sink)
    if ServerHome(path).record.is_file():
        return ServerSource(path, run, sink)
    if PlatformHome(path).record.is_file():
        return home_source(path, run, sink)
    if run is not None:
        raise FednerError(
            f"{path} is not a home of a federation across machines, so it has no run {run!r}",
            "Leave out --run if you name the folder of a run.",
        )
    return _run_source(path, sink)


def _run_source(path: Path, sink: Sink | None) -> Source:
    if (path / SETTINGS).is_file():
        return local_source(path, sink)
    if (path / REPLIES).is_file():
        home = path.parent.parent
        if PlatformHome(home).record.is_file():
            return home_source(home, path.name, sink)
        return folder_source(path, sink)
    if (path / RECORD).is_file() or (path / STUDY).is_file():
        return server_source(path, sink)
    raise FednerError(
        f"{path} holds no run" if path.is_dir() else f"{path}: no such folder",
        "Name a run folder that `fedner train` wrote (it is there as soon as data and settings are "
        "checked), or the home of a server, of a platform or of the coordinator.",
    )
