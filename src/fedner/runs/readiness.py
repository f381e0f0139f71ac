"""Whether a federation can train: all that training checks, and what it would see; no training.

The start itself is `simulation.prepare_start`, which `fedner train` calls too: nothing can pass
here and be refused there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import normalised
from fedner.errors import FednerError
from fedner.runs.embedding_checks import path_problems
from fedner.runs.folder import check_folder
from fedner.runs.initial_model import opened_initial
from fedner.runs.ledgers import require_ledgers, require_room
from fedner.runs.link_time import LinkTraffic, link_traffic
from fedner.runs.platform_data import load_platforms
from fedner.runs.privacy import planned_releases, platform_privacy
from fedner.runs.privacy_checks import delta_warnings
from fedner.runs.protected_units import require_units
from fedner.runs.records import PlatformSpent
from fedner.runs.records.facts import PlatformFacts
from fedner.runs.release_costs import spent_on
from fedner.runs.simulation import Start, prepare_start
from fedner.runs.site import Site
from fedner.runs.work_estimate import Work, estimate_work
from fedner.settings import SettingProblem, Settings, SettingsError
from fedner.tensors import SharedState
from fedner.training import trainable

_WARNING = "warning: "
_WHOLE = "federation"
Parts = tuple[Sequence[Sentence], Sequence[Sentence]]


@dataclass(frozen=True, slots=True)
class RepeatedTexts:
    """Test sentences whose very text is trained on: a tagger may know them by heart.

    Attributes:
        test: The platform that is tested.
        train: The platform that trains on the texts: itself, or another one.
        sentences: How many test sentences.
        share: Those as a share of the test part.
    """

    test: str
    train: str
    sentences: int
    share: float


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a federation would train on, take and spend.

    Attributes:
        title: Its title.
        platforms: What is known of each platform's data.
        repeated: Texts that are trained and tested on.
        warnings: What its owner should know before training.
        num_shared: The numbers that are transmitted and averaged.
        num_private: The numbers that stay on each platform, by platform.
        traffic: What crosses the link of each platform.
        privacy: What the whole run would spend, by platform; empty without differential privacy.
        work: Time and memory by a trial round; None where none was asked for.
    """

    title: str
    platforms: Mapping[str, PlatformFacts]
    repeated: tuple[RepeatedTexts, ...]
    warnings: tuple[str, ...]
    num_shared: int
    num_private: Mapping[str, int]
    traffic: LinkTraffic
    privacy: Mapping[str, PlatformSpent]
    work: Work | None


def check_run(
    settings: Settings,
    path: Path,
    say: Callable[[str], None],
    *,
    source: str = "the federation",
    has_trial: bool = True,
) -> Readiness:
    """Check all that training would check, and return what it would see; nothing is trained.

    Args:
        settings: Checked settings.
        path: The run folder that training would write.
        say: Called with a line on what is being done.
        source: What an error calls the settings.
        has_trial: Whether time and memory are measured by a trial round; context features are
            computed for it, and kept for training.

    Raises:
        SettingsError: All problems at once.
    """
    warnings: list[str] = []

    def hear(line: str) -> None:
        if line.startswith(_WARNING):
            warnings.append(line.removeprefix(_WARNING))
        else:
            say(line)

    problems: list[SettingProblem] = []
    try:
        start = prepare_start(settings, path, hear, has_features=has_trial)
    except FednerError as error:
        problems += _as_problems(_WHOLE, error)
        problems += _further_problems(settings)
        raise SettingsError(source, _distinct(problems)) from None
    with _collecting(problems, "privacy"):
        require_room(start.sites, start.algorithm, "")
    privacy: Mapping[str, PlatformSpent] = {}
    with _collecting(problems, "privacy"):
        privacy = _planned(start)
    work = None
    if has_trial and not problems:
        say("a trial round of each platform, thrown away: time and memory")
        with _collecting(problems, "training"):
            work = estimate_work(settings, start.sites, start.algorithm)
    if problems:
        raise SettingsError(source, _distinct(problems))
    warnings += [*_folder_warnings(path, settings), *_delta_warnings(start)]
    return _readiness(start, tuple(warnings), privacy, work)


def _readiness(
    start: Start,
    warnings: tuple[str, ...],
    privacy: Mapping[str, PlatformSpent],
    work: Work | None,
) -> Readiness:
    sites, plan = start.sites, start.sites[0].blueprint
    shared: SharedState = plan.initial_shared()
    parts = {each.name: (each.data.train_sentences, each.data.test_sentences) for each in sites}
    return Readiness(
        title=plan.study.title,
        platforms={site.name: site.data.facts() for site in sites},
        repeated=tuple(repeated_texts(parts)),
        warnings=warnings,
        num_shared=sum(each.numel() for each in shared.values()),
        num_private={site.name: _num_private(site, shared) for site in sites},
        traffic=link_traffic(plan.study, plan.files),
        privacy=privacy,
        work=work,
    )


def _num_private(site: Site, shared: SharedState) -> int:
    """Return how many trained numbers of a platform stay there."""
    weights = trainable(site.tagger())
    return sum(weight.numel() for name, weight in weights.items() if name not in shared)


def repeated_texts(parts: Mapping[str, Parts]) -> Iterator[RepeatedTexts]:
    """Yield which test sentences are trained on, by the same platform or another one.

    This compares texts of all platforms: a simulation alone can do it.

    Args:
        parts: The training and the test sentences of each platform.
    """
    trained = {name: {normalised(each.tokens) for each in part[0]} for name, part in parts.items()}
    for tested, (_, test) in parts.items():
        texts = [normalised(each.tokens) for each in test]
        for name, known in trained.items():
            count = sum(text in known for text in texts if text)
            if count:
                yield RepeatedTexts(tested, name, count, count / len(texts))


def _planned(start: Start) -> dict[str, PlatformSpent]:
    """Return what the whole run would spend on each platform, at most."""
    study, algorithm = start.sites[0].study, start.algorithm
    spent = {}
    for site in start.sites:
        privacy = platform_privacy(site.blueprint, algorithm, site.name)
        if privacy is not None:
            releases = planned_releases(study, algorithm, site.name, privacy)
            spent[site.name] = spent_on(releases, study.privacy.delta)
    return spent


def _folder_warnings(path: Path, settings: Settings) -> Iterator[str]:
    try:
        check_folder(path, settings, resume=False)
    except FednerError as error:
        yield f"{error.message}. {error.hint}"


def _delta_warnings(start: Start) -> list[str]:
    plan = start.sites[0].blueprint
    if plan.mechanism is None:
        return []
    return delta_warnings(plan.study, plan.study.public_sizes, plan.mechanism.facts)


def _further_problems(settings: Settings) -> list[SettingProblem]:
    """Return the problems of every part of a start: an earlier one hides those of later ones."""
    problems: list[SettingProblem] = []
    with _collecting(problems, "ledgers"):
        require_ledgers(settings)
    with _collecting(problems, "model.initial"):
        opened_initial(settings)
    problems += path_problems(settings)
    with _collecting(problems, "platforms"):
        require_units(settings, load_platforms(settings))
    return problems


@contextmanager
def _collecting(problems: list[SettingProblem], key: str) -> Iterator[None]:
    """Add what the block refuses to the problems."""
    try:
        yield
    except FednerError as error:
        problems += _as_problems(key, error)


def _as_problems(key: str, error: FednerError) -> Sequence[SettingProblem]:
    if isinstance(error, SettingsError):
        return error.problems
    return [SettingProblem(key, error.message, "what can be trained", error.hint)]


def _distinct(problems: Sequence[SettingProblem]) -> list[SettingProblem]:
    """Return each problem once, and under the key of its own part where that found it too."""
    placed = {each.found for each in problems if each.key != _WHOLE}
    kept = [each for each in problems if each.key != _WHOLE or each.found not in placed]
    return list(dict.fromkeys(kept))
