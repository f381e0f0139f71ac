"""How sure a tagger is of a mention: the exact probability of that mention under the decoder.

The confidence of a mention is the probability, summed over everything else that the sentence may
hold, that its tokens have these tags and that no neighbour belongs to it. For a CRF that is more
than the product of its tokens' marginals, which takes them for independent, and no guess: it is the
sum over all paths through the mention's tags, divided by the sum over all paths.

Shapes: B sentences, L tokens, K tags, R mentions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedner.corpus.sentence import Entity
from fedner.inference.reading import joins
from fedner.models.features import TagSpace
from fedner.models.tagger import Decoder

# Mentions are gone through this many cells (mentions * tokens * tags) at a time.
CELLS_AT_A_TIME = 1 << 20


def joining(space: TagSpace) -> Tensor:
    """Return (K, K): whether a tag goes on with the mention of the tag before it."""
    return torch.tensor(joins(space.tags, space.scheme))


@torch.no_grad()
def mention_confidences(
    decoder: Decoder,
    emissions_BLK: Tensor,
    tags_BL: Tensor,
    lengths_B: Tensor,
    mentions: Sequence[tuple[int, Entity]],
    joins_KK: Tensor,
) -> list[float]:
    """Return the probability of each mention.

    Args:
        decoder: The tagger's decoder.
        emissions_BLK: The scores of all tags of a batch.
        tags_BL: The tags in which the mentions were read.
        lengths_B: The lengths of the sentences, on the CPU.
        mentions: For each mention its row in the batch and where it is.
        joins_KK: What `joining` says about the tags, on the device of the emissions.
    """
    confidences: list[float] = []
    step = max(1, CELLS_AT_A_TIME // max(1, emissions_BLK[0].numel()))
    for start in range(0, len(mentions), step):
        part = mentions[start : start + step]
        rows_R = torch.tensor([row for row, _ in part])
        lengths_R = lengths_B[rows_R]
        longest = int(lengths_R.max())
        rows = rows_R.to(emissions_BLK.device)
        allowed_RLK = _allowed(tags_BL[rows, :longest], part, joins_KK, lengths_R)
        logs_R = decoder.partial_log_likelihood(
            emissions_BLK[rows, :longest], allowed_RLK, lengths_R
        )
        confidences += logs_R.exp().clamp(max=1.0).tolist()
    return confidences


def _allowed(
    tags_RL: Tensor, mentions: Sequence[tuple[int, Entity]], joins_KK: Tensor, lengths_R: Tensor
) -> Tensor:
    """Return (R, L, K): the tags of the mention at its tokens, what does not join it beside it."""
    device, num_tags = tags_RL.device, len(joins_KK)
    num_tokens = tags_RL.shape[1]
    first_R = torch.tensor([entity.start for _, entity in mentions], device=device)
    last_R = torch.tensor([entity.end - 1 for _, entity in mentions], device=device)
    at_L = torch.arange(num_tokens, device=device)
    inside_RL = (at_L >= first_R[:, None]) & (at_L <= last_R[:, None])
    is_own_RLK = torch.nn.functional.one_hot(tags_RL, num_tags).bool()
    allowed_RLK = is_own_RLK | ~inside_RL.unsqueeze(-1)
    row_R = torch.arange(len(mentions), device=device)
    before_R, after_R = (first_R - 1).clamp(min=0), (last_R + 1).clamp(max=num_tokens - 1)
    joined_by_RK = joins_KK.t()[tags_RL[row_R, first_R]] & (first_R > 0)[:, None]
    joins_RK = joins_KK[tags_RL[row_R, last_R]] & (last_R + 1 < lengths_R.to(device))[:, None]
    allowed_RLK[row_R, before_R] &= ~joined_by_RK
    allowed_RLK[row_R, after_R] &= ~joins_RK
    return allowed_RLK
