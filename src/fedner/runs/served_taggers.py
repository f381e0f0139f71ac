"""The taggers that a model on disk offers: those of a run by platform and method, or one."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from fedner.errors import FednerError
from fedner.inference.onnx_tagger import is_export
from fedner.inference.service.catalog import Offer
from fedner.models.checkpoint import CARD
from fedner.runs.folder import (
    CENTRALIZED,
    FEDERATED,
    LOCAL_ONLY,
    SETTINGS,
    RunFolder,
    platform_names,
    resume_command,
    tagger_folder,
)

_SHARED_MODEL, _SHARED = "model", "shared"
_ORDER: Final = (FEDERATED, LOCAL_ONLY, CENTRALIZED)


def offers_of(path: Path, name: str | None = None, platforms: Collection[str] = ()) -> list[Offer]:
    """Return what a run, a saved tagger or an export has to offer.

    Args:
        path: Its folder.
        name: What it shall be called; by default a run's taggers have no name of it.
        platforms: Of a run, whose taggers; all by default.

    Raises:
        FednerError: There is no tagger, or no such platform.
    """
    source = name or path.resolve().name
    if is_export(path):
        return [Offer(source, source, path)]
    if not (path / SETTINGS).is_file():
        return [Offer(source, source, tagger_folder(path, None))]
    chosen = platforms or platform_names(path)
    prefix = "" if name is None else f"{name}/"
    found = [
        Offer(f"{prefix}{platform}/{method}", source, folder, platform, method)
        for platform in chosen
        for method in _ORDER
        if _is_there(folder := RunFolder(path).tagger(platform, method))
    ]
    shared = path / _SHARED_MODEL
    if _is_there(shared) and not platforms:
        found.append(Offer(f"{prefix}{_SHARED}", source, shared, None, _SHARED))
    for platform in platforms:  # says which there are
        tagger_folder(path, platform)
    if not found:
        raise FednerError(
            f"{path} has no finished taggers",
            f"`{resume_command(path)}` goes on with the run.",
        )
    return found


def _is_there(folder: Path) -> bool:
    return (folder / CARD).is_file()
