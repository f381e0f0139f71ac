"""What a word becomes before the encoder sees it: word vectors, characters, context features."""

from fedner.models.embeddings.characters import CharacterCNN, encode_words
from fedner.models.embeddings.context import ContextEncoder, ContextFeatures, cached_features
from fedner.models.embeddings.flair import FlairEncoder
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.sparse_rows import SparseRowsAdam, clip_gradient_norm
from fedner.models.embeddings.words import HashedWords, WordEmbedding, WordSource, WordVectors

__all__ = [
    "CharacterCNN",
    "ContextEncoder",
    "ContextFeatures",
    "EmbeddingOrigin",
    "FlairEncoder",
    "HashedWords",
    "SparseRowsAdam",
    "WordEmbedding",
    "WordSource",
    "WordVectors",
    "cached_features",
    "clip_gradient_norm",
    "encode_words",
]
