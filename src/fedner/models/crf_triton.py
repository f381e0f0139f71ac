"""The CRF on CUDA where Triton is installed: one kernel for a batch, one program for a sentence.

A sentence's recursion runs inside its program, K x K numbers at a time, in log space and float64:
exact for any range of scores, and without a word to the host. `crf_scan` does the same in plain
torch, with some hundred small kernels instead of one.

Shapes: B sentences, L tokens, K tags; inside a kernel K is padded to a power of two, and scores of
the padding are minus infinity.
"""

import importlib
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fedner.models.crf_chain import Chain, Posterior

# Imported by name: Triton comes with torch's CUDA builds alone, and carries no types.
triton: Any = importlib.import_module("triton")
tl: Any = importlib.import_module("triton.language")
if TYPE_CHECKING:
    constexpr = Any
else:
    constexpr = tl.constexpr  # what Triton knows compile-time arguments by


def posterior(chain: Chain) -> Posterior:
    """Return log-partition, marginals and expected steps."""
    emissions_BLK = chain.emissions_BLK.contiguous()
    num_sentences, _, num_tags = emissions_BLK.shape
    result = Posterior(
        emissions_BLK.new_zeros(num_sentences, dtype=torch.float64),
        emissions_BLK.new_zeros(emissions_BLK.shape, dtype=torch.float64),
        emissions_BLK.new_zeros(num_sentences, num_tags, num_tags, dtype=torch.float64),
    )
    if emissions_BLK.numel():
        before_BLK = torch.empty_like(result.marginals_BLK)
        _launch(_posterior_kernel, chain, emissions_BLK, (*result, before_BLK))
    return result


def best_paths(chain: Chain) -> tuple[Tensor, Tensor]:
    """Return (B, L) the best tags, 0 behind a sentence's end, and (B,) their scores in float64."""
    emissions_BLK = chain.emissions_BLK.contiguous()
    num_sentences, num_tokens, _ = emissions_BLK.shape
    tags_BL = emissions_BLK.new_zeros(num_sentences, num_tokens, dtype=torch.int64)
    score_B = emissions_BLK.new_zeros(num_sentences, dtype=torch.float64)
    if emissions_BLK.numel():
        origins_BLK = torch.empty_like(emissions_BLK, dtype=torch.int32)
        _launch(_best_kernel, chain, emissions_BLK, (tags_BL, score_B, origins_BLK))
    return tags_BL, score_B


def _launch(kernel: Any, chain: Chain, emissions_BLK: Tensor, into: tuple[Tensor, ...]) -> None:
    """Run one program for each sentence, on the device of the emissions."""
    num_sentences, num_tokens, num_tags = emissions_BLK.shape
    padded = max(4, triton.next_power_of_2(num_tags))
    scores = [part.contiguous() for part in chain[1:]]
    with torch.cuda.device_of(emissions_BLK):
        kernel[(num_sentences,)](
            emissions_BLK,
            *scores,
            *into,
            num_tokens,
            num_tags,
            padded,
            num_warps=min(8, max(1, padded * padded // 512)),
        )


def _posterior_program(
    emissions,
    start,
    end,
    transitions,
    lengths,
    log_partition,
    marginals,
    steps,
    before,
    num_tokens,
    num_tags,
    PADDED: constexpr,
):
    """Forward, then backward over what forward left in `before`, for one sentence."""
    row = tl.program_id(0).to(tl.int64)
    tags = tl.arange(0, PADDED)
    is_tag = tags < num_tags
    is_pair = is_tag[:, None] & is_tag[None, :]
    pairs = tags[:, None] * num_tags + tags[None, :]
    nothing = float("-inf")
    length = tl.load(lengths + row).to(tl.int32)
    if length > 0:
        step = tl.load(transitions + pairs, mask=is_pair, other=nothing).to(tl.float64)
        last = tl.load(end + tags, mask=is_tag, other=nothing).to(tl.float64)
        here = row * num_tokens * num_tags + tags
        alpha = tl.load(start + tags, mask=is_tag, other=nothing).to(tl.float64)
        alpha += tl.load(emissions + here, mask=is_tag, other=nothing).to(tl.float64)
        tl.store(before + here, alpha, mask=is_tag)
        for _ in range(1, length):
            here += num_tags
            emission = tl.load(emissions + here, mask=is_tag, other=nothing).to(tl.float64)
            joint = alpha[:, None] + step
            top = tl.max(joint, 0)
            top = tl.where(top == nothing, 0.0, top)
            alpha = tl.log(tl.sum(tl.exp(joint - top[None, :]), 0)) + top + emission
            tl.store(before + here, alpha, mask=is_tag)
        final = alpha + last
        peak = tl.max(final, 0)
        peak = tl.where(peak == nothing, 0.0, peak)
        total = tl.log(tl.sum(tl.exp(final - peak), 0)) + peak
        tl.store(log_partition + row, total)
        total = tl.where(total == nothing, 0.0, total)  # no path: every term below is exp(-inf)
        tl.debug_barrier()  # what one thread stored in `before` another one loads
        beta = last
        count = tl.zeros((PADDED, PADDED), dtype=tl.float64)
        for _ in range(1, length):
            alpha = tl.load(before + here, mask=is_tag, other=nothing)
            tl.store(marginals + here, tl.exp(alpha + beta - total), mask=is_tag)
            emission = tl.load(emissions + here, mask=is_tag, other=nothing).to(tl.float64)
            here -= num_tags
            origin = tl.load(before + here, mask=is_tag, other=nothing)
            ahead = step + (emission + beta)[None, :]
            count += tl.exp(origin[:, None] + ahead - total)
            top = tl.max(ahead, 1)
            top = tl.where(top == nothing, 0.0, top)
            beta = tl.log(tl.sum(tl.exp(ahead - top[:, None]), 1)) + top
        alpha = tl.load(before + here, mask=is_tag, other=nothing)
        tl.store(marginals + here, tl.exp(alpha + beta - total), mask=is_tag)
        tl.store(steps + row * num_tags * num_tags + pairs, count, mask=is_pair)


def _best_program(
    emissions,
    start,
    end,
    transitions,
    lengths,
    paths,
    scores,
    origins,
    num_tokens,
    num_tags,
    PADDED: constexpr,
):
    """Best prefixes with where each came from, then the way back, for one sentence."""
    row = tl.program_id(0).to(tl.int64)
    tags = tl.arange(0, PADDED)
    is_tag = tags < num_tags
    is_pair = is_tag[:, None] & is_tag[None, :]
    pairs = tags[:, None] * num_tags + tags[None, :]
    nothing = float("-inf")
    length = tl.load(lengths + row).to(tl.int32)
    if length > 0:
        step = tl.load(transitions + pairs, mask=is_pair, other=nothing).to(tl.float64)
        first = row * num_tokens * num_tags
        here = first + tags
        best = tl.load(start + tags, mask=is_tag, other=nothing).to(tl.float64)
        best += tl.load(emissions + here, mask=is_tag, other=nothing).to(tl.float64)
        for _ in range(1, length):
            here += num_tags
            emission = tl.load(emissions + here, mask=is_tag, other=nothing).to(tl.float64)
            joint = best[:, None] + step
            tl.store(origins + here, tl.argmax(joint, 0).to(tl.int32), mask=is_tag)
            best = tl.max(joint, 0) + emission
        best += tl.load(end + tags, mask=is_tag, other=nothing).to(tl.float64)
        tl.store(scores + row, tl.max(best, 0))
        tl.debug_barrier()  # what one thread stored in `origins` another one loads
        tag = tl.argmax(best, 0).to(tl.int32)
        place = row * num_tokens + length - 1
        tl.store(paths + place, tag.to(tl.int64))
        for back in range(1, length):
            tag = tl.load(origins + first + (length - back) * num_tags + tag)
            tl.store(paths + place - back, tag.to(tl.int64))


# Lengths vary from batch to batch: compiling anew for multiples of 16 would not pay.
_compiled = triton.jit(do_not_specialize=["num_tokens"])
_posterior_kernel: Any = _compiled(_posterior_program)
_best_kernel: Any = _compiled(_best_program)
