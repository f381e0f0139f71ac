"""What stands in a run's folder beside its rounds: the study, and what a finished run came to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from fedner.errors import FednerError
from fedner.runs.folder import FEDERATED, LOCAL_ONLY, PRIVACY, SCORES, STUDY, read_record
from fedner.runs.records import (
    PlatformScores,
    PlatformSpent,
    PrivacySpent,
    RunScores,
    ScoreReports,
)
from fedner.runs.records.border import read_as
from fedner.runs.report.coordinator import SCORE_REPORTS
from fedner.runs.schedule import algorithm_for, num_rounds
from fedner.runs.verdict import privacy_sentence, verdict_sentence, zero_sentence
from fedner.runs.watch.snapshot import PrivacyView
from fedner.settings import Study, parse_as

Held = TypeVar("Held")
_HINT = "The run may not be finished."


@dataclass(frozen=True, slots=True)
class Results:
    """What a finished run came to, as far as its folder says.

    Attributes:
        final: Strict F1, from 0 to 1, by platform and method.
        spent: What was spent, by platform, over all runs too where there is a ledger.
        verdict: In sentences.
    """

    final: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    spent: Mapping[str, PlatformSpent] = field(default_factory=dict)
    verdict: tuple[str, ...] = ()

    @property
    def references(self) -> dict[str, float]:
        """Strict F1 of the local-only baselines, by platform."""
        return {k: each[LOCAL_ONLY] for k, each in self.final.items() if LOCAL_ONLY in each}


class Kept(Generic[Held]):
    """What a file holds; it is read again only when it has changed."""

    def __init__(self, path: Path, read: Callable[[Path], Held]) -> None:
        self._path, self._read = path, read
        self._seen: tuple[int, int, int] | None = None
        self._held: Held | None = None

    def get(self) -> Held | None:
        """Return what the file holds; None where there is none.

        Raises:
            FednerError: It is damaged.
        """
        try:
            facts = self._path.stat()
        except OSError:
            self._seen, self._held = None, None
            return None
        seen = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        if seen != self._seen:
            self._held = self._read(self._path)
            self._seen = seen
        return self._held


def read_study(path: Path) -> Study:
    """Return the study in a file of a run's folder.

    Raises:
        FednerError: It is damaged.
    """
    return parse_as(Study, read_record(path.parent, path.name, _HINT), str(path))


def rounds_of(study: Study | None) -> int | None:
    """Return how many rounds a study has; None where only an algorithm of one's own knows it."""
    if study is None:
        return None
    try:
        return num_rounds(study, algorithm_for(study))
    except FednerError:
        return study.training.rounds


def privacy_view(study: Study | None) -> PrivacyView | None:
    """Return the differential privacy of a study; None without."""
    if study is None or not study.privacy.enabled:
        return None
    held = study.privacy
    return PrivacyView(
        mechanism=held.mechanism,
        delta=held.delta,
        accountant=held.accountant,
        unit=held.unit,
        target=held.epsilon,
        is_simulation=held.simulation,
    )


def local_results(folder: Path) -> Results:
    """Return what a finished simulation came to.

    Raises:
        FednerError: A record is damaged.
    """
    scores = read_as(RunScores, folder / SCORES, _HINT)
    return _results(scores, _privacy(folder))


def platform_results(folder: Path, name: str, title: str) -> Results:
    """Return what a finished run came to on a platform, by its own folder.

    Raises:
        FednerError: A record is damaged.
    """
    own = read_as(PlatformScores, folder / SCORES, _HINT)
    scores = RunScores(title, 0, synthetic=False, platforms={name: own})
    return _results(scores, _privacy(folder))


def _results(scores: RunScores, spent: PrivacySpent | None) -> Results:
    said = (verdict_sentence(scores), zero_sentence(scores.by_platform), privacy_sentence(spent))
    final = {
        name: {method: each.strict_micro.f1 for method, each in held.methods.items()}
        for name, held in scores.platforms.items()
    }
    platforms = {} if spent is None else spent.platforms
    return Results(final, platforms, tuple(each for each in said if each))


def _privacy(folder: Path) -> PrivacySpent | None:
    path = folder / PRIVACY
    return read_as(PrivacySpent, path, _HINT) if path.is_file() else None


def reported_results(folder: Path) -> Results:
    """Return what platforms reported at the end to the coordinator.

    Raises:
        FednerError: The record is damaged.
    """
    known = read_as(ScoreReports, folder / SCORE_REPORTS, _HINT)
    return results_of_reports(known)


def results_of_reports(known: ScoreReports) -> Results:
    """Return what platforms reported at the end to the coordinator."""
    final = {
        name: {method: scores.strict_micro.f1 for method, scores in each.scores.items()}
        for name, each in known.platforms.items()
    }
    for name, each in known.platforms.items():
        if each.noised is not None:
            final[name][f"{FEDERATED}, noised"] = each.noised.f1
    return Results(final, {}, (_reported(known),))


def _reported(known: ScoreReports) -> str:
    told = [name for name, each in known.platforms.items() if each.state == "reported"]
    kept = [name for name, each in known.platforms.items() if each.state == "not reported"]
    said = [f"{len(told)} of {len(known.platforms)} platforms reported scores"]
    if kept:
        said.append(f"{', '.join(kept)} finished and kept them")
    if known.missing:
        said.append(f"{', '.join(known.missing)} did not answer at the end")
    return "; ".join(said) + "."


def study_file(folder: Path) -> "Kept[Study]":
    """Return the study of a run's folder, read again when it changes."""
    return Kept(folder / STUDY, read_study)
