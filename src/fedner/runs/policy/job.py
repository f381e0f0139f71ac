"""Whether a platform takes part in a job at all: asked before anything of it runs.

The study in the job is another party's: it may be anything that parses. What is decided here is
decided again wherever the study is used; a gate that was passed is no promise.
"""

import logging
from collections.abc import Collection, Iterator
from pathlib import Path

from fedner.errors import FednerError
from fedner.runs.blueprint import blueprint
from fedner.runs.budgets import room_problems
from fedner.runs.policy.history import runs_of
from fedner.runs.policy.process_limits import machine_bytes
from fedner.runs.policy.refusal import Refusal, refusal_of
from fedner.runs.public_files import PublicFiles, declared_files, open_files
from fedner.runs.schedule import algorithm_for
from fedner.runs.study_checks import ledger_problems, study_problems
from fedner.runs.study_policy import crossing_problems, size_problems, study_policy_problems
from fedner.settings import PlatformSettings, SettingProblem, SettingsError, Study

_log = logging.getLogger(__name__)
_UNSOUND = "study-unsound"
_FITTING = "a study that fits here"


def job_problems(
    study: Study,
    own: PlatformSettings,
    home: Path | None = None,
    *,
    run: str = "",
    pinned: Collection[str] = (),
) -> tuple[Refusal, ...]:
    """Return every reason for which a platform refuses a job; none accepts it.

    Reasons with what was found and expected go to the platform's own log.

    Args:
        study: The study of the job.
        own: The platform's settings, with every path absolute.
        home: The platform's home, whose record tells of earlier runs; None where there is none.
        run: The name of the run: one that goes on is not counted twice.
        pinned: The platforms whose certificates this one has pinned.
    """
    try:
        found = [*_problems(study, own, home, run, pinned)]
    except SettingsError as error:
        found = [refusal_of(problem, _UNSOUND) for problem in error.problems]
    except FednerError as error:
        found = [refusal_of(SettingProblem("study", error.message, _FITTING))]
    except Exception:  # noqa: BLE001 - whatever another party wrote, the platform goes on
        _log.exception("platform %s could not check a study", own.name)
        found = [refusal_of(SettingProblem("study", "an unexpected error", _FITTING), _UNSOUND)]
    for refusal in found:
        _log.warning("platform %s refuses a job (%s): %s", own.name, refusal.code, refusal.problem)
    return tuple({refusal.code: refusal for refusal in found}.values())


def approval_problems(study: Study, own: PlatformSettings, approved: str) -> list[SettingProblem]:
    """Return the problem of a study that is another one than the platform was approved for.

    Whoever installs an approval has seen its study. Any other one needs the platform's own word:
    `policy.studies` then decides (`study_policy_problems`).

    Args:
        study: The study of the job.
        own: The platform's settings.
        approved: The digest of the study in the installed approval.
    """
    if own.policy.studies or study.digest == approved:
        return []
    return [
        SettingProblem(
            "approval",
            f"a job of the study {study.digest}",
            f"{approved}, the study of the installed approval",
            "Install an approval of the new study, or name its digest in policy.studies.",
        )
    ]


def _problems(
    study: Study, own: PlatformSettings, home: Path | None, run: str, pinned: Collection[str]
) -> Iterator[Refusal]:
    """Yield refusals, cheap ones first; budgets are counted only where nothing else is wrong."""
    refusals = [refusal_of(each) for each in crossing_problems(study, own)]
    sizes = [*size_problems(study, own, machine_bytes())]
    refusals += [refusal_of(each, _UNSOUND if "slice" in each.key else None) for each in sizes]
    if sizes:
        yield from refusals  # not even a check may build it
        return
    refusals += [refusal_of(each, _UNSOUND) for each in study_problems(study)]
    if not any(refusal.code == _UNSOUND for refusal in refusals):
        refusals += [refusal_of(each) for each in study_policy_problems(study, own)]
    refusals += [refusal_of(each) for each in _pin_problems(study, own, pinned)]
    refusals += [refusal_of(each) for each in _run_problems(study, own, home, run)]
    if not refusals:
        refusals += [refusal_of(each) for each in ledger_problems(study, own)]
    if not refusals and study.is_deployed:
        refusals += [refusal_of(each) for each in _room_problems(study, own, run)]
    yield from refusals


def _pin_problems(
    study: Study, own: PlatformSettings, pinned: Collection[str]
) -> Iterator[SettingProblem]:
    unknown = sorted({*study.names} - {*pinned} - {own.name})
    if own.policy.pinned and unknown:
        yield SettingProblem(
            "policy.pinned",
            f"platforms without a pinned certificate: {', '.join(unknown)}",
            "a pin of every other platform of the study",
        )


def _run_problems(
    study: Study, own: PlatformSettings, home: Path | None, run: str
) -> Iterator[SettingProblem]:
    most = own.policy.max_runs
    if most is None or home is None:
        return
    earlier = runs_of(study.digest, home) - {run}
    if len(earlier) >= most:
        yield SettingProblem(
            "policy.max_runs",
            f"{len(earlier)} runs of this study here before",
            f"at most {most} in all",
        )


def _room_problems(study: Study, own: PlatformSettings, run: str) -> list[SettingProblem]:
    return room_problems(blueprint(study, _files(study, own)), own, algorithm_for(study), run)


def _files(study: Study, own: PlatformSettings) -> PublicFiles:
    """Return the study's embeddings: declared, or opened where the study trains them."""
    try:
        return declared_files(study)
    except FednerError:
        return open_files(study, own.embeddings, "cpu")
