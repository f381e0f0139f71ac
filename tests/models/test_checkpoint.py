"""Models on disk: what was saved comes back to the bit; what was tampered with is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from small_platform import CONTEXT_DIMENSION, context_size, small, small_platform
from tiny_flair import save, tiny

from fedner.errors import FednerError
from fedner.models.checkpoint import EmbeddingPaths, load_tagger, save_tagger
from fedner.models.embeddings.context import cached_features
from fedner.models.embeddings.flair import FlairEncoder
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.words import WordEmbedding, WordVectors
from fedner.models.features import TagSpace, collate, context_tensor, encode_corpus
from fedner.models.zoo import RECIPES, build_tagger
from fedner.training import predict_tags

SPACE = TagSpace.of(["ADE", "Drug"], "BIO")


@pytest.fixture
def vectors_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "vectors.txt"
    lines = [f"{word} {i}.5 -1 0.25" for i, word in enumerate(("the", "fever", "drug"))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if not recipe.context])
def test_every_recipe_comes_back_and_predicts_the_same(
    tmp_path: Path, name: str, trainable: bool
) -> None:
    platform = small_platform(trainable=trainable)
    recipe = small(RECIPES[name])
    tagger = build_tagger(recipe, platform.words, platform.space, seed=8)
    save_tagger(tmp_path / "m", tagger, recipe, platform.space, facts={"f1": 0.5})
    loaded = load_tagger(tmp_path / "m")
    assert loaded.recipe == recipe
    assert loaded.space == platform.space
    assert loaded.facts == {"f1": 0.5}
    corpus = platform.encoded(recipe)
    theirs = encode_corpus(platform.sentences, loaded.words)
    with torch.no_grad():
        batch, other = collate(corpus, range(9)), collate(theirs, range(9))
        assert torch.equal(tagger.eval()(batch), loaded.tagger(other))
    for ours, back in zip(
        predict_tags(tagger, corpus), predict_tags(loaded.tagger, theirs), strict=True
    ):
        assert np.array_equal(ours, back)


@pytest.mark.parametrize("include_embeddings", [False, True])
def test_elmoner_comes_back_with_its_context_encoder(
    tmp_path: Path, include_embeddings: bool
) -> None:
    weights = save(tmp_path / "news.npz", tiny())
    encoder = FlairEncoder.load(weights)
    platform, recipe = small_platform(), small(RECIPES["ELMoNER"])
    tokens = [sentence.tokens for sentence in platform.sentences]
    context_TD = context_tensor(cached_features(encoder, tokens, tmp_path / "cache"))
    corpus = encode_corpus(platform.sentences, platform.words, context_TD=context_TD)
    tagger = build_tagger(recipe, platform.words, platform.space, encoder.dimension, seed=8).eval()
    save_tagger(
        tmp_path / "m",
        tagger,
        recipe,
        platform.space,
        context=encoder.origin,
        paths=EmbeddingPaths(context=weights),
        include_embeddings=include_embeddings,
    )
    if include_embeddings:
        weights.unlink()
    loaded = load_tagger(tmp_path / "m")
    assert loaded.encoder is not None
    again = cached_features(loaded.encoder, tokens, tmp_path / "other")
    theirs = encode_corpus(platform.sentences, loaded.words, context_TD=context_tensor(again))
    with torch.no_grad():
        batch, other = collate(corpus, range(9)), collate(theirs, range(9))
        assert torch.equal(tagger(batch), loaded.tagger(other))


def save_small(folder: Path, source, trainable: bool = False, **options) -> None:
    recipe = small(RECIPES["LSTM-CRF"])
    tagger = build_tagger(recipe, WordEmbedding(source, trainable=trainable), SPACE)
    save_tagger(folder, tagger, recipe, SPACE, **options)


def test_frozen_vectors_are_named_not_copied(tmp_path: Path, vectors_file: Path) -> None:
    source = WordVectors.open(vectors_file)
    save_small(tmp_path / "m", source)
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "model.json",
        "model.safetensors",
    ]
    card = json.loads((tmp_path / "m" / "model.json").read_text())
    assert card["words"]["origin"]["sha256"] == source.origin.sha256
    # The cache of converted vectors, the very source, and a path all do.
    assert load_tagger(tmp_path / "m").words.origin == source.origin
    assert load_tagger(tmp_path / "m", vectors=source).words.source is source
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(FednerError, match=r"needs the word vectors 'vectors.txt'") as caught:
        load_tagger(tmp_path / "m")
    assert "--vectors" in caught.value.hint
    assert load_tagger(tmp_path / "m", vectors=vectors_file).words.dimension == 3


def test_a_hint_and_a_copy_find_the_vectors(tmp_path: Path, vectors_file: Path) -> None:
    source = WordVectors.open(vectors_file, unknown="hash-bucket", buckets=7)
    save_small(tmp_path / "hint", source, paths=EmbeddingPaths(vectors=vectors_file))
    save_small(tmp_path / "copy", source, include_embeddings=True)
    shutil.rmtree(tmp_path / "cache")
    assert load_tagger(tmp_path / "hint").words.origin == source.origin
    vectors_file.unlink()
    shutil.rmtree(tmp_path / "cache")
    moved = load_tagger(tmp_path / "copy")
    assert moved.words.origin == source.origin
    # Row 0 is padding, seven buckets follow, then the words of the file.
    assert moved.words.source.rows(["the", "fever"]).tolist() == [8, 9]


def test_other_vectors_are_refused(tmp_path: Path, vectors_file: Path) -> None:
    save_small(tmp_path / "m", WordVectors.open(vectors_file))
    other = tmp_path / "other.txt"
    other.write_text(vectors_file.read_text().replace("0.25", "0.75"))
    with pytest.raises(FednerError, match="the model was trained with"):
        load_tagger(tmp_path / "m", vectors=other)
    renamed = vectors_file.rename(tmp_path / "renamed.txt")
    assert load_tagger(tmp_path / "m", vectors=renamed).words.dimension == 3


def test_context_must_be_named(tmp_path: Path) -> None:
    platform, recipe = small_platform(), small(RECIPES["ELMoNER"])
    tagger = build_tagger(recipe, platform.words, platform.space, context_size(recipe))
    with pytest.raises(FednerError, match="origin is missing"):
        save_tagger(tmp_path / "m", tagger, recipe, platform.space)
    origin = EmbeddingOrigin("flair", "tiny", "0" * 64, CONTEXT_DIMENSION, {"precision": "float32"})
    save_tagger(tmp_path / "m", tagger, recipe, platform.space, context=origin)
    with pytest.raises(FednerError, match="needs the flair 'tiny'"):
        load_tagger(tmp_path / "m")


def damaged(folder: Path, kind: str) -> None:
    weights, card = folder / "model.safetensors", folder / "model.json"
    if kind == "weights cut":
        weights.write_bytes(weights.read_bytes()[:-10])
    elif kind == "weights altered":
        data = bytearray(weights.read_bytes())
        data[-5] ^= 1
        weights.write_bytes(bytes(data))
    elif kind == "weights gone":
        weights.unlink()
    elif kind == "card cut":
        card.write_text(card.read_text()[:100])
    elif kind == "card altered":
        card.write_text(card.read_text().replace('"ADE"', '"ADR"'))
    elif kind == "other version":
        card.write_text(card.read_text().replace('"version": 1', '"version": 2'))
    elif kind == "other thing":
        card.write_text("[]")
    elif kind == "other weights":
        save_small(folder.parent / "other", small_platform().words.source, trainable=True)
        shutil.copy(folder.parent / "other" / "model.safetensors", weights)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("weights cut", "does not belong"),
        ("weights altered", "does not belong"),
        ("weights gone", "holds no model"),
        ("card cut", "cut short"),
        ("card altered", "was altered"),
        ("other version", "has format 2"),
        ("other thing", "does not describe"),
        ("other weights", "does not belong"),
    ],
)
def test_damage_is_refused_clearly(tmp_path: Path, kind: str, message: str) -> None:
    save_small(tmp_path / "m", small_platform().words.source)
    damaged(tmp_path / "m", kind)
    with pytest.raises(FednerError, match=message) as caught:
        load_tagger(tmp_path / "m")
    assert caught.value.hint


def test_saving_over_a_model_that_was_interrupted_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = small_platform().words.source
    save_small(tmp_path / "m", source)

    def crash(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedner.models.checkpoint.write_text", crash)
    with pytest.raises(KeyboardInterrupt):
        save_small(tmp_path / "m", source, trainable=True)
    with pytest.raises(FednerError, match="holds no model"):
        load_tagger(tmp_path / "m")
    monkeypatch.undo()
    save_small(tmp_path / "m", source)
    assert load_tagger(tmp_path / "m").recipe.name == "LSTM-CRF"
