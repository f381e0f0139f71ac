"""How long a study will take over a link that somebody measured: bytes by public facts alone.

Messages are built as the run builds them, in the study's encoding, and their byte form is measured:
nothing is guessed but the speed of the link and the work of a round.
"""

import math
from dataclasses import dataclass, replace

import torch

from fedner.errors import FednerError
from fedner.federated.encoding import encode_update, order_down
from fedner.federated.encrypted.phases import APPLY
from fedner.federated.encrypted_sum import ciphertext_bytes
from fedner.federated.message_bytes import pack_message
from fedner.federated.messages import Message, Order, SumMessage, Update, nothing_shared
from fedner.federated.run import RunSettings
from fedner.federated.secure_sum import AFTER, BEFORE
from fedner.federated.sizes import planned_batches
from fedner.runs.blueprint import Blueprint, blueprint
from fedner.runs.encryption import parameters_for
from fedner.runs.privacy import server_noise
from fedner.runs.public_files import PublicFiles, declared_files
from fedner.runs.schedule import algorithm_for, run_settings
from fedner.runs.sums import sum_plan
from fedner.settings import Study
from fedner.tensors import SharedState, map_shared


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """What crosses the link of one platform in a run.

    Attributes:
        rounds: How many rounds there are.
        down: The bytes of the order of a round.
        up: The bytes of its update.
        num_scored: How many times all platforms are scored on the way.
        num_stored: How many times they store their private part.
        weights_down: The bytes of an order to score or to finish.
        phases: How many orders a round has: one, or those of a secure or encrypted sum, whose keys
            and shares (about a kilobyte for each platform) are not counted in the bytes.
    """

    rounds: int
    down: int
    up: int
    num_scored: int
    num_stored: int
    weights_down: int
    phases: int = 1

    @property
    def num_exchanges(self) -> int:
        """How many orders are answered: `begin`, all rounds, scores, `save`, `finish`."""
        return 1 + self.rounds * self.phases + self.num_scored + self.num_stored + 1

    @property
    def num_bytes(self) -> int:
        """All bytes of orders and updates, in both directions."""
        with_weights = self.num_scored + 1  # `finish` brings the final weights
        return self.rounds * (self.down + self.up) + with_weights * self.weights_down


def link_traffic(study: Study, files: PublicFiles | None = None) -> LinkTraffic:
    """Return what crosses the link of each platform that is asked in every round.

    Args:
        study: The study.
        files: Its embeddings, opened: needed only where the study trains them.

    Raises:
        FednerError: The study trains its embeddings, and there are no files.
    """
    plan = blueprint(study, declared_files(study) if files is None else files)
    algorithm = algorithm_for(study)
    settings = run_settings(study, algorithm, server_noise(plan, algorithm))
    shared = plan.initial_shared()
    extra = shared if algorithm.has_extra else nothing_shared()
    sizes = study.public_sizes
    batches = planned_batches(sizes, settings.batch_size, algorithm.batching)
    order = Order(settings.run, settings.rounds, shared, extra, batches, study=settings.study)
    if study.transport.encryption is not None:
        return _encrypted_traffic(plan, order, settings)
    is_hidden = study.transport.secure_sum
    return LinkTraffic(
        settings.rounds,
        _size(order_down(order, settings.encoding)),
        _size(_masked(plan, order) if is_hidden else _update(plan, order, settings)),
        _times(settings.rounds, settings.evaluate_every),
        _times(settings.rounds, settings.checkpoint_every),
        _size(order),
        BEFORE + 1 + AFTER if is_hidden else 1,
    )


def _encrypted_traffic(plan: Blueprint, order: Order, settings: RunSettings) -> LinkTraffic:
    """Return what crosses in an encrypted run: ciphertexts both ways, and no weights.

    The first weights, which come once, are not counted.
    """
    algorithm = algorithm_for(plan.study)
    numbers = sum(each.numel() for each in (*order.shared.values(), *order.extra.values()))
    num_bytes = ciphertext_bytes(parameters_for(plan.study, algorithm), numbers)
    empty = replace(order, shared=nothing_shared(), extra=nothing_shared())
    return LinkTraffic(
        settings.rounds,
        num_bytes + _size(empty),
        num_bytes,
        _times(settings.rounds, settings.evaluate_every),
        _times(settings.rounds, settings.checkpoint_every),
        _size(empty),
        APPLY,  # the first phases; the last two come once
    )


def estimated_seconds(
    study: Study,
    bytes_per_second: float,
    latency: float,
    seconds_per_round: float,
    files: PublicFiles | None = None,
) -> float:
    """Return how many seconds a study takes over a measured link.

    Platforms work side by side, so that the slowest decides: give its numbers. Where all share one
    link to the server, give each its part of it.

    Args:
        study: The study.
        bytes_per_second: What the link carries, in either direction.
        latency: Seconds until the answer to an empty message, there and back.
        seconds_per_round: The work of a round: of the slowest platform, and of the server.
        files: The study's embeddings, opened: needed only where the study trains them.

    Raises:
        FednerError: A number makes no sense, or the files are missing.
    """
    given = {"bytes_per_second": bytes_per_second, "latency": latency}
    given |= {"seconds_per_round": seconds_per_round}
    for name, value in given.items():
        is_sound = value > 0 if name == "bytes_per_second" else value >= 0
        if not (is_sound and math.isfinite(value)):
            least = "above 0" if name == "bytes_per_second" else "of at least 0"
            raise FednerError(
                f"{name}: found {value}; expected a finite number {least}", "Measure the link."
            )
    traffic = link_traffic(study, files)
    crossing = traffic.num_bytes / bytes_per_second + traffic.num_exchanges * latency
    return crossing + traffic.rounds * seconds_per_round


def _times(rounds: int, every: int) -> int:
    """Return how often something happens every so many rounds, and after the last; 0 is never."""
    return -(-rounds // every) if every else 0


def _size(message: Message) -> int:
    return pack_message(message).num_bytes


def _masked(plan: Blueprint, order: Order) -> SumMessage:
    """Return masked values of the sizes that the study's have."""
    bits = sum_plan(plan.study, algorithm_for(plan.study)).grid.bits
    dtype = torch.int32 if bits == 32 else torch.int64
    values = {f"tensors/{name}": each for name, each in order.shared.items()}
    values |= {f"extra/{name}": each for name, each in order.extra.items()}
    words = {name: torch.zeros_like(each, dtype=dtype) for name, each in values.items()}
    return SumMessage(max(order.batches, key=len), order.round, BEFORE + 1, tensors=words)


def _update(plan: Blueprint, order: Order, settings: RunSettings) -> Update:
    """Return an update of the sizes that the study's have."""
    mechanism = plan.mechanism
    is_wide = mechanism is not None and mechanism.releases_sum and mechanism.samples_units
    dtype = torch.float64 if is_wide else torch.float32  # sums over units come in float64
    tensors: SharedState = map_shared(
        lambda each: torch.zeros_like(each, dtype=dtype), order.shared
    )
    platform = max(order.batches, key=len)
    loss = None if plan.study.privacy.enabled else 0.123456789012345678
    update = Update(platform, order.round, tensors, order.extra, loss)
    return encode_update(update, settings.encoding, {}).update
