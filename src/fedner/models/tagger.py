"""One tagger for every recipe: embeddings -> encoder -> emissions -> decoder.

The dotted module names (`embeddings.words`, `embeddings.characters`, `embeddings.context`,
`embeddings.mix`, `word_cnn`, `bilstm`, `emissions`, `decoder`) are stable: partitions and
checkpoints go by them.

Shapes: B sentences, L tokens, U distinct words, K tags, D features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedner.errors import FednerError
from fedner.models.crf import CRF
from fedner.models.embeddings.characters import CharacterCNN
from fedner.models.embeddings.scalar_mix import ScalarMix
from fedner.models.embeddings.shapes import WordShapes
from fedner.models.embeddings.trained_encoder import TrainedEncoder
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.encoders import BiLSTM, Dropout, WordCNN
from fedner.models.features import Batch
from fedner.models.softmax import SoftmaxDecoder

Decoder = CRF | SoftmaxDecoder


class Embeddings(nn.Module):
    """Words, characters and context of every token, each a part by itself.

    The parts stay apart because most of them are frozen: whoever reads them computes gradients for
    the others alone.

    Attributes:
        words: The word table, frozen or trained.
        characters: The character CNN, or None.
        context: A module over the context features, or an encoder that is trained in their place;
            None where features are taken as they are.
        shapes: The fixed features of a word's shape, or None.
        mix: What is made of context features that are layers side by side; None for a single one.
        context_dimension: Features of the context of each token, as they come; 0 for none.
        reads_words: Whether the words' own vectors are a part at all.
        dimension_out: Features of each token in all.
    """

    def __init__(
        self,
        words: WordEmbedding,
        characters: CharacterCNN | None,
        context_dimension: int,
        dropout: float,
        context: nn.Module | None = None,
        shapes: WordShapes | None = None,
        *,
        reads_words: bool = True,
        mix: ScalarMix | None = None,
    ) -> None:
        super().__init__()
        self.words = words
        self.characters = characters
        self.context = context
        self.shapes = shapes
        self.mix = mix
        self.context_dimension = context_dimension
        self.dropout = Dropout(dropout)
        num_filters = 0 if characters is None else characters.filters
        num_shapes = 0 if shapes is None else shapes.dimension
        self.reads_words = reads_words
        num_words = words.dimension if reads_words else 0
        num_context = context_dimension if mix is None else mix.size_of(context_dimension)
        self.dimension_out = num_words + num_filters + num_shapes + num_context

    def forward(self, batch: Batch) -> list[Tensor]:
        """Return words, characters, shapes and context of every token, zero where there is none."""
        distinct = []
        if self.reads_words:
            vectors_UD = batch.vectors_UD if not self.words.trainable else None
            distinct.append(self.words(batch.rows_U) if vectors_UD is None else vectors_UD)
        if self.characters is not None:
            distinct.append(self.characters(batch.characters_UC))
        if self.shapes is not None:
            distinct.append(self.shapes(batch.characters_UC))
        # Distinct word 0 is no word: its vectors are zero, which makes a mask superfluous.
        parts = [functional.embedding(batch.word_BL, vectors) for vectors in distinct]
        if self.context_dimension:
            parts.append(self._context(batch))
        return [self.dropout(part) for part in parts]

    @property
    def encoder(self) -> TrainedEncoder | None:
        """The encoder that is trained with the tagger, if there is one."""
        return self.context if isinstance(self.context, TrainedEncoder) else None

    def _context(self, batch: Batch) -> Tensor:
        if self.encoder is not None:
            return self._encoded(self.encoder, batch)
        context_BLD = self.context_features(batch)
        over = self.context if self.mix is None else self.mix
        if over is None:
            return context_BLD
        mixed_BLD: Tensor = over(context_BLD)
        return mixed_BLD

    def context_features(self, batch: Batch) -> Tensor:
        """Return the precomputed context features of a batch, as they come.

        Raises:
            FednerError: The corpus was encoded without them.
        """
        if batch.context_BLD is None:
            raise FednerError(
                "the tagger reads context features, but the corpus was encoded without them",
                "Compute the features of the corpus and pass them to encode_corpus().",
            )
        return batch.context_BLD

    def _encoded(self, encoder: TrainedEncoder, batch: Batch) -> Tensor:
        if batch.pieces is None:
            raise FednerError(
                "the tagger trains its encoder, but the corpus was encoded without pieces",
                "Pass `pieces` of its PretrainedEncoder to encode_corpus().",
            )
        encoded_BLD: Tensor = encoder(batch.pieces)
        return encoded_BLD


@dataclass(frozen=True, slots=True)
class TaggerShape:
    """The sizes that a tagger is built with, beyond its embeddings.

    Attributes:
        widths: The widths of the word CNN; empty for none.
        filters: Its filters for each width.
        lstm_layers: Stacked BiLSTM layers; 0 for none.
        hidden: Units of each direction.
        dropout: After embeddings, word CNN and BiLSTM.
    """

    widths: tuple[int, ...] = ()
    filters: int = 200
    lstm_layers: int = 1
    hidden: int = 200
    dropout: float = 0.2


class Tagger(nn.Module):
    """A sequence tagger composed from parts; see the file's head for the names of the parts."""

    def __init__(self, embeddings: Embeddings, shape: TaggerShape, decoder: Decoder) -> None:
        super().__init__()
        self.embeddings = embeddings
        dimension = embeddings.dimension_out
        self.word_cnn: WordCNN | None = None
        if shape.widths:
            self.word_cnn = WordCNN(dimension, shape.filters, shape.widths)
            dimension = self.word_cnn.dimension_out
        self.bilstm: BiLSTM | None = None
        if shape.lstm_layers:
            self.bilstm = BiLSTM(dimension, shape.hidden, shape.lstm_layers, shape.dropout)
            dimension = self.bilstm.dimension_out
        self.dropout = Dropout(shape.dropout)
        self.emissions = nn.Linear(dimension, decoder.num_tags)
        self.decoder = decoder

    def forward(self, batch: Batch) -> Tensor:
        """Return the emissions of every token (B, L, K); what lies past a sentence is not read."""
        parts = self.embeddings(batch)
        if self.word_cnn is not None:
            x_BLD = self.dropout(self.word_cnn(parts))
        else:
            x_BLD = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        if self.bilstm is not None:
            x_BLD = self.dropout(self.bilstm(x_BLD, batch.layout))
        emissions_BLK: Tensor = self.emissions(x_BLD)
        return emissions_BLK

    def losses(self, batch: Batch) -> Tensor:
        """Return the negative log-likelihood of each sentence (B,)."""
        return self.losses_of(self(batch), batch)

    def losses_of(self, emissions_BLK: Tensor, batch: Batch) -> Tensor:
        """Return the negative log-likelihood of each sentence, given its emissions (B,)."""
        return -self.decoder.log_likelihood(emissions_BLK, batch.gold_tags, batch.lengths_B)

    @torch.no_grad()
    def best_tags(self, batch: Batch) -> Tensor:
        """Return the best tag of every token (B, L)."""
        tags_BL, _ = self.decoder.viterbi(self(batch), batch.lengths_B)
        return tags_BL
