"""One tagger for every recipe: embeddings -> encoders -> emissions -> decoder.

The dotted names of the stages (`embeddings.words`, `embeddings.characters`, `embeddings.context`,
`embeddings.mix`, `word_cnn`, `bilstm`, `emissions`, `decoder`) are stable: partitions and
checkpoints go by them.

Shapes: B sentences, L tokens, K tags, D features.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.embeddings.trained_encoder import TrainedEncoder
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.features import Batch
from fedner.models.layers.character_cnn import CharacterCNN
from fedner.models.layers.context import PrecomputedContext
from fedner.models.layers.crf import CRF
from fedner.models.layers.described import DescribedEmissions
from fedner.models.layers.dropout import Dropout
from fedner.models.layers.kind_crf import KindCRF
from fedner.models.layers.scalar_mix import ScalarMix
from fedner.models.layers.softmax import SoftmaxDecoder
from fedner.models.layers.table import build_layer
from fedner.models.layers.word_shapes import WordShapes
from fedner.models.stages import FIRST, Stage, StageRecipe, Stages, walk

Decoder = CRF | KindCRF | SoftmaxDecoder
Head = nn.Linear | DescribedEmissions
_OWN_NAMES = ("embeddings", "dropout", "emissions", "decoder")


class Embeddings(nn.Module):
    """Words, characters and context of every token, each a part by itself.

    The parts stay apart because most of them are frozen: whoever reads them computes gradients for
    the others alone.

    Attributes:
        words: The word table, frozen or trained.
        characters: The character CNN, or None.
        context: What gives the context of each token: the features as they were computed, or an
            encoder that is trained in their place; None without context, and where they are mixed.
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
        encoder: TrainedEncoder | None = None,
        shapes: WordShapes | None = None,
        *,
        reads_words: bool = True,
        mix: ScalarMix | None = None,
    ) -> None:
        super().__init__()
        self.words = words
        self.characters = characters
        self.context: nn.Module | None = encoder
        if encoder is None and mix is None and context_dimension:
            self.context = PrecomputedContext()
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

    @property
    def sources(self) -> tuple[Stage, ...]:
        """What every token is made of, in order."""
        layers = {
            "words": self.words if self.reads_words else None,
            "characters": self.characters,
            "shapes": self.shapes,
            "mix": self.mix,
            "context": self.context,
        }
        return tuple(
            Stage(f"embeddings.{name}", each) for name, each in layers.items() if each is not None
        )

    @property
    def encoder(self) -> TrainedEncoder | None:
        """The encoder that is trained with the tagger, if there is one."""
        return self.context if isinstance(self.context, TrainedEncoder) else None


class Tagger(nn.Module):
    """A sequence tagger composed from stages; see the file's head for their names."""

    def __init__(
        self,
        embeddings: Embeddings,
        encoders: Sequence[StageRecipe],
        decoder: Decoder,
        dropout: float = 0.2,
        head: Callable[[int], Head] | None = None,
    ) -> None:
        """Build the encoders one after the other, each for what the one before gives.

        Args:
            embeddings: What every token is made of.
            encoders: The stages between embeddings and emissions.
            decoder: What reads the emissions.
            dropout: After every encoder.
            head: Makes what gives the emissions from the size of what it reads; None for a linear
                layer.
        """
        super().__init__()
        self.embeddings = embeddings
        dimension = embeddings.dimension_out
        self._encoder_names = _in_order(encoders)
        recipes = {each.name: each for each in encoders}
        for name in self._encoder_names:
            layer = build_layer(recipes[name].layer, dimension, recipes[name].settings)
            self.add_module(name, layer)
            dimension = _dimension_out(name, layer)
        self.dropout = Dropout(dropout)
        self.emissions: Head = (
            nn.Linear(dimension, decoder.num_tags) if head is None else head(dimension)
        )
        self.decoder = decoder

    @property
    def stages(self) -> Stages:
        """All that stands before the decoder, in order."""
        names = (*self._encoder_names, "emissions")
        encoders = tuple(Stage(name, self.get_submodule(name)) for name in names)
        return Stages(self.embeddings.sources, encoders)

    def forward(self, batch: Batch) -> Tensor:
        """Return the emissions of every token (B, L, K); what lies past a sentence is not read."""

        def run(stage: Stage, parts: Sequence[Tensor]) -> Tensor:
            return stage.forms.forward(stage.layer, parts, batch)

        def settle(_stage: Stage, x_BLD: Tensor, following: Stage | None) -> Tensor:
            if following is None:
                dropped: Tensor = self.embeddings.dropout(x_BLD)
                return dropped
            x_BLD = self.dropout(x_BLD)
            if following.window == 1:
                return x_BLD
            return x_BLD.masked_fill(~batch.mask_BL.unsqueeze(2), 0.0)

        return walk(self.stages, run, settle)

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


def _in_order(encoders: Sequence[StageRecipe]) -> tuple[str, ...]:
    """Return the names of the stages in the order of the computation."""
    names: list[str] = []
    for recipe in encoders:
        if recipe.name in (*names, *_OWN_NAMES) or "." in recipe.name:
            raise FednerError(
                f"a tagger cannot have another stage {recipe.name!r}",
                f"Give it a name of its own without a dot; {', '.join(_OWN_NAMES)} are taken.",
            )
        if recipe.after not in ("", FIRST, *names):
            raise FednerError(
                f"the stage {recipe.name!r} should follow {recipe.after!r}, which does not exist",
                f"Let it follow one of {', '.join((FIRST, *names))}.",
            )
        place = {"": len(names), FIRST: 0}.get(recipe.after)
        names.insert(names.index(recipe.after) + 1 if place is None else place, recipe.name)
    return tuple(names)


def _dimension_out(name: str, layer: nn.Module) -> int:
    dimension = getattr(layer, "dimension_out", None)
    if not isinstance(dimension, int):
        raise FednerError(
            f"the layer {name} ({type(layer).__name__}) does not say how many features it gives",
            "Set its attribute `dimension_out` to a whole number.",
        )
    return dimension
