"""A trained tagger as a folder that needs neither torch nor fedner: ONNX and plain JSON.

    model.onnx       from words to emissions (`onnx_graph.py` has its inputs)
    words.bin        the word table, little-endian float32, which the graph refers to
    tagger.json      labels, tags, decoder, alphabet, rules for words (`onnx_words.py`), digests
    vocabulary.json  the row of each word of the published vectors; hashed words need none

The decoder is no part of the graph: `onnx_tagger.OnnxTagger` runs it, in a few lines of NumPy.
Frozen context encoders (Flair, ELMo, transformers) are none either: their features are an input.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.durable import write_bytes, writing
from fedner.errors import FednerError
from fedner.inference.onnx_graph import emissions_graph
from fedner.inference.onnx_int8 import with_int8_lstms
from fedner.inference.onnx_tagger import (
    CARD,
    GRAPH,
    KIND,
    TABLE,
    VERSION,
    VOCABULARY,
)
from fedner.models.checkpoint import LoadedTagger
from fedner.models.embeddings.characters import ALPHABET, MAX_LENGTH
from fedner.models.embeddings.mapped import filling
from fedner.models.embeddings.words import HashedWords, WordEmbedding, WordVectors
from fedner.models.layers.forms import Missing
from fedner.models.layers.table import decoder_forms, missing_form
from fedner.models.tagger import Decoder
from fedner.sealed import file_digest, seal_of
from fedner.version import __version__

Precision = Literal["float32", "int8"]

# The word table is written this many numbers at a time: it may be larger than the memory.
NUMBERS_AT_A_TIME = 1 << 22


def export_onnx(model: LoadedTagger, folder: Path, precision: Precision = "float32") -> None:
    """Write a tagger into a folder of its own, whole or not at all.

    Args:
        model: The tagger.
        folder: Where the export shall be; it must not be there, or be empty.
        precision: "int8" computes its LSTMs in 8 bits (`onnx_int8.py`).

    Raises:
        FednerError: The tagger cannot be exported, or the folder cannot be written.
    """
    graph = emissions_graph(model.tagger, TABLE)
    if precision == "int8":
        graph = with_int8_lstms(graph)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FednerError(
            f"{folder} is already there", "Name another folder: nothing is overwritten."
        )
    card = _describe(model, {each.name for each in graph.graph.input}, precision)
    try:
        if folder.exists():
            folder.rmdir()
        with filling(folder) as fresh:
            _write_table(fresh / TABLE, model.words)
            write_bytes(fresh / GRAPH, graph.SerializeToString())
            if isinstance(model.words.source, WordVectors):
                vocabulary = _vocabulary(model.words.source)
                write_bytes(fresh / VOCABULARY, json.dumps(vocabulary).encode())
            card["files"] = {path.name: file_digest(path) for path in sorted(fresh.iterdir())}
            card["seal"] = seal_of(card)
            text = json.dumps(card, indent=1, ensure_ascii=False)
            write_bytes(fresh / CARD, f"{text}\n".encode())
    except OSError as error:
        raise FednerError(
            f"cannot write {folder}: {error.strerror or error}", "Choose another folder."
        ) from error


def _describe(model: LoadedTagger, inputs: set[str], precision: Precision) -> dict[str, Any]:
    """Return what `tagger.json` says of a tagger and the inputs of its graph; no digests yet."""
    return {
        "kind": KIND,
        "version": VERSION,
        "fedner": __version__,
        "recipe": model.recipe.name,
        "precision": precision,
        "labels": list(model.space.labels),
        "scheme": model.space.scheme,
        "tags": list(model.space.tags),
        "decoder": _chain_scores(model.tagger.decoder),
        "words": _word_rules(model.words),
        "characters": {"alphabet": ALPHABET, "max_length": MAX_LENGTH}
        if "characters" in inputs
        else None,
        "context": None if model.encoder is None else model.encoder.origin.to_json(),
        "model": model.digest,
        "facts": dict(model.facts),
    }


def _chain_scores(decoder: Decoder) -> Mapping[str, Any]:
    """Return the scores of beginning, ending and stepping; None where the scheme forbids it."""
    form = decoder_forms(decoder).chain_scores
    if isinstance(form, Missing):
        raise missing_form("decoder", decoder, form, "ONNX form")
    return form(decoder)


def _word_rules(words: WordEmbedding) -> dict[str, Any]:
    source = words.source
    if isinstance(source, HashedWords):
        unknown = "hash-bucket"
    elif isinstance(source, WordVectors):
        unknown = source.unknown if source.unknown == "hash-bucket" else "row"
    else:
        raise FednerError(
            f"word vectors of the kind {type(source).__name__} cannot be exported",
            "Export taggers with published word vectors or hashed words.",
        )
    return {
        "lowercase": source.lowercase,
        "unknown": unknown,
        "buckets": source.buckets,
        "has_vocabulary": isinstance(source, WordVectors),
    }


def _vocabulary(source: WordVectors) -> dict[str, int]:
    """Return the row of each word of the published vectors, in the whole table."""
    names = list(source.store.words())
    first = source.num_rows - source.store.facts.num_rows
    rows = (source.store.find(names) + first).tolist()
    return dict(zip(names, rows, strict=True))


def _write_table(path: Path, words: WordEmbedding) -> None:
    """Write the rows of the word table, trained or frozen, block by block."""
    step = max(1, NUMBERS_AT_A_TIME // words.dimension)
    num_rows = words.source.num_rows
    with writing(path) as handle:
        for start in range(0, num_rows, step):
            rows = np.arange(start, min(start + step, num_rows), dtype=np.int64)
            handle.write(np.ascontiguousarray(_vectors(words, rows), "<f4").data)


def _vectors(words: WordEmbedding, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    if not words.trainable:
        return words.source.take(rows)
    with torch.no_grad():
        vectors: Tensor = words(torch.from_numpy(rows).to(words.weight.device))
    return vectors.cpu().numpy()
