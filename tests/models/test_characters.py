"""The alphabet and the character CNN, against nn.Conv1d and a slow obvious encoding."""

import hashlib
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from fedner.errors import FednerError
from fedner.models.embeddings.characters import (
    ALPHABET,
    NUM_CODES,
    PADDING,
    UNKNOWN,
    encode_words,
)
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.layers.character_cnn import CharacterCNN

WORDS = ["a", "ab", "naïve", "β-blocker", "", "10mg/kg", "汉字", "x" * 30, "≤5", "😀"]


def by_convolution(module: CharacterCNN, codes: torch.Tensor) -> torch.Tensor:
    """The obvious way: embed, convolve, mask, take the maximum."""
    embedded = module.embedding(codes).transpose(1, 2)
    left = (module.width - 1) // 2
    padded = functional.pad(embedded, (left, module.width - 1 - left))
    convolved = module.convolution(padded)
    masked = convolved.masked_fill((codes == PADDING).unsqueeze(1), -torch.inf)
    return torch.where((codes != PADDING).any(dim=1, keepdim=True), masked.amax(dim=2), 0.0)


def test_the_alphabet_is_fixed() -> None:
    assert len(set(ALPHABET)) == len(ALPHABET) == NUM_CODES - 2
    for character in "aZ0 ~éßµΩβ–—“”…€£≤≥°±½×":
        assert character in ALPHABET
    # A literal: moving one character would break every checkpoint.
    assert hashlib.sha256(ALPHABET.encode()).hexdigest()[:16] == "77eec785409d5d86"


@given(st.lists(st.text(max_size=12), max_size=8), st.integers(2, 9))
def test_encoding_equals_the_obvious_one(words: list[str], max_length: int) -> None:
    expected = []
    for word in words:
        head = (max_length + 1) // 2
        kept = word if len(word) <= max_length else word[:head] + word[head - max_length :]
        assert len(kept) <= max_length
        expected.append([ALPHABET.find(c) + 2 if c in ALPHABET else UNKNOWN for c in kept])
    longest = max(map(len, expected), default=0)
    padded = [row + [PADDING] * (longest - len(row)) for row in expected]
    assert encode_words(words, max_length).tolist() == padded


def test_a_lone_surrogate_is_an_unknown_character() -> None:
    assert encode_words(["a\ud800"])[0, 1] == UNKNOWN
    with pytest.raises(FednerError, match="max_length is 1"):
        encode_words(["a"], 1)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("abcé€汉 "), max_size=9), min_size=1, max_size=12),
    st.integers(1, 5),
    st.integers(0, 2**31),
)
def test_features_and_gradients_equal_those_of_a_convolution(
    words: list[str], width: int, seed: int
) -> None:
    torch.manual_seed(seed)
    module = CharacterCNN(dimension=6, filters=7, width=width)
    codes = torch.from_numpy(encode_words(words))
    if codes.shape[1] == 0:
        assert module(codes).tolist() == [[0.0] * 7] * len(words)
        return
    weights = torch.randn(len(words), 7)
    results = []
    for compute in (module, lambda c: by_convolution(module, c)):
        module.zero_grad()
        out = compute(codes)
        (out * weights).sum().backward()
        results.append([out.detach(), *(p.grad.clone() for p in module.parameters())])
    torch.testing.assert_close(results[0], results[1], atol=1e-5, rtol=1e-5)


def test_both_ways_to_find_the_winners_agree() -> None:
    torch.manual_seed(0)
    module = CharacterCNN(8, 16)
    windows = module._windows(torch.from_numpy(encode_words(WORDS)))
    tables = module._tap_tables().detach()
    by_position = module._best_positions(tables, windows)
    tables[1, PADDING] = -torch.inf
    scores = sum(tables[tap][windows[:, :, tap]] for tap in range(3))
    is_word = torch.tensor([bool(word) for word in WORDS])
    assert torch.equal(by_position[is_word], scores.argmax(dim=1)[is_word])


def test_padding_never_wins_and_the_batch_does_not_matter() -> None:
    torch.manual_seed(0)
    module = CharacterCNN(8, 16)
    with torch.no_grad():
        module.convolution.bias.fill_(-5.0)  # real positions are far below the zero of padding
    together = module(torch.from_numpy(encode_words(WORDS)))
    for word, row in zip(WORDS, together, strict=True):
        alone = module(torch.from_numpy(encode_words([word])))[0]
        torch.testing.assert_close(alone, row)
        assert (row < 0).all() == bool(word)


def test_a_word_is_computed_once_and_stands_in_many_places() -> None:
    torch.manual_seed(0)
    module = CharacterCNN(8, 16)
    codes = torch.from_numpy(encode_words(["one", "two"]))
    inverse = torch.tensor([[0, 1, 0], [1, 1, 0]])
    out = module(codes, inverse)
    assert out.shape == (2, 3, 16)
    assert torch.equal(out, module(codes)[inverse])
    out.sum().backward()
    gathered = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(codes)[inverse].sum().backward()
    torch.testing.assert_close(gathered, [p.grad for p in module.parameters()])


def test_names_sizes_and_origin() -> None:
    module = CharacterCNN()
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    assert shapes == {
        "embedding.weight": (NUM_CODES, 100),
        "convolution.weight": (200, 100, 3),
        "convolution.bias": (200,),
    }
    assert module(torch.from_numpy(encode_words(["word"]))).shape == (1, 200)
    assert not module.embedding.weight[PADDING].any()
    origin = EmbeddingOrigin.from_json(json.loads(json.dumps(module.origin.to_json())))
    assert origin == module.origin
    assert origin.dimension == 200
    with pytest.raises(FednerError, match="width 0"):
        CharacterCNN(width=0)


def test_no_words_at_all() -> None:
    module = CharacterCNN(8, 16)
    assert module(torch.from_numpy(encode_words([]))).shape == (0, 16)
    assert np.array_equal(encode_words([]), np.empty((0, 0)))
