"""Several taggers over the same tags as one: the mean of their emissions, decoded by one chain.

Averaging scores before decoding keeps whole mentions, which a vote over tags may tear. The chain is
the mean of the members' own: scores of beginning, ending and stepping. It is made of the members
whenever they are put together, so a checkpoint holds nothing but them.

Shapes: B sentences, L tokens, K tags.
"""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.crf_chain import Chain
from fedner.models.features import Batch, TagSpace
from fedner.models.layers.crf import CRF
from fedner.models.layers.forms import Missing
from fedner.models.layers.softmax import SoftmaxDecoder
from fedner.models.layers.table import decoder_forms, missing_form
from fedner.models.tagger import Decoder, Embeddings, Tagger
from fedner.models.zoo import Recipe

_FIELDS = {"start": "start_K", "end": "end_K", "transitions": "transitions_KK"}
_PARTS = tuple(_FIELDS)


class AveragedTagger(nn.Module):
    """The mean of several trained taggers; it reads texts like any of them, and is never trained.

    Attributes:
        members: The taggers, all over the same tags and the same frozen features.
        recipes: What each of them is composed of.
        decoder: The mean of their chains.
    """

    def __init__(
        self, members: Sequence[Tagger], recipes: Sequence[Recipe], space: TagSpace
    ) -> None:
        """Put taggers together.

        Args:
            members: The taggers; their weights are frozen from now on.
            recipes: What each of them is composed of.
            space: The tags of all of them.

        Raises:
            FednerError: There is none, or they differ in their tags or in what they read.
        """
        super().__init__()
        _check_members(members, space)
        self.members = nn.ModuleList(members)
        self.recipes = tuple(recipes)
        self.decoder: Decoder = _mean_decoder([each.decoder for each in members], space)
        for weight in self.parameters():
            weight.requires_grad_(False)

    @property
    def taggers(self) -> tuple[Tagger, ...]:
        """The members, as taggers."""
        return tuple(each for each in self.members if isinstance(each, Tagger))

    @property
    def embeddings(self) -> Embeddings:
        """What every token is made of: the same sources for all members."""
        return self.taggers[0].embeddings

    @property
    def stages(self) -> NoReturn:
        """Refuse: there is no single walk from the words to the emissions.

        Raises:
            FednerError: Always.
        """
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise FednerError(
            f"an average of {len(self.members)} taggers cannot be trained: it has no gradients, "
            "neither of batches nor of single units",
            "Train each member by itself, and average them again.",
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return the mean emissions of every token (B, L, K)."""
        return torch.stack([member(batch) for member in self.members]).mean(0)

    def losses(self, batch: Batch) -> NoReturn:
        """Refuse: an average is not trained.

        Raises:
            FednerError: Always.
        """
        del batch
        self._refuse()

    @torch.no_grad()
    def best_tags(self, batch: Batch) -> Tensor:
        """Return the best tag of every token (B, L)."""
        tags_BL, _ = self.decoder.viterbi(self(batch), batch.lengths_B)
        return tags_BL


AnyTagger = Tagger | AveragedTagger


def chain_of(decoder: Decoder) -> Chain:
    """Return the potentials of a decoder in float64 on the CPU, without emissions.

    Raises:
        FednerError: It is no chain.
    """
    form = decoder_forms(decoder).chain_scores
    if isinstance(form, Missing):
        raise missing_form("decoder", decoder, form, "chain of scores to average")
    scores = form(decoder)
    start_K, end_K, steps_KK = (_potentials(scores[key]) for key in _PARTS)
    nothing = torch.zeros(0, 0, len(start_K))
    return Chain(nothing, start_K, end_K, steps_KK, torch.zeros(0, dtype=torch.int64))


def mean_chain(chains: Sequence[Chain]) -> Chain:
    """Return the mean of potentials; what one chain forbids, their mean forbids."""
    parts = zip(*((each.start_K, each.end_K, each.transitions_KK) for each in chains), strict=True)
    start_K, end_K, steps_KK = (torch.stack(part).mean(0) for part in parts)
    return chains[0]._replace(start_K=start_K, end_K=end_K, transitions_KK=steps_KK)


def _potentials(scores: object) -> Tensor:
    """Return scores as a tensor; None, which stands for forbidden, becomes minus infinity."""
    return torch.from_numpy(np.array(scores, np.float64)).nan_to_num(nan=-torch.inf)


def _mean_decoder(decoders: Sequence[Decoder], space: TagSpace) -> Decoder:
    """Return one decoder with the mean of the chains; a softmax for each token where all are."""
    if all(isinstance(each, SoftmaxDecoder) for each in decoders):
        return SoftmaxDecoder(len(space.tags))
    mean = mean_chain([chain_of(each) for each in decoders])
    is_constrained = bool(mean.transitions_KK.isinf().any())
    crf = CRF(len(space.tags), space.transitions if is_constrained else None)
    with torch.no_grad():
        for name in _PARTS:
            values: Tensor = getattr(mean, _FIELDS[name])
            crf.get_parameter(name).copy_(values.masked_fill(values.isinf(), 0.0))
    return crf


def _check_members(members: Sequence[Tagger], space: TagSpace) -> None:
    """Raise unless one batch serves all members and their emissions mean the same."""
    if not members:
        raise FednerError("an average of no taggers", "Give at least one.")
    sizes = sorted({each.decoder.num_tags for each in members})
    if sizes != [len(space.tags)]:
        raise FednerError(
            f"taggers over {sizes} tags cannot be averaged over {len(space.tags)}",
            "Train all of them with the same types and the same tag scheme.",
        )
    reads = {
        (each.embeddings.words.origin.digest, each.embeddings.context_dimension) for each in members
    }
    if len(reads) > 1:
        raise FednerError(
            "taggers that read other word vectors or other context features cannot be averaged",
            "Train all of them with the same embeddings.",
        )
