"""What a platform's policy says of a study: pure, asked at the platform, all problems together."""

from collections.abc import Iterator

from fedner.settings.platform import PlatformSettings
from fedner.settings.problems import SettingProblem, nearest
from fedner.settings.study import Study

NO_MECHANISM = "none"


def policy_problems(
    study: Study,
    own: PlatformSettings,
    rounds: int | None = None,
    mechanism: str | None = None,
) -> list[SettingProblem]:
    """Return every reason for which a platform does not take part in a study.

    Args:
        study: The study.
        own: The platform's settings, with its policy and its budget.
        rounds: How many rounds the study has, where it gives its length in epochs.
        mechanism: The name of a mechanism in place of the study's; None for the study's.
    """
    return [
        *_participant_problems(study, own),
        *_study_problems(study, own),
        *_mechanism_problems(study, own, mechanism),
        *_length_problems(study, own, rounds),
        *_budget_problems(study, own),
    ]


def mechanism_name(study: Study, own: str | None = None) -> str:
    """Return the mechanism that protects a study's units; "none" where none does.

    A simulation's noise comes from a seed that the study names: it protects nobody.

    Args:
        study: The study.
        own: The name of a mechanism in place of the study's.
    """
    return own or study.privacy.mechanism if study.is_deployed else NO_MECHANISM


def _participant_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    if own.name not in study.names:
        expected = f"a platform of the study ({', '.join(study.names)})"
        yield SettingProblem("name", repr(own.name), expected, nearest(own.name, study.names))


def _study_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    accepted = own.policy.studies
    if accepted and study.digest not in accepted:
        yield SettingProblem(
            "policy.studies",
            f"{len(accepted)} accepted, and not this study",
            study.digest,
            "Read the study; add its digest to take part in it.",
        )


def _mechanism_problems(
    study: Study, own: PlatformSettings, mechanism: str | None
) -> Iterator[SettingProblem]:
    accepted, used = own.policy.mechanisms, mechanism_name(study, mechanism)
    if accepted and used not in accepted:
        yield SettingProblem(
            "policy.mechanisms",
            f"a study with {_described(study, used)}",
            f"one of {', '.join(accepted)}",
            "Ask the coordinator for another mechanism, or accept this one.",
        )


def _described(study: Study, used: str) -> str:
    if study.privacy.enabled and not study.is_deployed:
        return f"{used!r}: its noise comes from a seed and protects nobody"
    return repr(used)


def _length_problems(
    study: Study, own: PlatformSettings, rounds: int | None
) -> Iterator[SettingProblem]:
    most, length = own.policy.max_rounds, study.training.rounds or rounds
    if most is None:
        return
    if length is None:
        found = f"a study of {study.training.epochs} epochs, whose rounds were not counted"
        yield SettingProblem("policy.max_rounds", found, f"at most {most:,} rounds")
    elif length > most:
        found = f"a study of {length:,} rounds"
        yield SettingProblem("policy.max_rounds", found, f"at most {most:,}")


def _budget_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    budget, privacy = own.budget, study.privacy
    if budget is None:
        return
    if mechanism_name(study) == NO_MECHANISM:
        what = "a simulation of" if privacy.enabled else "no"
        yield SettingProblem(
            "budget",
            f"a study with {what} differential privacy",
            f"one that spends at most epsilon {budget:g}",
            "Its epsilon has no bound. Leave budget out to take part nevertheless.",
        )
    elif privacy.epsilon is not None and privacy.epsilon > budget:
        found = f"a study of epsilon {privacy.epsilon:g}"
        yield SettingProblem("budget", found, f"at most {budget:g}")
