"""What a job announces of itself, as the server sends it: run, study, roster.

A platform's parent process reads this, and holds little memory for weeks: settings are loaded
where a study is read, which the parent leaves to a child.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedner.engines.flare.job import FACTS, require_run_name
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.settings import Study

MOST_STUDY = 2**24  # characters


@dataclass(frozen=True, slots=True)
class Facts:
    """What a job says, word for word; an approval is bound to it.

    Attributes:
        run: The run's name.
        study: The study as JSON.
        roster: Who takes part with which certificate, as JSON; empty for the installed one.
    """

    run: str
    study: str
    roster: str = ""


@dataclass(frozen=True, slots=True)
class Announced:
    """What a job says that it is for.

    Attributes:
        run: The run's name.
        study: The study.
        roster: Who takes part with which certificate, as JSON; empty for the installed one.
    """

    run: str
    study: "Study"
    roster: str = ""


def facts_of(run: object, study: object, roster: object = "") -> Facts:
    """Return what a job says, as far as it is text of a sound length.

    Raises:
        FednerError: It is not.
    """
    if not isinstance(roster, str) or len(roster) > MOST_STUDY:
        raise FednerError("a job whose roster is no text")
    if not isinstance(study, str) or len(study) > MOST_STUDY:
        raise FednerError("a job without a study as text")
    return Facts(require_run_name(run), study, roster)


def facts_in(spec: object) -> Facts:
    """Return what the resource specification of a job says.

    Raises:
        FednerError: It announces no study.
    """
    facts = spec.get(FACTS) if isinstance(spec, Mapping) else None
    if not isinstance(facts, Mapping):
        raise FednerError("a job that announces no study")
    return facts_of(facts.get("run"), facts.get("study"), facts.get("roster", ""))


def announced(facts: Facts) -> Announced:
    """Return what a job announces.

    Raises:
        FednerError: It announces no study of this version.
    """
    return Announced(facts.run, study_in(facts.study), facts.roster)


def study_in(text: str) -> "Study":
    """Return the study that a job brought as JSON.

    Raises:
        FednerError: It is none.
    """
    from fedner.settings import Study, parse_as

    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FednerError("a job whose study is not JSON") from error
    return parse_as(Study, table, "the job's study")
