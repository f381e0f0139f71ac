"""Forward-backward of the stacked CRF on CUDA: one program for a sentence, in log space.

Imported only where Triton is installed. Shapes as in `stacked_crf`.
"""

import importlib
from typing import TYPE_CHECKING, Any

triton: Any = importlib.import_module("triton")
tl: Any = importlib.import_module("triton.language")
if TYPE_CHECKING:
    constexpr = Any
else:
    constexpr = tl.constexpr


def _posterior_program(
    emissions,
    start,
    end,
    transitions,
    lengths,
    log_sums,
    marginals,
    steps,
    before,
    rows_per_model,
    num_tokens,
    num_tags,
    PADDED: constexpr,
):
    """Forward, then backward over what forward left in `before`, for one sentence."""
    row = tl.program_id(0).to(tl.int64)
    model = row // rows_per_model
    tags = tl.arange(0, PADDED)
    is_tag = tags < num_tags
    is_pair = is_tag[:, None] & is_tag[None, :]
    pairs = tags[:, None] * num_tags + tags[None, :]
    nothing = -1e30
    length = tl.load(lengths + row).to(tl.int32)
    step = tl.load(transitions + model * num_tags * num_tags + pairs, mask=is_pair, other=nothing)
    last = tl.load(end + model * num_tags + tags, mask=is_tag, other=nothing)
    here = row * num_tokens * num_tags + tags
    alpha = tl.load(start + model * num_tags + tags, mask=is_tag, other=nothing)
    alpha += tl.load(emissions + here, mask=is_tag, other=0.0)
    tl.store(before + here, alpha, mask=is_tag)
    for _ in range(1, length):
        here += num_tags
        emission = tl.load(emissions + here, mask=is_tag, other=0.0)
        joint = alpha[:, None] + step
        top = tl.max(joint, 0)
        alpha = tl.log(tl.sum(tl.exp(joint - top[None, :]), 0)) + top + emission
        alpha = tl.where(is_tag, alpha, nothing)
        tl.store(before + here, alpha, mask=is_tag)
    final = alpha + last
    peak = tl.max(final, 0)
    total = tl.log(tl.sum(tl.exp(final - peak), 0)) + peak
    tl.store(log_sums + row, total)
    tl.debug_barrier()  # what one thread stored in `before` another one loads
    beta = last
    count = tl.zeros((PADDED, PADDED), dtype=tl.float32)
    for _ in range(1, length):
        alpha = tl.load(before + here, mask=is_tag, other=nothing)
        tl.store(marginals + here, tl.exp(alpha + beta - total), mask=is_tag)
        emission = tl.load(emissions + here, mask=is_tag, other=0.0)
        here -= num_tags
        origin = tl.load(before + here, mask=is_tag, other=nothing)
        ahead = step + (emission + beta)[None, :]
        count += tl.exp(origin[:, None] + ahead - total)
        top = tl.max(ahead, 1)
        beta = tl.log(tl.sum(tl.exp(ahead - top[:, None]), 1)) + top
        beta = tl.where(is_tag, beta, nothing)
    alpha = tl.load(before + here, mask=is_tag, other=nothing)
    tl.store(marginals + here, tl.exp(alpha + beta - total), mask=is_tag)
    tl.store(steps + row * num_tags * num_tags + pairs, count, mask=is_pair)


posterior_kernel: Any = triton.jit(do_not_specialize=["num_tokens", "rows_per_model"])(
    _posterior_program
)
