"""What a platform's job does: its half of a study, built from its own settings at home."""

import logging
from collections.abc import Callable
from pathlib import Path

from fedner.engines.roster import Roster
from fedner.errors import FednerError
from fedner.federated.answering import logged_failure
from fedner.federated.engine import Answer
from fedner.federated.message_bytes import order_from_bytes, to_bytes
from fedner.federated.messages import Order, failure
from fedner.runs.site import open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.runs.study_files import read_platform
from fedner.settings import Study

_PATIENCE = 20.0  # seconds; the job of a server that was killed lingers for ten after its restart
_log = logging.getLogger(__name__)


def platform_answer(study: Study, folder: Path, settings: Path) -> Callable[[str], Answer]:
    """Return what makes the platform's answer, of its name, when the first order comes.

    Args:
        study: The study, as the job brought it: the platform's policy decides on it.
        folder: The run's folder at the platform.
        settings: The platform's own settings.
    """

    def make(name: str) -> Answer:
        own = read_platform(settings)
        if own.name != name:
            raise FednerError(
                f"{settings}: these are the settings of {own.name!r}; this platform is {name!r}",
                "Start the platform with its own settings.",
            )
        return SiteAnswer(open_site(study, own, folder, say=_log.info), patience=_PATIENCE)

    return make


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
