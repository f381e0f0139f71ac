"""The shape of a word as a few fixed features: what lower-cased vectors and encoders do not see.

There is nothing to train, so under differential privacy they cost nothing: a cheap stand-in for a
character CNN, whose many weights would all be noised.

Shapes: B sentences, L tokens, U distinct words, C characters of the longest, A alphabet, F
features, N classes of characters.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedner.models.embeddings.characters import ALPHABET, NUM_CODES
from fedner.models.features import Batch
from fedner.models.layers.forms import LayerForms, Parts
from fedner.models.onnx_writer import FLOAT, GraphWriter, to_array
from fedner.models.per_unit.tap import Tap

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


def _forward(shapes: WordShapes, _parts: Parts, batch: Batch) -> Tensor:
    return functional.embedding(batch.word_BL, shapes(batch.characters_UC))


def _tap(shapes: WordShapes, _prefix: str, parts: Parts, batch: Batch) -> tuple[Tensor, list[Tap]]:
    return _forward(shapes, parts, batch), []


_CLASSES = ("upper", "lower", "digit", "hyphen", "sigil")


def _onnx(shapes: WordShapes, graph: GraphWriter, _parts: Sequence[str]) -> str:
    """Write the features in the words of `WordShapes.forward`."""
    classes = [dict(shapes.named_buffers())[f"_{name}_A"] for name in _CLASSES]
    table_AN = graph.constant(np.stack([to_array(each.float()) for each in classes], axis=1))
    features = _onnx_features(graph, table_AN)
    numbers = [graph.op("Cast", features[name], to=FLOAT) for name in FEATURES]
    return graph.at_tokens(graph.joined(numbers, 1))


def _onnx_features(graph: GraphWriter, table_AN: str) -> dict[str, str]:
    """Write whether each word has each feature (U, 1)."""
    codes_UC, columns = graph.read("characters"), graph.constant([1])
    zero, one = graph.scalar(0), graph.scalar(1)

    def is_positive(values: str) -> str:
        return graph.op("Greater", values, zero)

    def negated(condition: str) -> str:
        return graph.op("Not", condition)

    def both(first: str, *others: str) -> str:
        for other in others:
            first = graph.op("And", first, other)
        return first

    found_UCN = graph.op("Gather", table_AN, codes_UC, axis=0)
    counts_UN = graph.op("ReduceSum", found_UCN, columns, keepdims=0)
    first_UC = graph.op("Slice", codes_UC, graph.constant([0]), graph.constant([1]), columns)
    first_UN = graph.op("Squeeze", graph.op("Gather", table_AN, first_UC, axis=0), columns)
    num_upper, *others = graph.ops("Split", len(_CLASSES), counts_UN, axis=1)
    has_lower, has_digit, has_hyphen, _ = (is_positive(each) for each in others)
    is_first_upper, _, _, _, is_sigil = graph.ops("Split", len(_CLASSES), first_UN, axis=1)
    has_upper, no_lower = is_positive(num_upper), negated(has_lower)
    has_one_upper = graph.op("Equal", num_upper, one)
    no_letter = negated(graph.op("Or", has_upper, has_lower))
    is_word = graph.op("Greater", first_UC, graph.scalar(0, np.int64))
    return {
        "lower case": both(has_lower, negated(has_upper)),
        "capitalised": both(is_positive(is_first_upper), has_lower, has_one_upper),
        "upper case": both(graph.op("Greater", num_upper, one), no_lower),
        "capital inside": both(has_lower, graph.op("Greater", num_upper, is_first_upper)),
        "one capital letter": both(has_one_upper, no_lower),
        "has a digit": has_digit,
        "number": both(has_digit, no_letter),
        "punctuation": both(is_word, no_letter, negated(has_digit)),
        "has a hyphen": has_hyphen,
        "handle or hashtag": is_positive(is_sigil),
    }


FORMS = LayerForms("word shapes", _forward, _tap, _onnx, is_source=True)
