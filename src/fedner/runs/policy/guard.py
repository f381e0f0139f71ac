"""The last gate of a platform: policy at every order, policy on every reply, and the record."""

import logging
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fedner.durable import is_disk_full
from fedner.errors import FednerError
from fedner.federated.encrypted.phases import CIPHERTEXTS
from fedner.federated.engine import Answer
from fedner.federated.messages import (
    Failure,
    Order,
    Reply,
    ScoreReport,
    SumMessage,
    Update,
    failure,
    nothing_shared,
)
from fedner.federated.tensor_bytes import NotFiniteError
from fedner.runs.disclosure_record import DisclosureRecord, protection_of
from fedner.runs.policy.extent import COUNTED, most_answers
from fedner.runs.policy.orders import order_refusal
from fedner.runs.site import Site
from fedner.runs.study_policy import is_accepted_tensor
from fedner.runs.sums import is_signed

_log = logging.getLogger(__name__)
_SECONDS_IN_HOUR = 3600
_MOST_PENDING = 1000


class GuardedAnswer:
    """An `Answer` whose orders and replies pass the platform's policy, each reply on record.

    What is refused is a `Failure` with a code of ours. A reply that cannot be recorded is not sent;
    the failure that is sent in its place is recorded as soon as it can be.
    """

    def __init__(
        self,
        inner: Answer,
        site: Site,
        record: DisclosureRecord,
        *,
        asked_by: str,
        run: str | None = None,
    ) -> None:
        """Guard an answer.

        Args:
            inner: What works, such as a `SiteAnswer`.
            site: The platform.
            record: Its disclosure record.
            asked_by: Who asks, as the connection names it.
            run: The run that the platform takes part in; None for that of the first order.
        """
        self._inner, self._site, self._record = inner, site, record
        self._asked_by, self._run = asked_by, run
        self._protection = protection_of(site.study)
        self._began: datetime | None = None
        self._most = most_answers(site.study, site.own)
        self._answers: Counter[str] | None = None  # by verb, for the study; unknown at first
        self._pending: deque[tuple[Order, Failure]] = deque(maxlen=_MOST_PENDING)

    def __call__(self, order: Order) -> Reply:
        """Answer an order as far as the policy allows; it never raises."""
        try:
            self._record_pending()
            reply = self._decided(order)
            self._recorded(order, reply)
        except Exception as error:  # noqa: BLE001 - one order must not end the platform
            failed = failure(self._site.name, order.round, self._noted(error))
            self._record_failure(order, failed)
            return failed
        return reply

    def _recorded(self, order: Order, reply: Reply) -> None:
        line = self._record.append(
            order, reply, asked_by=self._asked_by, protection=self._protection
        )
        if self._answers is not None and line.is_answer:
            self._answers[line.verb] += 1

    def _record_failure(self, order: Order, failed: Failure) -> None:
        """Record a failure; where the record cannot be written, as soon as it can.

        Of all that leaves, only such a code may leave before its line is written: a platform whose
        disk is full has to say so.
        """
        try:
            self._recorded(order, failed)
        except Exception:  # noqa: BLE001 - why is in the log already
            self._pending.append(
                (replace(order, shared=nothing_shared(), extra=nothing_shared()), failed)
            )

    def _record_pending(self) -> None:
        while self._pending:
            self._recorded(*self._pending[0])
            self._pending.popleft()

    def _noted(self, error: Exception) -> str:
        """Write an error to the platform's own log; return the code that others may know."""
        if is_disk_full(error):
            _log.error("platform %s sends nothing, its disk is full: %s", self._site.name, error)
            return "disk-full"
        if isinstance(error, NotFiniteError):
            _log.error("platform %s sends nothing: %s", self._site.name, error)
            return "not-finite"
        if isinstance(error, FednerError):
            _log.error("platform %s sends nothing: %s", self._site.name, error)
            return "record-failed"
        _log.error("platform %s sends nothing", self._site.name, exc_info=error)
        return "unexpected"

    def rest(self) -> None:
        """Hold no more memory than needed until the next order."""
        self._inner.rest()

    def close(self) -> None:
        """Let go of everything; may be called twice."""
        self._inner.close()

    def _decided(self, order: Order) -> Reply:
        code = order_refusal(
            self._site,
            order,
            run=self._run,
            hours=self._hours(order.run),
            num_left=self._num_left(order),
        )
        if code is not None:
            _log.warning("platform %s refuses an order: %s", self._site.name, code)
            return failure(self._site.name, order.round, code)
        self._run = order.run
        reply = self._inner(order)
        code = reply_refusal(self._site, reply)
        return reply if code is None else failure(self._site.name, order.round, code)

    def _num_left(self, order: Order) -> int | None:
        """Return how many more orders of a kind are answered; what earlier processes did counts."""
        if order.verb not in COUNTED:
            return None
        if self._answers is None:
            self._answers = self._record.num_answers(self._site.study.digest)
        return self._most - self._answers[order.verb]

    def _hours(self, run: str) -> float:
        """Return the hours since the first order of the run, also of an earlier process."""
        now = datetime.now(UTC)
        if self._site.own.policy.max_hours is None:
            return 0.0
        if self._began is None:
            self._began = self._record.began(run) or now
        return (now - self._began).total_seconds() / _SECONDS_IN_HOUR


def reply_refusal(site: Site, reply: Reply) -> str | None:
    """Return the code in whose favour a reply is withheld; None where it may leave.

    Nothing that the other rooms get right is stopped here: it is for what they might get wrong.
    """
    problem = None if isinstance(reply, Failure) else _reply_problem(site, reply)
    if problem is None and reply.platform == site.name:
        return None
    _log.error("platform %s withholds a reply: %s", site.name, problem or "another's name")
    return "reply-withheld"


def _reply_problem(site: Site, reply: Update | ScoreReport | SumMessage) -> str | None:
    if isinstance(reply, Update):
        return _update_problem(site, reply)
    if isinstance(reply, ScoreReport):
        if reply.scores and (site.study.is_deployed or not site.own.policy.sends_scores):
            return "scores that stay at home"
        return "scores that stay at home" if _noised_in_vain(site, reply) else None
    return _sum_problem(site, reply)


def _sum_problem(site: Site, message: SumMessage) -> str | None:
    """Return what is wrong with keys, shares or masked values that would be sent."""
    if not is_signed(site.study):
        return "a part of a sum that the study does not have"
    if not {*message.entries} <= {*site.study.names}:
        return "entries for others than the platforms of the study"
    if not message.tensors:
        return None
    names = {key.partition("/")[2] for key in message.tensors}
    if site.study.transport.encryption is not None:
        if set(message.tensors) != {CIPHERTEXTS}:
            return "values in the clear, where the study has encryption"
        names = {*site.blueprint.partition.shared}
    return _tensor_problem(site, names, message.event)


def _noised_in_vain(site: Site, report: ScoreReport) -> bool:
    return report.noised is not None and not site.own.policy.sends_scores


def _update_problem(site: Site, update: Update) -> str | None:
    names = {*update.tensors, *update.extra, *(key.partition("/")[2] for key in update.scales)}
    if names and is_signed(site.study):
        return "an update in the clear, where the study hides updates"
    if update.loss is not None and (site.study.is_deployed or not site.own.policy.sends_loss):
        return "a loss that stays at home"
    return _tensor_problem(site, names, update.event)


def _tensor_problem(site: Site, names: set[str], event: Mapping[str, Any] | None) -> str | None:
    allowed = {*site.blueprint.partition.shared}
    if not names <= allowed or not all(is_accepted_tensor(name, site.own) for name in names):
        return "tensors that stay at home"
    if names and site.study.is_deployed and event is None:
        return "an update whose cost nobody counted"
    return None
