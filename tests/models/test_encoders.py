"""The encoders give what torch's own layers give, and dropout what it promises."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fedner.corpus.sentence import Sentence
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.layers.bilstm import BiLSTM
from fedner.models.layers.dropout import Dropout
from fedner.models.layers.word_cnn import WordCNN


def layout_of(lengths: list[int]):
    sentences = [Sentence.of(["w"] * length) for length in lengths]
    corpus = encode_corpus(sentences, WordEmbedding(HashedWords(10, 2)))
    return collate(corpus, range(len(lengths))).layout


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@settings(max_examples=25, deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    length=st.integers(1, 7),
)
def test_word_cnn_is_conv1d(widths: list[int], sizes: list[int], length: int) -> None:
    torch.manual_seed(0)
    cnn = WordCNN(sum(sizes), 3, widths)
    parts = [torch.randn(2, length, size, requires_grad=True) for size in sizes]
    ours = cnn(parts)
    joined = torch.cat(parts, dim=-1).transpose(1, 2)
    theirs = torch.cat([c(joined).transpose(1, 2) for c in cnn.convolutions], dim=-1).relu()
    assert torch.allclose(ours, theirs, atol=1e-6)
    weight = torch.randn_like(ours)
    leaves = [*parts, *cnn.parameters()]
    for mine, other in zip(
        torch.autograd.grad((ours * weight).sum(), leaves),
        torch.autograd.grad((theirs * weight).sum(), leaves),
        strict=True,
    ):
        assert torch.allclose(mine, other, atol=1e-5)


def test_word_cnn_computes_no_gradient_for_frozen_parts() -> None:
    cnn = WordCNN(5, 2, [3])
    frozen, trained = torch.randn(1, 4, 3), torch.randn(1, 4, 2, requires_grad=True)
    cnn([frozen, trained]).sum().backward()
    assert frozen.grad is None
    assert trained.grad is not None


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", [[7], [5, 5, 5], [6, 5, 4, 4], [9, 2, 1, 1]])
def test_bilstm_is_torch_on_packed_sentences(layers: int, lengths: list[int]) -> None:
    torch.manual_seed(1)
    bilstm = BiLSTM(4, 3, layers, dropout=0.5).eval()
    x_BLD = torch.randn(len(lengths), max(lengths), 4, requires_grad=True)
    layout = layout_of(lengths)
    packed = pack_padded_sequence(x_BLD, torch.tensor(lengths), batch_first=True)
    theirs, _ = pad_packed_sequence(bilstm.lstm(packed)[0], batch_first=True)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).unsqueeze(-1)
    leaves = [x_BLD, *bilstm.parameters()]
    expected = torch.autograd.grad((theirs * mask).square().sum(), leaves)
    for out_BLH in (
        bilstm(x_BLD, layout),
        bilstm(x_BLD, replace(layout, sizes_L=None)),
        bilstm._encode_packed(x_BLD, layout, layout.sizes_L),
    ):
        ours = out_BLH * mask
        assert torch.allclose(ours, theirs, atol=1e-6)
        found = torch.autograd.grad(ours.square().sum(), leaves)
        for mine, other in zip(found, expected, strict=True):
            assert torch.allclose(mine, other, atol=1e-5)


def test_dropout_rate_scale_and_gradient() -> None:
    dropout = Dropout(0.2)
    torch.manual_seed(3)
    x = torch.ones(1000, 1003, requires_grad=True)
    y = dropout(x)
    share = float((y == 0).float().mean())
    assert abs(share - 0.2) < 4 * (0.16 / x.numel()) ** 0.5
    (gradient,) = torch.autograd.grad(y.sum(), [x])
    y = y.detach()
    assert torch.equal(gradient, y)
    assert float(y.max()) == pytest.approx(1.25, abs=1e-4)
    assert float(y.mean()) == pytest.approx(1.0, abs=2e-3)
    # Values that share a random number are dropped independently of each other.
    kept = (y.flatten()[: 4 * (x.numel() // 4)].view(-1, 4) > 0).float()
    correlation = torch.corrcoef(kept.t()) - torch.eye(4)
    assert float(correlation.abs().max()) < 0.01


def test_dropout_follows_the_seed_and_rests_in_evaluation() -> None:
    dropout, x = Dropout(0.5), torch.ones(3, 7)
    torch.manual_seed(9)
    first = dropout(x)
    torch.manual_seed(9)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(dropout(x), first)
    assert dropout.eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_tag_space_is_sorted_and_begins_with_o() -> None:
    space = TagSpace.of(["Drug", "ADE"], "BIO")
    assert space.tags == ("O", "B-ADE", "I-ADE", "B-Drug", "I-Drug")
    assert space.transitions.start == (True, True, False, True, False)
