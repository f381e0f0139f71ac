"""The vectors of described types: where they come from, and that they are the same everywhere."""

from pathlib import Path

import numpy as np
import pytest
from tests.tiny_bert import save_tiny_bert

from fedner.errors import FednerError
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.transformer import TransformerEncoder
from fedner.models.embeddings.words import HashedWords, WordVectors
from fedner.models.types import TYPE_NORM, type_dimension, type_vectors

HASHED = HashedWords(40, 6)


def published(folder: Path) -> WordVectors:
    (folder / "vectors.txt").write_text("medicine 1 0 0\nunwanted 0 2 0\n")
    return WordVectors.open(folder / "vectors.txt", cache=folder / "cache")


def test_without_any_vectors_the_name_alone_decides() -> None:
    one = type_vectors({"Drug": "a medicine", "ADE": "an effect"}, encoder=None, words=HASHED)
    other = type_vectors({"Drug": "something else"}, encoder=None, words=HashedWords(9, 6, seed=4))
    assert one.labels == ("ADE", "Drug")
    assert one.descriptions == ("an effect", "a medicine")
    assert one.source == "names"
    assert np.array_equal(one.vectors[1], other.vectors[0])
    assert not np.allclose(one.vectors[0], one.vectors[1])
    assert np.allclose(np.linalg.norm(one.vectors, axis=1), TYPE_NORM)
    # Written down once: every machine and release must find these numbers.
    expected = [-3.110, -1.324, -2.932, -2.184, -4.408, 4.448]
    assert other.vectors[0] == pytest.approx(expected, abs=1e-3)


def test_word_vectors_are_averaged_over_the_words_that_they_know(tmp_path: Path) -> None:
    words = published(tmp_path)
    found = type_vectors(
        {"a": "Unwanted, xyzzy medicine", "b": "xyzzy", "c": ""}, encoder=None, words=words
    )
    assert found.source == "words"
    direction = np.array([0.5, 1.0, 0.0])
    assert np.allclose(found.vectors[0], TYPE_NORM * direction / np.linalg.norm(direction))
    by_name = type_vectors({"b": "", "c": ""}, encoder=None, words=HashedWords(4, 3))
    assert np.array_equal(found.vectors[1:], by_name.vectors)
    assert found.descriptions[2] == "c"


def test_a_context_encoder_reads_each_description_by_itself(tmp_path: Path) -> None:
    encoder = TransformerEncoder.load(save_tiny_bert(tmp_path / "bert"))
    both = type_vectors({"a": "the pain", "b": "a long pain, the"}, encoder=encoder, words=HASHED)
    alone = type_vectors({"b": "a long pain, the"}, encoder=encoder, words=HASHED)
    assert both.source == "context"
    assert both.dimension == encoder.dimension == type_dimension(HASHED, encoder.origin)
    assert np.array_equal(both.vectors[1], alone.vectors[0])
    mean = encoder.encode([["a", "long", "pain", ",", "the"]])[0].astype(np.float64).mean(0)
    assert np.allclose(both.vectors[1], mean * TYPE_NORM / np.linalg.norm(mean), atol=1e-5)


def test_a_trained_encoder_reads_descriptions_as_it_was_before(tmp_path: Path) -> None:
    folder = save_tiny_bert(tmp_path / "bert")
    encoder = PretrainedEncoder.open(folder)
    found = type_vectors({"a": "the long pain"}, encoder=encoder, words=HASHED)
    assert (found.source, found.dimension) == ("context", encoder.dimension)
    bare = PretrainedEncoder.open_architecture(folder, encoder.origin)
    with pytest.raises(FednerError, match="pretrained weights"):
        type_vectors({"a": "the long pain"}, encoder=bare, words=HASHED)


def test_the_size_of_a_vector_needs_no_file() -> None:
    origin = EmbeddingOrigin("elmo", "elmo", "", 30, {}, 3)
    assert type_dimension(HASHED, None) == type_dimension(6, None) == 6
    assert type_dimension(6, origin) == 30
