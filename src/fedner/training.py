"""One platform's training: the only loop that changes a tagger's weights in place.

Every random choice comes from a stream named by seed, epoch and step, so a run that is resumed at
the end of any epoch goes on bit for bit (same machine, torch and thread count).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fedner.corpus.groups import Grouping, Unit, take
from fedner.corpus.schemes import decode
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.splits import holdout
from fedner.errors import FednerError
from fedner.models.averaged import AnyTagger
from fedner.models.device import seed_dropout
from fedner.models.features import Batch, EncodedCorpus, TagSpace, collate, select
from fedner.models.graphed import RecordedSteps, autocast, recorded_steps
from fedner.models.tagger import Tagger
from fedner.optimizers import Optimizer, OptimizerSettings
from fedner.scoring import Scores, score
from fedner.seeds import derive, seeded
from fedner.tensor_files import read_tensors, write_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

STATE_KIND, STATE_VERSION = "training state", 1
_STATE_PARTS = ("weights", "optimizer", "best", "first")
BATCHES_PER_BUCKET = 20
EVALUATION_TOKENS = 8_192


class DivergedError(FednerError):
    """The loss of a training is no longer a finite number."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How one platform trains.

    Attributes:
        epochs: How many epochs at most.
        batch_size: Sentences in a batch.
        optimizer: Adam or SGD and their learning rates.
        max_grad_norm: The largest norm of a batch's gradient, or None.
        patience: Stop after this many epochs without a better score on the held-out part, and keep
            the best weights; None trains all epochs.
        mixed_precision: bfloat16 products on a GPU; ignored on the CPU.
        graphs: Whether steps on a CUDA device are recorded and replayed (`models/graphed.py`); pays
            in runs of many steps.
        pull: How strongly weights are held to those that training began with: a decay towards them
            at the learning rate, beside the optimizer's own step.
    """

    epochs: int = 15
    batch_size: int = 64
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    max_grad_norm: float | None = 5.0
    patience: int | None = None
    mixed_precision: bool = False
    graphs: bool = False
    pull: float = 0.0

    def __post_init__(self) -> None:
        rate = self.optimizer.learning_rate
        rate *= max([1.0, *(factor for _, factor in self.optimizer.factors)])
        if not 0 <= self.pull * rate <= 1:
            raise FednerError(
                f"pull {self.pull:g} at a learning rate of {rate:g}; expected at least 0, and at "
                "most 1 for their product",
                "A stronger pull would overshoot the weights that training began with.",
            )


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """A point of the learning curve.

    Attributes:
        epoch: Counted from 1.
        loss: The mean negative log-likelihood of a training sentence.
        strict_f1: On the held-out part of the training data, or None without one.
    """

    epoch: int
    loss: float
    strict_f1: float | None


@dataclass(frozen=True, slots=True)
class TrainingState:
    """Where a training run stands after an epoch: all that is needed to go on.

    Attributes:
        weights: The trainable weights.
        optimizer: The optimizer's named state.
        curve: The learning curve so far.
        best: The weights of the best epoch, where there is a held-out part.
        first: The weights that training began with, where it is held to them.
    """

    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    curve: tuple[EpochRecord, ...] = ()
    best: Mapping[str, Tensor] = field(default_factory=dict)
    first: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def best_epoch(self) -> int:
        """The epoch with the best held-out score, the earliest of equals; 0 where there is none."""
        scored = [
            (record.strict_f1, -record.epoch)
            for record in self.curve
            if record.strict_f1 is not None
        ]
        return -max(scored)[1] if scored else 0


def trainable(tagger: Tagger) -> dict[str, Tensor]:
    """Return the weights that training changes, by name."""
    return {name: weight for name, weight in tagger.named_parameters() if weight.requires_grad}


def bucketed_batches(
    lengths: "NDArray[np.int64]", batch_size: int, seed: int, epoch: int
) -> list["NDArray[np.int64]"]:
    """Return the batches of one epoch: a fresh permutation, sentences of like length together.

    The permutation is cut into buckets of `BATCHES_PER_BUCKET` batches, each bucket is sorted by
    length and cut into batches, and the batches are shuffled: little padding, and no order of
    lengths for the optimizer to follow. Sentences of no tokens are left out.
    """
    generator = seeded(seed, "batches", epoch)
    order = generator.permutation(np.flatnonzero(lengths))
    batches = []
    for start in range(0, len(order), batch_size * BATCHES_PER_BUCKET):
        bucket = order[start : start + batch_size * BATCHES_PER_BUCKET]
        bucket = bucket[np.argsort(lengths[bucket], kind="stable")]
        batches += [
            bucket[first : first + batch_size] for first in range(0, len(bucket), batch_size)
        ]
    return [batches[position] for position in generator.permutation(len(batches))]


def dropout_seed(seed: int, *path: str | int) -> int:
    """Return the seed of the stream that `path` names: dropout draws from nothing else."""
    return derive(seed, "dropout", *path)


def gradients(
    tagger: Tagger, batch: Batch, *, mixed_precision: bool = False
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the mean loss of the batch and its gradient by parameter name.

    Args:
        tagger: The tagger.
        batch: The batch.
        mixed_precision: bfloat16 products on a GPU; ignored on the CPU.
    """
    weights = trainable(tagger)
    with autocast(batch.mask_BL.device, mixed_precision):
        loss = tagger.losses(batch).mean()
    computed = torch.autograd.grad(loss, list(weights.values()))
    return loss.detach(), dict(zip(weights, computed, strict=True))


def clip_by_norm(gradient: Mapping[str, Tensor], bound: float | None) -> dict[str, Tensor]:
    """Return the gradient, scaled down where its norm is above `bound`, without a device wait."""
    if bound is None or not gradient:
        return dict(gradient)
    # Of a row-sparse gradient the distinct rows are all there is to it.
    whole = {name: each.coalesce() if each.is_sparse else each for name, each in gradient.items()}
    values = [each.values() if each.is_sparse else each for each in whole.values()]
    norms = torch._foreach_norm(values)
    factor = (bound / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)).clamp(max=1.0)
    scaled = torch._foreach_mul(values, factor)
    # A row-sparse gradient is scaled as it is: building another one warns in some torch versions.
    return {
        name: torch.mul(each, factor) if each.is_sparse else part
        for (name, each), part in zip(whole.items(), scaled, strict=True)
    }


def optimizer_for(
    tagger: Tagger,
    settings: OptimizerSettings,
    state: Mapping[str, Tensor] | None = None,
    *,
    is_pulled: bool = False,
) -> Optimizer:
    """Return the optimizer of a tagger, fresh or as `Optimizer.state` stored it.

    A trained word table with row-sparse gradients follows it, so that rows which Adam steps lazily
    are up to date whenever they are read. A pull moves all rows in every step: then none is lazy.
    """
    optimizer = Optimizer(settings)
    if state is not None:
        own = dict(tagger.named_parameters())
        device = next(iter(own.values())).device  # a state from a file is on the CPU
        placed = {name: each.to(device) for name, each in state.items()}
        optimizer = Optimizer.restored(settings, placed, own)
    words = tagger.embeddings.words
    is_lazy = settings.name == "adam" and not settings.weight_decay and not is_pulled
    if words.trainable and words.row_sparse and is_lazy:
        words.follow(optimizer.rows_of("embeddings.words.weight", words.weight))
    return optimizer


def train(
    tagger: Tagger,
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    seed: int,
    *,
    held_out: "Evaluation | None" = None,
    resume: TrainingState | None = None,
    after_epoch: Callable[[TrainingState], None] | None = None,
) -> TrainingState:
    """Train a tagger in place on one platform's sentences.

    Args:
        tagger: The tagger; ends with the best weights where there is a held-out part and patience.
        corpus: The training sentences.
        settings: Epochs, batch, optimizer.
        seed: Names every random stream of the run.
        held_out: A part of the *training* data to score after each epoch; never the test part.
        resume: A state that an earlier call handed to `after_epoch`.
        after_epoch: Called with the state after each epoch: for progress and for checkpoints.

    Returns:
        The state after the last epoch.

    Raises:
        FednerError: There is nothing to train on, or nothing to tell when to stop.
    """
    if not corpus.num_tokens:
        raise FednerError("there is no token to train on", "Check the platform's data and split.")
    if settings.patience is not None and held_out is None:
        raise FednerError(
            f"patience = {settings.patience} needs a held-out part of the training data",
            "Hold out a tenth of the training part, or set patience to none.",
        )
    weights = trainable(tagger)
    state = TrainingState({}, {}, first=snapshot(weights) if settings.pull else {})
    if resume is not None:
        _require_same_pull(resume, settings)
        load(tagger, resume.weights)
        state = resume
    optimizer = optimizer_for(
        tagger,
        settings.optimizer,
        resume.optimizer if resume else None,
        is_pulled=bool(settings.pull),
    )
    first = {name: each.to(weights[name].device) for name, each in state.first.items()}
    recorded = None
    if settings.graphs:
        mixed = settings.mixed_precision
        recorded = recorded_steps(tagger, corpus, "auto", mixed_precision=mixed)
    for epoch in range(len(state.curve) + 1, settings.epochs + 1):
        if _has_stopped(state, settings):
            break
        loss = _train_epoch(tagger, corpus, settings, optimizer, seed, epoch, recorded, first)
        f1 = None if held_out is None else held_out.scores(tagger).strict_micro.f1
        curve = (*state.curve, EpochRecord(epoch, loss, f1))
        optimizer.flush()
        state = replace(
            state,
            weights=snapshot(weights),
            optimizer=snapshot(optimizer.state()),
            curve=curve,
        )
        if state.best_epoch == epoch:
            state = replace(state, best=state.weights)
        if after_epoch is not None:
            after_epoch(state)
    if settings.patience is not None and state.best:
        load(tagger, state.best)
    return state


def _require_same_pull(resume: TrainingState, settings: TrainingSettings) -> None:
    """Raise where a training that is held to its first weights no longer knows them, or forgets."""
    if bool(settings.pull) != bool(resume.first):
        before = "with" if resume.first else "without"
        raise FednerError(
            f"the training began {before} a pull; expected the same, found pull {settings.pull:g}",
            "Resume it with the settings that it began with.",
        )


def _has_stopped(state: TrainingState, settings: TrainingSettings) -> bool:
    return (
        settings.patience is not None
        and bool(state.curve)
        and len(state.curve) - state.best_epoch >= settings.patience
    )


def _train_epoch(
    tagger: Tagger,
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    optimizer: Optimizer,
    seed: int,
    epoch: int,
    recorded: RecordedSteps | None,
    first: Mapping[str, Tensor],
) -> float:
    tagger.train()
    weights = trainable(tagger)
    total = torch.zeros((), device=corpus.device)
    num_sentences = 0
    for step, chosen in enumerate(
        bucketed_batches(corpus.lengths, settings.batch_size, seed, epoch)
    ):
        if recorded is not None:
            loss, gradient = recorded.gradients(chosen, dropout_seed(seed, epoch, step))
        else:
            seed_dropout(corpus.device, dropout_seed(seed, epoch, step))
            batch = collate(corpus, chosen)
            loss, gradient = gradients(tagger, batch, mixed_precision=settings.mixed_precision)
        clipped = clip_by_norm(gradient, settings.max_grad_norm)
        _step(optimizer, weights, clipped, first, settings.pull)
        total += loss * len(chosen)
        num_sentences += len(chosen)
    mean = float(total) / num_sentences
    if not math.isfinite(mean):
        raise DivergedError(
            f"the loss of epoch {epoch} is {mean}",
            "Lower the learning rate or clip gradients; the last whole epoch can be resumed.",
        )
    return mean


@torch.no_grad()
def _step(
    optimizer: Optimizer,
    weights: Mapping[str, Tensor],
    gradient: Mapping[str, Tensor],
    first: Mapping[str, Tensor],
    pull: float,
) -> None:
    """Step the weights in place, and draw them towards the first ones.

    Every weight w becomes w - r (d + pull (w - first)): r its own learning rate in this step, d the
    optimizer's direction, w on the right as it was before the step.
    """
    if not pull:
        optimizer.step(weights, gradient)
        return
    rate = optimizer.settings.learning_rate_at(optimizer.steps)
    moved = {name: weight.detach() - first[name] for name, weight in weights.items()}
    optimizer.step(weights, gradient)
    for name, way in moved.items():
        own = rate * optimizer.settings.factor_of(name)
        weights[name].sub_(way, alpha=own * pull)


@torch.no_grad()
def load(tagger: Tagger, weights: Mapping[str, Tensor]) -> None:
    """Copy named weights into the tagger; names and shapes must be its own."""
    own = dict(tagger.named_parameters())
    for name, tensor in weights.items():
        if name not in own or own[name].shape != tensor.shape:
            found = tuple(tensor.shape)
            expected = tuple(own[name].shape) if name in own else "no such parameter"
            raise FednerError(
                f"weight {name!r} has shape {found}, the tagger has {expected}",
                "Load the weights into the recipe and the tag set that they were trained with.",
            )
        own[name].copy_(tensor)


def save_training(path: Path, state: TrainingState) -> None:
    """Write where a training run stands, for its owner's eyes only, wholly or not at all."""
    parts = {name: getattr(state, name) for name in _STATE_PARTS}
    tensors = {f"{part}.{name}": t for part, named in parts.items() for name, t in named.items()}
    facts = {"curve": [asdict(record) for record in state.curve]}
    write_tensors(path, tensors, STATE_KIND, STATE_VERSION, facts, owner_only=True)


def load_training(path: Path) -> TrainingState:
    """Read back what `save_training` wrote: training goes on from there bit for bit.

    Raises:
        FednerError: The file is missing, cut short, altered or of another version.
    """
    tensors, facts = read_tensors(path, STATE_KIND, STATE_VERSION)
    parts: dict[str, dict[str, Tensor]] = {name: {} for name in _STATE_PARTS}
    for key, tensor in tensors.items():
        part, _, name = key.partition(".")
        parts[part][name] = tensor
    curve = tuple(EpochRecord(**record) for record in facts["curve"])
    return TrainingState(curve=curve, **parts)


def snapshot(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a copy of the weights."""
    return {name: weight.detach().clone() for name, weight in weights.items()}


def evaluation_batches(lengths: "NDArray[np.int64]") -> Iterator["NDArray[np.int64]"]:
    """Yield batches of sentences of falling length, about `EVALUATION_TOKENS` tokens each."""
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < len(order):
        size = max(1, EVALUATION_TOKENS // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size


def predict_tags(tagger: AnyTagger, corpus: EncodedCorpus) -> list["NDArray[np.int64]"]:
    """Return the best tags of every sentence, in the order of the corpus."""
    tagger.eval()
    result: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)] * len(corpus)
    for chosen in evaluation_batches(corpus.lengths):
        batch = collate(corpus, chosen)
        tags_BL = tagger.best_tags(batch).cpu().numpy()
        for row, sentence in enumerate(batch.sentences):
            result[sentence] = tags_BL[row, : corpus.lengths[sentence]]
    return result


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Sentences to score a tagger on.

    Attributes:
        corpus: The sentences, encoded.
        sentences: The same sentences with their gold entities.
        space: The platform's tags.
    """

    corpus: EncodedCorpus
    sentences: Sequence[Sentence]
    space: TagSpace

    def predictions(self, tagger: AnyTagger) -> list[list[Entity]]:
        """Return the entities that the tagger finds in each sentence."""
        names = np.asarray(self.space.tags, dtype=object)
        return [
            decode(names[tags].tolist(), self.space.scheme)
            for tags in predict_tags(tagger, self.corpus)
        ]

    def scores(self, tagger: AnyTagger) -> Scores:
        """Score the tagger against the gold entities."""
        gold = [sentence.entities for sentence in self.sentences]
        return score(
            gold,
            self.predictions(tagger),
            labels=self.space.labels,
            lengths=self.corpus.lengths.tolist(),
        )


def hold_out(
    corpus: EncodedCorpus,
    sentences: Sequence[Sentence],
    space: TagSpace,
    *,
    by: Unit = "sentence",
    share: float = 0.1,
    seed: int,
) -> tuple[EncodedCorpus, Evaluation]:
    """Cut the training part into what is trained on and what tells when to stop.

    Args:
        corpus: The training part, encoded; the test part stays out of this altogether.
        sentences: The same sentences.
        space: The platform's tags.
        by: What must stay together.
        share: How much is held out.
        seed: Decides which.
    """
    parts = holdout(Grouping.of(sentences, by), share=share, seed=seed)
    held = Evaluation(select(corpus, parts.test), take(sentences, parts.test), space)
    return select(corpus, parts.train), held
