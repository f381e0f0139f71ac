"""The word table, frozen or trained; a unit's gradient has, for each row, the sum over its words.

Shapes: B sentences, L tokens, U distinct words, P pairs of a unit and a row that it uses, D numbers
a word.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from fedner.models.embeddings.words import PADDING_ROW, WordEmbedding
from fedner.models.features import Batch
from fedner.models.layers.forms import LayerForms, Parts
from fedner.models.onnx_writer import GraphWriter
from fedner.models.per_unit.pairs import pair_sums, token_masses
from fedner.models.per_unit.tap import Factors, Measured, Tap, Totals, squared_sum, tapped
from fedner.models.per_unit.units import Sizes, Units

WORD_TABLE = "word_table"


def _forward(words: WordEmbedding, _parts: Parts, batch: Batch) -> Tensor:
    # Distinct word 0 is no word: its vector is zero, which makes a mask superfluous.
    return functional.embedding(batch.word_BL, _distinct(words, batch))


def _distinct(words: WordEmbedding, batch: Batch) -> Tensor:
    """Return the vectors of the distinct words (U, D)."""
    vectors_UD = None if words.trainable else batch.vectors_UD
    return words(batch.rows_U) if vectors_UD is None else vectors_UD


def _tap(
    words: WordEmbedding, prefix: str, _parts: Parts, batch: Batch
) -> tuple[Tensor, list[Tap]]:
    with torch.no_grad():
        vectors_UD = _distinct(words, batch)
        if words.trainable:
            # Padding is zero, whatever a trained table says.
            vectors_UD = vectors_UD.clone()
            vectors_UD[0] = 0.0
    vectors_BLD = functional.embedding(batch.word_BL, vectors_UD)
    if not (words.trainable and words.weight.requires_grad):
        return vectors_BLD, []
    rows_BL = batch.rows_U[batch.word_BL]
    measure = partial(_measure, f"{prefix}.weight", rows_BL)
    return vectors_BLD, [Tap(tapped(vectors_BLD), measure)]


def _measure(name: str, rows_BL: Tensor, gradient_BLD: Tensor, units: Units) -> Measured:
    # As in the plain step, the row for no word is never trained.
    gradient_BLD = gradient_BLD.masked_fill((rows_BL == PADDING_ROW).unsqueeze(2), 0.0)
    pairs = pair_sums(rows_BL, gradient_BLD, units)
    squares_U = pairs.sums_PD.new_zeros(units.num_units)
    squares_U.index_add_(0, pairs.unit_P, squared_sum(pairs.sums_PD))

    def add_weighted(factors: Factors, totals: Totals) -> None:
        totals[name].index_add_(0, pairs.key_P, factors.scale(pairs.sums_PD, pairs.unit_P))

    return Measured(Sizes(squares_U, token_masses(gradient_BLD, units)), add_weighted)


def _onnx(words: WordEmbedding, graph: GraphWriter, _parts: Sequence[str]) -> str:
    table = graph.outer_table(WORD_TABLE, words.source.num_rows, words.dimension)
    return graph.at_tokens(graph.op("Gather", table, graph.read("rows"), axis=0))


FORMS = LayerForms(
    "word table",
    _forward,
    _tap,
    _onnx,
    is_source=True,
    padding_rows={"weight": PADDING_ROW},
    keeps_first_values=True,
)
