"""The mix of an encoder's layers that a tagger learns: equation 1 of ELMo (Peters et al. 2018).

    z_t = factor * sum_n softmax(weights)_n h_tn

as AllenNLP has it: weights of zero and a factor of one to begin with, which is the plain mean.
"""

import torch
from torch import Tensor, nn

from fedner.errors import FednerError


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
