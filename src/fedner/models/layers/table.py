"""Which layers fedner knows: one row for each type, found by that type alone.

A subclass is another type: it may compute something else. To add a layer, write one module with its
class and its `LayerForms`, and add its row here; from outside the package, call `register_layer`.
"""

from torch import nn

from fedner.errors import FednerError
from fedner.models.embeddings.trained_encoder import TrainedEncoder
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.layers import (
    bilstm,
    character_cnn,
    context,
    crf,
    described,
    kind_crf,
    linear,
    scalar_mix,
    softmax,
    word_cnn,
    word_shapes,
    word_table,
)
from fedner.models.layers.forms import DecoderForms, LayerForms, Missing

LAYERS: dict[type[nn.Module], LayerForms] = {
    WordEmbedding: word_table.FORMS,
    character_cnn.CharacterCNN: character_cnn.FORMS,
    word_shapes.WordShapes: word_shapes.FORMS,
    scalar_mix.ScalarMix: scalar_mix.FORMS,
    context.PrecomputedContext: context.FORMS,
    TrainedEncoder: context.ENCODER_FORMS,
    word_cnn.WordCNN: word_cnn.FORMS,
    bilstm.BiLSTM: bilstm.FORMS,
    nn.Linear: linear.FORMS,
    described.DescribedEmissions: described.FORMS,
}
DECODERS: dict[type[nn.Module], DecoderForms] = {
    crf.CRF: crf.FORMS,
    kind_crf.KindCRF: kind_crf.FORMS,
    softmax.SoftmaxDecoder: softmax.FORMS,
}


def register_layer(layer: type[nn.Module], forms: LayerForms) -> None:
    """Add a type of layer to the table.

    >>> import fedner, torch
    >>> class Doubled(torch.nn.Module):
    ...     def __init__(self, dimension):
    ...         super().__init__()
    ...         self.dimension_out = dimension
    >>> forms = fedner.LayerForms(
    ...     "doubled", lambda layer, parts, batch: 2 * torch.cat(parts, -1), build=Doubled
    ... )
    >>> fedner.register_layer(Doubled, forms)

    Raises:
        FednerError: The type, or the name of its forms, is in the table already.
    """
    taken = [each.__name__ for each, row in LAYERS.items() if row.name == forms.name]
    if layer in LAYERS or taken:
        raise FednerError(
            f"the layer {layer.__name__} ({forms.name!r}) cannot be added: "
            f"{', '.join(taken) or layer.__name__} is in the table already",
            "Give each kind of layer its own class and its own name.",
        )
    LAYERS[layer] = forms


def layer_forms(name: str, layer: nn.Module) -> LayerForms:
    """Return the forms of a layer, by its type.

    Args:
        name: Its dotted name in the tagger, for the error.
        layer: The layer.

    Raises:
        FednerError: Its type is not in the table.
    """
    forms = LAYERS.get(type(layer))
    if forms is None:
        raise FednerError(
            f"{name} ({type(layer).__name__}) is a type of layer that fedner does not know",
            "Add it with fedner.models.layers.register_layer; a subclass needs a row of its own. "
            f"Known are {', '.join(each.__name__ for each in LAYERS)}.",
        )
    return forms


def decoder_forms(decoder: nn.Module) -> DecoderForms:
    """Return the forms of a decoder, by its type; one that is not in the table has none."""
    return DECODERS.get(type(decoder), DecoderForms(type(decoder).__name__))


def build_layer(kind: str, dimension: int, settings: dict[str, object]) -> nn.Module:
    """Make a layer by the name of its forms.

    Raises:
        FednerError: There is no such layer, or the settings are not its own.
    """
    rows = {forms.name: forms for forms in LAYERS.values() if forms.build is not None}
    build = rows[kind].build if kind in rows else None
    if build is None:
        raise FednerError(
            f"no layer {kind!r} can be built from a recipe",
            f"The layers are {', '.join(sorted(rows))}; one of your own needs `build` and "
            "register_layer, called before the tagger is built or loaded.",
        )
    try:
        return build(dimension, **settings)
    except TypeError as error:
        raise FednerError(
            f"the layer {kind!r} cannot be built with {settings}: {error}",
            "Give the settings that its `build` takes.",
        ) from error


def missing_form(name: str, layer: nn.Module, form: Missing, purpose: str) -> FednerError:
    """Return the error for a layer that lacks the form that somebody needs."""
    why = f": {form.why}" if form.why else ""
    hint = form.hint or "Leave the layer out, or write that form in its LayerForms."
    return FednerError(f"{name} ({type(layer).__name__}) has no {purpose}{why}", hint)
