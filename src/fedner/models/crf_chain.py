"""What a linear-chain CRF is reckoned from and to, and the exact log-space forward-backward.

The fast kernels (`crf_numpy`, `crf_scan`) work with probabilities, notice where those would leave
the range of float64, and hand exactly these sentences to `log_space_posterior`, which is slow and
never underflows.

Shapes: B sentences, L tokens, K tags.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Chain(NamedTuple):
    """The potentials of a batch; whatever is forbidden is minus infinity.

    Attributes:
        emissions_BLK: The score of every tag at every token; what stands behind a sentence's end
            is never looked at.
        start_K: The score of beginning with each tag.
        end_K: The score of ending with each tag.
        transitions_KK: The score of stepping from one tag (row) to the next (column).
        lengths_B: The number of tokens of each sentence, as 64-bit integers on the device of the
            emissions.
    """

    emissions_BLK: Tensor
    start_K: Tensor
    end_K: Tensor
    transitions_KK: Tensor
    lengths_B: Tensor


class Posterior(NamedTuple):
    """What forward-backward knows about a batch, in float64.

    Attributes:
        log_partition_B: The log of the sum over all paths; 0 for an empty sentence, minus infinity
            where no path is allowed.
        marginals_BLK: The probability of each tag at each token; 0 behind a sentence's end and
            where no path is allowed.
        steps_BKK: How often each sentence is expected to step from one tag to another.
    """

    log_partition_B: Tensor
    marginals_BLK: Tensor
    steps_BKK: Tensor


def token_mask(lengths_B: Tensor, num_tokens: int) -> Tensor:
    """Return (B, L): whether a token lies within its sentence."""
    return torch.arange(num_tokens, device=lengths_B.device) < lengths_B[:, None]


def select(chain: Chain, rows: Tensor) -> Chain:
    """Return the chain of the sentences that `rows` names."""
    return chain._replace(emissions_BLK=chain.emissions_BLK[rows], lengths_B=chain.lengths_B[rows])


def in_float64(chain: Chain) -> Chain:
    """Return `chain` with every potential in float64."""
    emissions_BLK, start_K, end_K, transitions_KK, lengths_B = chain
    return Chain(
        emissions_BLK.double(), start_K.double(), end_K.double(), transitions_KK.double(), lengths_B
    )


def path_score(chain: Chain, tags_BL: Tensor, pairs_BL: Tensor, mask_BL: Tensor) -> Tensor:
    """Return (B,) the score of a given path, in float64.

    Args:
        chain: The potentials.
        tags_BL: The path; tags outside the mask must be valid, and do not count.
        pairs_BL: Each step of the path as from * K + to: one fewer than tags.
        mask_BL: Which tokens are within their sentence.
    """
    emissions_BLK, start_K, end_K, transitions_KK, lengths_B = chain
    if tags_BL.shape[1] == 0:
        return emissions_BLK.new_zeros(len(tags_BL), dtype=torch.float64)
    score_BL = emissions_BLK.gather(2, tags_BL[..., None]).squeeze(2).double()
    score_BL[:, 1:] += transitions_KK.take(pairs_BL)
    last_B = tags_BL.gather(1, (lengths_B - 1).clamp_min(0)[:, None]).squeeze(1)
    score_BL[:, 0] += start_K.take(tags_BL[:, 0]) + end_K.take(last_B)
    return score_BL.masked_fill_(~mask_BL, 0.0).sum(1)


def log_space_posterior(chain: Chain) -> Posterior:
    """Return the posterior by a loop over tokens in log space: exact for any range of scores."""
    emissions_BLK, start_K, end_K, transitions_KK, lengths_B = in_float64(chain)
    num_sentences, num_tokens, num_tags = emissions_BLK.shape
    steps_BKK = emissions_BLK.new_zeros(num_sentences, num_tags, num_tags)
    if num_tokens == 0:
        return Posterior(emissions_BLK.new_zeros(num_sentences), emissions_BLK.clone(), steps_BKK)
    mask_BL = token_mask(lengths_B, num_tokens)
    emissions_BLK = emissions_BLK.masked_fill(~mask_BL[..., None], 0.0)
    before_BLK = torch.empty_like(emissions_BLK)
    before_BLK[:, 0] = start_K + emissions_BLK[:, 0]
    for t in range(1, num_tokens):
        reached_BK = torch.logsumexp(before_BLK[:, t - 1, :, None] + transitions_KK, 1)
        inside_B1 = mask_BL[:, t, None]
        stepped_BK = reached_BK + emissions_BLK[:, t]
        before_BLK[:, t] = torch.where(inside_B1, stepped_BK, before_BLK[:, t - 1])
    log_partition_B = torch.logsumexp(before_BLK[:, -1] + end_K, 1)
    # Without an allowed path every term below is minus infinity, and must stay so: not NaN.
    divisor_B1 = log_partition_B.masked_fill(log_partition_B.isneginf(), 0.0)[:, None]
    after_BLK = end_K.expand_as(emissions_BLK).clone()
    for t in range(num_tokens - 2, -1, -1):
        ahead_BK = emissions_BLK[:, t + 1] + after_BLK[:, t + 1]
        inside_B1 = mask_BL[:, t + 1, None]
        stepped_BK = torch.logsumexp(transitions_KK + ahead_BK[:, None], 2)
        after_BLK[:, t] = torch.where(inside_B1, stepped_BK, end_K)
        joint_BKK = before_BLK[:, t, :, None] + transitions_KK + ahead_BK[:, None]
        joint_BKK = (joint_BKK - divisor_B1[..., None]).masked_fill_(
            ~inside_B1[..., None], -torch.inf
        )
        steps_BKK += joint_BKK.exp_()
    joint_BLK = before_BLK + after_BLK - divisor_B1[..., None]
    marginals_BLK = joint_BLK.masked_fill_(~mask_BL[..., None], -torch.inf).exp_()
    return Posterior(log_partition_B.masked_fill(lengths_B == 0, 0.0), marginals_BLK, steps_BKK)


def with_exact_rows(chain: Chain, posterior: Posterior, rows: Tensor) -> Posterior:
    """Return `posterior` with the sentences that `rows` names reckoned again in log space."""
    exact = log_space_posterior(select(chain, rows))
    return Posterior(
        *(fast.index_copy(0, rows, slow) for fast, slow in zip(posterior, exact, strict=True))
    )
