"""The encoders between embeddings and emissions: dropout, a word CNN and a (stacked) BiLSTM.

Each gives what torch's own layer gives, with its parameters under its names, but spends less: no
gradient for frozen features, no copies of neighbouring words, no random number per value, and no
kernel launched token by token.

Shapes: B sentences, L tokens, D features in, F filters, W taps, H hidden units, N tokens in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence


class Dropout(nn.Module):
    """Zero values with probability `rate` and scale up the others, in training only.

    On the CPU one 64-bit random number serves four values: torch spends most of a step's dropout
    on drawing one number per value. The rate is rounded to a multiple of 2^-16, the scale with it.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self._dropped = round(rate * 65_536)

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"rate={self.rate}"

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with values dropped."""
        if not self.training or self._dropped == 0:
            return x
        if x.device.type != "cpu":
            return functional.dropout(x, self.rate)
        num_draws = (x.numel() + 3) // 4
        draws = torch.empty(num_draws, dtype=torch.int64).random_(-(2**63), None)
        is_kept = draws.view(torch.int16)[: x.numel()] >= self._dropped - 32_768
        return x * is_kept.view(x.shape) * (65_536 / (65_536 - self._dropped))


class WordCNN(nn.Module):
    """Convolutions over the words of a sentence, one per width, side by side, each with a ReLU.

    The input comes in parts, so that no gradient is ever computed for a frozen one: with pretrained
    context that is a third of the work of a step. Every part is multiplied with all taps of all
    widths at once, and the products, which are few numbers a word, are shifted and added.

    Attributes:
        convolutions: One per width; kept as `nn.Conv1d` for their parameters and initialisation.
    """

    def __init__(self, dimension: int, filters: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.filters = filters
        self.widths = tuple(widths)
        self.dimension_out = filters * len(self.widths)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(dimension, filters, width, padding="same") for width in self.widths
        )

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        """Convolve the joined `parts`, each (B, L, D_i) and zero where there is no token."""
        convolutions = [cast("nn.Conv1d", module) for module in self.convolutions]
        taps_DT = torch.cat([_taps(convolution.weight) for convolution in convolutions], 1)
        sizes = [part.shape[-1] for part in parts]
        products = [
            part @ taps for part, taps in zip(parts, torch.split(taps_DT, sizes), strict=True)
        ]
        product_BLT = sum(products[1:], start=products[0])
        outputs, position = [], 0
        for convolution, width in zip(convolutions, self.widths, strict=True):
            own_BLT = product_BLT[..., position : position + width * self.filters]
            outputs.append(_shifted_sum(own_BLT, width, convolution.bias))
            position += width * self.filters
        return functional.relu(outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1))


def _taps(weight_FDW: Tensor) -> Tensor:
    """Return the filters with one column for each tap and filter, tap by tap (D, W * F)."""
    return weight_FDW.permute(1, 2, 0).flatten(1)


def _shifted_sum(products_BLT: Tensor, width: int, bias_F: Tensor | None) -> Tensor:
    """Add to each word the products of its neighbours, each with the tap that falls on it."""
    products = products_BLT.chunk(width, dim=-1)
    left = (width - 1) // 2
    length = products_BLT.shape[1]
    total_BLF = products[left] if bias_F is None else products[left] + bias_F
    for tap, product_BLF in enumerate(products):
        offset = tap - left
        if offset < 0:
            moved = functional.pad(product_BLF, (0, 0, -offset, 0))[:, :length]
        elif offset > 0:
            moved = functional.pad(product_BLF, (0, 0, 0, offset))[:, offset:]
        else:
            continue
        total_BLF = total_BLF + moved
    return total_BLF


@dataclass(frozen=True, slots=True)
class PackedLayout:
    """How the tokens of a batch lie when packed: first tokens of all sentences, then the second...

    Attributes:
        cells_N: For each packed token its cell in the flattened batch (sentence * L + token).
        places_BL: For each cell its place among the packed tokens; 0 where there is no token.
        sizes_L: How many sentences have a first, second, ... token; on the CPU.
    """

    cells_N: Tensor
    places_BL: Tensor
    sizes_L: Tensor


class BiLSTM(nn.Module):
    """One or more bidirectional LSTM layers over packed sentences: padding is never read.

    Attributes:
        lstm: The fused implementation, whose parameter names are part of checkpoints.
    """

    def __init__(self, dimension: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden = hidden
        self.layers = layers
        self.dimension_out = 2 * hidden
        self.lstm = nn.LSTM(
            dimension,
            hidden,
            num_layers=layers,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )

    def forward(self, x_BLD: Tensor, layout: PackedLayout) -> Tensor:
        """Encode sentences sorted by falling length; what lies behind an end is undefined."""
        # Packing by one lookup each way; torch's own packing launches a kernel for each token.
        tokens_ND = x_BLD.flatten(0, 1).index_select(0, layout.cells_N)
        encoded, _ = self.lstm(PackedSequence(tokens_ND, layout.sizes_L))
        encoded_NH: Tensor = encoded.data
        out = encoded_NH.index_select(0, layout.places_BL.flatten())
        return out.view(*layout.places_BL.shape, self.dimension_out)
