"""Words from their characters: a CNN with max-pooling over a fixed public alphabet.

Ma and Hovy 2016 ("End-to-end sequence labeling via bi-directional LSTM-CNNs-CRF"), in the sizes of
the FedNER paper: 100 numbers a character, 200 filters of width 3.

Forward: a convolution over looked-up characters is a sum of looked-up products: the character table
times each tap of the filters is a small table of its own, and a filter's value at a position is one
row of each, added. The winner of the max-pooling is found that way without a gradient; then only
the rows of the winners are looked up once more, with one. The result is that of `nn.Conv1d`, at a
fraction of its work.

Per unit: a filter's value for a word is b + sum_w E[c_w] . K_w, where c_w is the character under
tap w at the place where the filter is highest. So all a unit's gradient says is how much arrives
for each (tap, character, filter): a table S_u with a row for each of the few characters that the
unit's words have. From it, for each tap,

    gradient of K_w = S_uw^T E      gradient of E = sum_w S_uw K_w      gradient of b = sum_u

and the squared norm of the first is that of products of characters: <S_uw S_uw^T, E E^T>. A word
that occurs in several units counts in each by itself.

Shapes: B sentences, L tokens, U distinct words (in the forward pass) or units, V distinct words of
the batch, P pairs of a unit and a word of it, C characters of a word, A alphabet, a characters of a
unit, D numbers a character, F filters, W taps, X = W F.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedner.errors import FednerError
from fedner.models.embeddings.characters import ALPHABET, MAX_LENGTH, NUM_CODES, PADDING
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.features import Batch
from fedner.models.layers.forms import LayerForms, Parts, trained_names
from fedner.models.onnx_writer import TO_THE_END, GraphWriter, to_array
from fedner.models.per_unit.pairs import pair_sums, token_masses
from fedner.models.per_unit.tap import (
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
from fedner.models.per_unit.units import Sizes, Units


class CharacterCNN(nn.Module):
    """A convolution over the characters of each word and the maximum over its real positions.

    Attributes:
        embedding: The character table (`embedding.weight`); row 0 is padding and stays zero.
        convolution: The filters (`convolution.weight`, `convolution.bias`); kept as `nn.Conv1d`
            for its parameters and initialisation.
        dimension: Numbers a character has.
        filters: Numbers a word gets.
        width: Taps of a filter.
    """

    def __init__(self, dimension: int = 100, filters: int = 200, width: int = 3) -> None:
        super().__init__()
        if min(dimension, filters, width) < 1:
            raise FednerError(
                f"a character CNN of dimension {dimension}, {filters} filters, width {width}",
                "Give numbers of at least 1.",
            )
        self.dimension = dimension
        self.filters = filters
        self.width = width
        self.embedding = nn.Embedding(NUM_CODES, dimension, padding_idx=PADDING)
        # As in the reference implementations of the paper: uniform, variance 1 / dimension.
        bound = (3.0 / dimension) ** 0.5
        with torch.no_grad():
            self.embedding.weight.uniform_(-bound, bound)
            self.embedding.weight[PADDING].zero_()
        self.convolution = nn.Conv1d(dimension, filters, width)

    @property
    def origin(self) -> EmbeddingOrigin:
        """The alphabet, by its digest, and the width of the filters."""
        digest = hashlib.sha256(ALPHABET.encode()).hexdigest()
        settings: dict[str, str | int | float | bool] = {
            "characters": NUM_CODES,
            "character_dimension": self.dimension,
            "width": self.width,
            "max_length": MAX_LENGTH,
        }
        return EmbeddingOrigin("characters", "fedner alphabet", digest, self.filters, settings)

    def forward(self, codes_UC: Tensor, inverse: Tensor | None = None) -> Tensor:
        """Return the features of each word; all zero for a word of no characters.

        Args:
            codes_UC: The codes of distinct words, as `encode_words` gives them.
            inverse: Which of the words stands where, of any shape; None for each word once.

        Returns:
            The features (U, F), or those at `inverse` with F appended to its shape.
        """
        features_UF, _ = self.features_and_winners(codes_UC)
        # An embedding lookup: its gradient is summed in the same order every time, also on a GPU.
        return features_UF if inverse is None else functional.embedding(inverse, features_UF)

    def features_and_winners(self, codes_UC: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the features of distinct words and what each of them was looked up from.

        Returns:
            The features (U, F), and for each tap the code under it where each filter is highest
            (U, F); a word of no characters has features of 0, whatever its codes are.
        """
        if codes_UC.shape[1] == 0:
            nothing_UF = codes_UC.new_full((len(codes_UC), self.filters), PADDING)
            return nothing_UF.to(self.embedding.weight.dtype), [nothing_UF] * self.width
        tables_WAF = self._tap_tables()
        windows_UCW = self._windows(codes_UC)
        best_UF = self._best_positions(tables_WAF.detach(), windows_UCW)
        features_UF = self.convolution.bias if self.convolution.bias is not None else 0.0
        winners = [windows_UCW[:, :, tap].gather(1, best_UF) for tap in range(self.width)]
        for tap, codes_UF in enumerate(winners):
            features_UF = features_UF + tables_WAF[tap].gather(0, codes_UF)
        is_word_U1 = (codes_UC != PADDING).any(dim=1, keepdim=True)
        return torch.where(is_word_U1, features_UF, 0.0), winners

    def _tap_tables(self) -> Tensor:
        """Return the product of every character with every tap (W, A, F)."""
        # Looked up, not taken as it is: so the padding row gets no gradient.
        characters_AD = self.embedding(torch.arange(NUM_CODES, device=self.embedding.weight.device))
        return torch.einsum("ad,fdw->waf", characters_AD, self.convolution.weight)

    def _windows(self, codes_UC: Tensor) -> Tensor:
        """Return the codes under the taps at every position (U, C, W), padding past the ends."""
        left = (self.width - 1) // 2
        padded = functional.pad(codes_UC, (left, self.width - 1 - left), value=PADDING)
        return padded.unfold(1, self.width, 1)

    @torch.no_grad()
    def _best_positions(self, tables_WAF: Tensor, windows_UCW: Tensor) -> Tensor:
        """Return where each filter is highest in each word, among its characters (U, F)."""
        tables_WAF = tables_WAF.clone()
        centre = (self.width - 1) // 2
        # A position is the place of its own character: where that is padding, it never wins.
        tables_WAF[centre, PADDING] = -torch.inf
        first_row_W = torch.arange(self.width, device=windows_UCW.device) * NUM_CODES
        rows_UCW = windows_UCW + first_row_W
        table = tables_WAF.reshape(-1, self.filters)
        if windows_UCW.device.type != "cpu":
            scores = functional.embedding_bag(rows_UCW.reshape(-1, self.width), table, mode="sum")
            return scores.reshape(*windows_UCW.shape[:2], self.filters).argmax(dim=1)
        return _best_by_position(table, rows_UCW, (windows_UCW[:, :, centre] != PADDING).sum(dim=1))


def _best_by_position(table: Tensor, rows_UCW: Tensor, lengths_U: Tensor) -> Tensor:
    """Find the best positions one position after the other, over the words that are long enough.

    On a CPU this is several times faster than one maximum over padded words.
    """
    order_U = torch.argsort(lengths_U, descending=True, stable=True)
    rows_CUW = rows_UCW[order_U].transpose(0, 1).contiguous()
    num_words, longest, _ = rows_UCW.shape
    # How many words have a character at each position: the longest words come first.
    ends = (lengths_U.unsqueeze(0) > torch.arange(longest).unsqueeze(1)).sum(dim=1).tolist()
    highest_UF = table.new_full((num_words, table.shape[1]), -torch.inf)
    best_UF = torch.zeros(highest_UF.shape, dtype=torch.int32)
    for position, end in enumerate(ends):
        if end == 0:
            break
        scores = functional.embedding_bag(rows_CUW[position, :end], table, mode="sum")
        is_better = scores > highest_UF[:end]
        best_UF[:end].masked_fill_(is_better, position)
        torch.maximum(highest_UF[:end], scores, out=highest_UF[:end])
    unsorted_UF = torch.empty_like(best_UF)
    unsorted_UF[order_U] = best_UF
    return unsorted_UF.long()


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


def _tap(cnn: CharacterCNN, prefix: str, _parts: Parts, batch: Batch) -> tuple[Tensor, list[Tap]]:
    """Return the features of every token (B, L, F), and the tap."""
    with torch.no_grad():
        features_VF, winners = cnn.features_and_winners(batch.characters_UC)
    features_BLF = features_VF[batch.word_BL]
    names = trained_names(cnn, prefix)
    if not names:
        return features_BLF, []
    layer = _Layer(
        cnn.embedding.weight.detach(),
        cnn.convolution.weight.detach().permute(2, 0, 1),
        names,
        batch.word_BL,
        batch.characters_UC,
        torch.cat(winners, dim=1),
    )
    return features_BLF, [Tap(tapped(features_BLF), partial(_measure, layer))]


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


def _forward(cnn: CharacterCNN, _parts: Parts, batch: Batch) -> Tensor:
    features_BLF: Tensor = cnn(batch.characters_UC, batch.word_BL)
    return features_BLF


def _onnx(cnn: CharacterCNN, graph: GraphWriter, _parts: Sequence[str]) -> str:
    """Write the maximum over the characters of each word; zero for a word of none."""
    codes_UC, none = graph.read("characters"), graph.scalar(0, np.int64)
    is_there_UC1 = graph.op("Unsqueeze", graph.op("Greater", codes_UC, none), graph.constant([2]))
    lowest = graph.scalar(-np.inf)
    real_UCF = graph.op("Where", is_there_UC1, _onnx_scores(cnn, graph), lowest)
    highest_UF = graph.op("ReduceMax", real_UCF, axes=[1], keepdims=0)
    if cnn.convolution.bias is not None:
        highest_UF = graph.op("Add", highest_UF, graph.weight(cnn.convolution.bias))
    last_code_U1 = graph.op("ReduceMax", codes_UC, axes=[1], keepdims=1)
    is_word_U1 = graph.op("Greater", last_code_U1, none)
    return graph.at_tokens(graph.op("Where", is_word_U1, highest_UF, graph.scalar(0)))


def _onnx_scores(cnn: CharacterCNN, graph: GraphWriter) -> str:
    """Write the value of each filter at each character, its bias aside (U, C, F)."""
    table_AD, weight_FDW = to_array(cnn.embedding.weight), to_array(cnn.convolution.weight)
    tables_WAF = np.einsum("ad,fdw->waf", table_AD, weight_FDW, dtype=np.float64)
    left = (cnn.width - 1) // 2
    around = graph.constant([0, left, 0, cnn.width - 1 - left])
    padded = graph.op("Pad", graph.read("characters"), around)
    columns, total_UCF = graph.constant([1]), ""
    for tap, table_AF in enumerate(tables_WAF.astype(np.float32)):
        end = tap + 1 - cnn.width or TO_THE_END
        under_UC = graph.op("Slice", padded, graph.constant([tap]), graph.constant([end]), columns)
        found_UCF = graph.op("Gather", graph.constant(table_AF), under_UC, axis=0)
        total_UCF = graph.op("Add", total_UCF, found_UCF) if total_UCF else found_UCF
    return total_UCF


FORMS = LayerForms(
    "character CNN",
    _forward,
    _tap,
    _onnx,
    is_source=True,
    padding_rows={"embedding.weight": PADDING},
)
