"""A platform's copy of the server: where the server has no weights, every platform takes its step.

What the coordinator does of a round's sum in the clear, all platforms do here of the decrypted one:
divide it by the weights of those who are in it, let the algorithm advance, average. The sum is the
same at all of them, to the bit, so the copies stay the same as long as their arithmetic is; digests
are compared each round (`announcements`).

A copy is stored and restored like a server's state (`server_state`): by platforms, under their own
folders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import Combined, share_of
from fedner.federated.algorithms.algorithm import Algorithm, Server
from fedner.federated.checkpoints import drop_after, stored_rounds
from fedner.federated.ema import averaged, require_decay
from fedner.federated.messages import nothing_shared
from fedner.federated.server_state import restore_server, server_tensors, store_server
from fedner.federated.summation import Totals, divided_total, parts_of
from fedner.tensor_files import tensors_digest
from fedner.tensors import SharedState, map_shared

_NUM_PROBED, _NUM_STEPS = 1003, 3  # not a multiple of what a processor computes at once


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """What everybody knows of the server's step.

    Attributes:
        algorithm: What it computes.
        weights: The weight of every platform of the federation.
        ema_decay: The decay of the EMA of the shared weights; None for the last weights.
    """

    algorithm: Algorithm
    weights: Mapping[str, float]
    ema_decay: float | None = None

    def __post_init__(self) -> None:
        require_decay(self.ema_decay)


@dataclass(slots=True)
class Mirror:
    """The server's state after a round, as this platform computed it.

    Attributes:
        plan: What everybody knows of the step.
        server: The state.
        round: The round after which it is.
        ema: The EMA of the shared weights; without tensors where there is none.
    """

    plan: MirrorPlan
    server: Server
    round: int = 0
    ema: SharedState = field(default_factory=nothing_shared)

    @classmethod
    def begun(cls, plan: MirrorPlan, initial: SharedState) -> "Mirror":
        """Return the copy before the first round."""
        return cls(plan, plan.algorithm.init(on_cpu(initial)))

    @property
    def shared(self) -> SharedState:
        """The shared weights to score and to keep: the EMA where there is one, else the last."""
        return self.ema or self.server.shared

    @torch.no_grad()
    def advance(
        self, round_: int, totals: Totals, names: Sequence[str], batches: Mapping[str, int]
    ) -> None:
        """Take the server's step of a round.

        Args:
            round_: The round: the next one.
            totals: The weighted sum of the updates, by the names of `values_of`.
            names: Whose updates are in it.
            batches: The batches of all who were chosen.

        Raises:
            FednerError: If it is another round, or the sum is of other tensors.
        """
        if round_ != self.round + 1:
            raise FednerError(f"the sum of round {round_}; this copy is after round {self.round}")
        plan = self.plan
        weight = sum(plan.weights[name] for name in sorted(names))
        tensors, extra = parts_of(totals)
        self._require_alike(tensors, extra)
        combined = Combined(
            divided_total(tensors, weight, self.server.shared),
            divided_total(extra, weight, self.server.extra),
            tuple(sorted(names)),
            share_of(sorted(names), plan.weights),
            sum(batches.values()),
        )
        self.server = plan.algorithm.advance(self.server, combined)
        if plan.ema_decay is not None:
            found = averaged(self.ema, self.server.shared, self.round, plan.ema_decay)
            self.ema = SharedState(found)
        self.round = round_

    def _require_alike(self, tensors: SharedState, extra: SharedState) -> None:
        pairs = ((tensors, self.server.shared), (extra, self.server.extra))
        for found, expected in pairs:
            shapes = {name: each.shape for name, each in expected.items()}
            if {name: each.shape for name, each in found.items()} != shapes:
                raise FednerError("a sum of other tensors than those of the model")

    def digest(self) -> bytes:
        """Return the digest of all that the next rounds depend on."""
        held = server_tensors(self.server, self.ema)
        return f"{self.round} {tensors_digest(held)}".encode()

    def store(self, folder: Path) -> None:
        """Put the copy on disk under its round."""
        store_server(folder, self.round, self.server, self.ema, {})

    @classmethod
    def restored(
        cls, plan: MirrorPlan, initial: SharedState, folder: Path, newest: int
    ) -> "Mirror | None":
        """Return the newest stored copy that is not newer than a round; later ones are dropped.

        Returns:
            The copy; None where none is stored.

        Raises:
            FednerError: If it is of another model or algorithm.
        """
        drop_after(folder, newest)
        rounds = stored_rounds(folder)
        if not rounds:
            return None
        like = plan.algorithm.init(on_cpu(initial))
        has_ema = plan.ema_decay is not None
        server, ema, _ = restore_server(folder, rounds[-1], like, has_ema=has_ema)
        return cls(plan, server, rounds[-1], ema)


def on_cpu(state: SharedState) -> SharedState:
    """Return a copy on the CPU: the same bits at every platform, whatever it trains with."""
    return map_shared(lambda each: each.detach().to("cpu", copy=True), state)


def arithmetic(plan: MirrorPlan) -> bytes:
    """Return a digest of what this machine makes of fixed numbers in some steps of the server.

    Copies must be the same to the bit. Another release of torch, or another kind of processor, may
    round otherwise: that is found by this before the first round, not by a run that ends.
    """
    alone = replace(plan, weights={"probe": 1.0})
    mirror = Mirror.begun(alone, SharedState({"probe": _numbers(0).float()}))
    for round_ in range(1, _NUM_STEPS + 1):
        totals = {"tensors/probe": _numbers(round_)}
        if mirror.server.extra:
            totals["extra/probe"] = _numbers(-round_)
        mirror.advance(round_, totals, ["probe"], {"probe": 3})
    return sha256(mirror.digest()).digest()


def _numbers(number: int) -> torch.Tensor:
    """Return numbers between -0.5 and 0.5 that are the same to the bit on every machine."""
    counts = (torch.arange(_NUM_PROBED) * 7919 + number * 104729) % 65537
    return counts.double() / 65536 - 0.5
