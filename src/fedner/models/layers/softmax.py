"""A softmax for each token: the decoder without a chain, with the interface of the CRF.

It has no parameters and knows no forbidden steps: every tag is chosen for itself.

Shapes: B sentences, L tokens, K tags.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fedner.models.crf_chain import token_mask
from fedner.models.layers.forms import DecoderForms


class SoftmaxDecoder(nn.Module):
    """Scores of single tags to probabilities, token by token."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.num_tags = num_tags

    def log_likelihood(self, emissions_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B,) the log-probability of the gold tags: the sum over the tokens."""
        mask_BL = _mask(emissions_BLK, lengths_B)
        logs_BLK = emissions_BLK.float().log_softmax(-1)
        gold_BL = tags_BL.masked_fill(~mask_BL, 0)
        return (logs_BLK.gather(-1, gold_BL.unsqueeze(-1)).squeeze(-1) * mask_BL).sum(-1)

    def partial_log_likelihood(
        self, emissions_BLK: Tensor, allowed_BLK: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """Return (B,) the log-probability that every tag lies within `allowed`."""
        mask_BL = _mask(emissions_BLK, lengths_B)
        logs_BLK = emissions_BLK.float().log_softmax(-1)
        # Behind a sentence's end everything is allowed: the sum there is log 1, never log 0.
        open_BLK = allowed_BLK | ~mask_BL.unsqueeze(-1)
        return (logs_BLK.masked_fill(~open_BLK, -torch.inf).logsumexp(-1) * mask_BL).sum(-1)

    @torch.no_grad()
    def marginals(self, emissions_BLK: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B, L, K) the probability of each tag at each token; 0 behind a sentence's end."""
        mask_BL = _mask(emissions_BLK, lengths_B)
        return emissions_BLK.float().softmax(-1) * mask_BL.unsqueeze(-1)

    @torch.no_grad()
    def viterbi(self, emissions_BLK: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, L) the best tags, 0 behind a sentence's end, and (B,) their summed score."""
        mask_BL = _mask(emissions_BLK, lengths_B)
        best_BL, tags_BL = emissions_BLK.float().max(-1)
        return tags_BL * mask_BL, (best_BL * mask_BL).sum(-1)


def _mask(emissions_BLK: Tensor, lengths_B: Tensor) -> Tensor:
    return token_mask(lengths_B.to(emissions_BLK.device), emissions_BLK.shape[1])


def _sentence_gradients(
    decoder: SoftmaxDecoder, emissions_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the gradients of the negative log-likelihood; nothing is trained here."""
    with torch.enable_grad():
        leaf_BLK = emissions_BLK.detach().requires_grad_()
        loss = -decoder.log_likelihood(leaf_BLK, tags_BL, lengths_B).sum()
    return torch.autograd.grad(loss, leaf_BLK)[0], {}


def _chain_scores(decoder: SoftmaxDecoder) -> Mapping[str, Any]:
    """Return a chain whose steps all score zero."""
    zeros = [0.0] * decoder.num_tags
    return {"start": zeros, "end": zeros, "transitions": [zeros] * decoder.num_tags}


FORMS = DecoderForms("softmax", _sentence_gradients, _chain_scores)
