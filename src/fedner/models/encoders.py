"""The encoders between embeddings and emissions: dropout, a word CNN and a (stacked) BiLSTM.

Each gives what torch's own layer gives, with its parameters under its names, but spends less: no
gradient for frozen features, no copies of neighbouring words, no random number per value, and no
kernel launched token by token.

Shapes: B sentences, L tokens, D features in, F filters, W taps, H hidden units, N tokens in all.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

Draws = Callable[[int, torch.device], Tensor]
Product = Callable[[Tensor, Tensor], Tensor]


class Dropout(nn.Module):
    """Zero values with probability `rate` and scale up the others, in training only.

    On the CPU one 64-bit random number serves four values: torch spends most of a step's dropout
    on drawing one number per value. The rate is rounded to a multiple of 2^-16, the scale with it.

    Attributes:
        rate: The probability.
        draws: Where masks come from: `count` uniform 16-bit integers on a device; None for torch's
            own generators.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.draws: Draws | None = None
        self._dropped = round(rate * 65_536)

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"rate={self.rate}"

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with values dropped."""
        if not self.training or self._dropped == 0:
            return x
        if self.draws is None and x.device.type != "cpu":
            return functional.dropout(x, self.rate)
        draws = (self.draws or _seeded_int16)(x.numel(), x.device)
        is_kept = draws >= self._dropped - 32_768
        return x * is_kept.view(x.shape) * (65_536 / (65_536 - self._dropped))


def _seeded_int16(count: int, device: torch.device) -> Tensor:
    """Return uniform 16-bit integers from torch's generator."""
    words = torch.empty((count + 3) // 4, dtype=torch.int64, device=device)
    return words.random_(-(2**63), None).view(torch.int16)[:count]


@contextmanager
def masks_from(model: nn.Module, draws: Draws) -> Iterator[None]:
    """Let every `Dropout` of a model draw its masks from `draws` within the block."""
    modules = [module for module in model.modules() if isinstance(module, Dropout)]
    try:
        for module in modules:
            module.draws = draws
        yield
    finally:
        for module in modules:
            module.draws = None


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

    def forward(self, parts: Sequence[Tensor], product: Product = torch.matmul) -> Tensor:
        """Convolve the joined `parts`, each (B, L, D_i) and zero where there is no token.

        Args:
            parts: What every word is made of.
            product: Multiplies a part with the taps.
        """
        convolutions = [cast("nn.Conv1d", module) for module in self.convolutions]
        taps_DT = torch.cat([_taps(convolution.weight) for convolution in convolutions], 1)
        sizes = [part.shape[-1] for part in parts]
        products = [
            product(part, taps)
            for part, taps in zip(parts, torch.split(taps_DT, sizes), strict=True)
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
class TokenLayout:
    """Where the tokens of a batch of sentences of falling length lie, in three orders.

    Cells are those of the flattened batch: sentence * L + token. Packed, all first tokens come
    first, then all second ones, and so on.

    Attributes:
        cells_N: For each packed token its cell.
        places_BL: For each cell its place among the packed tokens; 0 where there is no token.
        mirrored_BL: For each cell the cell of the token as far from the sentence's end as this one
            is from its beginning; where there is no token, the cell itself.
        sizes_L: How many sentences have a first, second, ... token, on the CPU; None where
            sentences shall not be packed.
    """

    cells_N: Tensor
    places_BL: Tensor
    mirrored_BL: Tensor
    sizes_L: Tensor | None


# On a CPU torch takes this much longer for a packed token than for a token of a full batch.
_PACKED_COST = 1.4


class BiLSTM(nn.Module):
    """One or more bidirectional LSTM layers; what lies behind a sentence's end is never read.

    Attributes:
        lstm: The fused implementation, whose parameter names are part of checkpoints.
    """

    def __init__(self, dimension: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.dimension_out = 2 * hidden
        self.lstm = nn.LSTM(
            dimension,
            hidden,
            num_layers=layers,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )
        self.between = Dropout(dropout)

    def forward(self, x_BLD: Tensor, layout: TokenLayout) -> Tensor:
        """Encode sentences of falling length; what comes out behind an end means nothing."""
        num_packed, num_cells = len(layout.cells_N), layout.places_BL.numel()
        is_dense = x_BLD.device.type == "cpu" and num_cells < _PACKED_COST * num_packed
        if layout.sizes_L is None or is_dense:
            return self._encode_padded(x_BLD, layout)
        return self._encode_packed(x_BLD, layout, layout.sizes_L)

    def _encode_packed(self, x_BLD: Tensor, layout: TokenLayout, sizes_L: Tensor) -> Tensor:
        # Packing by one lookup each way: torch's own packing launches kernels token by token.
        tokens_ND = x_BLD.flatten(0, 1).index_select(0, layout.cells_N)
        encoded, _ = self.lstm(PackedSequence(tokens_ND, sizes_L))
        empty_NH = encoded.data.new_zeros(layout.places_BL.numel(), self.dimension_out)
        encoded_NH: Tensor = empty_NH.index_copy(0, layout.cells_N, encoded.data)
        return encoded_NH.view(*layout.places_BL.shape, -1)

    def _encode_padded(self, x_BLD: Tensor, layout: TokenLayout) -> Tensor:
        """Run both directions over padded sentences, each of which begins with its own first token.

        The sentences of the backward direction are mirrored within their own length, so that
        padding comes last there too.
        """
        for layer in range(self.lstm.num_layers):
            x_BLD = x_BLD if layer == 0 else self.between(x_BLD)
            mirrored_BLD = _at(x_BLD.flatten(0, 1), layout.mirrored_BL)
            forward_BLH = self._run(x_BLD, f"l{layer}")
            backward_BLH = self._run(mirrored_BLD, f"l{layer}_reverse")
            backward_BLH = _at(backward_BLH.flatten(0, 1), layout.mirrored_BL)
            x_BLD = torch.cat([forward_BLH, backward_BLH], dim=-1)
        return x_BLD

    def _run(self, x_BLD: Tensor, suffix: str) -> Tensor:
        """Run one direction of one layer from the first cell of each sentence to the last."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = [getattr(self.lstm, f"{kind}_{suffix}") for kind in kinds]
        zero_1BH = x_BLD.new_zeros(1, len(x_BLD), self.lstm.hidden_size)
        out_BLH: Tensor = torch.lstm(
            x_BLD, (zero_1BH, zero_1BH), weights, True, 1, 0.0, self.training, False, True
        )[0]
        return out_BLH


def _at(values_ND: Tensor, places_BL: Tensor) -> Tensor:
    """Return the values at each place."""
    return values_ND.index_select(0, places_BL.flatten()).view(*places_BL.shape, -1)
