"""The folder of a run: what stands where, readable by its owner alone."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fedner.durable import owner_folder, write_text
from fedner.errors import FednerError
from fedner.federated.checkpoints import COPIES, PLATFORMS, platform_folder, read_state
from fedner.federated.record import RoundRecord, read_rounds
from fedner.federated.run import RECORD
from fedner.models.checkpoint import CARD
from fedner.runs.records.border import UNHARMED, Kind, read_as
from fedner.runs.records.facts import InitialFacts
from fedner.runs.records.privacy import PrivacySpent
from fedner.settings import Settings, Study, dotted, nearest, parse, parse_as

SETTINGS = "settings.json"
STUDY = "study.json"
PARTS = "parts.json"
INITIAL = "initial.json"
FACTS = "facts.json"
SCORES = "scores.json"
DISCLOSURE = "disclosure.json"
PRIVACY = "privacy.json"
REPORT = "report.html"
MODEL_CARD = "MODEL_CARD.md"
COUNTS = "counts.json"
TAGGERS = "taggers"
SERVER = "server"
LOCAL_ONLY, FEDERATED, CENTRALIZED = "local-only", "federated", "centralized"
METHODS = (LOCAL_ONLY, FEDERATED, CENTRALIZED)
# Written before a run has anything that could be resumed.
LEDGER_NAME = "ledger_name.json"
_UNFINISHED = "The platform may not have finished the run yet."
# Held by the process that trains a simulation, baselines included.
AT_WORK = ".at-work"
BEGINNING = (SETTINGS, STUDY, PARTS, INITIAL, LEDGER_NAME, AT_WORK)


def write_record(folder: Path, name: str, record: Mapping[str, Any]) -> None:
    """Write a JSON file of a folder, wholly or not at all."""
    path = folder / name
    owner_folder(path.parent)
    text = json.dumps(record, ensure_ascii=False, indent=1)
    write_text(path, text + "\n", owner_only=True)


def read_record(folder: Path, name: str, hint: str) -> dict[str, Any]:
    """Read a JSON file of a folder.

    Args:
        folder: The folder.
        name: The file.
        hint: What to do where it is missing.

    Raises:
        FednerError: It is not there, or is no JSON.
    """
    path = folder / name
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FednerError(f"{folder} has no {name}", hint) from None
    except (OSError, ValueError) as error:
        raise FednerError(f"{path} cannot be read: {error}", UNHARMED) from error
    if not isinstance(record, dict):
        raise FednerError(f"{path} is damaged: it holds no record", UNHARMED)
    return record


@dataclass(frozen=True, slots=True)
class SiteFolder:
    """What one platform keeps of a run: states, taggers and results, for its own eyes.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def report(self) -> Path:
        """The platform's own report."""
        return self.path / REPORT

    @property
    def card(self) -> Path:
        """The model card of the platform's tagger."""
        return self.path / MODEL_CARD

    def tagger(self, method: str = FEDERATED) -> Path:
        """Return the folder of a finished tagger."""
        return self.path / TAGGERS / method

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Write a JSON file, wholly or not at all."""
        write_record(self.path, name, record)

    def read(self, name: str) -> dict[str, Any]:
        """Read a JSON file.

        Raises:
            FednerError: It is not there, or is no JSON.
        """
        return read_record(self.path, name, _UNFINISHED)

    def read_as(self, kind: type[Kind], name: str) -> Kind:
        """Read a JSON file as the record that it holds.

        Raises:
            FednerError: It is not there, or damaged.
        """
        return read_as(kind, self.path / name, _UNFINISHED)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run on disk: the coordinator's half, and in a simulation the platforms' folders in it.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / REPORT

    @property
    def card(self) -> Path:
        """The model card."""
        return self.path / MODEL_CARD

    def site(self, platform: str) -> SiteFolder:
        """Return what a platform keeps of the run."""
        return SiteFolder(platform_folder(self.path, platform))

    def tagger(self, platform: str, method: str = FEDERATED) -> Path:
        """Return the folder of a platform's finished tagger."""
        return self.site(platform).tagger(method)

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Write a JSON file of the run, wholly or not at all."""
        write_record(self.path, name, record)

    def read(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the run.

        Raises:
            FednerError: It is not there, or is no JSON.
        """
        return read_record(self.path, name, self._unfinished)

    def read_as(self, kind: type[Kind], name: str) -> Kind:
        """Read a JSON file of the run as the record that it holds.

        Raises:
            FednerError: It is not there, or damaged.
        """
        return read_as(kind, self.path / name, self._unfinished)

    @property
    def _unfinished(self) -> str:
        return f"The run may not be finished: `{resume_command(self.path)}` goes on."

    def privacy(self) -> PrivacySpent | None:
        """Return what a finished run spent; None without differential privacy.

        Raises:
            FednerError: The record is damaged.
        """
        return self.read_as(PrivacySpent, PRIVACY) if (self.path / PRIVACY).is_file() else None

    def initial(self) -> InitialFacts | None:
        """Return what the run began with; None for a run from scratch.

        Raises:
            FednerError: The record is damaged.
        """
        return self.read_as(InitialFacts, INITIAL) if (self.path / INITIAL).is_file() else None

    def keep_study(self, study: Study) -> None:
        """Write the public study of the run, or check that one which goes on has the same.

        Raises:
            FednerError: The run was begun with another study.
        """
        if not (self.path / STUDY).is_file():
            self.write(STUDY, study.model_dump(mode="json"))
            return
        before = self.study()
        if before.digest != study.digest:
            held, now = before.model_dump(mode="json"), study.model_dump(mode="json")
            raise FednerError(
                f"{self.path} was begun with another study: "
                f"{'; '.join(_differences(held, now)[:10])}",
                "Data or files of the study have changed since: restore them, or begin a new run.",
            )

    def study(self) -> Study:
        """Return the public study of the run.

        Raises:
            FednerError: It is not there, or damaged.
        """
        return parse_as(Study, self.read(STUDY), str(self.path / STUDY))

    def weights_folder(self) -> Path:
        """Return where shared weights are stored by round: at the coordinator.

        In an encrypted run the coordinator has none: those of a platform that lie here are taken,
        as in a simulation. All platforms have the same.

        Raises:
            FednerError: It is the folder of the coordinator of an encrypted run.
        """
        if not (self.path / STUDY).is_file() or self.study().transport.encryption is None:
            return self.path / SERVER
        copies = sorted((self.path / PLATFORMS).glob(f"*/{COPIES}"))
        if not copies:
            raise FednerError(
                f"{self.path}: the coordinator of an encrypted run has no weights",
                "Every platform has the model: use the one that a platform wrote.",
            )
        return copies[0]

    def shared(self, round_: int) -> dict[str, Tensor]:
        """Return the shared weights that were stored under a round: EMA where kept.

        Raises:
            FednerError: There is no such round.
        """
        tensors, _ = read_state(self.weights_folder(), round_)
        prefix = "ema/" if any(key.startswith("ema/") for key in tensors) else "shared/"
        return {
            key.removeprefix(prefix): tensor
            for key, tensor in tensors.items()
            if key.startswith(prefix)
        }

    def settings(self) -> Settings:
        """Return the settings that the run was trained with.

        Raises:
            FednerError: They are not there, or damaged: a key that is missing has no default here.
        """
        stated, place = self.read(SETTINGS), str(self.path / SETTINGS)
        settings = parse(stated, place)
        altered = _differences(stated, settings.model_dump(mode="json"))
        if altered:
            raise FednerError(f"{place} is damaged: {'; '.join(altered[:10])}", UNHARMED)
        return settings

    def rounds(self) -> list[RoundRecord]:
        """Return the record of every round; a line that a kill cut off is left out.

        Raises:
            FednerError: A line is damaged.
        """
        return read_rounds(self.path / RECORD)


def check_folder(path: Path, settings: Settings, *, resume: bool) -> None:
    """Check that a run can begin in a folder, or go on there; nothing is created.

    Raises:
        FednerError: The folder holds another run, or something else.
    """
    if (path / SETTINGS).is_file():
        if not resume:
            raise FednerError(
                f"{path} already holds a run",
                "Add --resume to go on with it, or name another folder with --out.",
            )
        stated = settings.model_dump(mode="json")
        different = _differences(RunFolder(path).read(SETTINGS), stated)
        if different:
            raise FednerError(
                f"{path} was begun with other settings: {'; '.join(different[:10])}",
                f"`{resume_command(path)}` uses the settings of the run itself.",
            )
        return
    if resume:
        raise FednerError(f"{path} holds no run to resume", "Train without --resume first.")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FednerError(f"{path} is already there", "Name another folder with --out.")


def begin(path: Path, settings: Settings, *, resume: bool) -> RunFolder:
    """Make the folder of a run, or go on with one that has the very same settings.

    Raises:
        FednerError: The folder holds another run, or something else.
    """
    check_folder(path, settings, resume=resume)
    folder = RunFolder(path)
    if resume:
        return folder
    owner_folder(path)
    if os.name == "posix":
        path.chmod(0o700)  # the folder may have been there, empty and open
    folder.write(SETTINGS, settings.model_dump(mode="json"))
    return folder


def discard_empty(folder: RunFolder, *, keeps_root: bool = False) -> None:
    """Remove a run that failed before it had anything worth resuming.

    Only what `begin` and the start of a run write is removed, and only where nothing else is
    there: a ledger, a round or a finished baseline keeps the whole folder.

    Args:
        folder: The folder of the run.
        keeps_root: Whether the folder itself was there before.
    """
    held = [each for each in folder.path.rglob("*") if not each.is_dir()]
    if any(each.relative_to(folder.path).as_posix() not in BEGINNING for each in held):
        return
    for each in held:
        each.unlink()
    inner = sorted(folder.path.rglob("*"), reverse=True)
    for each in (*inner, *([] if keeps_root else [folder.path])):
        each.rmdir()


def _differences(old: Any, new: Any, location: tuple[str | int, ...] = ()) -> list[str]:
    """Return the keys in which two records differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted({*old, *new})
        pairs: list[tuple[str | int, Any, Any]] = [
            (key, old.get(key), new.get(key)) for key in keys
        ]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(number, *both) for number, both in enumerate(zip(old, new, strict=True))]
    else:
        same = old == new
        return [] if same else [f"{dotted(location)} was {old!r}, now {new!r}"]
    return [
        each for key, one, other in pairs for each in _differences(one, other, (*location, key))
    ]


def resume_command(folder: Path) -> str:
    """Return the command that goes on with a run, as a shell takes it."""
    return f"fedner train {shlex.quote(str(folder))} --resume"


def open_run(path: Path) -> RunFolder:
    """Return the run in a folder.

    Raises:
        FednerError: There is none.
    """
    if not (path / SETTINGS).is_file():
        raise FednerError(f"{path} holds no run", "Name a folder that `fedner train` wrote.")
    return RunFolder(path)


def tagger_folder(path: Path, platform: str | None, method: str = FEDERATED) -> Path:
    """Return the folder of a tagger: that of a platform of a run, or the folder itself.

    Args:
        path: A run folder, or the folder of a saved tagger.
        platform: The platform; needed for a run.
        method: "federated", or a baseline that the run trained.

    Raises:
        FednerError: There is no such tagger.
    """
    if not (path / SETTINGS).is_file():
        if not (path / CARD).is_file():
            raise FednerError(
                f"{path} holds neither a run nor a saved tagger"
                if path.is_dir()
                else f"{path}: {'not a' if path.exists() else 'no such'} folder",
                "Name a folder that `fedner train` or `fedner join` wrote.",
            )
        if platform is None:
            return path
        raise FednerError(f"{path} holds no run, so it has no platforms", "Leave out --platform.")
    held = {name: RunFolder(path).tagger(name, method) for name in platform_names(path)}
    names = [name for name, folder in held.items() if (folder / CARD).is_file()]
    if not names:
        raise FednerError(
            f"{path} has no finished {method} taggers",
            f"`{resume_command(path)}` goes on with the run.",
        )
    if platform is None:
        if len(names) == 1:
            return held[names[0]]
        raise FednerError(
            f"{path} has taggers of {len(names)} platforms", f"--platform: {', '.join(names)}."
        )
    if platform not in names:
        raise FednerError(f"{path} has no platform {platform!r}", nearest(platform, names))
    return held[platform]


def platform_names(path: Path) -> list[str]:
    """Return the platforms that have a folder in a run, sorted."""
    held = path / "platforms"
    return sorted(each.name for each in held.iterdir()) if held.is_dir() else []
