"""study.toml and platform.toml: read and checked, and written from a federation file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedner.durable import owner_folder, write_text
from fedner.errors import FednerError
from fedner.runs.initial_model import located_initial, opened_initial, require_same_kind
from fedner.runs.platform_data import load_platforms
from fedner.runs.platform_file import attempted_platform
from fedner.runs.protected_units import true_size
from fedner.runs.study_checks import (
    embedding_origins,
    platform_problems,
    study_problems,
    text_findings,
)
from fedner.runs.study_defaults import with_defaults
from fedner.runs.sums import sum_warnings
from fedner.settings import (
    EngineSettings,
    PlatformSettings,
    SettingProblem,
    Settings,
    SettingsError,
    Study,
    attempt_as,
    federation_of,
    override,
    parse_as,
    platform_settings_of,
    platform_toml,
    read_toml,
    study_of,
    study_toml,
)

STUDY_FILE = "study.toml"
PLATFORM_FILE = "platform.toml"
_STUDY_NEEDS = "[training] and one [[platforms]]"
_ENGINE = "engine."


def read_study(path: Path, assignments: Sequence[str] = ()) -> Study:
    """Read a study, with `key=value` assignments over it.

    Raises:
        SettingsError: All problems of the file at once.
        FednerError: It cannot be read, or is not TOML.
    """
    study, problems = _attempted_study(path, assignments)
    if study is None or problems:
        raise SettingsError(str(path), problems)
    return study


def _attempted_study(
    path: Path, assignments: Sequence[str] = ()
) -> tuple[Study | None, list[SettingProblem]]:
    study, problems = attempt_as(Study, override(read_toml(path, _STUDY_NEEDS), assignments))
    if study is not None:
        study = with_defaults(study)
        reported = {each.key for each in problems}
        problems += [each for each in study_problems(study) if each.key not in reported]
    return study, problems


def check_files(
    study_path: Path, platform_paths: Sequence[Path] = ()
) -> tuple[Study | None, list[SettingProblem], list[str]]:
    """Return a study, every problem of it and of platforms with it (`FILE: key`), and warnings.

    Texts are read where nothing else is wrong.

    Raises:
        FednerError: A file cannot be read, or is not TOML.
    """
    study, platforms, problems = _attempted_halves(study_path, platform_paths)
    warnings: list[str] = []
    if study is None or problems:
        return study, problems, warnings
    warnings += sum_warnings(study)
    for path, own in zip(platform_paths, platforms, strict=True):
        found, remarks = text_findings(study, own)
        problems += _of_file(path, found)
        warnings += remarks
    return study, problems, warnings


def read_halves(
    study_path: Path,
    platform_paths: Sequence[Path],
    assignments: Sequence[str] = (),
    initial: Path | None = None,
) -> Settings:
    """Read a study and the settings of all its platforms as one federation, for a simulation.

    Args:
        study_path: The study.
        platform_paths: The own settings of each of its platforms.
        assignments: `key=value` over the study; `engine.` says where the simulation computes.
        initial: Where the model lies that the study begins with.

    Raises:
        SettingsError: All problems of all files at once.
        FednerError: A file cannot be read, the files are not those of the study's platforms, or
            the initial model is not the study's.
    """
    of_study = [each for each in assignments if not each.lstrip().startswith(_ENGINE)]
    of_engine = [each for each in assignments if each not in of_study]
    study, own, problems = _attempted_halves(study_path, platform_paths, of_study)
    if study is None or problems:
        raise SettingsError(str(study_path), problems)
    engine = override({}, of_engine).get("engine")
    chosen = None if engine is None else parse_as(EngineSettings, engine, "--set engine")
    located_initial(study, initial)
    return federation_of(study, own, chosen, None if initial is None else str(initial.resolve()))


def _attempted_halves(
    study_path: Path, platform_paths: Sequence[Path], assignments: Sequence[str] = ()
) -> tuple[Study | None, list[PlatformSettings], list[SettingProblem]]:
    study, found = _attempted_study(study_path, assignments)
    problems = _of_file(study_path, found)
    platforms = []
    for path in platform_paths:
        own, found = attempted_platform(path)
        if own is not None:
            platforms.append(own)
        if own is not None and study is not None and not problems:
            reported = {each.key for each in found}
            found += [each for each in platform_problems(study, own) if each.key not in reported]
        problems += _of_file(path, found)
    return study, platforms, problems


def _of_file(path: Path, problems: Sequence[SettingProblem]) -> list[SettingProblem]:
    return [replace(each, key=f"{path}: {each.key}") for each in problems]


@dataclass(frozen=True, slots=True)
class Halves:
    """A federation file in two halves.

    Attributes:
        study: The public half.
        platforms: The private half of every platform.
        undeclared: Platforms whose public size is the true number of their training sentences,
            since the file declares none.
    """

    study: Study
    platforms: Mapping[str, PlatformSettings]
    undeclared: tuple[str, ...] = ()


def halves_of(federation: Settings) -> Halves:
    """Return both halves of a checked federation file; sizes that it does not declare are counted.

    Raises:
        FednerError: Embeddings or data cannot be read.
    """
    undeclared = tuple(each.name for each in federation.platforms if each.public_size is None)
    words, context = embedding_origins(federation)
    data = load_platforms(federation)
    built_in = {name: each.labels for name, each in data.items() if each.is_synthetic}
    sizes = {name: true_size(each, federation.privacy) for name, each in data.items()}
    initial = opened_initial(federation)
    named = None if initial is None else initial.named
    study = study_of(federation, sizes, words, context, built_in, named)
    if initial is not None:
        require_same_kind(study, initial)
    own = {name: platform_settings_of(federation, name) for name in data}
    return Halves(study, own, undeclared)


def write_halves(halves: Halves, folder: Path) -> list[Path]:
    """Write study.toml, and NAME/platform.toml readable by its owner alone; return the files.

    Raises:
        FednerError: A file is already there, or cannot be written.
    """
    study = folder / STUDY_FILE
    own = {name: folder / name / PLATFORM_FILE for name in halves.platforms}
    for path in (study, *own.values()):
        if path.exists():
            raise FednerError(f"{path} is already there", "Name another folder with --out.")
    texts = {study: study_toml(halves.study)}
    texts |= {path: platform_toml(halves.platforms[name]) for name, path in own.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        if path != study:
            owner_folder(path.parent)
        write_text(path, text, owner_only=path != study)
    return list(texts)
