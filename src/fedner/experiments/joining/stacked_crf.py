"""The CRF of many taggers at once: each model has transitions of its own, a batch rows of each.

On CUDA one Triton program for a sentence, as in `models.crf_triton`; elsewhere a plain loop. Single
precision and log space: what training side by side needs.

Shapes: M models, B sentences of each, N = M B rows, L tokens, K tags.
"""

import importlib
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

FORBIDDEN = -1e9  # finite: differences of it stay numbers


class Potentials(NamedTuple):
    """The scores of all models.

    Attributes:
        emissions_NLK: Of every tag at every token; FORBIDDEN for tags that a model does not have.
        start_MK: Of beginning with each tag.
        end_MK: Of ending with each tag.
        transitions_MKK: Of stepping from one tag (row) to the next (column).
        lengths_N: Tokens of each row, at least 1.
    """

    emissions_NLK: Tensor
    start_MK: Tensor
    end_MK: Tensor
    transitions_MKK: Tensor
    lengths_N: Tensor


def losses(potentials: Potentials, tags_NL: Tensor) -> Tensor:
    """Return the negative log-likelihood of each row's tags (N,), differentiable once."""
    value_N: Tensor = _Loss.apply(*potentials, tags_NL)  # type: ignore[no-untyped-call]
    return value_N


def _single(potentials: Potentials) -> Potentials:
    """Return the scores in single precision, as the kernel reads them."""
    emissions, start, end, transitions, lengths = potentials
    return Potentials(
        emissions.float().contiguous(),
        start.float().contiguous(),
        end.float().contiguous(),
        transitions.float().contiguous(),
        lengths,
    )


@torch.no_grad()
def row_gradients(potentials: Potentials, tags_NL: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of each row's loss: at emissions (N, L, K), of steps (N, K, K)."""
    single = _single(potentials)
    _, marginals_NLK, steps_NKK = _posterior(single)
    _, counts_NLK, gold_steps_NKK = _gold(single, tags_NL)
    return marginals_NLK - counts_NLK, steps_NKK - gold_steps_NKK


class _Loss(torch.autograd.Function):
    """Forward-backward in the forward pass: the gradients are the expected counts."""

    @staticmethod
    def forward(
        ctx: Any,
        emissions_NLK: Tensor,
        start_MK: Tensor,
        end_MK: Tensor,
        transitions_MKK: Tensor,
        lengths_N: Tensor,
        tags_NL: Tensor,
    ) -> Tensor:
        """Return the losses; keep their gradients."""
        potentials = _single(
            Potentials(emissions_NLK, start_MK, end_MK, transitions_MKK, lengths_N)
        )
        log_sum_N, marginals_NLK, steps_NKK = _posterior(potentials)
        gold_N, counts_NLK, gold_steps_NKK = _gold(potentials, tags_NL)
        ctx.save_for_backward(marginals_NLK - counts_NLK, steps_NKK - gold_steps_NKK, lengths_N)
        ctx.num_models = len(start_MK)
        return log_sum_N - gold_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights_N: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients, each row's weighted by what arrives for it."""
        emissions_NLK, steps_NKK, lengths_N = ctx.saved_tensors
        scaled_NLK = emissions_NLK * weights_N[:, None, None]
        num_tags = scaled_NLK.shape[2]
        last_N1K = (lengths_N - 1)[:, None, None].expand(-1, 1, num_tags)
        by_model = (ctx.num_models, -1, num_tags)
        start_MK = scaled_NLK[:, 0].view(by_model).sum(1)
        end_MK = scaled_NLK.gather(1, last_N1K).view(by_model).sum(1)
        scaled_NKK = steps_NKK * weights_N[:, None, None]
        steps_MKK = scaled_NKK.view(ctx.num_models, -1, num_tags, num_tags).sum(1)
        return scaled_NLK, start_MK, end_MK, steps_MKK, None, None


def _gold(potentials: Potentials, tags_NL: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return score, tag counts and step counts of the given paths."""
    emissions_NLK, start_MK, end_MK, transitions_MKK, lengths_N = potentials
    num_rows, num_tokens, num_tags = emissions_NLK.shape
    model_N = torch.arange(num_rows, device=lengths_N.device) // (num_rows // len(start_MK))
    mask_NL = torch.arange(num_tokens, device=lengths_N.device) < lengths_N[:, None]
    counts_NLK = torch.zeros_like(emissions_NLK)
    counts_NLK.scatter_(2, tags_NL[..., None], mask_NL[..., None].to(counts_NLK))
    score_N = (counts_NLK * emissions_NLK).sum((1, 2))
    last_N = tags_NL.gather(1, (lengths_N - 1)[:, None]).squeeze(1)
    score_N += start_MK[model_N, tags_NL[:, 0]] + end_MK[model_N, last_N]
    pairs_NL = tags_NL[:, :-1] * num_tags + tags_NL[:, 1:]
    steps_NKK = emissions_NLK.new_zeros(num_rows, num_tags * num_tags)
    steps_NKK.scatter_add_(1, pairs_NL, mask_NL[:, 1:].to(steps_NKK))
    steps_NKK = steps_NKK.view(num_rows, num_tags, num_tags)
    by_model = steps_NKK.view(len(start_MK), -1, num_tags, num_tags)
    score_N += (by_model * transitions_MKK[:, None]).sum((2, 3)).view(-1)
    return score_N, counts_NLK, steps_NKK


def _posterior(potentials: Potentials) -> tuple[Tensor, Tensor, Tensor]:
    if potentials.emissions_NLK.device.type == "cuda":
        return _on_cuda(potentials)
    return posterior_by_loop(potentials)


def posterior_by_loop(potentials: Potentials) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-sums (N,), marginals (N, L, K) and expected steps (N, K, K), token by token."""
    emissions_NLK, start_MK, end_MK, transitions_MKK, lengths_N = potentials
    num_rows, num_tokens, _ = emissions_NLK.shape
    model_N = torch.arange(num_rows, device=lengths_N.device) // (num_rows // len(start_MK))
    steps_NKK, end_NK = transitions_MKK[model_N], end_MK[model_N]
    mask_NL = torch.arange(num_tokens, device=lengths_N.device) < lengths_N[:, None]
    before_NLK = torch.empty_like(emissions_NLK)
    before_NLK[:, 0] = start_MK[model_N] + emissions_NLK[:, 0]
    for t in range(1, num_tokens):
        reached_NK = (before_NLK[:, t - 1, :, None] + steps_NKK).logsumexp(1)
        here_NK = reached_NK + emissions_NLK[:, t]
        before_NLK[:, t] = torch.where(mask_NL[:, t, None], here_NK, before_NLK[:, t - 1])
    log_sum_N = (before_NLK[:, -1] + end_NK).logsumexp(1)
    after_NLK = end_NK[:, None].expand_as(emissions_NLK).clone()
    counts_NKK = torch.zeros_like(steps_NKK)
    for t in range(num_tokens - 2, -1, -1):
        ahead_NKK = steps_NKK + (emissions_NLK[:, t + 1] + after_NLK[:, t + 1])[:, None]
        inside_N1 = mask_NL[:, t + 1, None]
        after_NLK[:, t] = torch.where(inside_N1, ahead_NKK.logsumexp(2), end_NK)
        joint_NKK = (before_NLK[:, t, :, None] + ahead_NKK - log_sum_N[:, None, None]).exp()
        counts_NKK += joint_NKK * inside_N1[..., None]
    marginals_NLK = (before_NLK + after_NLK - log_sum_N[:, None, None]).exp()
    return log_sum_N, marginals_NLK * mask_NL[..., None], counts_NKK


@torch.no_grad()
def best_paths(potentials: Potentials) -> Tensor:
    """Return the best tags of each row (N, L); behind its end they mean nothing."""
    emissions_NLK, start_MK, end_MK, transitions_MKK, lengths_N = potentials
    num_rows, num_tokens, _ = emissions_NLK.shape
    model_N = torch.arange(num_rows, device=lengths_N.device) // (num_rows // len(start_MK))
    steps_NKK = transitions_MKK[model_N]
    best_NK = start_MK[model_N] + emissions_NLK[:, 0]
    origins = []
    for t in range(1, num_tokens):
        top_NK, origin_NK = (best_NK[:, :, None] + steps_NKK).max(1)
        inside_N1 = (t < lengths_N)[:, None]
        # Behind the end the path stands still, so that the way back begins at the last tag.
        still_NK = torch.arange(origin_NK.shape[1], device=origin_NK.device).expand_as(origin_NK)
        origins.append(torch.where(inside_N1, origin_NK, still_NK))
        best_NK = torch.where(inside_N1, top_NK + emissions_NLK[:, t], best_NK)
    tag_N = (best_NK + end_MK[model_N]).argmax(1)
    tags = [tag_N]
    for origin_NK in reversed(origins):
        tag_N = origin_NK.gather(1, tag_N[:, None]).squeeze(1)
        tags.append(tag_N)
    return torch.stack(tags[::-1], 1)


def _on_cuda(potentials: Potentials) -> tuple[Tensor, Tensor, Tensor]:
    emissions_NLK, start_MK, end_MK, transitions_MKK, lengths_N = potentials
    num_rows, num_tokens, num_tags = emissions_NLK.shape
    log_sum_N = emissions_NLK.new_zeros(num_rows)
    marginals_NLK = torch.zeros_like(emissions_NLK)
    steps_NKK = emissions_NLK.new_zeros(num_rows, num_tags, num_tags)
    before_NLK = torch.empty_like(emissions_NLK)
    kernel, power = _kernel()
    padded = max(4, power(num_tags))
    kernel[(num_rows,)](
        emissions_NLK,
        start_MK,
        end_MK,
        transitions_MKK,
        lengths_N,
        log_sum_N,
        marginals_NLK,
        steps_NKK,
        before_NLK,
        num_rows // len(start_MK),
        num_tokens,
        num_tags,
        padded,
        num_warps=min(4, max(1, padded * padded // 512)),
    )
    return log_sum_N, marginals_NLK, steps_NKK


_compiled: list[Any] = []


def _kernel() -> tuple[Any, Any]:
    """Compile the kernel once; Triton comes with torch's CUDA builds alone."""
    triton: Any = importlib.import_module("triton")
    if not _compiled:
        from fedner.experiments.joining import stacked_crf_triton

        _compiled.append(stacked_crf_triton.posterior_kernel)
    return _compiled[0], triton.next_power_of_2
