"""What a platform's policy says of a study: pure, asked at the platform, all problems together.

What needs tables of other rooms (modules, mechanisms, budgets) is in `runs.policy`.
"""

from collections.abc import Iterator

from fedner.settings.platform import PlatformSettings
from fedner.settings.policy import ANY_STUDY
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
        own: The platform's settings, with its policy.
        rounds: How many rounds the study has, where it gives its length in epochs.
        mechanism: The name of a mechanism in place of the study's; None for the study's.
    """
    return [
        *_participant_problems(study, own),
        *_study_problems(study, own),
        *_name_problems(study, own),
        *_type_problems(study, own),
        *_mechanism_problems(study, own, mechanism),
        *_company_problems(study, own),
        *_length_problems(study, own, rounds),
        *_epsilon_problems(study, own),
        *_release_problems(study, own),
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
    if accepted and not {study.digest, ANY_STUDY} & {*accepted}:
        yield SettingProblem(
            "policy.studies",
            f"{len(accepted)} accepted, and not this study",
            study.digest,
            "Read the study; add its digest to take part in it.",
        )


def _name_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    """Yield an algorithm or a model that is not among the accepted ones, in any case of letters."""
    used = {"algorithms": study.algorithm.name, "models": study.model.recipe}
    for key, name in used.items():
        accepted: tuple[str, ...] = getattr(own.policy, key)
        if accepted and name.lower() not in {each.lower() for each in accepted}:
            yield SettingProblem(
                f"policy.{key}", f"a study with {name!r}", f"one of {', '.join(accepted)}"
            )


def _type_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    accepted = own.policy.types
    if accepted is None or own.name not in study.names:
        return
    declared = study.platform(own.name).labels or ()
    if unknown := sorted({*declared} - {*accepted}):
        yield SettingProblem(
            "policy.types",
            f"a study that declares {', '.join(unknown)} for this platform",
            f"at most {', '.join(accepted) or 'no type'}",
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


def _company_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    """Yield a study whose server sees single updates, or sums of too few."""
    if own.policy.secure_sum and not study.transport.secure_sum:
        yield SettingProblem("policy.secure_sum", "a study without a secure sum", "a secure sum")
    if own.policy.encryption and study.transport.encryption is None:
        yield SettingProblem(
            "policy.encryption", "a study whose server has the weights", "encrypted sums"
        )
    asked = study.participation
    bounds = (len(study.platforms), asked.sample, asked.quorum)
    others = min(bound for bound in bounds if bound is not None) - 1
    if others < own.policy.min_others:
        yield SettingProblem(
            "policy.min_others",
            f"a study that may sum the updates of {others} other platforms",
            f"at least {own.policy.min_others} (platforms, participation.sample and quorum)",
        )


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


def _epsilon_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    """Yield a study without a bound on epsilon, or with a target above the platform's."""
    privacy = study.privacy
    for key in ("epsilon", "epsilon_in_all"):
        most: float | None = getattr(own.policy, key)
        if most is None:
            continue
        if mechanism_name(study) == NO_MECHANISM:
            what = "a simulation of" if privacy.enabled else "no"
            yield SettingProblem(
                f"policy.{key}",
                f"a study with {what} differential privacy",
                f"one that spends at most epsilon {most:g}",
                "Its epsilon has no bound. Leave the key out to take part nevertheless.",
            )
        elif privacy.epsilon is not None and privacy.epsilon > most:
            found = f"a study of epsilon {privacy.epsilon:g}"
            yield SettingProblem(f"policy.{key}", found, f"at most {most:g}")


def _release_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    asked, policy = study.release, own.policy
    if policy.release == "public":
        return
    if asked.to == "public":
        yield SettingProblem(
            "policy.release", "a study that releases its model to anybody", repr(policy.release)
        )
    unknown = sorted({*asked.newcomers} - {*policy.newcomers} - {*study.names})
    if unknown:
        yield SettingProblem(
            "policy.newcomers",
            f"a study that releases its model to {', '.join(unknown)}",
            f"at most participants and {', '.join(policy.newcomers) or 'nobody else'}",
        )
