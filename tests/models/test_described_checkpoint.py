"""Described heads on disk, and the same weights over other types."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_platform import small, small_platform
from tests.tiny_bert import save_tiny_bert
from tiny_flair import save, tiny

from fedner.errors import FednerError
from fedner.models.checkpoint import EmbeddingPaths, LoadedTagger, load_tagger, retyped, save_tagger
from fedner.models.embeddings.flair import FlairEncoder
from fedner.models.embeddings.low_rank import Adapter
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.types import type_vectors
from fedner.models.zoo import RECIPES, Recipe, build_tagger

WORDS = HashedWords(60, 8)
TYPES = {"ADE": "an unwanted effect of a medicine", "Drug": "a medicine"}
SPACE = TagSpace.of(TYPES, "BIO")


def described(name: str = "LSTM-CRF", **changes: object) -> Recipe:
    return replace(small(RECIPES[name]), **{"head": "described", "rank": 8, **changes})


def lively(tagger: torch.nn.Module) -> None:
    """Give every parameter a value of its own, residual and decoder included."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, weight in tagger.named_parameters():
            if name.startswith(("emissions", "decoder")):
                weight.normal_(0.0, 0.5, generator=generator)


def saved(folder: Path, recipe: Recipe, types: object = None, **options: object) -> torch.nn.Module:
    types = types or type_vectors(TYPES, encoder=None, words=WORDS)
    tagger = build_tagger(recipe, WordEmbedding(WORDS), SPACE, types=types)
    lively(tagger)
    save_tagger(folder, tagger, recipe, SPACE, **options)
    return tagger.eval()


def emissions(tagger: torch.nn.Module) -> torch.Tensor:
    sentences = small_platform().sentences[:9]
    corpus = encode_corpus(sentences, tagger.embeddings.words)
    with torch.no_grad():
        return tagger(collate(corpus, range(9)))


@pytest.mark.parametrize("decoder", ["crf", "softmax"])
@pytest.mark.parametrize("residual", [False, True])
def test_a_described_head_comes_back(tmp_path: Path, decoder: str, residual: bool) -> None:
    recipe = described(decoder=decoder, residual=residual)
    tagger = saved(tmp_path / "m", recipe)
    loaded = load_tagger(tmp_path / "m")
    assert loaded.recipe == recipe
    assert loaded.descriptions == TYPES
    assert torch.equal(emissions(loaded.tagger), emissions(tagger))
    assert loaded.tagger.decoder.state_dict().keys() == tagger.decoder.state_dict().keys()
    card = json.loads((tmp_path / "m" / "model.json").read_text())
    assert card["types"] == {"descriptions": TYPES, "source": "names"}
    assert card["constrained"] == (decoder == "crf")


def test_a_free_head_has_no_types(tmp_path: Path) -> None:
    recipe = small(RECIPES["LSTM-CRF"])
    save_tagger(tmp_path / "m", build_tagger(recipe, WordEmbedding(WORDS), SPACE), recipe, SPACE)
    loaded = load_tagger(tmp_path / "m")
    assert loaded.descriptions == {}
    with pytest.raises(FednerError, match="free head: its weights belong to the types ADE, Drug"):
        retyped(loaded, TYPES)


def test_a_model_without_vectors_gets_them_from_its_descriptions(tmp_path: Path) -> None:
    tagger = saved(tmp_path / "m", described(), WORDS.dimension, descriptions=TYPES)
    assert not tagger.emissions.vectors.any()
    loaded = load_tagger(tmp_path / "m")
    known = saved(tmp_path / "known", described())
    assert torch.equal(loaded.tagger.emissions.vectors, known.emissions.vectors)
    assert torch.equal(emissions(loaded.tagger), emissions(known))


@pytest.mark.parametrize("given", [None, {"ADE": "an effect"}, {**TYPES, "Dose": "an amount"}])
def test_a_model_without_descriptions_is_refused(tmp_path: Path, given: object) -> None:
    with pytest.raises(FednerError, match="expected those of its types"):
        saved(tmp_path / "m", described(), WORDS.dimension, descriptions=given)
    assert not (tmp_path / "m").exists()


def test_saved_vectors_need_no_encoder_of_the_same_machine(tmp_path: Path) -> None:
    """What was trained with comes back to the bit, even if it would be computed otherwise now."""
    types = type_vectors(TYPES, encoder=None, words=WORDS)
    odd = replace(types, vectors=types.vectors + np.float32(1e-4))
    saved(tmp_path / "m", described(), odd)
    assert np.array_equal(load_tagger(tmp_path / "m").tagger.emissions.vectors.numpy(), odd.vectors)


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedTagger:
    saved(tmp_path / "m", described(residual=True), facts={"f1": 0.5})
    return load_tagger(tmp_path / "m")


def test_retyped_keeps_all_that_belongs_to_no_type(loaded: LoadedTagger, tmp_path: Path) -> None:
    before = {name: each.clone() for name, each in loaded.tagger.state_dict().items()}
    found = retyped(loaded, {"Drug": TYPES["Drug"], "Dosage": "", "ADE": "something else"})
    assert found.space.labels == ("ADE", "Dosage", "Drug")
    assert found.descriptions == {
        "ADE": "something else", "Dosage": "Dosage", "Drug": "a medicine"
    }  # fmt: skip
    after = found.tagger.state_dict()
    assert set(after) == {name for name in before if "residual" not in name}
    for name in set(after) - {"emissions.vectors"}:
        assert torch.equal(after[name], before[name]), name
        assert after[name].data_ptr() != loaded.tagger.state_dict()[name].data_ptr()
    assert torch.equal(after["emissions.vectors"][2], before["emissions.vectors"][1])
    assert found.facts["f1"] == 0.5
    assert found.facts["retyped"] == {"trained_for": TYPES, "residual_left_out": True}
    assert not found.recipe.residual
    assert not found.tagger.training
    assert loaded.descriptions == TYPES  # the one given stays as it was
    save_tagger(tmp_path / "other", found.tagger, found.recipe, found.space)
    again = load_tagger(tmp_path / "other").tagger
    assert torch.equal(emissions(again), emissions(found.tagger))


def test_retyped_to_its_own_types_is_itself_without_the_residual(loaded: LoadedTagger) -> None:
    found = retyped(loaded, TYPES, residual=True)
    assert found.recipe == loaded.recipe
    assert not found.tagger.emissions.residual.weight.any()
    with torch.no_grad():
        loaded.tagger.emissions.residual.weight.zero_()
        loaded.tagger.emissions.residual.bias.zero_()
    assert torch.equal(emissions(found.tagger), emissions(loaded.tagger))
    scores = torch.zeros(2, 4, 5)
    lengths = torch.tensor([4, 3])
    ours, theirs = found.tagger.decoder, loaded.tagger.decoder
    assert torch.equal(ours.marginals(scores, lengths), theirs.marginals(scores, lengths))


def test_retyped_needs_types(loaded: LoadedTagger) -> None:
    with pytest.raises(FednerError, match="no types are given"):
        retyped(loaded, {})


def test_a_frozen_encoder_reads_new_descriptions(tmp_path: Path) -> None:
    weights = save(tmp_path / "news.npz", tiny())
    encoder = FlairEncoder.load(weights)
    recipe = described("ELMoNER")
    types = type_vectors(TYPES, encoder=encoder, words=WORDS)
    words = WordEmbedding(WORDS)
    tagger = build_tagger(recipe, words, SPACE, encoder.dimension, types=types)
    paths = EmbeddingPaths(context=weights)
    save_tagger(tmp_path / "m", tagger, recipe, SPACE, context=encoder.origin, paths=paths)
    found = retyped(load_tagger(tmp_path / "m"), {"Dose": "how much"})
    expected = type_vectors({"Dose": "how much"}, encoder=encoder, words=WORDS)
    assert np.array_equal(found.tagger.emissions.vectors.numpy(), expected.vectors)
    assert found.tagger.emissions.source == "context"


@pytest.mark.parametrize("adapter", [None, Adapter(rank=2)])
def test_a_trained_encoder_reads_new_descriptions_as_it_once_was(
    tmp_path: Path, adapter: Adapter | None
) -> None:
    folder = save_tiny_bert(tmp_path / "bert")
    source = PretrainedEncoder.open(folder)
    recipe = replace(RECIPES["transformer"], head="described", rank=8, adapter=adapter)
    types = type_vectors(TYPES, encoder=source, words=WORDS)
    words = WordEmbedding(WORDS)
    tagger = build_tagger(recipe, words, SPACE, source.dimension, encoder=source, types=types)
    with torch.no_grad():
        for weight in tagger.embeddings.parameters():
            weight.add_(0.25)
    paths = EmbeddingPaths(context=folder)
    save_tagger(tmp_path / "m", tagger, recipe, SPACE, context=source.origin, paths=paths)
    found = retyped(load_tagger(tmp_path / "m"), {"Dose": "how much"})
    expected = type_vectors({"Dose": "how much"}, encoder=source, words=WORDS)
    assert np.array_equal(found.tagger.emissions.vectors.numpy(), expected.vectors)
    if adapter is None:
        folder.rename(tmp_path / "gone")
        alone = load_tagger(tmp_path / "m")  # it has its vectors and weights itself
        assert alone.descriptions == TYPES
        assert retyped(alone, {"Drug": "a medicine"}).space.labels == ("Drug",)
        with pytest.raises(FednerError, match="pretrained weights of the encoder"):
            retyped(alone, {"Dose": "how much"})
        again = load_tagger(tmp_path / "m", context=tmp_path / "gone")
        assert retyped(again, {"Dose": "how much"}).space.labels == ("Dose",)
