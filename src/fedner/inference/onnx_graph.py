"""A tagger from its inputs to its emissions as an ONNX graph, written down operator by operator.

Written, not traced: a tagger has few parts, each with an operator or a handful of them, while a
traced graph depends on the release of torch that traced it and on the shapes of one example. All
sizes but those of the model are free, and an LSTM is ONNX's own LSTM.

Inputs of the graph (U distinct words, C characters, B sentences, L tokens):

    rows        (U)        int64    the row of each distinct word in the word table
    characters  (U, C)     int64    the codes of its characters, 0 behind its end; C at least 1;
                                    only where the tagger reads characters
    places      (B, L)     int64    which distinct word stands where; anything behind the end
    lengths     (B)        int64    the tokens of each sentence, at least 1
    context     (B, L, D)  float32  context features; only where the tagger reads them

Output: emissions (B, L, K) in float32; what lies behind a sentence's end means nothing.

Other shapes: A alphabet, F filters, H hidden units, W taps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from fedner import __version__
from fedner.corpus.readers.extras import required
from fedner.errors import FednerError
from fedner.models.crf import CRF
from fedner.models.embeddings.characters import CharacterCNN
from fedner.models.embeddings.scalar_mix import ScalarMix
from fedner.models.embeddings.shapes import FEATURES, WordShapes
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.encoders import BiLSTM, Dropout, WordCNN
from fedner.models.softmax import SoftmaxDecoder
from fedner.models.tagger import Embeddings, Tagger

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

# Understood by every ONNX runtime since 2022.
OPSET, IR_VERSION = 17, 8
EMISSIONS = "emissions"
WORD_TABLE = "word_table"

_PARTS: Mapping[str, tuple[type[nn.Module], ...]] = {
    "embeddings": (Embeddings,),
    "embeddings.words": (WordEmbedding,),
    "embeddings.characters": (CharacterCNN,),
    "embeddings.shapes": (WordShapes,),
    "embeddings.mix": (ScalarMix,),
    "embeddings.dropout": (Dropout,),
    "word_cnn": (WordCNN,),
    "bilstm": (BiLSTM,),
    "dropout": (Dropout,),
    "emissions": (nn.Linear,),
    "decoder": (CRF, SoftmaxDecoder),
}
_TO_THE_END = np.iinfo(np.int64).max


@dataclass(slots=True)
class _Graph:
    """A graph that is being written; every operator returns the name of what it computes.

    Attributes:
        nodes: The operators, in the order of the computation.
        constants: What they take beside the inputs.
    """

    nodes: list["NodeProto"] = field(default_factory=list)
    constants: list["TensorProto"] = field(default_factory=list)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append an operator of one output."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, num_outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Append an operator of several outputs."""
        helper = _onnx().helper
        outputs = [f"{kind.lower()}_{len(self.nodes)}_{n}" for n in range(num_outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, **attributes))
        return outputs

    def constant(self, values: NDArray[Any] | Sequence[int]) -> str:
        """Add a constant; bare numbers are integers."""
        array = np.asarray(values, np.int64) if not isinstance(values, np.ndarray) else values
        name = f"constant_{len(self.constants)}"
        self.constants.append(_onnx().numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def emissions_graph(tagger: Tagger, word_table: str) -> "ModelProto":
    """Return the graph of a tagger's emissions.

    Args:
        tagger: The tagger.
        word_table: The file, beside that of the graph, in which the word table lies: its rows as
            little-endian float32, one after the other.

    Raises:
        FednerError: The tagger has a part that no graph is known for, or onnx is not installed.
    """
    _check_parts(tagger)
    onnx = _onnx()
    graph = _Graph()
    graph.constants.append(_word_table(tagger.embeddings.words, word_table))
    x_BLD = _embeddings(graph, tagger.embeddings)
    if tagger.word_cnn is not None:
        x_BLD = _word_cnn(graph, tagger.word_cnn, x_BLD)
    if tagger.bilstm is not None:
        x_BLD = _bilstm(graph, tagger.bilstm, x_BLD)
    weight_DK = graph.constant(_array(tagger.emissions.weight).T)
    scores_BLK = graph.op("MatMul", x_BLD, weight_DK)
    bias_K = graph.constant(_array(tagger.emissions.bias))
    graph.nodes.append(onnx.helper.make_node("Add", [scores_BLK, bias_K], [EMISSIONS]))
    return _model(graph, tagger)


def _check_parts(tagger: Tagger) -> None:
    """Refuse what the graph would leave out or get wrong."""
    modules = dict(tagger.named_children()) if type(tagger) is Tagger else {"": tagger}
    if "embeddings" in modules:
        inner = modules["embeddings"].named_children()
        modules |= {f"embeddings.{name}": module for name, module in inner}
    unknown = [
        f"{name or 'the tagger'} ({type(module).__name__})"
        for name, module in modules.items()
        if type(module) not in _PARTS.get(name, ())
    ]
    if not (unknown or tagger.embeddings.reads_words):
        unknown = ["embeddings without word vectors"]
    if unknown:
        raise FednerError(
            f"the tagger cannot be exported as ONNX: no graph is known for {', '.join(unknown)}",
            "Trained word and character embeddings, word CNNs, BiLSTMs, CRF and softmax can be "
            "exported, with frozen context features as an input; trained context encoders cannot.",
        )


def _embeddings(graph: _Graph, embeddings: Embeddings) -> str:
    """Write words, characters, shapes and context of every token, zero behind the end (B, L, D)."""
    distinct = [graph.op("Gather", WORD_TABLE, "rows", axis=0)]
    if embeddings.characters is not None:
        distinct.append(_character_cnn(graph, embeddings.characters))
    if embeddings.shapes is not None:
        distinct.append(_shapes(graph, embeddings.shapes))
    parts = [graph.op("Gather", _joined(graph, distinct, 1), "places", axis=0)]
    if embeddings.mix is not None:
        parts.append(_mix(graph, embeddings.mix))
    elif embeddings.context_dimension:
        parts.append("context")
    # Chosen, not multiplied: what a caller left behind an end may be infinite.
    zero = graph.constant(np.zeros((), np.float32))
    return graph.op("Where", _mask(graph), _joined(graph, parts, 2), zero)


def _mix(graph: _Graph, mix: ScalarMix) -> str:
    """Write the learnt mean of context features that are layers side by side (B, L, D)."""
    layers_BLND = graph.op("Reshape", "context", graph.constant([0, 0, mix.num_layers, -1]))
    shares_N1 = graph.constant(_array(mix.shares())[:, None])
    weighted_BLND = graph.op("Mul", layers_BLND, shares_N1)
    return graph.op("ReduceSum", weighted_BLND, graph.constant([2]), keepdims=0)


def _mask(graph: _Graph) -> str:
    """Write whether there is a token (B, L, 1)."""
    shape = graph.op("Shape", "places")
    zero, one = graph.constant(np.zeros((), np.int64)), graph.constant(np.ones((), np.int64))
    num_tokens = graph.op("Gather", shape, one, axis=0)
    token_L = graph.op("Range", zero, num_tokens, one)
    lengths_B1 = graph.op("Unsqueeze", "lengths", graph.constant([1]))
    return graph.op("Unsqueeze", graph.op("Less", token_L, lengths_B1), graph.constant([2]))


def _character_cnn(graph: _Graph, cnn: CharacterCNN) -> str:
    """Write the maximum over the characters of each word; zero for a word of none (U, F).

    As in `characters.py`: a convolution over looked-up characters is a sum of looked-up products.
    """
    table_AD, weight_FDW = _array(cnn.embedding.weight), _array(cnn.convolution.weight)
    tables_WAF = np.einsum("ad,fdw->waf", table_AD, weight_FDW, dtype=np.float64)
    left = (cnn.width - 1) // 2
    around = graph.constant([0, left, 0, cnn.width - 1 - left])
    padded = graph.op("Pad", "characters", around)
    columns, total_UCF = graph.constant([1]), ""
    for tap, table_AF in enumerate(tables_WAF.astype(np.float32)):
        end = tap + 1 - cnn.width or _TO_THE_END
        under_UC = graph.op("Slice", padded, graph.constant([tap]), graph.constant([end]), columns)
        found_UCF = graph.op("Gather", graph.constant(table_AF), under_UC, axis=0)
        total_UCF = graph.op("Add", total_UCF, found_UCF) if total_UCF else found_UCF
    none = graph.constant(np.zeros((), np.int64))
    is_there_UC1 = graph.op(
        "Unsqueeze", graph.op("Greater", "characters", none), graph.constant([2])
    )
    lowest = graph.constant(np.asarray(-np.inf, np.float32))
    real_UCF = graph.op("Where", is_there_UC1, total_UCF, lowest)
    highest_UF = graph.op("ReduceMax", real_UCF, axes=[1], keepdims=0)
    if cnn.convolution.bias is not None:
        highest_UF = graph.op("Add", highest_UF, graph.constant(_array(cnn.convolution.bias)))
    last_code_U1 = graph.op("ReduceMax", "characters", axes=[1], keepdims=1)
    is_word_U1 = graph.op("Greater", last_code_U1, none)
    return graph.op("Where", is_word_U1, highest_UF, graph.constant(np.zeros((), np.float32)))


def _shapes(graph: _Graph, shapes: WordShapes) -> str:
    """Write the fixed features of each word (U, F), in the words of `shapes.py`."""
    classes = [dict(shapes.named_buffers())[f"_{name}_A"] for name in _CLASSES]
    table_AN = graph.constant(np.stack([_array(each.float()) for each in classes], axis=1))
    columns = graph.constant([1])
    zero, one = (graph.constant(np.asarray(n, np.float32)) for n in (0, 1))

    def is_positive(values: str) -> str:
        return graph.op("Greater", values, zero)

    def negated(condition: str) -> str:
        return graph.op("Not", condition)

    def both(first: str, *others: str) -> str:
        for other in others:
            first = graph.op("And", first, other)
        return first

    found_UCN = graph.op("Gather", table_AN, "characters", axis=0)
    counts = graph.op("ReduceSum", found_UCN, columns, keepdims=0)
    first_UC = graph.op("Slice", "characters", graph.constant([0]), graph.constant([1]), columns)
    first_UN = graph.op("Squeeze", graph.op("Gather", table_AN, first_UC, axis=0), columns)
    num_upper, *others = graph.ops("Split", len(_CLASSES), counts, axis=1)
    has_lower, has_digit, has_hyphen, _ = (is_positive(each) for each in others)
    is_first_upper, _, _, _, is_sigil = graph.ops("Split", len(_CLASSES), first_UN, axis=1)
    has_upper, no_lower = is_positive(num_upper), negated(has_lower)
    has_one_upper = graph.op("Equal", num_upper, one)
    no_letter = negated(graph.op("Or", has_upper, has_lower))
    is_word = graph.op("Greater", first_UC, graph.constant(np.zeros((), np.int64)))
    features = {
        "lower case": both(has_lower, negated(has_upper)),
        "capitalised": both(is_positive(is_first_upper), has_lower, has_one_upper),
        "upper case": both(graph.op("Greater", num_upper, one), no_lower),
        "capital inside": both(has_lower, graph.op("Greater", num_upper, is_first_upper)),
        "one capital letter": both(has_one_upper, no_lower),
        "has a digit": has_digit,
        "number": both(has_digit, no_letter),
        "punctuation": both(is_word, no_letter, negated(has_digit)),
        "has a hyphen": has_hyphen,
        "handle or hashtag": is_positive(is_sigil),
    }
    float_type = _onnx().TensorProto.FLOAT
    return _joined(graph, [graph.op("Cast", features[n], to=float_type) for n in FEATURES], 1)


_CLASSES = ("upper", "lower", "digit", "hyphen", "sigil")


def _word_cnn(graph: _Graph, cnn: WordCNN, x_BLD: str) -> str:
    """Write the convolutions of all widths, side by side, with their ReLU (B, L, F)."""
    x_BDL = graph.op("Transpose", x_BLD, perm=[0, 2, 1])
    outputs = []
    for module, width in zip(cnn.convolutions, cnn.widths, strict=True):
        convolution = cast("nn.Conv1d", module)
        weights = [graph.constant(_array(convolution.weight))]
        if convolution.bias is not None:
            weights.append(graph.constant(_array(convolution.bias)))
        left = (width - 1) // 2
        outputs.append(graph.op("Conv", x_BDL, *weights, pads=[left, width - 1 - left]))
    out_BFL = graph.op("Relu", _joined(graph, outputs, 1))
    return graph.op("Transpose", out_BFL, perm=[0, 2, 1])


def _bilstm(graph: _Graph, bilstm: BiLSTM, x_BLD: str) -> str:
    """Write the stacked layers; each direction begins at the sentence's own end (B, L, 2H)."""
    lengths_B = graph.op("Cast", "lengths", to=_onnx().TensorProto.INT32)
    flat = graph.constant([0, 0, -1])
    x_LBD = graph.op("Transpose", x_BLD, perm=[1, 0, 2])
    for layer in range(bilstm.lstm.num_layers):
        weights = [graph.constant(each) for each in _lstm_weights(bilstm.lstm, layer)]
        out_L2BH = graph.op(
            "LSTM",
            x_LBD,
            *weights,
            lengths_B,
            direction="bidirectional",
            hidden_size=bilstm.lstm.hidden_size,
        )
        out_LB2H = graph.op("Transpose", out_L2BH, perm=[0, 2, 1, 3])
        x_LBD = graph.op("Reshape", out_LB2H, flat)
    return graph.op("Transpose", x_LBD, perm=[1, 0, 2])


def _lstm_weights(lstm: nn.LSTM, layer: int) -> list[NDArray[np.float32]]:
    """Return input weights, recurrent weights and biases of both directions, as ONNX has them."""

    def of(kind: str) -> NDArray[np.float32]:
        suffixes = (f"l{layer}", f"l{layer}_reverse")
        return np.stack([_reordered(_array(getattr(lstm, f"{kind}_{each}"))) for each in suffixes])

    biases = np.concatenate([of("bias_ih"), of("bias_hh")], axis=1)
    return [of("weight_ih"), of("weight_hh"), biases]


def _reordered(gates: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the gates in the order of ONNX (input, output, forget, cell); torch has i, f, c, o."""
    entrance, forget, cell, exit_ = np.split(gates, 4)
    return np.concatenate([entrance, exit_, forget, cell])


def _joined(graph: _Graph, parts: Sequence[str], axis: int) -> str:
    return parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=axis)


def _word_table(words: WordEmbedding, file: str) -> "TensorProto":
    """Return the word table as a tensor whose numbers lie in a file of their own."""
    onnx = _onnx()
    table = onnx.TensorProto(
        name=WORD_TABLE,
        data_type=onnx.TensorProto.FLOAT,
        dims=(words.source.num_rows, words.dimension),
        data_location=onnx.TensorProto.EXTERNAL,
    )
    num_bytes = words.source.num_rows * words.dimension * np.dtype(np.float32).itemsize
    for key, value in (("location", file), ("offset", "0"), ("length", str(num_bytes))):
        table.external_data.add(key=key, value=value)
    return cast("TensorProto", table)


def _model(graph: _Graph, tagger: Tagger) -> "ModelProto":
    onnx = _onnx()
    integer, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    embeddings = tagger.embeddings
    inputs: dict[str, tuple[int, list[str | int]]] = {"rows": (integer, ["words"])}
    if embeddings.characters is not None or embeddings.shapes is not None:
        inputs["characters"] = (integer, ["words", "characters"])
    inputs["places"] = (integer, ["sentences", "tokens"])
    inputs["lengths"] = (integer, ["sentences"])
    if embeddings.context_dimension:
        inputs["context"] = (real, ["sentences", "tokens", embeddings.context_dimension])
    value = onnx.helper.make_tensor_value_info
    emissions = value(EMISSIONS, real, ["sentences", "tokens", tagger.decoder.num_tags])
    described = [value(name, *kind) for name, kind in inputs.items()]
    written = onnx.helper.make_graph(
        graph.nodes, "fedner_tagger", described, [emissions], graph.constants
    )
    model = onnx.helper.make_model(
        written,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="fedner",
        producer_version=__version__,
    )
    return cast("ModelProto", model)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().cpu().float().numpy()


def _onnx() -> Any:
    return required("onnx", "onnx", "ONNX exports")
