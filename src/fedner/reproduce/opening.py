"""Opens a study: from the options of the command to inputs that were read, and what they are."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedner.errors import FednerError
from fedner.reproduce.inputs import rehearsal_context, stored
from fedner.reproduce.locating import SYNTHETIC, embeddings_for, platforms_for, require_there
from fedner.reproduce.reproduction import Inputs, PlatformInput, Reproduction
from fedner.reproduce.store import STUDY, StoredCell, begin, check_same, read_study, works_of
from fedner.settings.sections import HUB
from fedner.version import __version__

MOST_GPU_JOBS = 12
_NO_PATHS = ("hashed", "none")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was asked for.

    Attributes:
        out: The folder of the study.
        data: The folder of corpora.
        platforms: Every --platform.
        words: Word vectors.
        contexts: A context encoder, and further ones for studies that compare several.
        repeats: How many seeds; None for the study's own number.
        first_seed: The first seed.
        device: "cpu", "cuda" or "auto".
        built_in: Whether to rehearse on built-in platforms.
        rehearse: Whether to rehearse on the platforms' own data: few sentences, tiny models.
        resume: Go on with what --out holds.
        reuse: Folders of other studies whose trainings are taken over where they are the same.
    """

    out: Path
    data: Path | None = None
    platforms: Sequence[str] = ()
    words: str | None = None
    contexts: Sequence[str] = ()
    repeats: int | None = None
    first_seed: int = 1
    device: str = "auto"
    built_in: bool = False
    resume: bool = False
    reuse: Sequence[Path] = ()
    rehearse: bool = False

    @property
    def is_rehearsal(self) -> bool:
        """Whether everything is small."""
        return self.built_in or self.rehearse


@dataclass(frozen=True, slots=True)
class Opened:
    """A study that can be run.

    Attributes:
        inputs: What it runs on, corpora read.
        works: Trainings of other studies that need not be run again.
        sources: Where the corpora were found, by platform.
    """

    inputs: Inputs
    works: Mapping[str, StoredCell]
    sources: Mapping[str, Path]


def open_study(
    study: Reproduction, options: Options, command: Sequence[str], *, only_plan: bool = False
) -> Opened:
    """Find and read what a study runs on, and begin its folder or go on with it.

    Args:
        study: The study.
        options: What the command was asked for.
        command: The command, for the study's page.
        only_plan: Whether nothing is going to be run: no study is begun.

    Raises:
        FednerError: Something is missing, or --out holds another study.
    """
    if options.data is not None and not options.data.is_dir():
        raise FednerError(f"--data {options.data} is not a folder", "Name the folder of corpora.")
    if options.built_in and (options.platforms or options.rehearse):
        raise FednerError(
            "--built-in does not take your own corpora", "Leave it out: --rehearse is for these."
        )
    has_study = (options.out / STUDY).exists()
    if has_study and not options.resume and not only_plan:
        raise FednerError(
            f"{options.out} has a study already", "Go on with --resume, or take another --out."
        )
    found = _inputs(study, options)
    inputs = stored(found)
    identity = _identity(study, inputs)
    works = works_of(options.reuse, identity)
    if not only_plan:
        session = _session(inputs, command)
        begin(inputs.out, identity, facts_of(inputs), session, resume=options.resume)
    elif has_study:
        check_same(options.out, read_study(options.out)["identity"], identity)
    own = [each for each in found.platforms if not each.data.startswith(SYNTHETIC)]
    return Opened(inputs, works, {each.name: Path(each.data) for each in own})


def _identity(study: Reproduction, inputs: Inputs) -> dict[str, Any]:
    """Return what rows are made of: a study goes on only with the same."""
    identity: dict[str, Any] = {
        "study": study.name,
        "platforms": {each.name: each.digest for each in inputs.platforms},
        "words": _facts_of(inputs.words),
        "context": _facts_of(inputs.context),
        "first_seed": inputs.first_seed,
        "rehearsal": inputs.is_rehearsal,
    }
    if inputs.more_contexts:
        identity["more_contexts"] = [_facts_of(each) for each in inputs.more_contexts]
    return identity


def facts_of(inputs: Inputs) -> dict[str, Any]:
    """Return what tables and figures say of the inputs: numbers and names, no text and no path."""
    return {
        "platforms": [
            {
                "name": each.name,
                "labels": list(each.labels),
                "num_sentences": each.num_sentences,
                "counts": dict(each.counts),
                "reading": dict(each.reading),
            }
            for each in inputs.platforms
        ],
        "repeats": inputs.repeats,
        "first_seed": inputs.first_seed,
        "device": inputs.device,
        "is_rehearsal": inputs.is_rehearsal,
    }


def drawn_inputs(out: Path) -> Inputs:
    """Return the inputs of a study that was run, as far as tables and figures need them.

    Raises:
        FednerError: The folder holds no study.
    """
    held = read_study(out)
    facts = held.get("inputs")
    if facts is None:
        raise FednerError(f"{out}: study.json says nothing of its inputs", "Run it with --resume.")
    return Inputs(
        platforms=tuple(
            PlatformInput(
                each["name"],
                "",
                labels=tuple(each["labels"]),
                num_sentences=each["num_sentences"],
                counts=each["counts"],
                reading=each.get("reading", {}),
            )
            for each in facts["platforms"]
        ),
        words=held["identity"]["words"],
        context=held["identity"]["context"],
        out=out.resolve(),
        repeats=facts["repeats"],
        first_seed=facts["first_seed"],
        device=facts["device"],
        is_rehearsal=facts["is_rehearsal"],
    )


def _inputs(study: Reproduction, options: Options) -> Inputs:
    out = options.out.resolve()
    platforms: tuple[PlatformInput, ...] = ()
    if study.layout != "own" or options.built_in:
        platforms = platforms_for(
            study, options.data, options.platforms, is_built_in=options.built_in
        )
    words, context = _embeddings(study, options, out)
    repeats = options.repeats or (1 if options.is_rehearsal else study.repeats)
    return Inputs(
        platforms=platforms,
        words=_whole_path(words),
        context=_whole_path(context),
        out=out,
        root=None if options.data is None else options.data.resolve(),
        repeats=repeats,
        first_seed=options.first_seed,
        device=_device(options.device),
        is_rehearsal=options.is_rehearsal,
        more_contexts=() if options.built_in else _further(options.contexts[1:]),
    )


def _embeddings(study: Reproduction, options: Options, out: Path) -> tuple[str, str]:
    """Return word vectors and context encoder; a rehearsal does without."""
    if options.built_in:
        return "hashed", rehearsal_context(out / "cache")
    first = options.contexts[0] if options.contexts else None
    if not options.rehearse:
        return embeddings_for(study, options.data, options.words, first)
    words, context = embeddings_for(
        replace(study, needs=frozenset()), options.data, options.words, first
    )
    return words, rehearsal_context(out / "cache") if context == "none" else context


def _whole_path(path: str) -> str:
    return path if path in _NO_PATHS or path.startswith(HUB) else str(Path(path).resolve())


def _further(contexts: Sequence[str]) -> tuple[str, ...]:
    """Return further encoders by their whole paths.

    Raises:
        FednerError: One is not there.
    """
    for each in contexts:
        require_there("context", each)
    return tuple(map(_whole_path, contexts))


def _device(wanted: str) -> str:
    import torch

    from fedner.models.device import require_device

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    require_device(wanted)
    return wanted


def default_jobs(device: str) -> int:
    """Return how many cells run side by side unless somebody says so."""
    cores = os.cpu_count() or 1
    return min(MOST_GPU_JOBS, max(1, cores - 1)) if device == "cuda" else cores


def _facts_of(path: str) -> str:
    """Return name and size of word vectors or of an encoder: not where they lie."""
    if path in _NO_PATHS or path.startswith(HUB):
        return path
    place = Path(path)
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    size = sum(each.stat().st_size for each in files if each.is_file())
    return f"{place.name} ({size:,} bytes)"


def _session(inputs: Inputs, command: Sequence[str]) -> dict[str, Any]:
    import numpy
    import torch

    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    if inputs.device == "cuda":
        machine += f", {torch.cuda.get_device_name()}"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": " ".join(("fedner", *command)),
        "device": inputs.device,
        "machine": machine,
        "versions": {
            "fedner": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        },
    }


def command_of(arguments: Sequence[str] | None = None) -> list[str]:
    """Return the command as it was typed, without the program."""
    return list(sys.argv[1:] if arguments is None else arguments)
