"""Whether a platform lets a job start: its policy on the study that the job announces.

What the coordinator hears are fixed words of ours; the reasons are in the platform's own log, and
the refusal stands in its disclosure record.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedner.engines.flare.job import FACTS, require_run_name
from fedner.errors import FednerError
from fedner.federated.messages import FAILURES
from fedner.runs.deployment.approvals import verified_roster
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.deployment.pins import (
    pin_problems,
    pinned_names,
    read_pins,
    roster_fingerprints,
)
from fedner.runs.deployment.places import own_home, own_settings
from fedner.runs.deployment.taking_part import installed
from fedner.runs.disclosure_record import RECORD, DisclosureRecord
from fedner.runs.policy import job_problems
from fedner.runs.study_files import read_platform
from fedner.settings import PlatformSettings, Study, parse_as

NO_STUDY, UNREADY, PINNED = "job-foreign", "platform-unready", "policy-pinned"
_MOST_STUDY = 2**24  # characters
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Announced:
    """What a job says that it is for.

    Attributes:
        run: The run's name.
        study: The study.
        roster: Who takes part with which certificate, as JSON; empty for the installed one.
    """

    run: str
    study: Study
    roster: str = ""

    @property
    def facts(self) -> tuple[str, str, str]:
        """What an approval is bound to."""
        return self.run, self.study.digest, self.roster


def announced(run: object, study: object, roster: object = "") -> Announced:
    """Return what a job announces.

    Raises:
        FednerError: It announces no study of this version.
    """
    if not isinstance(roster, str) or len(roster) > _MOST_STUDY:
        raise FednerError("a job whose roster is no text")
    return Announced(require_run_name(run), study_in(study), roster)


def announced_in(spec: object) -> Announced:
    """Return what the resource specification of a job announces.

    Raises:
        FednerError: It announces no study of this version.
    """
    facts = spec.get(FACTS) if isinstance(spec, Mapping) else None
    if not isinstance(facts, Mapping):
        raise FednerError("a job that announces no study")
    return announced(facts.get("run"), facts.get("study"), facts.get("roster", ""))


def study_in(text: object) -> Study:
    """Return the study that a job brought as JSON.

    Raises:
        FednerError: It is none.
    """
    if not isinstance(text, str) or len(text) > _MOST_STUDY:
        raise FednerError("a job without a study as text")
    try:
        table = json.loads(text)
    except ValueError as error:
        raise FednerError("a job whose study is not JSON") from error
    return parse_as(Study, table, "the job's study")


def refusal(spec: object, asked_by: str) -> str:
    """Return why a job must not start, in fixed words; empty where it may. It never raises.

    Args:
        spec: The resource specification that came with the job.
        asked_by: Who asks, as the connection names it; it goes into the record.
    """
    try:
        job = announced_in(spec)
    except Exception as error:  # noqa: BLE001 - whatever a server sends
        _log.warning("a job was refused: %s", error)
        _record(asked_by, "", "", (NO_STUDY,))
        return FAILURES[NO_STUDY]
    try:
        own = read_platform(own_settings())
        codes = refusal_codes(job, own, own_home())
    except Exception:  # noqa: BLE001 - nothing of it may reach the server
        _log.exception("the study %s could not be checked", job.study.digest)
        codes = (UNREADY,)
    if not codes:
        return ""
    _record(asked_by, job.study.digest, job.run, codes)
    return "; ".join(FAILURES[code] for code in codes)


def refusal_codes(job: Announced, own: PlatformSettings, home: Path) -> tuple[str, ...]:
    """Return the codes of all reasons for which a platform refuses a job.

    Raises:
        FednerError: The home is not complete.
    """
    place = PlatformHome(home)
    approval, pins = installed(place), read_pins(place)
    members = approval.roster
    if job.roster:
        try:
            members = verified_roster(job.roster, approval, "the job's roster").members
        except FednerError as error:
            _log.warning("a job was refused: %s", error)
            return (PINNED,)
    shown = roster_fingerprints(members)
    wrong = pin_problems(pins, own.name, job.study.names, shown, all_pinned=own.policy.pinned)
    for problem in wrong:
        _log.warning("a job was refused: %s", problem)
    found = job_problems(job.study, own, home, run=job.run, pinned=pinned_names(pins, shown))
    codes = [each.code for each in found] + [PINNED] * bool(wrong)
    return tuple(dict.fromkeys(codes))


def _record(asked_by: str, study: str, run: str, codes: tuple[str, ...]) -> None:
    """Put a refusal on record; a record that cannot be written stops no refusal."""
    try:
        DisclosureRecord(own_home() / RECORD).append_refusal(
            study, codes, asked_by=asked_by, run=run
        )
    except Exception:  # noqa: BLE001 - the job is refused all the same
        _log.exception("a refusal could not be recorded")
