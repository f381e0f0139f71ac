"""The mix of an encoder's layers that a tagger learns: equation 1 of ELMo (Peters et al. 2018).

    z_t = factor * sum_n softmax(weights)_n h_tn

as AllenNLP has it: weights of zero and a factor of one to begin with, which is the plain mean.

The gradients of a unit are a handful of numbers, by the chain rule: with s = softmax(weights) and,
for each sentence, A_n = sum_t g_t . h_tn,

    gradient of factor = sum_n s_n A_n        of weight m = factor s_m (A_m - sum_n s_n A_n)

Shapes: B sentences, L tokens, N layers, D features of a layer, X = N D.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.features import Batch
from fedner.models.layers.forms import LayerForms, Parts, trained_names
from fedner.models.onnx_writer import GraphWriter, to_array
from fedner.models.per_unit.sentences import measure_sentences
from fedner.models.per_unit.tap import Measured, Tap, tapped
from fedner.models.per_unit.units import Units


class ScalarMix(nn.Module):
    """A weighted mean of layers that stand side by side, times a factor.

    It has `num_layers + 1` parameters, trained and shared like the rest of the embeddings, and
    gives zeros for zeros, as padding needs it.

    Attributes:
        weights: What the softmax makes weights of.
        factor: The paper's gamma.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        if num_layers < 1:
            raise FednerError(f"a mix of {num_layers} layers", "Mix at least one layer.")
        self.weights = nn.Parameter(torch.zeros(num_layers))
        self.factor = nn.Parameter(torch.ones(1))

    @property
    def num_layers(self) -> int:
        """How many layers stand side by side."""
        return len(self.weights)

    def shares(self) -> Tensor:
        """Return what each layer is multiplied with (N,)."""
        return torch.softmax(self.weights, dim=0) * self.factor

    def forward(self, layers: Tensor) -> Tensor:
        """Return the mix (..., D) of layers (..., N * D).

        Raises:
            FednerError: If the features are no whole number of layers.
        """
        stacked = self.stacked(layers)
        return torch.einsum("...nd,n->...d", stacked, self.shares().to(layers.dtype))

    def stacked(self, layers: Tensor) -> Tensor:
        """Return the layers with an axis of their own (..., N, D).

        Raises:
            FednerError: If the features are no whole number of layers.
        """
        return layers.reshape(*layers.shape[:-1], self.num_layers, self.size_of(layers.shape[-1]))

    def size_of(self, num_features: int) -> int:
        """Return how many features one of the layers has.

        Raises:
            FednerError: If the features are no whole number of layers.
        """
        if num_features % self.num_layers:
            raise FednerError(
                f"{num_features} context features are not {self.num_layers} layers of equal size",
                'Take the features as layers side by side: ElmoEncoder.load(features="layers").',
            )
        return num_features // self.num_layers


def _forward(mix: ScalarMix, _parts: Parts, batch: Batch) -> Tensor:
    mixed_BLD: Tensor = mix(batch.context_features)
    return mixed_BLD


def _tap(mix: ScalarMix, prefix: str, _parts: Parts, batch: Batch) -> tuple[Tensor, list[Tap]]:
    layers_BLX = batch.context_features
    with torch.no_grad():
        # Layer by layer, so that each token is added up in one order (`per_unit.products`).
        pairs = zip(
            mix.stacked(layers_BLX).unbind(2), mix.shares().to(layers_BLX.dtype), strict=True
        )
        mixed_BLD = torch.stack([layer_BLD * share for layer_BLD, share in pairs]).sum(0)
    trained = set(trained_names(mix, prefix))
    if not trained:
        return mixed_BLD, []
    return mixed_BLD, [Tap(tapped(mixed_BLD), partial(_measure, mix, prefix, trained, layers_BLX))]


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


def _onnx(mix: ScalarMix, graph: GraphWriter, _parts: Sequence[str]) -> str:
    apart = graph.constant([0, 0, mix.num_layers, -1])
    layers_BLND = graph.op("Reshape", graph.read("context"), apart)
    shares_N1 = graph.constant(to_array(mix.shares())[:, None])
    weighted_BLND = graph.op("Mul", layers_BLND, shares_N1)
    return graph.op("ReduceSum", weighted_BLND, graph.constant([2]), keepdims=0)


FORMS = LayerForms("scalar mix", _forward, _tap, _onnx, is_source=True, keeps_first_values=True)
