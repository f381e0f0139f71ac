"""Per-unit gradients of the word CNN, for all its widths at once.

The gradient of tap k of a filter is sum_t g_t x_(t+k)^T. Its squared norm needs the products of
shifted inputs, and those are entries of one matrix: the product of x_(s+k) and x_(t+k) is the entry
(s+k, t+k) of the products of all tokens, so the sum over the taps is a sum of that matrix moved
along its diagonal. Neighbouring words are never copied side by side.

Shapes: B sentences, L tokens, R rows of tokens, M tokens of a row, D features in, F filters, W
taps, T taps times filters of all widths.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from fedner.models.encoders import WordCNN
from fedner.privacy.per_layer.products import batch_product
from fedner.privacy.per_layer.tap import (
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
from fedner.privacy.per_layer.units import Sizes, Units


@dataclass(frozen=True, slots=True)
class _Filters:
    """The filters of one width, and the names of what they train."""

    width: int
    columns: slice
    weight: str | None
    bias: str | None


def tap_word_cnn(cnn: WordCNN, prefix: str, parts: Sequence[Tensor]) -> tuple[Tensor, Tap | None]:
    """Return what the CNN gives for `parts`, which are 0 where there is no token, and its tap."""
    frozen = {name: each.detach() for name, each in cnn.named_parameters()}
    output_BLF: Tensor = functional_call(cnn, frozen, (parts, batch_product))
    every = _filters(cnn, prefix)
    if not any(each.weight or each.bias for each in every):
        return output_BLF, None
    inputs = [part.detach() for part in parts]
    # Tapped behind the ReLU: where that gives 0, it lets no gradient through.
    is_active_BLF = output_BLF.detach() > 0
    return output_BLF, Tap(tapped(output_BLF), partial(_measure, inputs, is_active_BLF, every))


def _filters(cnn: WordCNN, prefix: str) -> list[_Filters]:
    result, position = [], 0
    for index, module in enumerate(cnn.convolutions):
        convolution = cast("nn.Conv1d", module)
        names = {
            name: f"{prefix}.convolutions.{index}.{name}"
            for name, each in convolution.named_parameters()
            if each.requires_grad
        }
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
