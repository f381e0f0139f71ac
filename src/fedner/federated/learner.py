"""A model and its training data as an algorithm sees them: weights, gradients, scores.

Algorithms know nothing of taggers: they work on named tensors through `Learner`, so that a linear
model of three numbers can take a tagger's place in a test.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.models.device import seed_dropout
from fedner.models.features import Batch, EncodedCorpus, collate
from fedner.models.graphed import RecordedSteps, autocast
from fedner.models.layers.dropout import masks_from
from fedner.models.tagger import Tagger
from fedner.privacy.dpsgd import Loss, clipped_sample
from fedner.privacy.keystream import random_int16
from fedner.privacy.noise import Clipped
from fedner.privacy.sampling import PoissonSample
from fedner.scoring import Counts, Scores, score, strict_by_sentence
from fedner.training import Evaluation, trainable

if TYPE_CHECKING:
    from numpy.typing import NDArray

Losses = Callable[[Tagger, Batch], Tensor]


class Learner(Protocol):
    """What an algorithm may ask of a platform's model and data."""

    def weights(self) -> Mapping[str, Tensor]:
        """Return the trainable weights themselves, by name: they are changed in place."""

    def drawable(self) -> "NDArray[np.int64]":
        """Return the indices of the sentences that there is something to learn from."""

    def gradients(
        self, sentences: "NDArray[np.int64]", seed: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss of the sentences and its gradient by name.

        Args:
            sentences: Indices of sentences.
            seed: Of the step's dropout.
        """

    def clipped(
        self,
        sample: PoissonSample,
        max_grad_norm: float,
        names: Collection[str],
        loss: Loss,
        seed: int | None,
    ) -> Clipped:
        """Return the sum of clipped per-unit gradients of a Poisson sample.

        Args:
            sample: The sentences and their units.
            max_grad_norm: The largest norm of a unit's gradient, over all of `names` together.
            names: The weights that are trained.
            loss: A sentence's loss as the sum or the mean over its tokens.
            seed: Of the step's dropout in a simulation; None for masks that nobody can repeat.
        """

    def scores(self) -> Scores | None:
        """Return the scores on the platform's own evaluation part, or None without one."""

    def sentence_counts(self) -> Sequence[Counts] | None:
        """Return the strict counts of each sentence of that part, or None without one."""


def gold_losses(tagger: Tagger, batch: Batch) -> Tensor:
    """Return the negative log-likelihood of the gold tags of each sentence (B,)."""
    return tagger.losses(batch)


@dataclass(frozen=True, slots=True)
class TaggerLearner:
    """A tagger, its encoded training sentences and what it is scored on.

    Attributes:
        tagger: The tagger; its weights are changed in place.
        corpus: The training sentences.
        losses: The loss of each sentence: of the gold tags, or with types left open that the
            platform does not annotate (`annotation.marginalised_losses`).
        evaluation: Sentences to score on, or None.
        labels: The types that the platform annotates; None takes those of the evaluation's tags.
        mixed_precision: bfloat16 products on a GPU; ignored on the CPU.
        recorded: Steps of the same tagger and corpus that are recorded and replayed on a CUDA
            device (`models/graphed.py`); None launches every kernel. Only of the gold tags' loss.
    """

    tagger: Tagger
    corpus: EncodedCorpus
    losses: Losses = gold_losses
    evaluation: Evaluation | None = None
    labels: Sequence[str] | None = None
    mixed_precision: bool = False
    recorded: RecordedSteps | None = None

    def weights(self) -> Mapping[str, Tensor]:
        """Return the trainable weights themselves, by name."""
        return trainable(self.tagger)

    def drawable(self) -> "NDArray[np.int64]":
        """Return the indices of the sentences that have tokens."""
        return np.flatnonzero(self.corpus.lengths)

    def gradients(
        self, sentences: "NDArray[np.int64]", seed: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss of the sentences and its gradient by name."""
        if self.recorded is not None and self.losses is gold_losses:
            return self.recorded.gradients(sentences, seed)
        self.tagger.train()
        seed_dropout(self.corpus.device, seed)  # dropout draws from nothing else
        weights = trainable(self.tagger)
        batch = collate(self.corpus, sentences)
        with autocast(self.corpus.device, self.mixed_precision):
            loss = self.losses(self.tagger, batch).mean()
        computed = torch.autograd.grad(loss, list(weights.values()))
        # A word table's gradient holds the rows of the batch alone: sums want all of them.
        dense = (each.to_dense() if each.is_sparse else each for each in computed)
        return loss.detach(), dict(zip(weights, dense, strict=True))

    def clipped(
        self,
        sample: PoissonSample,
        max_grad_norm: float,
        names: Collection[str],
        loss: Loss,
        seed: int | None,
    ) -> Clipped:
        """Return the sum of clipped per-unit gradients, in micro-batches of whole units.

        Raises:
            FednerError: If the loss is not that of the gold tags.
        """
        if self.losses is not gold_losses:
            raise FednerError(
                "per-unit gradients of a loss with open types; expected that of the gold tags",
                'Take unannotated = "outside", or share less than the tags.',
            )
        self.tagger.train()
        held = [weight for name, weight in self.weights().items() if name not in names]
        try:
            for weight in held:
                weight.requires_grad_(False)
            with (
                _seeded_masks(self.corpus.device, seed)
                if seed is not None
                else masks_from(self.tagger, random_int16)
            ):
                return clipped_sample(self.tagger, self.corpus, sample, max_grad_norm, loss=loss)[0]
        finally:
            for weight in held:
                weight.requires_grad_(True)

    def scores(self) -> Scores | None:
        """Return the scores over the types that the platform annotates."""
        if self.evaluation is None:
            return None
        return own_scores(self.tagger, self.evaluation, self._labels(self.evaluation))

    def sentence_counts(self) -> Sequence[Counts] | None:
        """Return the strict counts of each sentence over the types that the platform annotates."""
        if self.evaluation is None:
            return None
        gold = [sentence.entities for sentence in self.evaluation.sentences]
        predicted = self.evaluation.predictions(self.tagger)
        return strict_by_sentence(gold, predicted, self._labels(self.evaluation))

    def _labels(self, evaluation: Evaluation) -> Sequence[str]:
        return evaluation.space.labels if self.labels is None else self.labels


@contextmanager
def _seeded_masks(device: torch.device, seed: int) -> Iterator[None]:
    """Draw the masks of a simulation from torch's generator, which draws nothing else here."""
    seed_dropout(device, seed)
    yield


def own_scores(tagger: Tagger, evaluation: Evaluation, labels: Sequence[str]) -> Scores:
    """Score a tagger over the types that one platform annotates, whatever its tags are."""
    sentences = evaluation.sentences
    return score(
        [sentence.entities for sentence in sentences],
        evaluation.predictions(tagger),
        labels=labels,
        lengths=[len(sentence.tokens) for sentence in sentences],
    )
