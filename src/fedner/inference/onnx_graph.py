"""A tagger from its inputs to its emissions as an ONNX graph, written down operator by operator.

Written, not traced: a tagger has few layers, each with an operator or a handful of them, while a
traced graph depends on the release of torch that traced it and on the shapes of one example. All
sizes but those of the model are free, and an LSTM is ONNX's own LSTM. Each layer's operators stand
beside the layer, in `models/layers`.

Inputs of the graph (U distinct words, C characters, B sentences, L tokens):

    rows        (U)        int64    the row of each distinct word in the word table
    characters  (U, C)     int64    the codes of its characters, 0 behind its end; C at least 1;
                                    only where the tagger reads characters
    places      (B, L)     int64    which distinct word stands where; anything behind the end
    lengths     (B)        int64    the tokens of each sentence, at least 1
    context     (B, L, D)  float32  context features; only where the tagger reads them

Output: emissions (B, L, K) in float32; what lies behind a sentence's end means nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from fedner.errors import FednerError
from fedner.models.averaged import AnyTagger, AveragedTagger
from fedner.models.layers.forms import Missing
from fedner.models.layers.table import decoder_forms, missing_form
from fedner.models.onnx_writer import FLOAT, INT64, GraphWriter, Input, import_onnx
from fedner.models.stages import Stage, walk
from fedner.models.tagger import Tagger
from fedner.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

# Understood by every ONNX runtime since 2022.
OPSET, IR_VERSION = 17, 8
EMISSIONS = "emissions"
_PURPOSE = "ONNX form"


def emissions_graph(tagger: AnyTagger, word_table: str) -> "ModelProto":
    """Return the graph of a tagger's emissions.

    Args:
        tagger: The tagger; of an average the graph gives the mean emissions.
        word_table: The file, beside that of the graph, in which the word table lies: its rows as
            little-endian float32, one after the other.

    Raises:
        FednerError: The tagger has a layer that no graph is known for, or onnx is not installed.
    """
    members = _members(tagger)
    for member in members:
        _check_forms(member)
    graph = GraphWriter(table_file=word_table)
    scores = [_written(member, graph) for member in members]
    mean_BLK = scores[0] if len(scores) == 1 else graph.op("Mean", *scores)
    graph.nodes.append(import_onnx().helper.make_node("Identity", [mean_BLK], [EMISSIONS]))
    return _model(graph, members[0])


def _members(tagger: AnyTagger) -> tuple[Tagger, ...]:
    """Return the taggers whose mean a tagger is: itself, where it is no average."""
    if not isinstance(tagger, AveragedTagger):
        return (tagger,)
    if tagger.embeddings.words.trainable:
        raise FednerError(
            "the tagger cannot be exported as ONNX: it is an average of taggers that trained "
            "their word tables, and an export can hold only one table",
            "Export a tagger with frozen word vectors, or one of the members.",
        )
    return tagger.taggers


def _written(tagger: Tagger, graph: GraphWriter) -> str:
    """Write a tagger into the graph; return the name of its emissions."""

    def run(stage: Stage, parts: Sequence[str]) -> str:
        if isinstance(stage.forms.onnx, Missing):
            raise missing_form(stage.name, stage.layer, stage.forms.onnx, _PURPOSE)
        return stage.forms.onnx(stage.layer, graph, parts)

    def settle(_stage: Stage, value: str, following: Stage | None) -> str:
        return graph.masked(value) if following is None or following.window > 1 else value

    return walk(tagger.stages, run, settle)


def _check_forms(tagger: Tagger) -> None:
    """Refuse what the graph would leave out or get wrong."""
    if type(tagger) is not Tagger:
        raise FednerError(
            f"a {type(tagger).__name__} cannot be exported as ONNX: no graph is known for it",
            "Export a tagger that is built from a recipe.",
        )
    for stage in tagger.stages.all:
        if isinstance(stage.forms.onnx, Missing):
            raise missing_form(stage.name, stage.layer, stage.forms.onnx, _PURPOSE)
    scores = decoder_forms(tagger.decoder).chain_scores
    if isinstance(scores, Missing):
        raise missing_form("decoder", tagger.decoder, scores, _PURPOSE)
    if not tagger.embeddings.reads_words:
        raise FednerError(
            "the tagger cannot be exported as ONNX: its embeddings have no word vectors",
            "Export a tagger that reads words.",
        )


def _model(graph: GraphWriter, tagger: Tagger) -> "ModelProto":
    helper = import_onnx().helper
    emissions = helper.make_tensor_value_info(
        EMISSIONS, FLOAT, ["sentences", "tokens", tagger.decoder.num_tags]
    )
    inputs = _inputs(graph, tagger.embeddings.context_dimension)
    written = helper.make_graph(graph.nodes, "fedner_tagger", inputs, [emissions], graph.constants)
    model = helper.make_model(
        written,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="fedner",
        producer_version=__version__,
    )
    return cast("ModelProto", model)


def _inputs(graph: GraphWriter, context_dimension: int) -> list["ValueInfoProto"]:
    """Return what the graph's inputs are, in the order of the file's head."""
    kinds: dict[Input, tuple[int, list[str | int]]] = {
        "rows": (INT64, ["words"]),
        "characters": (INT64, ["words", "characters"]),
        "places": (INT64, ["sentences", "tokens"]),
        "lengths": (INT64, ["sentences"]),
        "context": (FLOAT, ["sentences", "tokens", context_dimension]),
    }
    describe = import_onnx().helper.make_tensor_value_info
    return [describe(name, *kind) for name, kind in kinds.items() if name in graph.inputs]
