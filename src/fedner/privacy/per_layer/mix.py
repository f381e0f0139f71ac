"""Per-unit gradients of a scalar mix: a handful of numbers, by the chain rule.

With s = softmax(w), z_t = f * sum_n s_n h_tn and, for each sentence, A_n = sum_t g_t . h_tn,

    gradient of f = sum_n s_n A_n        gradient of w_m = f s_m (A_m - sum_n s_n A_n)

Shapes: B sentences, L tokens, N layers, D features of a layer.
"""

from functools import partial

import torch
from torch import Tensor

from fedner.models.embeddings.scalar_mix import ScalarMix
from fedner.privacy.per_layer.crf import measure_sentences
from fedner.privacy.per_layer.tap import Measured, Tap, tapped
from fedner.privacy.per_layer.units import Units


def tap_mix(mix: ScalarMix, prefix: str, layers_BLX: Tensor) -> tuple[Tensor, Tap | None]:
    """Return the mix of layers side by side (B, L, D), and its tap if it trains anything."""
    with torch.no_grad():
        mixed_BLD = mix(layers_BLX)
    trained = {name for name, each in mix.named_parameters() if each.requires_grad}
    if not trained:
        return mixed_BLD, None
    return mixed_BLD, Tap(tapped(mixed_BLD), partial(_measure, mix, prefix, trained, layers_BLX))


def _measure(
    mix: ScalarMix,
    prefix: str,
    trained: set[str],
    layers_BLX: Tensor,
    gradient_BLD: Tensor,
    units: Units,
) -> Measured:
    arrived_BN = torch.einsum("bld,blnd->bn", gradient_BLD, mix.stacked(layers_BLX))
    shares_N = torch.softmax(mix.weights, dim=0)
    mean_B1 = (arrived_BN * shares_N).sum(1, keepdim=True)
    every = {"weights": mix.factor * shares_N * (arrived_BN - mean_B1), "factor": mean_B1}
    return measure_sentences(prefix, {name: every[name] for name in sorted(trained)}, units)
