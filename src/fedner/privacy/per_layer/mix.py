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
        # Layer by layer, so that each token is added up in one order (`products`).
        pairs = zip(
            mix.stacked(layers_BLX).unbind(2), mix.shares().to(layers_BLX.dtype), strict=True
        )
        mixed_BLD = torch.stack([layer_BLD * share for layer_BLD, share in pairs]).sum(0)
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
    layers_BLND = mix.stacked(layers_BLX).double()
    wide_BLD = gradient_BLD.double()
    shares_N, factor = torch.softmax(mix.weights.double(), dim=0), mix.factor.double()
    arrived_BN = torch.einsum("bld,blnd->bn", wide_BLD, layers_BLND)
    mean_B1 = (arrived_BN * shares_N).sum(1, keepdim=True)
    every = {"weights": factor * shares_N * (arrived_BN - mean_B1), "factor": mean_B1}
    # |g_t| |h_tn| bounds each term of A_n; at most 2 |f| + 1 times that enters a gradient.
    terms_BLN = wide_BLD.norm(dim=2, keepdim=True) * layers_BLND.norm(dim=3)
    masses_B = terms_BLN.sum((1, 2)) * (2.0 * factor.abs() + 1.0)
    chosen = {name: every[name] for name in sorted(trained)}
    return measure_sentences(prefix, chosen, units, masses_B)
