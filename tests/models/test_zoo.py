"""Every recipe passes the same test: it learns, and whatever it is fed, padding changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_platform import CONTEXT_DIMENSION, FROZEN_RECIPES, context_size, small, small_platform

from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.partition import partition
from fedner.models.tagger import Tagger
from fedner.models.zoo import RECIPES, Recipe, build_tagger, parameter_counts, recipe_named
from fedner.optimizers import OptimizerSettings
from fedner.training import (
    Evaluation,
    TrainingSettings,
    predict_tags,
    train,
    trainable,
)

FAST = TrainingSettings(epochs=30, batch_size=8, optimizer=OptimizerSettings(learning_rate=1e-2))


def tagger_of(recipe: Recipe, platform, seed: int = 0) -> Tagger:
    return build_tagger(recipe, platform.words, platform.space, context_size(recipe), seed)


@pytest.mark.parametrize("name", FROZEN_RECIPES)
def test_a_recipe_learns_fifty_sentences(name: str) -> None:
    recipe = small(RECIPES[name])
    platform = small_platform(trainable=True)
    corpus = platform.encoded(recipe)
    tagger = tagger_of(recipe, platform)
    evaluation = Evaluation(corpus, platform.sentences, platform.space)
    train(tagger, corpus, FAST, seed=1)
    assert evaluation.scores(tagger).strict_micro.f1 > 0.95
    _takes_whatever_it_is_fed(tagger, recipe, platform)


def _takes_whatever_it_is_fed(tagger: Tagger, recipe: Recipe, platform) -> None:
    sentences = [
        Sentence.of([]),
        Sentence.of(["fever"] * 1000),
        Sentence.of(["🦠", "漢字", "x" * 300, "\u200b"]),
        Sentence.of(["one"]),
    ]
    context_TD = torch.randn(1005, CONTEXT_DIMENSION) if recipe.context else None
    corpus = encode_corpus(sentences, platform.words, context_TD=context_TD)
    tags = predict_tags(tagger, corpus)
    assert [len(each) for each in tags] == [0, 1000, 4, 1]
    batch = collate(corpus, [3, 1, 2])
    with torch.no_grad():
        together = tagger.eval()(batch)
        for row, index in enumerate(batch.sentences.tolist()):
            alone = tagger(collate(corpus, [index]))[0]
            assert torch.isfinite(alone).all()
            assert torch.allclose(together[row, : len(alone)], alone, atol=1e-5)


def test_elmoner_learns_in_the_sizes_of_the_paper() -> None:
    recipe = RECIPES["ELMoNER"]
    platform = small_platform()
    corpus = platform.encoded(recipe, dimension=64)
    tagger = build_tagger(recipe, platform.words, platform.space, 64)
    train(
        tagger,
        corpus,
        replace(FAST, epochs=10, optimizer=OptimizerSettings(learning_rate=3e-3)),
        seed=1,
    )
    scores = Evaluation(corpus, platform.sentences, platform.space).scores(tagger)
    assert scores.strict_micro.f1 > 0.95


def test_the_parameter_counts_of_elmoner_by_hand() -> None:
    platform = small_platform()
    counts = parameter_counts(build_tagger(RECIPES["ELMoNER"], platform.words, platform.space, 64))
    num_tags = 1 + 4 * 3
    d = 40 + 200 + 64
    characters = platform_alphabet() * 100 + 200 * 100 * 3 + 200
    assert counts == {
        "embeddings.characters": characters,
        "word_cnn": 200 * d * 3 + 200,
        "bilstm": 2 * (4 * 200 * (200 + 200) + 2 * 4 * 200),
        "emissions": num_tags * 400 + num_tags,
        "decoder": num_tags * num_tags + 2 * num_tags,
    }


def platform_alphabet() -> int:
    from fedner.models.embeddings.characters import NUM_CODES

    return NUM_CODES


def test_shared_parameters_begin_alike_whatever_the_tags() -> None:
    recipe, platform = small(RECIPES["CNN-CLSTM-CRF"]), small_platform()
    one = trainable(build_tagger(recipe, platform.words, platform.space, seed=4))
    other_space = TagSpace.of(["Finding"], "BIO")
    other = trainable(build_tagger(recipe, platform.words, other_space, seed=4))
    for name in partition(one, "encoder").shared:
        assert torch.equal(one[name], other[name])
    different = trainable(build_tagger(recipe, platform.words, platform.space, seed=5))
    weight = "word_cnn.convolutions.0.weight"
    assert not torch.equal(one[weight], different[weight])
    assert float(one[weight].detach().abs().max()) <= 1 / np.sqrt(3 * 60)


def test_forget_gates_begin_open() -> None:
    platform = small_platform()
    tagger = build_tagger(small(RECIPES["LSTM-CRF"]), platform.words, platform.space)
    weights = trainable(tagger)
    total = weights["bilstm.lstm.bias_ih_l0"] + weights["bilstm.lstm.bias_hh_l0"]
    assert (total[40:80] == 1.0).all()
    assert (total[:40] != 1.0).all()


@pytest.mark.parametrize("name", FROZEN_RECIPES)
def test_the_default_split_shares_something_and_keeps_something(name: str) -> None:
    recipe, platform = small(RECIPES[name]), small_platform()
    split = partition(trainable(tagger_of(recipe, platform)), recipe.split)
    assert split.shared
    assert bool(split.private) == (recipe.split != "everything")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_whose_it_is_and_what_is_ours(name: str) -> None:
    recipe = RECIPES[name]
    assert recipe_named(name.lower()) is recipe
    assert any(year in recipe.paper for year in ("2019", "2020", "2021"))
    assert recipe.reading
    assert recipe.composition.startswith("words") == recipe.words


def test_recipes_and_context_must_fit() -> None:
    platform = small_platform()
    with pytest.raises(FednerError, match="needs context features"):
        build_tagger(RECIPES["ELMoNER"], platform.words, platform.space)
    with pytest.raises(FednerError, match="no context slot"):
        build_tagger(RECIPES["CNN-CRF"], platform.words, platform.space, 8)
    with pytest.raises(FednerError, match="no recipe 'BERT'"):
        recipe_named("BERT")
    recipe = small(RECIPES["ELMoNER"])
    tagger = tagger_of(recipe, platform)
    bare = encode_corpus(platform.sentences, platform.words, space=platform.space)
    with pytest.raises(FednerError, match="encoded without them"):
        tagger.losses(collate(bare, [0]))


def test_compositions_as_the_issue_has_them() -> None:
    assert {name: recipe.composition for name, recipe in RECIPES.items()} == {
        "CNN-CRF": "words -> word CNN -> CRF",
        "LSTM-CRF": "words -> BiLSTM -> CRF",
        "GRAM-CNN": "words + char CNN -> word CNNs of widths 1, 3, 5 -> CRF",
        "CNN-LSTM-CRF": "words + char CNN -> BiLSTM -> CRF",
        "S-LSTM-CRF": "words -> 2 stacked BiLSTMs -> CRF",
        "CNN-CLSTM-CRF": "words + char CNN -> word CNN -> BiLSTM -> CRF",
        "ELMoNER": "words + char CNN + context -> word CNN -> BiLSTM -> CRF",
        "BI-LSTM-TDDL": "words -> BiLSTM -> softmax",
        "BI-LSTM-CRF": "words -> BiLSTM -> CRF",
        "DP-BI-LSTM-CRF": "words + shapes + context -> BiLSTM -> CRF",
        "transformer": "trained encoder -> CRF",
    }
