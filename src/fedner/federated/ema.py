"""The exponential moving average (EMA) of weights: scored and kept in place of the last ones.

Polyak and Juditsky (1992), with exponentially decaying weights: after round t the EMA is

    sum over i <= t of d^(t-i) w_i  /  sum over i <= t of d^(t-i),

so that the first weights, which are random, have no part in it. Steps go on from w_t itself. Where
every w_i is noised the EMA is post-processing of what was released: it costs no epsilon, and
noise of many rounds evens out in it (De et al. 2022 found that it helps DP-SGD).
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from fedner.errors import FednerError


@torch.no_grad()
def averaged(
    ema: Mapping[str, Tensor], weights: Mapping[str, Tensor], num_before: int, decay: float
) -> dict[str, Tensor]:
    """Return the EMA with one more round in it; the inputs stay as they are.

    Args:
        ema: The EMA so far; not read where nothing was averaged before.
        weights: The weights after this round.
        num_before: How many rounds the EMA holds.
        decay: d: how much less each round counts than the next one.
    """
    if num_before == 0 or not weights:
        return {name: weight.detach().clone() for name, weight in weights.items()}
    # (1 - d) / (1 - d^t), without losing digits where d is close to 1.
    share = (1 - decay) / -math.expm1((num_before + 1) * math.log(decay))
    held = [ema[name] for name in weights]
    moved = torch._foreach_lerp(held, [weight.detach() for weight in weights.values()], share)
    return dict(zip(weights, moved, strict=True))


def require_decay(decay: float | None) -> None:
    """Raise unless `decay` is one, or None for no EMA.

    Raises:
        FednerError: If it is not between 0 and 1.
    """
    if decay is not None and not 0 < decay < 1:
        raise FednerError(
            f"ema_decay: found {decay}; expected a number between 0 and 1, or none",
            "Take 0.99 to average over about the last hundred rounds.",
        )
