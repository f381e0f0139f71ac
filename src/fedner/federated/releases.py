"""An update and its entry in the platform's ledger: stored before it leaves, resent as it was.

Asked again for the same run, round and broadcast, as after kill -9 and resume, the platform goes to
the state that it had after that round and sends the very same bytes, at no new cost.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from fedner.errors import FednerError
from fedner.federated.messages import Broadcast, Update, update_from_bytes, update_to_bytes
from fedner.federated.private_steps import BudgetSpentError, PlatformPrivacy, PrivateSteps
from fedner.privacy.events import to_json
from fedner.privacy.ledger_chain import LedgerMark
from fedner.privacy.scores import NoisedScores, noised_scores
from fedner.tensor_files import tensors_digest
from fedner.tensors import map_shared

if TYPE_CHECKING:
    from fedner.federated.platform import Platform, PlatformState

RELEASE, LEDGER = "release", "ledger"
_LENGTH = 8


def released(
    platform: "Platform",
    privacy: PrivateSteps,
    broadcast: Broadcast,
    work: Callable[[], Update],
) -> Update:
    """Return a platform's private update with its event, recorded in its ledger if it keeps one.

    Args:
        platform: Goes back to where it stood if the release is refused or fails.
        privacy: Its private steps.
        broadcast: What is answered.
        work: Works through the round and returns the update.

    Raises:
        BudgetSpentError: If the ledger refuses the release; nothing left and nothing was counted.
    """
    batch, ledger = broadcast.batches[platform.name], privacy.ledger
    if ledger is None:
        update = work()
        return replace(update, event={RELEASE: to_json(privacy.event(batch))})
    digest = request_digest(broadcast, privacy.settings)
    earlier = ledger.stored(broadcast.run, broadcast.round, digest)
    if earlier is not None:
        platform.restore(state_from_bytes(earlier.kept))
        return _resent(earlier.payload, earlier.mark, platform)
    privacy.require(batch)
    before = platform.state()
    try:
        update = work()
        event = privacy.event(batch)
        update = replace(update, event={RELEASE: to_json(event)})
        release = ledger.record(
            broadcast.run,
            broadcast.round,
            digest,
            event,
            update_to_bytes(update),
            kept=state_to_bytes(platform.state()),
        )
    except BaseException:
        # Noised steps that were never counted must not live on in the private weights.
        platform.restore(before)
        raise
    return _marked(update, release.mark)


def released_scores(
    platform: "Platform", privacy: PrivateSteps, broadcast: Broadcast
) -> NoisedScores | None:
    """Return a platform's noised scores, recorded in its ledger if it keeps one.

    Asked again for the same run, round and broadcast, it tells the same numbers at no new cost.

    Args:
        platform: With the weights that are scored in its model.
        privacy: Its private steps.
        broadcast: What is answered.

    Returns:
        The scores; None where no scores leave, or there is nothing to score on.

    Raises:
        BudgetSpentError: If the ledger refuses the release; nothing left and nothing was counted.
    """
    event, ledger = privacy.settings.score_event(), privacy.ledger
    if event is None or privacy.tested is None:
        return None
    request = [request_digest(broadcast, privacy.settings), to_json(event)]
    digest = hashlib.sha256(json.dumps(request).encode()).hexdigest()
    if ledger is not None:
        earlier = ledger.stored(broadcast.run, broadcast.round, digest)
        if earlier is not None:
            return NoisedScores.from_dict(json.loads(earlier.payload))
    privacy.require_event(event)
    counts = platform.learner.sentence_counts()
    if counts is None:
        return None
    path = ("round", broadcast.round, "platform", platform.name, "scores")
    scores = noised_scores(counts, privacy.tested, event, privacy.settings.source.at(*path))
    if ledger is not None:
        payload = json.dumps(scores.as_dict()).encode()
        ledger.record(broadcast.run, broadcast.round, digest, event, payload)
    return scores


def request_digest(broadcast: Broadcast, settings: PlatformPrivacy) -> str:
    """Return what names a request: two requests of one digest ask for the same release."""
    stated = json.dumps(
        [
            broadcast.run,
            broadcast.round,
            sorted(broadcast.batches.items()),
            tensors_digest(broadcast.shared),
            tensors_digest(broadcast.extra),
            to_json(settings.event(1, 1)),
            settings.where,
            settings.private_part,
            settings.loss,
        ]
    )
    return hashlib.sha256(stated.encode()).hexdigest()


def mark_of(update: Update) -> LedgerMark | None:
    """Return where the platform's ledger stands, as the update says it.

    Raises:
        FednerError: If it says something that is no mark.
    """
    stated = None if update.event is None else update.event.get(LEDGER)
    if stated is None:
        return None
    try:
        return LedgerMark(**stated)
    except TypeError as error:
        raise FednerError("the mark of its ledger has another form") from error


def state_to_bytes(state: "PlatformState") -> bytes:
    """Return a platform's state as the bytes that its ledger keeps beside a release."""
    facts = json.dumps(dict(state.facts)).encode()
    return len(facts).to_bytes(_LENGTH, "little") + facts + save_safetensors(dict(state.tensors))


def state_from_bytes(data: bytes) -> "PlatformState":
    """Return the state that `state_to_bytes` wrote."""
    from fedner.federated.platform import PlatformState

    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    facts: dict[str, Any] = json.loads(data[_LENGTH:end])
    return PlatformState(load_safetensors(data[end:]), facts)


def _resent(payload: bytes, mark: LedgerMark, platform: "Platform") -> Update:
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
    "released",
    "released_scores",
    "request_digest",
]
