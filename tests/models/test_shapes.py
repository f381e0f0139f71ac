"""The shape of words: literal rows, and what the features are good for."""

import pytest
import torch

from fedner.models.embeddings.characters import encode_words
from fedner.models.layers.word_shapes import FEATURES, WordShapes

EXPECTED = {
    "": set(),
    "fever": {"lower case"},
    "Berlin": {"capitalised"},
    "DNA": {"upper case"},
    "iPhone": {"capital inside"},
    "McDonald": {"capital inside"},
    "I": {"one capital letter"},
    "B12": {"one capital letter", "has a digit"},
    "2026": {"has a digit", "number"},
    "3-5": {"has a digit", "number", "has a hyphen"},
    "!?": {"punctuation"},
    "-": {"punctuation", "has a hyphen"},
    "X-ray": {"capitalised", "has a hyphen"},
    "@someone": {"lower case", "handle or hashtag"},
    "#NHS": {"upper case", "handle or hashtag"},
    "Ödem": {"capitalised"},
    "漢字": {"punctuation"},
}


@pytest.mark.parametrize("word", EXPECTED)
def test_shapes_of_words(word: str) -> None:
    codes_UC = torch.from_numpy(encode_words([word, "padding-to-this-width"]))
    features = WordShapes()(codes_UC)[0]
    found = {name for name, value in zip(FEATURES, features, strict=True) if value}
    assert found == EXPECTED[word]


def test_shapes_have_nothing_to_train_or_to_save() -> None:
    assert not list(WordShapes().parameters())
    assert not WordShapes().state_dict()
