"""One platform at work: the shared weights come in, private weights stay, an update goes out.

`Platform` is the runtime; what must survive a restart is its `PlatformState`, which is never
transmitted: private weights, their optimizer, the cursor in the data, the algorithm's memory.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.contribution import Contribution, Gradient, LossReading
from fedner.federated.dp_steps import DPSteps, padding_rows
from fedner.federated.ema import averaged, require_decay
from fedner.federated.encoding import encode_update, require_encodable
from fedner.federated.learner import Learner, TaggerLearner
from fedner.federated.messages import Order, Update
from fedner.federated.orders import Expected, PublicPlan, RoundPassedError, checked_order
from fedner.federated.platform_state import PlatformState
from fedner.federated.releases import record_release, record_score_release
from fedner.federated.sampling import Cursor, Sampler
from fedner.models.partition import Partition
from fedner.optimizers import Optimizer, OptimizerSettings
from fedner.privacy.mechanisms import Asked, require_fitting
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores
from fedner.seeds import derive
from fedner.settings.sections import Encoding
from fedner.tensors import SharedState, State, copy_into
from fedner.training import clip_by_norm


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """How a platform computes, whatever the algorithm.

    Attributes:
        optimizer: Steps the private weights.
        max_grad_norm: The largest norm of a step's whole gradient, shared and private together, or
            None. Under differential privacy every unit is clipped by itself.
        reports_loss: Whether the training loss may be disclosed.
        rounds_per_slice: Rounds spent on each slice of an incremental schedule.
        ema_decay: The decay of the EMA of the private weights, with which the platform is scored;
            None for the last weights.
        names_types: Whether score reports may name entity types: only declared ones are public.
        encoding: The number type of updates and weights when they are sent.
    """

    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    max_grad_norm: float | None = None
    reports_loss: bool = True
    rounds_per_slice: int = 1
    ema_decay: float | None = None
    names_types: bool = True
    encoding: Encoding = "float32"


class Progress(Protocol):
    """Where a platform notes, for its owner alone, how its training goes."""

    def note_loss(self, run: str, round_: int, loss: float) -> None:
        """Hear the training loss of a round."""

    def note_scores(self, run: str, round_: int, scores: Scores) -> None:
        """Hear the scores with the weights of a round, noised by nobody."""


@dataclass(slots=True)
class Platform:
    """A platform at work; algorithms use its methods, engines call `run_round`.

    Attributes:
        name: The platform's name.
        learner: Its model and data.
        partition: Which weights are shared.
        settings: How it computes.
        seed: The seed of the run.
        sampler: Draws its batches.
        optimizer: Updates its private weights.
        memory: What the algorithm keeps here between rounds, such as control variates.
        privacy: Samples, clips and adds noise to the steps; None without differential privacy.
        last_round: The last round that it answered.
        run: The run of that round, or None.
        ema: The EMA of the private weights over the rounds in which it trained; without tensors
            if none is kept.
        num_averaged: How many rounds that EMA holds.
        feedback: The encoding error of the updates so far, by part and name (`encoding`).
        fixed_rows: Rows of shared tables that stay zero, whatever a broadcast says.
        plan: The public plan that orders are checked against; None if there is none.
        progress: Records losses and scores that stay on the platform; None records nothing.
    """

    name: str
    learner: Learner
    partition: Partition
    settings: LocalSettings
    seed: int
    sampler: Sampler
    optimizer: Optimizer
    memory: dict[str, Tensor] = field(default_factory=dict)
    privacy: DPSteps | None = None
    last_round: int = 0
    run: str | None = None
    ema: dict[str, Tensor] = field(default_factory=dict)
    num_averaged: int = 0
    feedback: dict[str, Tensor] = field(default_factory=dict)
    fixed_rows: Mapping[str, int] = field(default_factory=dict)
    plan: PublicPlan | None = None
    progress: Progress | None = None
    _weights: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_decay(self.settings.ema_decay)
        self._weights = dict(self.learner.weights())
        named = {*self.partition.shared, *self.partition.private}
        if named != set(self._weights):
            odd = sorted(named ^ set(self._weights))
            raise FednerError(
                f"platform {self.name!r}: its partition and its model differ in {odd[:5]}",
                "Make the partition from the names of the model's trainable weights.",
            )

    def shared(self) -> SharedState:
        """Return the shared weights themselves; a step changes them in place."""
        return self.partition.shared_state(self._weights)

    def private(self) -> dict[str, Tensor]:
        """Return the private weights themselves."""
        return self.partition.private_state(self._weights)

    @torch.no_grad()
    def load_shared(self, shared: SharedState) -> None:
        """Copy broadcast weights, checked before, into the model."""
        copy_into(shared, self._weights)

    def gradient(self, broadcast: Order, step: int, reading: LossReading = "mean") -> Gradient:
        """Draw the next batch and return its gradient at the current weights.

        Args:
            broadcast: Names the round and says how many sentences to draw.
            step: The step within the round: names the stream of its dropout.
            reading: Whether the loss is the mean or the sum over the batch.
        """
        if self.privacy is not None and self.privacy.samples_units:
            return self._dp_gradient(self.privacy, broadcast, step, reading)
        sentences = self.sampler.draw(broadcast.batches[self.name])
        path = ("round", broadcast.round, "platform", self.name, "step", step, "dropout")
        loss, gradient = self.learner.gradients(sentences, derive(self.seed, *path))
        if reading == "sum":
            gradient = {name: each * len(sentences) for name, each in gradient.items()}
        gradient = clip_by_norm(gradient, self.settings.max_grad_norm)
        return Gradient(
            loss, self.partition.shared_state(gradient), self.partition.private_state(gradient)
        )

    def _dp_gradient(
        self, privacy: DPSteps, broadcast: Order, step: int, reading: LossReading
    ) -> Gradient:
        """Return the gradient of a Poisson sample, clipped by unit and noised."""
        batch = broadcast.batches[self.name]
        path = ("round", broadcast.round, "platform", self.name, "step", step)
        seed = derive(self.seed, *path, "dropout")
        value = privacy.gradient(self.learner, self.partition, batch, path, seed)
        if reading == "sum":
            expected = privacy.settings.expected(batch)
            value = {name: tensor * expected for name, tensor in value.items()}
        private = {name: value[name] for name in self.partition.private if name in value}
        unknown = torch.tensor(torch.nan)
        return Gradient(unknown, self.partition.shared_state(value), private)

    def step_private(self, gradient: Gradient) -> None:
        """Take an optimizer step of the private weights with their part of a gradient."""
        if gradient.private:
            self.optimizer.step(self._weights, gradient.private)

    @property
    def slice_size(self) -> float:
        """How many sentences the current slice has.

        Under differential privacy its public size, so that steps do not disclose the true one.
        """
        if self.privacy is None:
            return float(self.sampler.size)
        return self.privacy.settings.units_in_slice / len(self.sampler.pools)

    def run_round(self, algorithm: "LocalPart", broadcast: Order, attempt: int = 0) -> Update:
        """Compute one round of an algorithm and return what may be transmitted.

        Args:
            algorithm: What it does.
            broadcast: The order.
            attempt: How often hidden values of the round were sent before: under differential
                privacy another attempt is another release, with new noise and a new charge.

        Raises:
            OrderRefusedError: If the broadcast is not an order of the study.
            RoundPassedError: If a later round was answered before.
            FednerError: If the ledger refuses the release, or the algorithm does not fit.
        """
        require_encodable(self.settings.encoding, algorithm.sends)
        order = checked_order(broadcast, self._expected(algorithm.has_extra, is_update=True))
        turn = (order.round - 1) // self.settings.rounds_per_slice
        work = partial(self._work, algorithm, order, turn)
        if self.privacy is None:
            self.require_current(order)
            update = self.encoded(work())
        else:
            self._begin_dp(self.privacy, algorithm, turn, order.batches[self.name])
            asked = self._identity(algorithm)
            if attempt and not self.privacy.settings.source.is_simulation:
                asked = f"{asked} attempt {attempt}"
            update = record_release(self, self.privacy, order, work, asked)
        self.run = order.run
        return update

    def _expected(self, has_extra: bool | None, *, is_update: bool) -> Expected:
        encoding = self.settings.encoding if is_update else "float32"
        return Expected(
            self.name, self.shared(), self.fixed_rows, has_extra, self.plan, is_update, encoding
        )

    def encoded(self, update: Update) -> Update:
        """Return an update as it is sent; its rounding error is added to the next one.

        Raises:
            NotFiniteError: If it has numbers that are not finite; nothing was changed then.
        """
        sent = encode_update(update, self.settings.encoding, self.feedback)
        self.feedback = sent.feedback
        return sent.update

    def _identity(self, algorithm: "LocalPart") -> str:
        """Return what names a release beside its order: the algorithm, and how it travels."""
        encoding = self.settings.encoding
        return algorithm.identity if encoding == "float32" else f"{algorithm.identity} {encoding}"

    def _begin_dp(self, privacy: DPSteps, algorithm: "LocalPart", turn: int, batch: int) -> None:
        """Begin a DP round: all that can be refused by public facts is refused here."""
        steps = algorithm.steps(batch, self.slice_size)
        asked = Asked(
            algorithm.name,
            algorithm.sends,
            algorithm.has_extra,
            algorithm.loss_reading,
            steps,
            encoding=self.settings.encoding,
        )
        require_fitting(privacy.settings.mechanism, asked, f"platform {self.name!r}")
        privacy.begin(turn, steps if privacy.samples_units else 1)
        privacy.check(self.learner, self.partition)

    def require_current(self, order: Order) -> None:
        """Raise if a later round of the run was answered: earlier ones come only from the record.

        Raises:
            RoundPassedError: If so.
        """
        newest = self.last_round if self.run in (None, order.run) else 0
        if self.privacy is not None and self.privacy.ledger is not None:
            newest = max(newest, self.privacy.ledger.newest_round(order.run, self.name))
        if order.round < newest:
            raise RoundPassedError(
                f"platform {self.name!r} was asked for round {order.round}; it answered round "
                f"{newest} before, and this request is not in its record",
                "Go on with the next round, or resend the very request that was answered.",
            )

    def _work(self, algorithm: "LocalPart", broadcast: Order, turn: int) -> Update:
        self.sampler.enter(min(turn, len(self.sampler.pools) - 1))
        self.load_shared(broadcast.shared)
        done = algorithm.local(self, broadcast)
        self.last_round = broadcast.round
        if self.settings.ema_decay is not None:
            before, decay = self.num_averaged, self.settings.ema_decay
            self.ema = averaged(self.ema, self.private(), before, decay)
            self.num_averaged += 1
        self._require_stated(done, algorithm)
        if self.privacy is not None:
            return self._protected(self.privacy, done, broadcast)
        loss = None
        if self.settings.reports_loss or (self.progress is not None and done.losses):
            loss = float(torch.stack(done.losses).mean())
        if self.progress is not None and loss is not None:
            self.progress.note_loss(broadcast.run, broadcast.round, loss)
        sent = loss if self.settings.reports_loss else None
        return Update(self.name, broadcast.round, done.tensors, done.extra, sent)

    def _require_stated(self, done: Contribution, algorithm: "LocalPart") -> None:
        """Raise if an algorithm would send something else than what it states."""
        if set(done.tensors) != set(self.partition.shared):
            raise FednerError(
                f"platform {self.name!r}: the algorithm would send {sorted(done.tensors)[:5]}; "
                "expected exactly the shared weights",
                "An algorithm's local part must return one tensor for each shared weight.",
            )
        if done.extra and not algorithm.has_extra:
            raise FednerError(
                f"platform {self.name!r}: the algorithm would send extra tensors, but does not "
                "state that it has any",
                "State `has_extra=True`.",
            )

    def _protected(self, privacy: DPSteps, done: Contribution, broadcast: Order) -> Update:
        """Return what the mechanism lets be transmitted: never a loss."""
        path = ("round", broadcast.round, "platform", self.name, "update")
        return Update(self.name, broadcast.round, privacy.update(done.tensors, path), done.extra)

    def scores(self, broadcast: Order) -> Scores | NoisedScores | None:
        """Return what the platform discloses of its scores with the broadcast weights, if anything.

        Under differential privacy they get noise and are charged, or stay on the platform; in a
        simulation, which protects nobody, they are exact unless noise was asked for.

        Raises:
            OrderRefusedError: If the broadcast is not an order of the study.
            RoundPassedError: If a later round was answered before.
            BudgetSpentError: If the ledger refuses the release.
        """
        broadcast = checked_order(broadcast, self._expected(None, is_update=False))
        self.load_shared(broadcast.shared)
        with self._with_ema():
            privacy = self.privacy
            is_plain = privacy is None or (
                privacy.settings.scores is None and privacy.settings.source.is_simulation
            )
            if privacy is not None and not is_plain:
                return record_score_release(self, privacy, broadcast)
            scores = self.learner.scores()
            if self.progress is not None and scores is not None:
                self.progress.note_scores(broadcast.run, broadcast.round, scores)
            if scores is None or self.settings.names_types:
                return scores
            return scores.without_names()

    @contextmanager
    def _with_ema(self) -> Iterator[None]:
        """Have the private weights' EMA in the model within the block, if there is one."""
        private = self.private() if self.ema else {}
        last = {name: weight.detach().clone() for name, weight in private.items()}
        try:
            copy_into(self.ema, private)
            yield
        finally:
            copy_into(last, private)

    def forget_releases(self, round_: int) -> None:
        """Drop the stored bytes of releases up to a round; no run resumes from before it."""
        privacy = self.privacy
        if privacy is not None and privacy.ledger is not None and self.run is not None:
            privacy.ledger.forget_payloads(self.run, round_ + 1)

    def close(self) -> None:
        """Close the ledger, so that others may open it."""
        if self.privacy is not None and self.privacy.ledger is not None:
            self.privacy.ledger.close()

    def state(self) -> PlatformState:
        """Return a copy of everything that must survive a restart."""
        parts: dict[str, State] = {
            "private": self.private(),
            "optimizer": self.optimizer.state(),
            "memory": self.memory,
            "ema": self.ema,
            "feedback": self.feedback,
        }
        tensors = {
            f"{part}/{name}": tensor.detach().cpu().clone()
            for part, state in parts.items()
            for name, tensor in state.items()
        }
        facts = {
            "cursor": asdict(self.sampler.cursor),
            "last_round": self.last_round,
            "num_averaged": self.num_averaged,
        }
        return PlatformState(tensors, facts)

    @torch.no_grad()
    def restore(self, state: PlatformState) -> None:
        """Go on from a state of this platform.

        Raises:
            FednerError: If it belongs to another model.
        """
        kinds = ("private", "optimizer", "memory", "ema", "feedback")
        parts: dict[str, dict[str, Tensor]] = {kind: {} for kind in kinds}
        for key, tensor in state.tensors.items():
            part, _, name = key.partition("/")
            parts.get(part, {})[name] = tensor
        private = self.private()
        found = {name: tuple(tensor.shape) for name, tensor in parts["private"].items()}
        if found != {name: tuple(tensor.shape) for name, tensor in private.items()}:
            raise FednerError(
                f"platform {self.name!r}: the stored private weights {json.dumps(found)[:200]} are "
                "not those of its model",
                "Resume with the recipe, the labels and the partition that the run began with.",
            )
        device = next(iter(self._weights.values())).device
        copy_into(parts["private"], private)
        moved = {
            name: tensor if name == "steps" else tensor.to(device)
            for name, tensor in parts["optimizer"].items()
        }
        self.optimizer = Optimizer.restored(self.settings.optimizer, moved)
        self.memory = {name: tensor.to(device) for name, tensor in parts["memory"].items()}
        self.ema = {name: tensor.to(device) for name, tensor in parts["ema"].items()}
        self.feedback = {key: tensor.to(device) for key, tensor in parts["feedback"].items()}
        self.num_averaged = int(state.facts.get("num_averaged", 0))
        self.sampler.cursor = Cursor(**state.facts["cursor"])
        self.last_round = int(state.facts["last_round"])


LocalFunction = Callable[[Platform, Order], Contribution]


class LocalPart(Protocol):
    """What a platform must know of an algorithm; an `Algorithm` states it."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def local(self) -> LocalFunction:
        """What a platform does in a round; may change the platform's model in place."""

    @property
    def steps(self) -> Callable[[int, float], int]:
        """How many gradients that takes, of the batch and the size of the current slice."""

    @property
    def sends(self) -> str:
        """What an update is: gradients, differences or weights."""

    @property
    def has_extra(self) -> bool:
        """Whether it is handed, and sends, extra tensors like the shared weights."""

    @property
    def loss_reading(self) -> LossReading:
        """Which reading of the loss its gradients are asked for with."""

    @property
    def identity(self) -> str:
        """Names the algorithm with its settings: another one asks for another release."""


def platform(
    name: str,
    learner: Learner,
    partition: Partition,
    seed: int,
    settings: LocalSettings | None = None,
    *,
    pools: "tuple[Any, ...] | None" = None,
    privacy: DPSteps | None = None,
    plan: PublicPlan | None = None,
) -> Platform:
    """Return a platform at its beginning.

    Args:
        name: The platform's name.
        learner: Its model and data.
        partition: Which weights are shared.
        seed: The seed of the run.
        settings: How it computes.
        pools: The slices of an incremental schedule (`sampling.slice_indices`); None for all
            sentences at once.
        privacy: Its DP steps; None without differential privacy.
        plan: The public plan of the run, which orders are held against; None where there is none.
    """
    chosen = LocalSettings() if settings is None else settings
    sampler = Sampler((learner.drawable(),) if pools is None else pools, seed, name)
    optimizer = Optimizer(chosen.optimizer)
    rows = padding_rows(learner.tagger) if isinstance(learner, TaggerLearner) else {}
    return Platform(
        name, learner, partition, chosen, seed, sampler, optimizer,
        privacy=privacy, fixed_rows=rows, plan=plan,
    )  # fmt: skip
