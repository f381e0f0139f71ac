"""The shape of a word as a few fixed features: what lower-cased vectors and encoders do not see.

There is nothing to train, so under differential privacy they cost nothing: a cheap stand-in for a
character CNN, whose many weights would all be noised.

Shapes: U distinct words, C characters of the longest, A alphabet, F features.
"""

import torch
from torch import Tensor, nn

from fedner.models.embeddings.characters import ALPHABET, NUM_CODES

FEATURES = (
    "lower case",
    "capitalised",
    "upper case",
    "capital inside",
    "one capital letter",
    "has a digit",
    "number",
    "punctuation",
    "has a hyphen",
    "handle or hashtag",
)


def _codes(wanted: str) -> Tensor:
    """Return which codes are among the characters `wanted` (A,)."""
    is_wanted = torch.zeros(NUM_CODES, dtype=torch.bool)
    for code, character in enumerate(ALPHABET, start=2):
        is_wanted[code] = character in wanted
    return is_wanted


class WordShapes(nn.Module):
    """From the character codes of words to `FEATURES`, each 0 or 1; all 0 where there is no word.

    Attributes:
        dimension: How many features a word has.
    """

    dimension = len(FEATURES)
    _upper_A: Tensor
    _lower_A: Tensor
    _digit_A: Tensor
    _hyphen_A: Tensor
    _sigil_A: Tensor

    def __init__(self) -> None:
        super().__init__()
        classes = {
            "_upper_A": "".join(filter(str.isupper, ALPHABET)),
            "_lower_A": "".join(filter(str.islower, ALPHABET)),
            "_digit_A": "0123456789",
            "_hyphen_A": "-‐‑–",
            "_sigil_A": "@#",
        }
        for name, characters in classes.items():
            self.register_buffer(name, _codes(characters), persistent=False)

    def forward(self, codes_UC: Tensor) -> Tensor:
        """Return the features of every word (U, F)."""
        upper_UC, lower_UC = self._upper_A[codes_UC], self._lower_A[codes_UC]
        num_upper, has_lower = upper_UC.sum(1), lower_UC.any(1)
        has_digit = self._digit_A[codes_UC].any(1)
        first_upper = upper_UC[:, 0]
        has_upper, is_word = num_upper > 0, codes_UC[:, 0] > 0
        has_letter = has_upper | has_lower
        features = (
            has_lower & ~has_upper,
            first_upper & has_lower & (num_upper == 1),
            (num_upper > 1) & ~has_lower,
            has_lower & (num_upper - first_upper.long() > 0),
            (num_upper == 1) & ~has_lower,
            has_digit,
            has_digit & ~has_letter,
            is_word & ~has_letter & ~has_digit,
            self._hyphen_A[codes_UC].any(1),
            self._sigil_A[codes_UC[:, 0]],
        )
        return torch.stack(features, dim=1).float()
