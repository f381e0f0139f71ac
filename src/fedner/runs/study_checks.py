"""Whether a study can be run, and whether a platform's own settings fit it.

A study is checked by public facts alone: whoever reads it can do so. A platform checks its own half
at home: files, digests of embeddings, types, ledger and policy. Both ask the same checks as a
federation file, of a federation in which the missing half is only stood in for.
"""

from collections.abc import Iterator
from dataclasses import replace

from fedner.errors import FednerError
from fedner.models.device import require_device
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.runs.checks import public_problems
from fedner.runs.embedding_checks import path_problems
from fedner.runs.ledgers import require_ledgers
from fedner.runs.platform_checks import data_problems
from fedner.runs.platform_data import load_platforms
from fedner.runs.public_files import open_named_files
from fedner.runs.study_policy import study_policy_problems
from fedner.runs.type_descriptions import description_warnings
from fedner.settings import (
    NamedEncoder,
    NamedVectors,
    OwnEmbeddings,
    PlatformSettings,
    SettingProblem,
    Settings,
    SettingsError,
    Study,
    StudyPlatform,
    joined,
    platform_entry,
)

_NO_DATA = "-"  # of platforms whose own half is not here


def study_problems(study: Study) -> list[SettingProblem]:
    """Return every problem of a study that public facts show."""
    federation = _stood_in(study)
    found = [each for each in public_problems(federation) if _is_public(each.key)]
    if "centralized" in study.training.baselines:
        found.append(
            SettingProblem(
                "training.baselines", "'centralized'", "only 'local-only'",
                "It trains on all data in one place: only a federation file can simulate it.",
            )
        )  # fmt: skip
    return found


def platform_problems(study: Study, own: PlatformSettings) -> list[SettingProblem]:
    """Return every problem that a platform's own settings have with a study.

    Files and ledger are looked at, texts are not.

    Args:
        study: The study, checked before.
        own: The platform's settings, with every path absolute.
    """
    problems = study_policy_problems(study, own)
    if own.name not in study.names:
        return [*problems, *data_problems(own, None)]
    federation = _stood_in(study, own)
    return [
        *problems,
        *data_problems(own, study.platform(own.name).labels),
        *_device_problems(own),
        *_embedding_problems(study, own, federation),
        *_privacy_problems(federation, own.name),
        *_ledger_problems(federation, own.name),
    ]


def ledger_problems(study: Study, own: PlatformSettings) -> list[SettingProblem]:
    """Return what a deployed study asks of a platform's own settings and ledger, and is not there.

    Neither data nor embeddings are looked at.

    Args:
        study: The study, checked before, in which the platform is.
        own: The platform's settings, with every path absolute.
    """
    federation = _stood_in(study, own)
    return [*_privacy_problems(federation, own.name), *_ledger_problems(federation, own.name)]


def text_findings(study: Study, own: PlatformSettings) -> tuple[list[SettingProblem], list[str]]:
    """Read a platform's texts; return what does not fit, and what its owner should know.

    Args:
        study: The study.
        own: The platform's settings, without other problems (`platform_problems`).
    """
    federation = _stood_in(study, own)
    alone = federation.model_copy(update={"platforms": (federation.platform(own.name),)})
    try:
        data = load_platforms(alone)[own.name]
    except SettingsError as error:
        return [_own_key(each, 0, own.name) for each in error.problems], []
    return [], list(description_warnings(study, own, data.labels))


def _stood_in(study: Study, own: PlatformSettings | None = None) -> Settings:
    """Return the federation of a study, with stand-ins for the halves that are not here."""
    held, paths = study.embeddings, OwnEmbeddings() if own is None else own.embeddings
    known = OwnEmbeddings(
        words=paths.words or (held.words.name if held.words else None),
        context=paths.context or (held.context.name if held.context else None),
    )
    entries = (platform_entry(each, _own_half(each.name, own)) for each in study.platforms)
    return joined(study, tuple(entries), known)


def _own_half(name: str, own: PlatformSettings | None) -> PlatformSettings:
    if own is not None and own.name == name:
        return own
    return PlatformSettings(name=name, data=_NO_DATA)


def _is_public(key: str) -> bool:
    """Whether a key of a federation file is one of the study's."""
    _, is_of_platform, rest = key.partition("].")
    return not is_of_platform or rest.partition(".")[0] in StudyPlatform.model_fields


def _own_key(problem: SettingProblem, number: int, name: str) -> SettingProblem:
    """Return a problem of a federation file under its key in platform.toml."""
    key = problem.key.removesuffix(f" ({name})").removeprefix(f"platforms[{number}]")
    return replace(problem, key=key.removeprefix(".") or "data")


def _privacy_problems(federation: Settings, name: str) -> Iterator[SettingProblem]:
    """Yield what the study's [privacy] table asks of this platform and does not find."""
    number = [each.name for each in federation.platforms].index(name)
    for each in public_problems(federation):
        if each.key.startswith(f"platforms[{number}].") and not _is_public(each.key):
            yield _own_key(each, number, name)


def _ledger_problems(federation: Settings, name: str) -> Iterator[SettingProblem]:
    entry = federation.platform(name)
    if entry.ledger is None:
        return  # said already, where one is needed
    try:
        require_ledgers(federation.model_copy(update={"platforms": (entry,)}))
    except SettingsError as error:
        yield from (_own_key(each, 0, name) for each in error.problems)


def _device_problems(own: PlatformSettings) -> Iterator[SettingProblem]:
    if own.device in (None, "auto"):
        return
    try:
        require_device(str(own.device))
    except FednerError as error:
        yield SettingProblem("device", repr(own.device), "a device that torch can see", error.hint)


def _embedding_problems(
    study: Study, own: PlatformSettings, federation: Settings
) -> Iterator[SettingProblem]:
    """Yield embeddings that are missing here, or are others than those of the study."""
    held, paths = study.embeddings, own.embeddings
    missing = {
        key: named.name
        for key, named, path in (
            ("words", held.words, paths.words),
            ("context", held.context, paths.context),
        )
        if named is not None and path is None
    }
    for key, name in missing.items():
        hint = f'Add to this file: [embeddings] {key} = "PATH".'
        yield SettingProblem(f"embeddings.{key}", "nothing", f"the path of {name!r}", hint)
    if missing:
        return
    if wrong := list(path_problems(federation)):
        yield from wrong
        return
    try:
        words, context = embedding_origins(federation)
    except SettingsError as error:
        yield from error.problems
        return
    yield from _other_than(held.words, words, "embeddings.words")
    yield from _other_than(held.context, context, "embeddings.context")


def embedding_origins(
    federation: Settings, device: str = "cpu"
) -> tuple[EmbeddingOrigin, EmbeddingOrigin | None]:
    """Open the embeddings that a federation file names by their paths; return what they are.

    Raises:
        SettingsError: One cannot be opened.
    """
    files = open_named_files(federation, device)
    return files.words.origin, files.context


def _other_than(
    named: NamedVectors | NamedEncoder | None, found: EmbeddingOrigin | None, key: str
) -> Iterator[SettingProblem]:
    if named is None or found is None:
        return
    if found.sha256 != named.digest:
        yield SettingProblem(
            key,
            f"{found.name} with the digest {found.sha256}",
            f"{named.name} with the digest {named.digest}",
            "Take the very file that the study names: with another one the shared weights would "
            "mean something else here.",
        )
    elif found.dimension != named.dimension:
        yield SettingProblem(
            key, f"{found.dimension} numbers for a word", f"{named.dimension}, as the study says"
        )
