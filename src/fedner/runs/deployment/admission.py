"""Whether a platform lets a job start: its policy on the study that the job announces.

What the coordinator hears are fixed words of ours; the reasons are in the platform's own log.
"""

import json
import logging
from collections.abc import Mapping

from fedner.engines.flare.job import FACTS, require_run_name
from fedner.errors import FednerError
from fedner.runs.deployment.places import own_settings
from fedner.runs.schedule import algorithm_for, num_rounds
from fedner.runs.study_files import read_platform
from fedner.settings import SettingsError, Study, parse_as, policy_problems

REFUSALS = {
    "no-study": "the job names no study of this version",
    "policy": "its policy does not allow the study; its own log says why",
    "unready": "it is not ready to take part; its own log says why",
}
_MOST_STUDY = 2**24  # characters
_log = logging.getLogger(__name__)


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


def approved_facts(spec: object) -> tuple[str, str]:
    """Return the run and the digest of the study that a job announces.

    Raises:
        FednerError: It announces none.
    """
    facts = spec.get(FACTS) if isinstance(spec, Mapping) else None
    if not isinstance(facts, Mapping):
        raise FednerError("a job that announces no study")
    return require_run_name(facts.get("run")), study_in(facts.get("study")).digest


def refusal(spec: object) -> str:
    """Return why a job must not start, in fixed words; empty where it may. It never raises."""
    try:
        approved_facts(spec)
        study = study_in(spec[FACTS]["study"])  # type: ignore[index]  # checked above
    except Exception as error:  # noqa: BLE001 - whatever a server sends
        _log.warning("a job was refused: %s", error)
        return REFUSALS["no-study"]
    try:
        _require_allowed(study)
    except SettingsError as error:
        _log.warning("the study %s was refused: %s", study.digest, error)
        return REFUSALS["policy"]
    except Exception:  # noqa: BLE001 - nothing of it may reach the server
        _log.exception("the study %s could not be checked", study.digest)
        return REFUSALS["unready"]
    return ""


def _require_allowed(study: Study) -> None:
    """Raise unless the platform's policy allows a study.

    Raises:
        SettingsError: It does not.
    """
    own = read_platform(own_settings())
    if problems := policy_problems(study, own, num_rounds(study, algorithm_for(study))):
        raise SettingsError(f"the policy of {own.name}", problems)
