"""Recorded steps: padding up to shared shapes changes nothing, and neither does replaying."""

from dataclasses import replace

import pytest
import torch
from small_platform import FROZEN_RECIPES, context_size, small, small_platform

from fedner.models.features import collate, encode_corpus
from fedner.models.graphed import GraphedTagger, _Emissions, _padded
from fedner.models.zoo import RECIPES, build_tagger
from fedner.training import gradients


@pytest.mark.parametrize("name", FROZEN_RECIPES)
def test_padding_up_changes_nothing(name: str) -> None:
    recipe, platform = small(RECIPES[name]), small_platform()
    tagger = build_tagger(recipe, platform.words, platform.space, context_size(recipe)).eval()
    batch = collate(platform.encoded(recipe), [3, 11, 20])
    inputs = _padded(batch)
    assert inputs[0].shape[1] % 4 == 0
    assert len(inputs[2]) % 256 == 0
    ours = _Emissions(tagger).eval()(*inputs)[:, : batch.word_BL.shape[1]]
    mask = batch.mask_BL.unsqueeze(-1)
    assert torch.allclose(ours * mask, tagger(batch) * mask, atol=1e-5)


def test_only_cuda_and_frozen_words() -> None:
    platform = small_platform(trainable=True)
    tagger = build_tagger(small(RECIPES["LSTM-CRF"]), platform.words, platform.space)
    assert not GraphedTagger.fits(tagger, torch.device("cuda"))
    frozen = build_tagger(small(RECIPES["LSTM-CRF"]), small_platform().words, platform.space)
    assert GraphedTagger.fits(frozen, torch.device("cuda"))
    assert not GraphedTagger.fits(frozen, torch.device("cpu"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", FROZEN_RECIPES)
def test_replayed_gradients_are_those_of_launched_steps(name: str) -> None:
    recipe, platform = replace(small(RECIPES[name]), dropout=0.0), small_platform()
    dimension = context_size(recipe)
    tagger = build_tagger(recipe, platform.words, platform.space, dimension).cuda().train()
    context_TD = platform.context() if recipe.context else None
    corpus = encode_corpus(
        platform.sentences,
        platform.words,
        space=platform.space,
        context_TD=context_TD,
        device="cuda",
    )
    graphed = GraphedTagger(tagger)
    for chosen in ([0, 1, 2, 3], [9, 8, 7, 6], [20, 21, 22, 23], [0, 1, 2, 3]):
        batch = collate(corpus, chosen)
        loss, expected = gradients(tagger, batch)
        again, found = gradients(tagger, batch, graphed=graphed)
        assert torch.allclose(loss, again, atol=1e-4)
        for key, value in expected.items():
            assert torch.allclose(found[key], value, atol=1e-3, rtol=1e-2), key
    assert graphed.recorded
