"""What a platform's job does: its half of a study, built from its own settings at home.

The policy is asked again here, on the study that the job really brought: a server can announce
another one. From then on every order and every reply passes the policy, and each reply stands in
the disclosure record before it leaves.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedner.engines.allocator import keep_freed_memory
from fedner.engines.roster import Roster
from fedner.errors import FednerError
from fedner.federated.answering import logged_failure
from fedner.federated.engine import Answer
from fedner.federated.message_bytes import order_from_bytes, to_bytes
from fedner.federated.messages import Order, Reply, failure
from fedner.federated.summation import Summation
from fedner.runs.deployment.admission import refusal_codes
from fedner.runs.deployment.announcing import Announced
from fedner.runs.deployment.places import run_folder
from fedner.runs.disclosure_record import RECORD, DisclosureRecord
from fedner.runs.platform_file import read_platform
from fedner.runs.policy import GuardedAnswer, limit_process
from fedner.runs.schedule import algorithm_for
from fedner.runs.site import open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.runs.sums import is_signed, summation_of
from fedner.settings import PlatformSettings

_PATIENCE = 20.0  # seconds; the job of a server that was killed lingers for ten after its restart
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RefusedJob:
    """The answer to every order of a job that the policy refuses.

    Attributes:
        platform: Who refuses.
        code: The first reason.
    """

    platform: str
    code: str

    def __call__(self, order: Order) -> Reply:
        """Refuse an order."""
        return failure(self.platform, order.round, self.code)

    def rest(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""


def platform_answer(
    job: Announced, home: Path, settings: Path, asked_by: str
) -> Callable[[str], Answer]:
    """Return what makes the platform's answer, of its name, when the first order comes.

    Args:
        job: What the job brought: the platform's policy decides on it.
        home: The platform's home.
        settings: The platform's own settings.
        asked_by: Who asks, as the connection names it.
    """

    def make(name: str) -> Answer:
        own = read_platform(settings)
        _require_name(own, name, settings)
        limit_process(own)
        keep_freed_memory()  # as a platform in a process of the simulation does
        record = DisclosureRecord(home / RECORD)
        if codes := refusal_codes(job, own, home):
            record.append_refusal(job.study.digest, codes, asked_by=asked_by, run=job.run)
            return RefusedJob(name, codes[0])
        site = open_site(job.study, own, run_folder(home, job.run), say=_log.info)
        inner = SiteAnswer(site, summation=_summation(job, home, name), patience=_PATIENCE)
        return GuardedAnswer(inner, site, record, asked_by=asked_by, run=job.run)

    return make


def _summation(job: Announced, home: Path, name: str) -> Summation:
    """Return how updates become one sum: signed with the home's key where they are hidden."""
    algorithm = algorithm_for(job.study)
    if not is_signed(job.study):
        return summation_of(job.study, algorithm)
    from fedner.runs.deployment.sum_identity import own_part

    return summation_of(job.study, algorithm, own_part(home, job, name))


def _require_name(own: PlatformSettings, name: str, settings: Path) -> None:
    if own.name != name:
        raise FednerError(
            f"{settings}: these are the settings of {own.name!r}; this platform is {name!r}",
            "Start the platform with its own settings.",
        )


def answer_bytes(roster: Roster, name: str, data: bytes) -> bytes:
    """Return the reply, as bytes, to an order that came as bytes; what is wrong is a failure."""
    order = Order("", 0)
    try:
        order = order_from_bytes(data)
        return to_bytes(roster.answer(name, order))
    except Exception as error:  # noqa: BLE001 - a reply that cannot travel is a failure
        reply = logged_failure(error, name, order)
        is_unread = not order.run
        return to_bytes(failure(name, order.round, "order-refused") if is_unread else reply)
