"""Models as short recipes: what is composed, whose paper, which reading is ours.

The models of both papers, one for differential privacy, and any transformer.

Sizes are those of Ge et al. 2020 (section 4.1): characters 100, 200 filters of width 3, BiLSTM
2x200, dropout 0.2. The word dimension is that of the vectors.
"""

from dataclasses import dataclass, replace
from typing import Literal

from fedner.errors import FednerError
from fedner.models.embeddings.low_rank import Adapter
from fedner.models.embeddings.trained_encoder import PretrainedEncoder, TrainedEncoder
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.initialise import initialise
from fedner.models.layers.character_cnn import CharacterCNN
from fedner.models.layers.crf import CRF
from fedner.models.layers.described import DescribedEmissions
from fedner.models.layers.kind_crf import KindCRF
from fedner.models.layers.scalar_mix import ScalarMix
from fedner.models.layers.softmax import SoftmaxDecoder
from fedner.models.layers.word_shapes import WordShapes
from fedner.models.stages import StageRecipe
from fedner.models.tagger import Decoder, Embeddings, Head, Tagger
from fedner.models.types import TypeVectors

DecoderKind = Literal["crf", "softmax"]
HeadKind = Literal["free", "described"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a tagger is composed of.

    Attributes:
        name: What users call it.
        paper: Where it comes from.
        reading: What the papers leave open, and how it is read here.
        characters: Whether words carry a character CNN.
        shapes: Whether words carry the fixed features of their shape.
        words: Whether words have vectors of their own.
        context: Whether context features are joined to each word.
        trains_encoder: Whether these come from an encoder that is trained with the tagger; else
            they are precomputed and frozen.
        adapter: The low-rank adapters that such an encoder learns through; None trains it whole.
        widths: The widths of the word CNN; empty for none.
        lstm_layers: Stacked BiLSTM layers; 0 for none.
        decoder: A CRF, or a softmax for each token.
        head: Whether every tag has weights of its own ("free"), or the emissions come from the
            descriptions of the types ("described").
        rank: Of a described head: the size of the space in which tokens and types meet.
        residual: Whether a described head has a linear layer of the tags' own beside it.
        split: The default partition preset, a key of `partition.PRESETS`.
        character_dimension: Size of a character embedding.
        character_filters: Filters of the character CNN, of width 3.
        filters: Filters of the word CNN for each width.
        hidden: Units of each direction of the BiLSTM.
        dropout: After embeddings, word CNN and BiLSTM.
        extra_stages: Further encoders, each in its place: layers of one's own.
    """

    name: str
    paper: str
    reading: str
    characters: bool = False
    shapes: bool = False
    words: bool = True
    context: bool = False
    trains_encoder: bool = False
    adapter: Adapter | None = None
    widths: tuple[int, ...] = ()
    lstm_layers: int = 1
    decoder: DecoderKind = "crf"
    head: HeadKind = "free"
    rank: int = 128
    residual: bool = False
    split: str = "fedner"
    character_dimension: int = 100
    character_filters: int = 200
    filters: int = 200
    hidden: int = 200
    dropout: float = 0.2
    extra_stages: tuple[StageRecipe, ...] = ()

    @property
    def encoders(self) -> tuple[StageRecipe, ...]:
        """The stages between embeddings and emissions."""
        stages = []
        if self.widths:
            settings = {"filters": self.filters, "widths": self.widths}
            stages.append(StageRecipe("word_cnn", "word CNN", settings))
        if self.lstm_layers:
            settings = {
                "hidden": self.hidden,
                "layers": self.lstm_layers,
                "dropout": self.dropout,
            }
            stages.append(StageRecipe("bilstm", "BiLSTM", settings))
        return (*stages, *self.extra_stages)

    @property
    def composition(self) -> str:
        """The parts in one line."""
        encoder = "adapted encoder" if self.adapter else "trained encoder"
        embeddings = {
            "words": self.words,
            "char CNN": self.characters,
            "shapes": self.shapes,
            encoder if self.trains_encoder else "context": self.context,
        }
        parts = [" + ".join(name for name, has in embeddings.items() if has)]
        if len(self.widths) == 1:
            parts.append("word CNN")
        elif self.widths:
            parts.append(f"word CNNs of widths {', '.join(map(str, self.widths))}")
        if self.lstm_layers:
            parts.append(
                "BiLSTM" if self.lstm_layers == 1 else f"{self.lstm_layers} stacked BiLSTMs"
            )
        parts += [stage.layer for stage in self.extra_stages]
        if self.head == "described":
            parts.append("described types")
        parts.append("CRF" if self.decoder == "crf" else "softmax")
        return " -> ".join(parts)


_DROPOUT = "Dropout 0.2 after the embeddings, the word CNN and the BiLSTM."

_RECIPES = (
    Recipe(
        name="CNN-CRF",
        paper="Collobert et al. 2011, as a baseline of Ge et al. 2020",
        reading=f"One convolution of width 3 with ReLU; word vectors frozen. {_DROPOUT}",
        widths=(3,),
        lstm_layers=0,
    ),
    Recipe(
        name="LSTM-CRF",
        paper="Habibi et al. 2017, as a baseline of Ge et al. 2020",
        reading=f"No characters, as Ge et al. describe it; word vectors frozen. {_DROPOUT}",
        split="encoder",
    ),
    Recipe(
        name="GRAM-CNN",
        paper="Zhu et al. 2017, as a baseline of Ge et al. 2020",
        reading="Word CNNs of widths 1, 3 and 5 side by side, 200 filters each; no LSTM. "
        + _DROPOUT,
        characters=True,
        widths=(1, 3, 5),
        lstm_layers=0,
    ),
    Recipe(
        name="CNN-LSTM-CRF",
        paper="Ma and Hovy 2016, as a baseline of Ge et al. 2020",
        reading=f"One BiLSTM layer; word vectors frozen. {_DROPOUT}",
        characters=True,
        split="embeddings",
    ),
    Recipe(
        name="S-LSTM-CRF",
        paper="Lample et al. 2016, as Ge et al. 2020 read it: a stacked BiLSTM",
        reading=f"Two BiLSTM layers, dropout between them; no characters. {_DROPOUT}",
        lstm_layers=2,
        split="encoder",
    ),
    Recipe(
        name="CNN-CLSTM-CRF",
        paper="Shen et al. 2017, as a baseline of Ge et al. 2020",
        reading=f"One word CNN of width 3 with ReLU under one BiLSTM. {_DROPOUT}",
        characters=True,
        widths=(3,),
    ),
    Recipe(
        name="ELMoNER",
        paper="Ge et al. 2020, section 3.1: also the model of FedNER",
        reading="The context features are precomputed and frozen (the paper does not say); one "
        f"word CNN of width 3 with ReLU under one BiLSTM. {_DROPOUT}",
        characters=True,
        context=True,
        widths=(3,),
    ),
    Recipe(
        name="BI-LSTM-TDDL",
        paper="Jana and Biemann 2021: BiLSTM with a softmax for each token",
        reading="The hidden size is not stated: 2x200; word vectors frozen. " + _DROPOUT,
        decoder="softmax",
        split="everything",
    ),
    Recipe(
        name="BI-LSTM-CRF",
        paper="Jana and Biemann 2021",
        reading="The hidden size is not stated: 2x200; word vectors frozen. " + _DROPOUT,
        split="everything",
    ),
    Recipe(
        name="DP-BI-LSTM-CRF",
        paper="after Jana and Biemann 2021, where every trained weight is noised",
        reading="Everything pretrained is frozen; case and digits come from fixed features instead "
        "of a character CNN; no dropout, noise enough.",
        shapes=True,
        context=True,
        split="everything",
        dropout=0.0,
    ),
    Recipe(
        name="transformer",
        paper="Devlin et al. 2019; low-rank adapters after Hu et al. 2021",
        reading="Any Hugging Face encoder, trained as it is or through adapters, each word read at "
        "its first piece; a CRF where the paper has a softmax (`decoder`). Dropout within as the "
        "encoder's configuration has it, and 0.1 after it.",
        words=False,
        context=True,
        trains_encoder=True,
        lstm_layers=0,
        split="encoder",
        dropout=0.1,
    ),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _RECIPES}


def resized(recipe: Recipe, *, hidden: int, filters: int, character_filters: int) -> Recipe:
    """Return the recipe with other sizes: for demonstrations and tests on small machines."""
    return replace(recipe, hidden=hidden, filters=filters, character_filters=character_filters)


def recipe_named(name: str) -> Recipe:
    """Return a recipe of the zoo, whatever the case of its name.

    Raises:
        FednerError: There is none of that name.
    """
    for recipe in RECIPES.values():
        if recipe.name.lower() == name.lower():
            return recipe
    raise FednerError(f"no recipe {name!r}", f"The recipes are {', '.join(RECIPES)}.")


def build_tagger(
    recipe: Recipe,
    words: WordEmbedding,
    space: TagSpace,
    context_dimension: int = 0,
    seed: int = 0,
    *,
    constrained: bool = True,
    encoder: PretrainedEncoder | None = None,
    context_layers: int = 1,
    types: TypeVectors | int | None = None,
) -> Tagger:
    """Return a fresh tagger.

    Every parameter is drawn from a stream that its name and the seed decide, so platforms begin
    with equal shared parameters whatever their tag sets are.

    Args:
        recipe: What it is composed of.
        words: The word embedding, frozen or trained; taggers may share a frozen one.
        space: The tags of the platform.
        context_dimension: Features in the context slot; 0 for recipes without one.
        seed: Names the initial values.
        constrained: Whether the CRF knows the steps that the scheme forbids.
        encoder: What is trained in the context slot, for recipes that train an encoder.
        context_layers: How many layers stand side by side in the context features (those of ELMo);
            the tagger learns to mix them.
        types: The described types, for recipes with a described head, those of `space` among them;
            or the size of their vectors alone, where these are not known: such a tagger can be
            filled with weights, not used.

    Raises:
        FednerError: The recipe does not fit the context features, the encoder or the types.
    """
    _check_context(recipe, context_dimension, encoder, context_layers)
    _check_types(recipe, types)
    characters = None
    if recipe.characters:
        characters = CharacterCNN(recipe.character_dimension, recipe.character_filters)
    embeddings = Embeddings(
        words,
        characters,
        context_dimension,
        recipe.dropout,
        None if encoder is None else TrainedEncoder(encoder, recipe.adapter),
        WordShapes() if recipe.shapes else None,
        reads_words=recipe.words,
        mix=None if context_layers == 1 else ScalarMix(context_layers),
    )
    decoder = _decoder(recipe, space, constrained=constrained)

    def described(dimension: int) -> Head:
        known = 0 if types is None else types
        return DescribedEmissions(dimension, space, known, recipe.rank, residual=recipe.residual)

    head = described if recipe.head == "described" else None
    tagger = Tagger(embeddings, recipe.encoders, decoder, recipe.dropout, head)
    initialise(tagger, seed)
    return tagger


def _decoder(recipe: Recipe, space: TagSpace, *, constrained: bool) -> Decoder:
    num_tags = len(space.tags)
    if recipe.decoder == "softmax":
        return SoftmaxDecoder(num_tags)
    if recipe.head == "described":
        return KindCRF(space, constrained=constrained)
    return CRF(num_tags, space.transitions if constrained else None)


def _check_types(recipe: Recipe, types: TypeVectors | int | None) -> None:
    if (recipe.head == "described") != (types is not None):
        wanted = "needs described types" if types is None else "has a free head"
        raise FednerError(
            f"recipe {recipe.name} {wanted}, but {'none' if types is None else 'some'} are given",
            'Give TypeVectors exactly where the head of the recipe is "described".',
        )


def _check_context(
    recipe: Recipe, context_dimension: int, encoder: PretrainedEncoder | None, layers: int
) -> None:
    if layers != 1 and (encoder is not None or not context_dimension):
        raise FednerError(
            f"recipe {recipe.name} has no precomputed context features, but {layers} layers of "
            "them are to be mixed",
            "Leave context_layers out.",
        )
    if recipe.trains_encoder != (encoder is not None):
        wanted = "trains an encoder" if recipe.trains_encoder else "trains no encoder"
        raise FednerError(
            f"recipe {recipe.name} {wanted}, but {'one' if encoder else 'none'} is given",
            "Give a PretrainedEncoder exactly where the recipe trains one.",
        )
    if encoder is not None and encoder.dimension != context_dimension:
        raise FednerError(
            f"the encoder {encoder.origin.name!r} has {encoder.dimension} features, the context "
            f"dimension is {context_dimension}",
            "Give the dimension of the encoder.",
        )
    if recipe.context != bool(context_dimension):
        wanted = "needs context features" if recipe.context else "has no context slot"
        raise FednerError(
            f"recipe {recipe.name} {wanted}, but the context dimension is {context_dimension}",
            "Give the dimension of the features, or use a recipe that fits.",
        )


def parameter_counts(tagger: Tagger) -> dict[str, int]:
    """Return how many numbers each module trains, by the names that partitions go by."""
    counts: dict[str, int] = {}
    for name, parameter in tagger.named_parameters():
        if parameter.requires_grad:
            parts = name.split(".")
            module = ".".join(parts[:2]) if parts[0] == "embeddings" else parts[0]
            counts[module] = counts.get(module, 0) + parameter.numel()
    return counts
