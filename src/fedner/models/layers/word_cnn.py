"""A word CNN: convolutions of one or more widths over the words of a sentence, with a ReLU.

It gives what `nn.Conv1d` gives, with its parameters under its names, but computes no gradient for
frozen features and copies no neighbouring words.

The gradient of tap k of a filter is sum_t g_t x_(t+k)^T. Its squared norm needs the products of
shifted inputs, and those are entries of one matrix: the product of x_(s+k) and x_(t+k) is the entry
(s+k, t+k) of the products of all tokens, so the sum over the taps is a sum of that matrix moved
along its diagonal. Neighbouring words are never copied side by side there either.

Shapes: B sentences, L tokens, R rows of tokens, M tokens of a row, D features in, F filters, W
taps, T taps times filters of all widths.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from fedner.models.features import Batch
from fedner.models.layers.forms import LayerForms, Parts, trained_names
from fedner.models.onnx_writer import GraphWriter
from fedner.models.per_unit.products import batch_product
from fedner.models.per_unit.tap import (
    Factors,
    Measured,
    Tap,
    Totals,
    direct_sizes,
    gram,
    gram_sizes,
    is_gram_cheaper,
    tapped,
)
from fedner.models.per_unit.units import Sizes, Units

Product = Callable[[Tensor, Tensor], Tensor]


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
class _Filters:
    """The filters of one width, and the names of what they train."""

    width: int
    columns: slice
    weight: str | None
    bias: str | None


def _tap(cnn: WordCNN, prefix: str, parts: Parts, _batch: Batch) -> tuple[Tensor, list[Tap]]:
    """Return what the CNN gives for `parts`, which are 0 where there is no token, and its tap."""
    frozen = {name: each.detach() for name, each in cnn.named_parameters()}
    output_BLF: Tensor = functional_call(cnn, frozen, (parts, batch_product))
    every = _filters(cnn, prefix)
    if not any(each.weight or each.bias for each in every):
        return output_BLF, []
    inputs = [part.detach() for part in parts]
    # Tapped behind the ReLU: where that gives 0, it lets no gradient through.
    is_active_BLF = output_BLF.detach() > 0
    return output_BLF, [Tap(tapped(output_BLF), partial(_measure, inputs, is_active_BLF, every))]


def _filters(cnn: WordCNN, prefix: str) -> list[_Filters]:
    result, position = [], 0
    for index, module in enumerate(cnn.convolutions):
        convolution = cast("nn.Conv1d", module)
        names = trained_names(convolution, f"{prefix}.convolutions.{index}")
        columns = slice(position, position + cnn.filters)
        width = convolution.kernel_size[0]
        result.append(_Filters(width, columns, names.get("weight"), names.get("bias")))
        position += cnn.filters
    return result


def _measure(
    parts: Sequence[Tensor],
    is_active_BLF: Tensor,
    every: Sequence[_Filters],
    gradient_BLF: Tensor,
    units: Units,
) -> Measured:
    gradient_BLF = gradient_BLF * is_active_BLF
    sizes = [
        _sizes([units.rows(part, chunk) for part in parts], units.rows(gradient_BLF, chunk), every)
        for chunk in units.chunks()
    ]

    def add_weighted(factors: Factors, totals: Totals) -> None:
        scaled_BLF = factors.scale(gradient_BLF, units.unit_B)
        wide = [factors.widen(part, units.unit_B) for part in parts]
        _add_products(wide, scaled_BLF, every, totals)

    return Measured(units.by_unit(sizes), add_weighted)


def _sizes(parts: Sequence[Tensor], gradient_RMF: Tensor, every: Sequence[_Filters]) -> Sizes:
    """Return the sizes of some rows over all filters."""
    num_tokens, num_inputs = parts[0].shape[1], sum(part.shape[2] for part in parts)
    input_gram_RMM: Tensor | None = None
    found: list[Sizes] = []
    for filters in every:
        own_RMF = gradient_RMF[..., filters.columns]
        if filters.bias is not None:
            found.append(direct_sizes(own_RMF, [], 1))
        if filters.weight is None:
            continue
        if is_gram_cheaper(num_tokens, own_RMF.shape[2], num_inputs * filters.width):
            if input_gram_RMM is None:
                input_gram_RMM = torch.stack([gram(part) for part in parts]).sum(0)
            found.append(gram_sizes(gram(own_RMF), _over_taps(input_gram_RMM, filters.width)))
        else:
            moved = [_moved(own_RMF, offset) for offset in _offsets(filters.width)]
            found += [direct_sizes(each, parts) for each in moved]
    return Sizes(*(torch.stack(each).sum(0) for each in zip(*found, strict=True)))


def _offsets(width: int) -> range:
    """Return where the taps of a filter lie relative to its word."""
    left = (width - 1) // 2
    return range(-left, width - left)


def _over_taps(gram_RMM: Tensor, width: int) -> Tensor:
    """Return for every two words the sum over the taps of the products of their neighbours."""
    total_RMM = torch.zeros_like(gram_RMM)
    length = gram_RMM.shape[1]
    for offset in _offsets(width):
        here, there = _overlap(length, offset)
        total_RMM[:, here, here] += gram_RMM[:, there, there]
    return total_RMM


def _overlap(length: int, offset: int) -> tuple[slice, slice]:
    """Return which tokens t have a token t + offset, and those tokens."""
    first, last = max(0, -offset), max(0, min(length, length - offset), -offset)
    return slice(first, last), slice(first + offset, last + offset)


def _moved(values_BLF: Tensor, offset: int) -> Tensor:
    """Return at each token s the value of token s - offset; 0 where there is none."""
    length = values_BLF.shape[1]
    if offset >= 0:
        return functional.pad(values_BLF, (0, 0, offset, 0))[:, :length]
    return functional.pad(values_BLF, (0, 0, 0, -offset))[:, -offset:]


def _add_products(
    parts: Sequence[Tensor], scaled_BLF: Tensor, every: Sequence[_Filters], totals: Totals
) -> None:
    """Add the gradients of all taps of all widths, by one product for each part of the input."""
    trained = [filters for filters in every if filters.weight is not None]
    moved = [
        _moved(scaled_BLF[..., filters.columns], offset)
        for filters in trained
        for offset in _offsets(filters.width)
    ]
    if moved:
        moved_NT = torch.cat(moved, dim=-1).flatten(0, 1)
        product_DT = torch.cat([part.flatten(0, 1).t() @ moved_NT for part in parts])
        sizes = [moved[0].shape[2] * filters.width for filters in trained]
        for filters, own_DT in zip(trained, torch.split(product_DT, sizes, dim=1), strict=True):
            own_DWF = own_DT.reshape(len(own_DT), filters.width, -1)
            totals[cast("str", filters.weight)].add_(own_DWF.permute(2, 0, 1))
    for filters in every:
        if filters.bias is not None:
            totals[filters.bias].add_(scaled_BLF[..., filters.columns].sum((0, 1)))


def _forward(cnn: WordCNN, parts: Parts, _batch: Batch) -> Tensor:
    output_BLF: Tensor = cnn(parts)
    return output_BLF


def _onnx(cnn: WordCNN, graph: GraphWriter, parts: Sequence[str]) -> str:
    """Write the convolutions of all widths, side by side, with their ReLU (B, L, F)."""
    x_BDL = graph.op("Transpose", graph.joined(parts), perm=[0, 2, 1])
    outputs = []
    for module, width in zip(cnn.convolutions, cnn.widths, strict=True):
        convolution = cast("nn.Conv1d", module)
        weights = [graph.weight(convolution.get_parameter(each)) for each in ("weight", "bias")]
        left = (width - 1) // 2
        outputs.append(graph.op("Conv", x_BDL, *weights, pads=[left, width - 1 - left]))
    out_BFL = graph.op("Relu", graph.joined(outputs, 1))
    return graph.op("Transpose", out_BFL, perm=[0, 2, 1])


FORMS = LayerForms(
    "word CNN", _forward, _tap, _onnx, window=lambda cnn: max(cnn.widths), build=WordCNN
)
