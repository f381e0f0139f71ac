"""The CRF on an accelerator: a parallel scan over transfer matrices instead of a loop over tokens.

A token's transfer matrix holds transition times emission; the prefixes of a sentence are running
products of these matrices, and products are associative. Hillis and Steele (1986) get all prefixes
of a block of 32 tokens with five batched products; blocks follow each other. The backward pass is
the forward pass over the reversed sentence with the transposed transitions: both run in one batch.
Best paths take (max, +) in place of (+, x), and are traced back on the CPU.

As in `crf_numpy`, sums run on rescaled probabilities in float64, every number is checked to be zero
or large enough for the next product, and sentences that fail are reckoned again in log space. Plain
torch throughout: the tests run it on the CPU.

Shapes: B sentences, L tokens, C tokens of a block, K tags; D = 2 directions, N = D * B.
"""

import torch
from torch import Tensor

from fedner.models import crf_numpy
from fedner.models.crf_chain import Chain, Posterior, in_float64, token_mask, with_exact_rows

_TINY = 1e-100  # two of them and a potential, multiplied, are no underflow
_WIDE = 200.0  # the widest range of scores whose exponentials serve as potentials
_LEAST_DIVISOR = 1e-300  # keeps 0 / 0 at 0
_BLOCK = 32  # tokens scanned at a time
_BYTES = 2**28  # how large the intermediate results of one block may become


def posterior(chain: Chain, block: int = _BLOCK) -> Posterior:
    """Return log-partition, marginals and expected steps; the host looks once, for exactness."""
    num_sentences, num_tokens, num_tags = chain.emissions_BLK.shape
    if num_sentences == 0 or num_tokens == 0:
        steps_BKK = chain.emissions_BLK.new_zeros(num_sentences, num_tags, num_tags).double()
        return Posterior(steps_BKK.sum((1, 2)), chain.emissions_BLK.double(), steps_BKK)
    potentials, peaks_B, is_small_B = _potentials(in_float64(chain))
    emissions_BLK, start_K, end_K, transitions_KK, lengths_B = potentials
    positions_L = torch.arange(num_tokens, device=lengths_B.device)
    mask_BL = positions_L < lengths_B[:, None]
    mirrored_BL = (lengths_B[:, None] - 1 - positions_L) % num_tokens
    mirrored_BLK = mirrored_BL[..., None].expand_as(emissions_BLK)
    both_DBLK = torch.stack((emissions_BLK, emissions_BLK.gather(1, mirrored_BLK)))
    first_DBK = both_DBLK[:, :, 0] * torch.stack((start_K, end_K))[:, None]
    steps_DKK = torch.stack((transitions_KK, transitions_KK.T))
    block = _fitting(block, 12 * num_sentences * num_tags**2 * 8)
    states_DBLK, least_B = _prefixes(both_DBLK, first_DBK, steps_DKK, mask_BL, block)
    ahead_BLK = states_DBLK[1].gather(1, mirrored_BLK) * mask_BL[..., None]
    result = _combine(potentials, mask_BL, peaks_B, states_DBLK[0], ahead_BLK)
    inexact_B = is_small_B | (least_B < _TINY)
    if bool(inexact_B.any()):
        return with_exact_rows(chain, result, inexact_B.nonzero().squeeze(1))
    return result


def _potentials(chain: Chain) -> tuple[Chain, Tensor, Tensor]:
    """Return shifted exponentials, the shifts along each sentence, and who has too small ones."""
    mask_BL = token_mask(chain.lengths_B, chain.emissions_BLK.shape[1])
    emissions_BLK = chain.emissions_BLK.masked_fill(~mask_BL[..., None], 0.0)
    peaks_BL = _finite(emissions_BLK.amax(2))
    emissions_BLK = emissions_BLK - peaks_BL[..., None]
    is_small_B = _is_small(emissions_BLK).any(2).any(1)
    scores_PK = torch.cat((chain.start_K[None], chain.end_K[None], chain.transitions_KK))
    peaks_P1 = _finite(scores_PK.amax(1, keepdim=True))
    peaks_P1[2:] = peaks_P1[2:].amax()
    scores_PK = scores_PK - peaks_P1
    is_small_B |= _is_small(scores_PK).any()
    ends, step = peaks_P1[:2].sum(), peaks_P1[2]
    peaks_B = peaks_BL.sum(1) + ends + step * (chain.lengths_B - 1)
    start_K, end_K, *_ = scores_PK.exp_()
    potentials = Chain(emissions_BLK.exp_(), start_K, end_K, scores_PK[2:], chain.lengths_B)
    return potentials, peaks_B, is_small_B


def _finite(peaks: Tensor) -> Tensor:
    return peaks.masked_fill(peaks.isneginf(), 0.0)


def _is_small(shifted: Tensor) -> Tensor:
    return (shifted < -_WIDE) & (shifted > -torch.inf)


def _fitting(block: int, bytes_a_token: int) -> int:
    """Return `block`, or as many tokens as the memory set aside for a block holds."""
    return max(1, min(block, _BYTES // max(1, bytes_a_token)))


def _prefixes(
    both_DBLK: Tensor, first_DBK: Tensor, steps_DKK: Tensor, mask_BL: Tensor, block: int
) -> tuple[Tensor, Tensor]:
    """Return the prefix sums of both directions, each adding up to 1, and the least number seen."""
    num_directions, num_sentences, num_tokens, num_tags = both_DBLK.shape
    identity_KK = torch.eye(num_tags, dtype=both_DBLK.dtype, device=both_DBLK.device)
    carry_NK = _normalised(first_DBK.flatten(0, 1))
    blocks_CNK = [carry_NK[None]]
    leasts_N = [_least(blocks_CNK[0], (0, 2))]
    for begin in range(1, num_tokens, block):
        end = min(begin + block, num_tokens)
        here_CDBK = both_DBLK[:, :, begin:end].permute(2, 0, 1, 3)
        matrices_CDBKK = steps_DKK[:, None] * here_CDBK[..., None, :]
        mask_CDBKK = mask_BL[:, begin:end].T[:, None, :, None, None]
        matrices_CDBKK = torch.where(mask_CDBKK, matrices_CDBKK, identity_KK)
        products_CNKK, least_N = _running_products(matrices_CDBKK.flatten(1, 2))
        states_CNK = _normalised((carry_NK[:, None] @ products_CNKK).squeeze(2))
        blocks_CNK.append(states_CNK)
        leasts_N += [least_N, _least(states_CNK, (0, 2))]
        carry_NK = states_CNK[-1]
    states_LDBK = torch.cat(blocks_CNK).view(-1, num_directions, num_sentences, num_tags)
    least_DB = torch.stack(leasts_N).amin(0).view(num_directions, num_sentences)
    return states_LDBK.permute(1, 2, 0, 3), least_DB.amin(0)


def _running_products(matrices_CNKK: Tensor) -> tuple[Tensor, Tensor]:
    """Return M0, M0 M1, M0 M1 M2, ... up to scale, and the least number on the way."""
    num_matrices = len(matrices_CNKK)
    num_levels = (num_matrices - 1).bit_length()
    levels = matrices_CNKK.new_empty(num_levels + 1, *matrices_CNKK.shape)
    levels[0] = matrices_CNKK
    for level in range(num_levels):
        reach, old_CNKK, new_CNKK = 2**level, levels[level], levels[level + 1]
        new_CNKK[:reach] = old_CNKK[:reach]
        fresh_CNKK = new_CNKK[reach:]
        left_MKK, right_MKK = old_CNKK[:-reach].flatten(0, 1), old_CNKK[reach:].flatten(0, 1)
        torch.bmm(left_MKK, right_MKK, out=fresh_CNKK.flatten(0, 1))
        fresh_CNKK /= fresh_CNKK.amax((2, 3), keepdim=True).clamp_min_(_LEAST_DIVISOR)
    return levels[-1], _least(levels, (0, 1, 3, 4))


def _normalised(states: Tensor) -> Tensor:
    return states / states.sum(-1, keepdim=True).clamp_min_(_LEAST_DIVISOR)


def _least(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the least number over `dims` that is not zero."""
    return values.masked_fill(values == 0.0, 1.0).amin(dims)


def _combine(
    potentials: Chain, mask_BL: Tensor, peaks_B: Tensor, before_BLK: Tensor, ahead_BLK: Tensor
) -> Posterior:
    """Return the posterior from normalised prefixes and suffixes.

    Since prefixes add up to 1, what the next token's sum falls short of 1 is its factor of the
    partition: no scale has to be carried through the scan.
    """
    emissions_BLK, start_K, end_K, transitions_KK, lengths_B = potentials
    reached_BLK = before_BLK[:, :-1] @ transitions_KK
    factors_BL = torch.cat((start_K.expand_as(before_BLK[:, :1]), reached_BLK), 1).mul_(
        emissions_BLK
    )
    logs_BL = factors_BL.sum(2).log_().masked_fill_(~mask_BL, 0.0)
    last_B11 = (lengths_B - 1).clamp_min(0)[:, None, None]
    last_BK = before_BLK.gather(1, last_B11.expand(-1, 1, len(end_K))).squeeze(1)
    log_partition_B = logs_BL.sum(1) + (last_BK @ end_K).log() + peaks_B
    after_BLK = torch.cat(
        (ahead_BLK[:, 1:] @ transitions_KK.T, end_K.expand_as(before_BLK[:, :1])), 1
    )
    is_last_BL1 = torch.arange(mask_BL.shape[1], device=lengths_B.device)[:, None] == last_B11
    joint_BLK = before_BLK * torch.where(is_last_BL1, end_K, after_BLK) * mask_BL[..., None]
    sums_BL1 = (reached_BLK * ahead_BLK[:, 1:]).sum(2, keepdim=True).clamp_min_(_LEAST_DIVISOR)
    steps_BKK = before_BLK[:, :-1].transpose(1, 2) @ (ahead_BLK[:, 1:] / sums_BL1)
    return Posterior(
        log_partition_B.masked_fill(lengths_B == 0, 0.0),
        _normalised(joint_BLK),
        steps_BKK * transitions_KK,
    )


def best_paths(chain: Chain, block: int = _BLOCK) -> tuple[Tensor, Tensor]:
    """Return (B, L) the best tags, 0 behind a sentence's end, and (B,) their scores in float64.

    Prefixes are scanned where the emissions are; their scores go to the CPU in one piece.
    """
    device = chain.emissions_BLK.device
    wide = in_float64(chain)
    best_BLK = _best_prefixes(wide, block) if chain.emissions_BLK.numel() else wide.emissions_BLK
    _, start_K, end_K, transitions_KK, lengths_B = wide
    tags_BL, score_B = crf_numpy.trace_back(
        Chain(best_BLK.cpu(), start_K, end_K.cpu(), transitions_KK.cpu(), lengths_B.cpu())
    )
    return tags_BL.to(device), score_B.to(device)


def _best_prefixes(chain: Chain, block: int) -> Tensor:
    """Return (B, L, K) the score of the best prefix that ends in each tag."""
    emissions_BLK, start_K, _, transitions_KK, lengths_B = chain
    num_sentences, num_tokens, num_tags = emissions_BLK.shape
    mask_BL = token_mask(lengths_B, num_tokens)
    identity_KK = torch.full_like(transitions_KK, -torch.inf).fill_diagonal_(0.0)
    block = _fitting(block, num_sentences * num_tags**3 * 8)
    carry_BK = start_K + emissions_BLK[:, 0]
    blocks_CBK = [carry_BK[None]]
    for begin in range(1, num_tokens, block):
        here_CB1K = emissions_BLK[:, begin : begin + block].transpose(0, 1)[:, :, None]
        mask_CB11 = mask_BL[:, begin : begin + block].T[:, :, None, None]
        running_CBKK = torch.where(mask_CB11, transitions_KK + here_CB1K, identity_KK)
        reach = 1
        while reach < len(running_CBKK):
            left_CBKK, right_CBKK = running_CBKK[:-reach], running_CBKK[reach:]
            fresh_CBKK = (left_CBKK[..., None] + right_CBKK[..., None, :, :]).amax(-2)
            running_CBKK = torch.cat((running_CBKK[:reach], fresh_CBKK))
            reach *= 2
        blocks_CBK.append((carry_BK[..., None] + running_CBKK).amax(-2))
        carry_BK = blocks_CBK[-1][-1]
    return torch.cat(blocks_CBK).transpose(0, 1)
