"""A release and its ledger: charged before data are touched, stored before it is sent.

The order of things, in deployment and simulation alike. The order was validated (`orders`); if it
was answered before, the stored bytes go out again. Then, from public facts alone: is it an earlier
round, what does it cost, does the budget allow it. Then the charge is made durable; only then are
data touched. Then the answer is made durable, with the state that the platform has afterwards, and
only then it is sent.

Between charge and answer no failure is disclosed: it might depend on data. A step that fails goes
on with noise alone (`dp_steps`); if anything else fails, the whole update is noise alone. Killed in
between, the platform works the same request out again under the same charge: nothing of the first
attempt was seen by anybody.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Protocol

from fedner.errors import FednerError
from fedner.federated.dp_steps import BudgetSpentError, DPSteps
from fedner.federated.learner import Learner
from fedner.federated.message_bytes import to_bytes, update_from_bytes
from fedner.federated.messages import (
    LEDGER,
    RELEASE,
    Order,
    Update,
    all_finite,
    mark_of,
)
from fedner.federated.platform_state import PlatformState, state_from_bytes, state_to_bytes
from fedner.privacy.events import GaussianRelease, to_json
from fedner.privacy.ledger_marks import LedgerMark
from fedner.privacy.mechanisms import PlatformPrivacy
from fedner.privacy.sampling import Units
from fedner.privacy.scores import NoisedScores, noised_scores
from fedner.tensor_files import tensors_digest
from fedner.tensors import SharedState, map_shared


class Releasing(Protocol):
    """What a release needs of the platform that makes it; a `Platform` is one."""

    last_round: int

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def learner(self) -> Learner:
        """Its model and data."""

    def shared(self) -> SharedState:
        """Return its shared weights."""

    def state(self) -> PlatformState:
        """Return a copy of all that must survive a restart."""

    def restore(self, state: PlatformState) -> None:
        """Go on from a state."""

    def encoded(self, update: Update) -> Update:
        """Return an update as it travels."""

    def require_current(self, order: Order) -> None:
        """Raise if a later round was answered before."""


def record_release(
    platform: Releasing,
    privacy: DPSteps,
    broadcast: Order,
    work: Callable[[], Update],
    algorithm: str = "",
) -> Update:
    """Return a platform's private update with its event, by way of its ledger if it keeps one.

    Args:
        platform: Goes back to where it stood if the answer cannot be stored.
        privacy: Its DP steps, which know how many steps this round takes.
        broadcast: What is answered, validated.
        work: Works through the round and returns the update; called after the charge.
        algorithm: Names the algorithm and its settings.

    Raises:
        RoundPassedError: If a later round was answered before, and this request was not.
        BudgetSpentError: If the ledger refuses the release; nothing was transmitted or counted.
    """
    event, ledger = privacy.event(broadcast.batches[platform.name]), privacy.ledger
    digest = request_digest(broadcast, privacy.settings, platform.name, event, algorithm)
    request = (broadcast.run, broadcast.round, digest)
    if ledger is None:
        platform.require_current(broadcast)
        privacy.charge(*request, event, platform.name, broadcast.study)
        return platform.encoded(_worked(platform, privacy, broadcast, event, work, None))
    earlier = ledger.stored(*request)
    if earlier is not None:
        platform.restore(state_from_bytes(earlier.kept))
        return _resent(earlier.payload, earlier.mark, platform)
    platform.require_current(broadcast)
    privacy.charge(*request, event, platform.name, broadcast.study)
    before = platform.state()
    try:
        # Encoded after the noise, and noise alone is encoded like any other update.
        update = platform.encoded(_worked(platform, privacy, broadcast, event, work, before))
        kept = state_to_bytes(platform.state())
        release = ledger.answer(*request, to_bytes(update), kept=kept)
    except BaseException:
        # Noised steps that were never sent must not live on in the private weights.
        platform.restore(before)
        raise
    return _marked(update, release.mark)


def _worked(
    platform: Releasing,
    privacy: DPSteps,
    broadcast: Order,
    event: GaussianRelease,
    work: Callable[[], Update],
    before: PlatformState | None,
) -> Update:
    """Return what the work came to; if it failed, an update of noise alone."""
    stated = {RELEASE: to_json(event)}
    update: Update | None = None
    try:
        update = replace(work(), event=stated)
        _require_finite(update)
    except Exception:  # noqa: BLE001 - whatever it is, it may depend on data: nobody hears of it
        privacy.note_failure(f"round {broadcast.round} of run {broadcast.run!r} failed")
        update = None
    if update is not None:
        return update
    if before is not None:
        platform.restore(before)
    platform.last_round = broadcast.round
    path = ("round", broadcast.round, "platform", platform.name, "update")
    batch = broadcast.batches[platform.name]
    tensors = privacy.noise_alone(broadcast.shared, batch, path)
    extra = map_shared(lambda tensor: tensor * 0, broadcast.extra)
    return Update(platform.name, broadcast.round, tensors, extra, event=stated)


def _require_finite(update: Update) -> None:
    if not (all_finite(update.tensors) and all_finite(update.extra)):
        raise FednerError("the update holds numbers that are not finite")


def record_score_release(
    platform: Releasing, privacy: DPSteps, broadcast: Order
) -> NoisedScores | None:
    """Return a platform's noised scores, by way of its ledger if it keeps one.

    Asked again for the same run, round and broadcast, it tells the same numbers at no new cost.

    Args:
        platform: With the weights that are scored in its model.
        privacy: Its DP steps.
        broadcast: What is answered, validated.

    Returns:
        The scores; None where no scores are disclosed.

    Raises:
        RoundPassedError: If a later round was answered before, and this request was not.
        BudgetSpentError: If the ledger refuses the release; nothing was transmitted or counted.
    """
    event, ledger = privacy.settings.score_event(), privacy.ledger
    if event is None or privacy.tested is None:
        return None
    digest = request_digest(broadcast, privacy.settings, platform.name, event, "scores")
    request = (broadcast.run, broadcast.round, digest)
    earlier = None if ledger is None else ledger.stored(*request)
    if earlier is not None:
        return NoisedScores.from_dict(json.loads(earlier.payload))
    platform.require_current(broadcast)
    privacy.charge(*request, event, platform.name, broadcast.study)
    scores = _scored(platform, privacy, broadcast, event, privacy.tested)
    if ledger is not None:
        ledger.answer(*request, json.dumps(scores.as_dict()).encode())
    return scores


def _scored(
    platform: Releasing,
    privacy: DPSteps,
    broadcast: Order,
    event: GaussianRelease,
    tested: Units,
) -> NoisedScores:
    """Return the noised counts; if counting failed, noise alone."""
    path = ("round", broadcast.round, "platform", platform.name, "scores")
    source = privacy.settings.source.at(*path)
    scores: NoisedScores | None = None
    try:
        counts = platform.learner.sentence_counts()
        if counts is not None:
            scores = noised_scores(counts, tested, event, source)
    except Exception:  # noqa: BLE001 - whatever it is, it may depend on data: nobody hears of it
        privacy.note_failure(f"scores of round {broadcast.round} failed")
    return noised_scores((), Units(tested.unit, ()), event, source) if scores is None else scores


def request_digest(
    broadcast: Order,
    settings: PlatformPrivacy,
    platform: str,
    event: GaussianRelease,
    algorithm: str = "",
) -> str:
    """Return what names a request: two requests of one digest ask for the same release.

    It names all that decides the answer: whose it is, the weights and the extra tensors that were
    handed out, batches, what it costs (steps and slice included) and how it is computed.
    """
    stated = json.dumps(
        [
            platform,
            broadcast.run,
            broadcast.round,
            sorted(broadcast.batches.items()),
            tensors_digest(broadcast.shared),
            tensors_digest(broadcast.extra),
            to_json(event),
            settings.mechanism.name,
            settings.private_part,
            settings.loss,
            algorithm,
        ]
    )
    return hashlib.sha256(stated.encode()).hexdigest()


def _resent(payload: bytes, mark: LedgerMark, platform: Releasing) -> Update:
    update = update_from_bytes(payload)
    device = next((tensor.device for tensor in platform.shared().values()), None)
    if device is not None:
        tensors = map_shared(lambda tensor: tensor.to(device), update.tensors)
        extra = map_shared(lambda tensor: tensor.to(device), update.extra)
        update = replace(update, tensors=tensors, extra=extra)
    return _marked(update, mark)


def _marked(update: Update, mark: LedgerMark) -> Update:
    """Return the update with the mark beside it: the stored bytes cannot hold their own."""
    return replace(update, event={**(update.event or {}), LEDGER: asdict(mark)})


__all__ = [
    "LEDGER",
    "RELEASE",
    "BudgetSpentError",
    "mark_of",
    "record_release",
    "record_score_release",
    "request_digest",
]
