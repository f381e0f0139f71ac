"""What a word becomes before the encoder sees it: word vectors, characters, context features.

Names are loaded when they are first used: reading vectors and counting what they cover needs no
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedner.models.embeddings.characters import encode_words
    from fedner.models.embeddings.context import ContextEncoder, ContextFeatures, cached_features
    from fedner.models.embeddings.flair import FlairEncoder
    from fedner.models.embeddings.origin import EmbeddingOrigin
    from fedner.models.embeddings.sparse_rows import SparseRowsAdam, clip_gradient_norm
    from fedner.models.embeddings.words import HashedWords, WordEmbedding, WordSource, WordVectors

__all__ = [
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

_HOMES = {
    "characters": ("encode_words",),
    "context": ("ContextEncoder", "ContextFeatures", "cached_features"),
    "flair": ("FlairEncoder",),
    "origin": ("EmbeddingOrigin",),
    "sparse_rows": ("SparseRowsAdam", "clip_gradient_norm"),
    "words": ("HashedWords", "WordEmbedding", "WordSource", "WordVectors"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
