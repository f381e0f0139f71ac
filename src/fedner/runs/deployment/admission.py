"""Whether a platform lets a job start: its policy on the study that the job announces.

What the coordinator hears are fixed words of ours; the reasons are in the platform's own log, and
the refusal stands in its disclosure record. As a program it answers one question of the platform's
parent process (`asking`), and ends: the parent never loads what it takes to check a study.
"""

import json
import logging
import sys
from pathlib import Path

from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.runs.deployment.announcing import Announced, announced, facts_in
from fedner.runs.deployment.approvals import verified_roster
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.deployment.pins import (
    pin_problems,
    pinned_names,
    read_pins,
    roster_fingerprints,
)
from fedner.runs.deployment.places import own_home, own_settings
from fedner.runs.deployment.taking_part import installed, study_of
from fedner.runs.disclosure_record import RECORD, DisclosureRecord
from fedner.runs.platform_file import read_platform
from fedner.runs.policy import approval_problems, job_problems
from fedner.runs.policy.refusal import refusal_of
from fedner.settings import PlatformSettings

NO_STUDY, UNREADY, PINNED = "job-foreign", "platform-unready", "policy-pinned"
_log = logging.getLogger(__name__)


def refusal(spec: object, asked_by: str) -> str:
    """Return why a job must not start, in fixed words; empty where it may. It never raises.

    Args:
        spec: The resource specification that came with the job.
        asked_by: Who asks, as the connection names it; it goes into the record.
    """
    try:
        job = announced(facts_in(spec))
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

    A study that the platform's owner never saw is refused before anything else of it is looked at.

    Raises:
        FednerError: The home is not complete.
    """
    place = PlatformHome(home)
    approval, pins = installed(place), read_pins(place)
    for unseen in approval_problems(job.study, own, study_of(approval).digest):
        _log.warning("a job was refused: %s", unseen)
        return (refusal_of(unseen).code,)
    members = approval.roster
    if job.roster:
        try:
            members = verified_roster(job.roster, approval, "the job's roster").members
        except FednerError as error:
            _log.warning("a job was refused: %s", error)
            return (PINNED,)
    shown = roster_fingerprints(members)
    # A key that is not pinned is for the policy to judge, below.
    wrong = pin_problems(pins, own.name, job.study.names, shown, all_pinned=False)
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


def main() -> None:
    """Answer the question on the standard input."""
    logging.basicConfig(level=logging.INFO, format="%(name)s - %(levelname)s - %(message)s")
    asked = json.load(sys.stdin)
    print(json.dumps({"refusal": refusal(asked["spec"], str(asked["asked_by"]))}))


if __name__ == "__main__":
    main()
