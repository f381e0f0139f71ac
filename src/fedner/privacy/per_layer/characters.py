"""Per-unit gradients of the character CNN, over the distinct words of each unit.

A filter's value for a word is b + sum_w E[c_w] . K_w, where c_w is the character under tap w at the
place where the filter is highest. So all a unit's gradient says is how much arrives for each
(tap, character, filter): a table S_u with a row for each of the few characters that the unit's
words have. From it, for each tap,

    gradient of K_w = S_uw^T E      gradient of E = sum_w S_uw K_w      gradient of b = sum_u

and the squared norm of the first is that of products of characters: <S_uw S_uw^T, E E^T>. A word
that occurs in several units counts in each by itself.

Shapes: B sentences, L tokens, U units, V distinct words of the batch, P pairs of a unit and a word
of it, C characters of a word, A alphabet, a characters of a unit, D numbers a character, F filters,
W taps, X = W F.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fedner.models.embeddings.characters import NUM_CODES, PADDING, CharacterCNN
from fedner.privacy.per_layer.embedding import pair_sums, token_masses
from fedner.privacy.per_layer.tap import (
    Factors,
    Measured,
    Tap,
    Totals,
    gram,
    gram_sizes,
    norm_rows,
    squared_sum,
    tapped,
)
from fedner.privacy.per_layer.units import Sizes, Units


@dataclass(frozen=True, slots=True)
class _Layer:
    """The CNN in one forward pass.

    Attributes:
        characters_AD: The character table.
        taps_WFD: The filters, tap by tap.
        names: The trained parameters' own names to those of the tagger.
        word_BL: Which distinct word stands where.
        codes_VC: The characters of the distinct words.
        winners_VX: The character under each tap where each filter is highest, tap by tap.
    """

    characters_AD: Tensor
    taps_WFD: Tensor
    names: dict[str, str]
    word_BL: Tensor
    codes_VC: Tensor
    winners_VX: Tensor


def tap_characters(
    cnn: CharacterCNN, prefix: str, codes_VC: Tensor, word_BL: Tensor
) -> tuple[Tensor, Tap | None]:
    """Return the features of every token (B, L, F), and the tap."""
    with torch.no_grad():
        features_VF, winners = cnn.features_and_winners(codes_VC)
    features_BLF = features_VF[word_BL]
    names = {
        name: f"{prefix}.{name}" for name, each in cnn.named_parameters() if each.requires_grad
    }
    if not names:
        return features_BLF, None
    layer = _Layer(
        cnn.embedding.weight.detach(),
        cnn.convolution.weight.detach().permute(2, 0, 1),
        names,
        word_BL,
        codes_VC,
        torch.cat(winners, dim=1),
    )
    return features_BLF, Tap(tapped(features_BLF), partial(_measure, layer))


def _measure(layer: _Layer, gradient_BLF: Tensor, units: Units) -> Measured:
    # A word of no characters has fixed features.
    is_empty_V = (layer.codes_VC == PADDING).all(1)
    gradient_BLF = gradient_BLF.masked_fill(is_empty_V[layer.word_BL].unsqueeze(2), 0.0)
    unit_P, word_P, sums_PF = pair_sums(layer.word_BL, gradient_BLF, units)
    alphabet_Ua, place_UA = _alphabets(layer.codes_VC[word_P], unit_P, units.num_units)
    tables_UaWF = _tables(layer, sums_PF, unit_P, word_P, place_UA, alphabet_Ua)
    bias_UF = sums_PF.new_zeros(units.num_units, sums_PF.shape[1]).index_add_(0, unit_P, sums_PF)
    squares_U = _squares(layer, tables_UaWF, alphabet_Ua, bias_UF)
    masses_U = token_masses(gradient_BLF, units) * _largest_term(layer, alphabet_Ua)

    def add_weighted(factors: Factors, totals: Totals) -> None:
        every_U = torch.arange(units.num_units, device=unit_P.device)
        scaled_RX = factors.scale(tables_UaWF, every_U).flatten(2).flatten(0, 1)
        table_AX = scaled_RX.new_zeros(NUM_CODES, scaled_RX.shape[1])
        table_AX.index_add_(0, alphabet_Ua.flatten(), scaled_RX)
        _add_products(layer, table_AX, factors.scale(bias_UF, every_U).sum(0), totals)

    return Measured(Sizes(squares_U, masses_U), add_weighted)


def _largest_term(layer: _Layer, alphabet_Ua: Tensor) -> Tensor:
    """Return (U) a bound on the norm of a token's part of the gradient, over that of what arrives.

    For the filters a token adds, tap by tap, what arrives times a character of the unit; for the
    characters, what arrives times the filters.
    """
    width = layer.taps_WFD.shape[0]
    bound_U = alphabet_Ua.new_zeros(len(alphabet_Ua), dtype=torch.float64)
    if "convolution.bias" in layer.names:
        bound_U += 1.0
    if "convolution.weight" in layer.names:
        bound_U += width * norm_rows(layer.characters_AD)[alphabet_Ua].amax(1)
    if "embedding.weight" in layer.names:
        bound_U += width * layer.taps_WFD.double().norm()
    return bound_U


def _alphabets(codes_PC: Tensor, unit_P: Tensor, num_units: int) -> tuple[Tensor, Tensor]:
    """Return the characters of each unit, padding always among them, and where each one stands.

    Units of fewer characters than others have padding behind them once more.
    """
    is_used_UA = torch.zeros(num_units, NUM_CODES, dtype=torch.bool, device=codes_PC.device)
    is_used_UA[unit_P.unsqueeze(1), codes_PC] = True
    is_used_UA[:, PADDING] = True
    place_UA = is_used_UA.cumsum(1) - 1
    longest = int(place_UA[:, -1].max()) + 1
    alphabet_Ua = place_UA.new_full((num_units, longest), PADDING)
    unit_N, code_N = is_used_UA.nonzero(as_tuple=True)
    alphabet_Ua[unit_N, place_UA[unit_N, code_N]] = code_N
    return alphabet_Ua, place_UA


def _tables(
    layer: _Layer,
    sums_PF: Tensor,
    unit_P: Tensor,
    word_P: Tensor,
    place_UA: Tensor,
    alphabet_Ua: Tensor,
) -> Tensor:
    """Return what arrives in each unit for each character, tap and filter (U, a, W, F)."""
    num_units, longest = alphabet_Ua.shape
    winners_PX = layer.winners_VX[word_P]
    row_PX = place_UA[unit_P].gather(1, winners_PX) + (unit_P * longest).unsqueeze(1)
    width, num_filters = layer.taps_WFD.shape[:2]
    tables = sums_PF.new_zeros(num_units * longest, width * num_filters)
    tables.scatter_add_(0, row_PX, sums_PF.repeat(1, width))
    return tables.view(num_units, longest, width, num_filters)


def _squares(layer: _Layer, tables_UaWF: Tensor, alphabet_Ua: Tensor, bias_UF: Tensor) -> Tensor:
    """Return the squared norm of each unit's gradient."""
    squares_U = torch.zeros_like(bias_UF[:, 0])
    if "convolution.bias" in layer.names:
        squares_U += squared_sum(bias_UF)
    if "convolution.weight" in layer.names:
        character_gram_Uaa = gram(layer.characters_AD[alphabet_Ua])
        for tap in range(tables_UaWF.shape[2]):
            squares_U += gram_sizes(gram(tables_UaWF[:, :, tap]), character_gram_Uaa).squares
    if "embedding.weight" in layer.names:
        into_UaD = tables_UaWF.flatten(2) @ layer.taps_WFD.double().flatten(0, 1)
        # As in the plain step, padding is never trained.
        squares_U += squared_sum(into_UaD * (alphabet_Ua != PADDING).unsqueeze(2))
    return squares_U


def _add_products(layer: _Layer, table_AX: Tensor, bias_F: Tensor, totals: Totals) -> None:
    """Add the gradients that follow from the sum of all units' tables."""
    names = layer.names
    if "convolution.bias" in names:
        totals[names["convolution.bias"]].add_(bias_F)
    if "convolution.weight" in names:
        product_XD = table_AX.t() @ layer.characters_AD.double()
        product_WFD = product_XD.view(layer.taps_WFD.shape)
        totals[names["convolution.weight"]].add_(product_WFD.permute(1, 2, 0))
    if "embedding.weight" in names:
        into_AD = table_AX @ layer.taps_WFD.double().flatten(0, 1)
        into_AD[PADDING] = 0.0
        totals[names["embedding.weight"]].add_(into_AD)
