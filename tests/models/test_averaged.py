"""Averages of taggers: the mean of emissions and chains, and all that reads texts with it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_platform import small, small_platform

from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.inference.onnx_export import export_onnx
from fedner.inference.onnx_tagger import OnnxTagger
from fedner.inference.predict import Predictor
from fedner.models.averaged import AveragedTagger, chain_of, mean_chain
from fedner.models.checkpoint import LoadedTagger, load_tagger, save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.layers.crf import CRF
from fedner.models.layers.softmax import SoftmaxDecoder
from fedner.models.types import type_vectors
from fedner.models.zoo import RECIPES, Recipe, build_tagger
from fedner.optimizers import OptimizerSettings
from fedner.privacy.dpsgd import accumulate
from fedner.sealed import seal_of
from fedner.training import Evaluation, TrainingSettings, predict_tags, train

PLATFORM = small_platform()
PLAIN = small(RECIPES["CNN-LSTM-CRF"])
CHARACTERS = small(RECIPES["CNN-CLSTM-CRF"])


def members(*recipes: Recipe) -> list:
    """Return taggers that are trained a little, so that they differ and have a chain."""
    found = []
    for seed, recipe in enumerate(recipes, start=1):
        tagger = build_tagger(recipe, PLATFORM.words, PLATFORM.space, seed=seed)
        train(tagger, PLATFORM.encoded(recipe), TrainingSettings(epochs=2, batch_size=8), seed)
        found.append(tagger.eval())
    return found


@pytest.fixture(scope="module")
def pair() -> AveragedTagger:
    return AveragedTagger(members(PLAIN, CHARACTERS), (PLAIN, CHARACTERS), PLATFORM.space).eval()


def test_emissions_and_chain_are_means(pair: AveragedTagger) -> None:
    one, other = pair.taggers
    batch = collate(PLATFORM.encoded(CHARACTERS), range(9))
    with torch.no_grad():
        assert torch.allclose(pair(batch), (one(batch) + other(batch)) / 2, atol=1e-6)
    for name in ("start", "end", "transitions"):
        found, mine, theirs = (getattr(each.decoder, name) for each in (pair, one, other))
        allowed = ~getattr(one.decoder, f"forbidden_{name}")
        assert torch.allclose(found[allowed], ((mine + theirs) / 2)[allowed], atol=1e-6)
    assert torch.equal(pair.decoder.forbidden_transitions, one.decoder.forbidden_transitions)
    assert not any(each.requires_grad for each in pair.parameters())


def test_best_paths_are_those_of_the_mean_scores(pair: AveragedTagger) -> None:
    """The slow way: every path of short sentences is enumerated."""
    corpus = encode_corpus(
        [Sentence.of(each.tokens[:4]) for each in PLATFORM.sentences[:5]], PLATFORM.words
    )
    chain = mean_chain([chain_of(each.decoder) for each in pair.taggers])
    for at in range(len(corpus)):
        batch = collate(corpus, [at])
        with torch.no_grad():
            scores_LK = torch.stack([each(batch)[0] for each in pair.taggers]).mean(0).double()
        paths = torch.cartesian_prod(*[torch.arange(len(PLATFORM.space.tags))] * len(scores_LK))
        total = chain.start_K[paths[:, 0]] + chain.end_K[paths[:, -1]]
        for token in range(len(scores_LK)):
            total = total + scores_LK[token][paths[:, token]]
            if token:
                total = total + chain.transitions_KK[paths[:, token - 1], paths[:, token]]
        assert pair.best_tags(batch)[0].tolist() == paths[total.argmax()].tolist()


def test_an_average_of_one_is_itself() -> None:
    (tagger,) = members(PLAIN)
    alone = AveragedTagger([tagger], [PLAIN], PLATFORM.space)
    corpus = PLATFORM.encoded(PLAIN)
    for one, other in zip(predict_tags(tagger, corpus), predict_tags(alone, corpus), strict=True):
        assert np.array_equal(one, other)
    part = Evaluation(corpus, PLATFORM.sentences, PLATFORM.space)
    assert part.scores(alone) == part.scores(tagger)


def test_decoders_without_a_chain_stay_without_one() -> None:
    soft = replace(PLAIN, decoder="softmax")
    both = AveragedTagger(members(soft, soft), (soft, soft), PLATFORM.space)
    assert isinstance(both.decoder, SoftmaxDecoder)
    mixed = AveragedTagger(members(PLAIN, soft), (PLAIN, soft), PLATFORM.space)
    assert isinstance(mixed.decoder, CRF)
    assert mixed.decoder.is_constrained


def test_what_does_not_fit_together_is_refused() -> None:
    (tagger,) = members(PLAIN)
    with pytest.raises(FednerError, match="tags cannot be averaged"):
        AveragedTagger([tagger], [PLAIN], TagSpace.of(["Drug"], "BIO"))
    with pytest.raises(FednerError, match="no taggers"):
        AveragedTagger([], [], PLATFORM.space)
    other = build_tagger(PLAIN, small_platform(trainable=False).words, PLATFORM.space)
    AveragedTagger([tagger, other], [PLAIN, PLAIN], PLATFORM.space)  # equal origins will do
    strange = build_tagger(PLAIN, WordEmbedding(HashedWords(10, 40)), PLATFORM.space)
    with pytest.raises(FednerError, match="other word vectors"):
        AveragedTagger([tagger, strange], [PLAIN, PLAIN], PLATFORM.space)


def test_gradients_are_refused(pair: AveragedTagger) -> None:
    corpus = PLATFORM.encoded(CHARACTERS)
    with pytest.raises(FednerError, match="cannot be trained"):
        train(pair, corpus, TrainingSettings(epochs=1), 1)  # type: ignore[arg-type]
    with pytest.raises(FednerError, match="trains nothing"):
        accumulate(pair, corpus, [[0], [1, 2]], 1.0)  # type: ignore[arg-type]
    thawed = AveragedTagger(members(PLAIN), [PLAIN], PLATFORM.space).requires_grad_()
    with pytest.raises(FednerError, match="cannot be trained"):
        accumulate(thawed, corpus, [[0], [1, 2]], 1.0)  # type: ignore[arg-type]


def described_pair(trainable: bool = False) -> tuple[AveragedTagger, tuple[Recipe, ...]]:
    """Return the average that joining makes: a described head and a free one."""
    platform = small_platform(trainable=trainable)
    types = type_vectors(
        {label: f"kind of {label}" for label in platform.space.labels},
        encoder=None,
        words=platform.words.source,
    )
    recipes = (replace(CHARACTERS, head="described", rank=8), CHARACTERS)
    taggers = []
    for seed, recipe in enumerate(recipes, start=1):
        given = types if recipe.head == "described" else None
        words = WordEmbedding(platform.words.source, trainable=trainable)
        tagger = build_tagger(recipe, words, platform.space, seed=seed, types=given)
        corpus = platform.encoded(recipe)
        quick = OptimizerSettings(learning_rate=1e-2)
        train(tagger, corpus, TrainingSettings(epochs=12, batch_size=8, optimizer=quick), seed)
        taggers.append(tagger)
    return AveragedTagger(taggers, recipes, platform.space).eval(), recipes


@pytest.mark.parametrize("trainable", [False, True])
def test_an_average_comes_back_from_disk(tmp_path: Path, trainable: bool) -> None:
    mean, recipes = described_pair(trainable)
    save_tagger(tmp_path / "m", mean, recipes[0], PLATFORM.space, facts={"f1": 0.5})
    loaded = load_tagger(tmp_path / "m")
    assert isinstance(loaded.tagger, AveragedTagger)
    assert loaded.tagger.recipes == recipes
    assert loaded.recipe == recipes[0]
    assert loaded.descriptions == {label: f"kind of {label}" for label in PLATFORM.space.labels}
    assert not any(each.requires_grad for each in loaded.tagger.parameters())
    corpus = encode_corpus(PLATFORM.sentences, loaded.words)
    batch = collate(corpus, range(9))
    with torch.no_grad():
        assert torch.equal(mean(batch), loaded.tagger(batch))
    for one, other in zip(
        predict_tags(mean, corpus), predict_tags(loaded.tagger, corpus), strict=True
    ):
        assert np.array_equal(one, other)
    save_tagger(tmp_path / "again", loaded.tagger, loaded.recipe, loaded.space)
    assert load_tagger(tmp_path / "again").tagger.recipes == recipes


def test_a_member_that_is_missing_is_refused(tmp_path: Path) -> None:
    mean, recipes = described_pair()
    save_tagger(tmp_path / "m", mean, recipes[0], PLATFORM.space)
    card = json.loads((tmp_path / "m" / "model.json").read_text())
    card["members"] = card["members"][:1]
    card.pop("seal")
    card["seal"] = seal_of(card)
    (tmp_path / "m" / "model.json").write_text(json.dumps(card))
    with pytest.raises(FednerError, match="do not fit"):
        load_tagger(tmp_path / "m")


def test_an_average_is_exported_as_one_graph(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    mean, recipes = described_pair()
    model = LoadedTagger(mean, recipes[0], PLATFORM.space)
    export_onnx(model, tmp_path / "onnx")
    exported, predictor = OnnxTagger.load(tmp_path / "onnx"), Predictor.of(model)
    found = 0
    for sentence in PLATFORM.sentences[:20]:
        text = " ".join(sentence.tokens)
        ours, theirs = predictor.predict(text), exported.predict(text)
        assert [(m.start, m.end, m.label) for m in ours] == [
            (m.start, m.end, m.label) for m in theirs
        ]
        found += len(ours)
    assert found > 5
    trained, _ = described_pair(trainable=True)
    with pytest.raises(FednerError, match="can hold only one table"):
        export_onnx(LoadedTagger(trained, recipes[0], PLATFORM.space), tmp_path / "other")
