"""Batches hold exactly what their sentences hold, whatever they are gathered with."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.models.embeddings.characters import encode_words
from fedner.models.embeddings.context import cached_features
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import (
    TagSpace,
    collate,
    context_tensor,
    encode_corpus,
    select,
    tag_indices,
)

VOCABULARY = ["a", "bb", "ccc", "Dddd", "é"]
WORDS = WordEmbedding(HashedWords(100, 3))
SPACE = TagSpace.of(["X"], "BIO")


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=5), min_size=1),
    data=st.data(),
)
def test_a_batch_holds_its_sentences(texts: list[list[str]], data: st.DataObject) -> None:
    sentences = [Sentence.of(tokens) for tokens in texts]
    num_tokens = sum(map(len, texts))
    context_TD = torch.randn(num_tokens, 2).half()
    corpus = encode_corpus(sentences, WORDS, space=SPACE, context_TD=context_TD)
    full = [index for index, tokens in enumerate(texts) if tokens]
    if not full:
        return
    chosen = data.draw(st.lists(st.sampled_from(full), min_size=1, max_size=4))
    batch = collate(corpus, chosen)
    assert sorted(batch.sentences.tolist()) == sorted(chosen)
    assert (np.diff(batch.lengths_B.numpy()) <= 0).all()
    offsets = np.cumsum([0, *map(len, texts)])
    for row, index in enumerate(batch.sentences.tolist()):
        tokens = texts[index]
        words = batch.word_BL[row]
        assert batch.mask_BL[row].sum() == len(tokens) == batch.lengths_B[row]
        assert not words[len(tokens) :].any()
        assert words[: len(tokens)].all()
        expected = torch.from_numpy(WORDS.source.take(WORDS.source.rows(tokens)))
        assert torch.equal(batch.vectors_UD[words[: len(tokens)]], expected)
        codes = encode_words(tokens)
        found = batch.characters_UC[words[: len(tokens)]].numpy()
        assert np.array_equal(found[:, : codes.shape[1]], codes)
        assert not found[:, codes.shape[1] :].any()
        own = context_TD[offsets[index] : offsets[index + 1]].float()
        assert torch.equal(batch.context_BLD[row, : len(tokens)], own)
        assert not batch.context_BLD[row, len(tokens) :].any()
    assert not batch.vectors_UD[0].any()
    assert not batch.characters_UC[0].any()


def test_gold_tags_and_unknown_labels() -> None:
    sentences = [
        Sentence.of(["a", "b", "c"], (Entity(1, 3, "X"),)),
        Sentence.of([]),
        Sentence.of(["d"]),
    ]
    assert tag_indices(sentences, SPACE).tolist() == [0, 1, 2, 0]
    batch = collate(encode_corpus(sentences, WORDS, space=SPACE), [2, 0])
    assert batch.gold_tags.tolist() == [[0, 1, 2], [0, 0, 0]]
    with pytest.raises(FednerError, match="'B-Y' is not among"):
        tag_indices([Sentence.of(["a"], (Entity(0, 1, "Y"),))], SPACE)


def test_refusals() -> None:
    corpus = encode_corpus([Sentence.of(["a"]), Sentence.of([])], WORDS)
    with pytest.raises(FednerError, match="1 of them without a token"):
        collate(corpus, [0, 1])
    with pytest.raises(FednerError, match="batch of 0 sentences"):
        collate(corpus, [])
    with pytest.raises(FednerError, match="no gold tags"):
        _ = collate(corpus, [0]).gold_tags
    with pytest.raises(FednerError, match="features for 3 tokens, but the corpus has 1"):
        encode_corpus([Sentence.of(["a"])], WORDS, context_TD=torch.zeros(3, 2))


def test_select_shares_memory_and_keeps_tokens() -> None:
    sentences = [Sentence.of(["a"]), Sentence.of(["b", "c"]), Sentence.of(["d"])]
    corpus = encode_corpus(sentences, WORDS, space=SPACE)
    part = select(corpus, [2, 1])
    assert part.num_tokens == 3
    assert part.vectors_VD is corpus.vectors_VD
    theirs, ours = collate(corpus, [1, 2]), collate(part, [0, 1])
    assert torch.equal(theirs.word_BL, ours.word_BL)
    assert ours.sentences.tolist() == [1, 0]


def test_cached_context_is_mapped_and_safe_to_write(tmp_path) -> None:
    class Lengths:
        name, dimension, digest = "lengths", 1, "0"

        def encode(self, sentences):
            return [np.array([[float(len(t))] for t in s], np.float32) for s in sentences]

    features = cached_features(Lengths(), [["a", "bb"], ["ccc"]], tmp_path)
    tensor = context_tensor(features)
    assert tensor.dtype == torch.float16
    assert tensor.flatten().tolist() == [1, 2, 3]
    tensor.zero_()
    assert context_tensor(features).flatten().tolist() == [1, 2, 3]
