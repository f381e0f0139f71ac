"""Words from their characters: a fixed public alphabet and a CNN with max-pooling.

Ma and Hovy 2016 ("End-to-end sequence labeling via bi-directional LSTM-CNNs-CRF"), in the sizes of
the FedNER paper: 100 numbers a character, 200 filters of width 3.

A convolution over looked-up characters is a sum of looked-up products: the character table times
each tap of the filters is a small table of its own, and a filter's value at a position is one row
of each, added. The winner of the max-pooling is found that way without a gradient; then only the
rows of the winners are looked up once more, with one. The result is that of `nn.Conv1d`, at a
fraction of its work.

Shapes: U distinct words, C characters of the longest, A alphabet, D numbers a character, F filters,
W taps.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedner.errors import FednerError
from fedner.models.embeddings.origin import EmbeddingOrigin

PADDING = 0
UNKNOWN = 1
MAX_LENGTH = 50


def _between(first: int, last: int) -> str:
    return "".join(map(chr, range(first, last + 1)))


# Order is part of every checkpoint: characters may be appended, never moved.
ALPHABET = (
    _between(0x20, 0x7E)  # printable ASCII
    + _between(0xA1, 0xFF)  # Latin-1: letters, currency, signs, fractions
    + _between(0x391, 0x3A1)  # Greek, upper case (there is no 0x3A2)
    + _between(0x3A3, 0x3A9)
    + _between(0x3B1, 0x3C9)  # Greek, lower case
    + "ΆΈΉΊΌΎΏάέήίόύώϊϋ"
    + "ŒœŠšŽžŸƒ"
    + "‐‑‒–—―‘’‚‛“”„‟†‡•…‰′″‹›⁄"
    + "€₤₣₹₽"
    + "™℠№℞℃℉"
    + "←↑→↓↔⇒"
    + "−∓∙√∞≈≠≤≥≡∆∑∏∂∫"
    + "⁰⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉"
    + "⅓⅔⅛⅜⅝⅞"
    + "■□▪●○◊★☆☐☑✓✔✗♀♂♥☺☹"
    + "\u00a0\u2009\u202f\t\ufffd"
)
NUM_CODES = len(ALPHABET) + 2


def _code_table() -> NDArray[np.int64]:
    table = np.full(0x10000, UNKNOWN, dtype=np.int64)
    table[[ord(character) for character in ALPHABET]] = np.arange(2, NUM_CODES)
    return table


_CODES = _code_table()


def encode_words(words: Sequence[str], max_length: int = MAX_LENGTH) -> NDArray[np.int64]:
    """Return the codes of the characters of each word, padded with 0 to the longest (U, C).

    Of a word longer than `max_length` the middle is left out: beginnings and endings tell most.
    Callers encode the distinct words of a corpus once and index the result.
    """
    if max_length < 2:
        raise FednerError(f"max_length is {max_length}", "Give at least 2 characters a word.")
    head = (max_length + 1) // 2
    tail = max_length - head
    kept = [w if len(w) <= max_length else w[:head] + w[-tail:] for w in words]
    lengths = np.fromiter(map(len, kept), dtype=np.int64, count=len(kept))
    longest = int(lengths.max(initial=0))
    codes_UC = np.full((len(kept), longest), PADDING, dtype=np.int64)
    points = np.frombuffer("".join(kept).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    codes = np.where(points < len(_CODES), _CODES[np.minimum(points, len(_CODES) - 1)], UNKNOWN)
    codes_UC[np.arange(longest) < lengths[:, None]] = codes
    return codes_UC


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
