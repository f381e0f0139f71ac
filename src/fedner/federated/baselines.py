"""What a federation is compared with: the baselines local-only and centralized.

A baseline that is trained less than the federation flatters it. So a local-only platform takes the
better of two batch sizes (the federation's joint batch, and its own share of it), at least as many
optimizer steps as in the federation, and trains until it stops improving, judged on a held-out
tenth of its own training part; then it trains once more on all of that part. The test part decides
nothing. Centralized training is what privacy forbids: a bound, not a choice.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn

from fedner.corpus.groups import Unit
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.federated.annotation import allowed_tags
from fedner.models.features import EncodedCorpus, TagSpace
from fedner.models.tagger import Decoder, Tagger
from fedner.seeds import derive
from fedner.training import (
    EpochRecord,
    Evaluation,
    TrainingSettings,
    TrainingState,
    hold_out,
    train,
)

Unannotated = Literal["outside", "marginal"]
AfterEpoch = Callable[[TrainingState], None]


@dataclass(frozen=True, slots=True)
class LocalOnlySettings:
    """How the local-only baseline of a platform is trained.

    Attributes:
        batches: The batch sizes to choose from: N, and the platform's share |N_i| of it.
        least_steps: Optimizer steps that the platform takes in the federation.
        training: Optimizer and clipping, as in the federation; batch size and epochs are set here.
        patience: Epochs without a better held-out score after which training has stopped improving.
        most_epochs: An end in any case, though never below `least_steps`.
        share: The part of the training data that is held out.
        by: What must stay together when it is.
        linear_decay: Whether the final training has linear decay of the learning rate to 0, as the
            federation does.
    """

    batches: tuple[int, ...]
    least_steps: int
    training: TrainingSettings = field(default_factory=TrainingSettings)
    patience: int = 5
    most_epochs: int = 100
    share: float = 0.1
    by: Unit = "sentence"
    linear_decay: bool = False


@dataclass(frozen=True, slots=True)
class Tried:
    """What one batch size came to on the held-out part.

    Attributes:
        batch_size: The batch size.
        strict_f1: The best held-out score.
        best_epoch: Where it was.
        epochs: How many were trained.
    """

    batch_size: int
    strict_f1: float
    best_epoch: int
    epochs: int


@dataclass(frozen=True, slots=True)
class LocalOnly:
    """A platform's own best.

    Attributes:
        tagger: Trained on the whole training part.
        batch_size: The batch size that won.
        epochs: Epochs of the final training.
        steps: Optimizer steps of the final training: no fewer than in the federation.
        tried: What every batch size came to.
    """

    tagger: Tagger
    batch_size: int
    epochs: int
    steps: int
    tried: tuple[Tried, ...]


def train_local_only(
    make_tagger: Callable[[], Tagger],
    corpus: EncodedCorpus,
    sentences: Sequence[Sentence],
    space: TagSpace,
    settings: LocalOnlySettings,
    seed: int,
    *,
    after_epoch: AfterEpoch | None = None,
) -> LocalOnly:
    """Train one platform by itself, as well as its data allow.

    Args:
        make_tagger: Makes a fresh tagger, the same each time, as the federation begins with.
        corpus: The platform's training part, encoded.
        sentences: The same sentences.
        space: The platform's tags.
        settings: Batches to choose from, steps to match, when to stop.
        seed: Names every random stream.
        after_epoch: Called after every epoch of every training.
    """
    if not settings.batches or min(settings.batches) < 1:
        raise FednerError(
            f"local-only: found batches {settings.batches}; expected at least one of 1 or more"
        )
    rest, held = hold_out(
        corpus,
        sentences,
        space,
        by=settings.by,
        share=settings.share,
        seed=derive(seed, "alone", "held out"),
    )
    tried = []
    for batch_size in sorted(set(settings.batches), reverse=True):
        chosen = replace(settings.training, batch_size=batch_size)
        state = _until_best(make_tagger(), rest, held, settings, chosen, seed, after_epoch)
        score = max(record.strict_f1 or 0.0 for record in state.curve)
        tried.append(Tried(batch_size, score, state.best_epoch, len(state.curve)))
    best = max(tried, key=lambda each: each.strict_f1)
    return _final(make_tagger, corpus, settings, seed, best, tuple(tried), after_epoch)


def _until_best(
    tagger: Tagger,
    corpus: EncodedCorpus,
    held: Evaluation,
    settings: LocalOnlySettings,
    training: TrainingSettings,
    seed: int,
    after_epoch: AfterEpoch | None,
) -> TrainingState:
    """Train for the steps asked for, on until something is found at all, then until it is best."""
    least = _epochs_for(settings.least_steps, corpus, training.batch_size)
    most = max(least, settings.most_epochs)
    step = replace(training, epochs=least, patience=None)
    state = train(tagger, corpus, step, seed, held_out=held, after_epoch=after_epoch)
    # Patience would end a training that has found nothing yet: equal zeros are no plateau.
    while len(state.curve) < most and not any(record.strict_f1 for record in state.curve):
        step = replace(step, epochs=len(state.curve) + 1)
        state = train(
            tagger, corpus, step, seed, held_out=held, resume=state, after_epoch=after_epoch
        )
    last = replace(training, epochs=most, patience=settings.patience)
    return train(tagger, corpus, last, seed, held_out=held, resume=state, after_epoch=after_epoch)


def _final(
    make_tagger: Callable[[], Tagger],
    corpus: EncodedCorpus,
    settings: LocalOnlySettings,
    seed: int,
    best: Tried,
    tried: tuple[Tried, ...],
    after_epoch: AfterEpoch | None,
) -> LocalOnly:
    """Train on the whole training part as the winner did, and at least as long as asked."""
    epochs = max(best.best_epoch, _epochs_for(settings.least_steps, corpus, best.batch_size))
    steps = epochs * _steps_of_epoch(corpus, best.batch_size)
    chosen = replace(settings.training, batch_size=best.batch_size, epochs=epochs, patience=None)
    if settings.linear_decay:
        decaying = replace(chosen.optimizer, schedule="linear", decay_steps=steps)
        chosen = replace(chosen, optimizer=decaying)
    tagger = make_tagger()
    train(tagger, corpus, chosen, seed, after_epoch=after_epoch)
    return LocalOnly(tagger, best.batch_size, epochs, steps, tried)


def _steps_of_epoch(corpus: EncodedCorpus, batch_size: int) -> int:
    """Return a lower bound of the batches of an epoch: buckets may leave some that are not full."""
    return math.ceil(int((corpus.lengths > 0).sum()) / batch_size)


def _epochs_for(steps: int, corpus: EncodedCorpus, batch_size: int) -> int:
    return max(1, math.ceil(steps / max(1, _steps_of_epoch(corpus, batch_size))))


def train_centralized(
    tagger: Tagger,
    corpus: EncodedCorpus,
    space: TagSpace,
    annotated: Sequence[Collection[str]],
    settings: TrainingSettings,
    seed: int,
    *,
    unannotated: Unannotated = "marginal",
    after_epoch: AfterEpoch | None = None,
) -> tuple[EpochRecord, ...]:
    """Train one tagger in place on the joined data of all platforms: what privacy forbids.

    It is scored on each platform over that platform's own types (`learner.own_scores`).

    Args:
        tagger: A fresh tagger over the union of the labels.
        corpus: The joined training parts, encoded with `space`.
        space: The union of the labels (`annotation.union_space`).
        annotated: For each sentence, the types that its platform annotates.
        settings: Epochs, batch size, optimizer.
        seed: Names every random stream.
        unannotated: Whether types that a platform does not annotate count as outside there, or are
            marginalised out.
        after_epoch: Called after every epoch.

    Returns:
        The learning curve.
    """
    if len(annotated) != len(corpus):
        raise FednerError(
            f"centralized: annotated types of {len(annotated):,} sentences; the corpus has "
            f"{len(corpus):,}",
            "Give the types of every sentence's platform.",
        )
    if unannotated == "outside":
        return train(tagger, corpus, settings, seed, after_epoch=after_epoch).curve
    codes_T, allowed_CK = _coded(corpus, space, annotated)
    with _open_decoder(tagger, allowed_CK):
        coded = replace(corpus, tags_T=codes_T)
        return train(tagger, coded, settings, seed, after_epoch=after_epoch).curve


def _coded(
    corpus: EncodedCorpus, space: TagSpace, annotated: Sequence[Collection[str]]
) -> tuple[Tensor, Tensor]:
    """Return codes that tell tag and annotation apart, and (C, K) the tags that each code allows.

    A code is the tag plus K times the number of its sentence's set of annotated types.
    """
    if corpus.tags_T is None:
        raise FednerError("the joined corpus has no gold tags", "Encode it with its tag space.")
    num_tags = len(space.tags)
    sets: dict[frozenset[str], int] = {}
    codes_T = corpus.tags_T.clone()
    for sentence, types in enumerate(annotated):
        number = sets.setdefault(frozenset(types), len(sets))
        start, length = int(corpus.starts[sentence]), int(corpus.lengths[sentence])
        codes_T[start : start + length] += number * num_tags
    allowed = [allowed_tags(space, types) for types in sets]
    return codes_T, torch.cat(allowed).to(codes_T.device)


class _OpenDecoder(nn.Module):
    """A decoder whose gold tags are codes, each standing for all tags that it allows."""

    def __init__(self, decoder: Decoder, allowed_CK: Tensor) -> None:
        super().__init__()
        self.decoder = decoder
        self.num_tags = decoder.num_tags
        self._allowed_CK = allowed_CK

    def log_likelihood(self, emissions_BLK: Tensor, codes_BL: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B,) the log-probability of all tag sequences that the codes allow."""
        allowed_BLK = self._allowed_CK[codes_BL]
        return self.decoder.partial_log_likelihood(emissions_BLK, allowed_BLK, lengths_B)

    def viterbi(self, emissions_BLK: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best tags and their score, as ever."""
        return self.decoder.viterbi(emissions_BLK, lengths_B)


@contextmanager
def _open_decoder(tagger: Tagger, allowed_CK: Tensor) -> Iterator[None]:
    """Let a tagger learn from codes within the block; its own decoder is trained."""
    own = tagger.decoder
    tagger.add_module("decoder", _OpenDecoder(own, allowed_CK))
    try:
        yield
    finally:
        tagger.add_module("decoder", own)
