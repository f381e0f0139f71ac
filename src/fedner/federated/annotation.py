"""Platforms that annotate different types under one tag set: what is not marked is not "O".

Where tags are shared ("everything"), all platforms have the union of the label sets. A token that a
platform left unmarked may still belong to a type that it does not annotate. Two readings: count
such types as outside (`learner.gold_losses`), or leave them open and marginalise them out of the
CRF, as here: an "O" may be "O" or any tag of a type that nobody looked for; marked mentions stand.

Shapes: B sentences, L tokens, K tags.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from fedner.corpus.schemes import OUTSIDE, Scheme, split_tag
from fedner.errors import FednerError
from fedner.federated.learner import Losses
from fedner.models.features import Batch, TagSpace
from fedner.models.tagger import Tagger


def union_space(label_sets: Iterable[Sequence[str]], scheme: Scheme) -> TagSpace:
    """Return the tags of all platforms together."""
    return TagSpace.of(sorted({label for labels in label_sets for label in labels}), scheme)


def allowed_tags(space: TagSpace, annotated: Collection[str]) -> Tensor:
    """Return (K, K) which tags a token may have (columns) where its gold tag is the row's.

    Args:
        space: The tags of all platforms together.
        annotated: The types that the platform annotates.

    Raises:
        FednerError: If the platform annotates a type that is not in the space.
    """
    foreign = sorted(set(annotated) - set(space.labels))
    if foreign:
        raise FednerError(
            f"annotated types {foreign} are not among {list(space.labels)}",
            "Make the tag space from the labels of all platforms.",
        )
    allowed_KK = torch.eye(len(space.tags), dtype=torch.bool)
    outside = space.tags.index(OUTSIDE)
    for position, tag in enumerate(space.tags):
        if tag != OUTSIDE and split_tag(tag)[1] not in annotated:
            allowed_KK[outside, position] = True
    return allowed_KK


def marginalised_losses(space: TagSpace, annotated: Collection[str]) -> Losses:
    """Return the losses of a platform that annotates some types of the space only."""
    return partial(open_losses, allowed_tags(space, annotated))


def open_losses(allowed_KK: Tensor, tagger: Tagger, batch: Batch) -> Tensor:
    """Return (B,) the negative log-probability of all tag sequences that the gold tags allow."""
    emissions_BLK = tagger(batch)
    allowed_BLK = allowed_KK.to(emissions_BLK.device)[batch.gold_tags]
    return -tagger.decoder.partial_log_likelihood(emissions_BLK, allowed_BLK, batch.lengths_B)
