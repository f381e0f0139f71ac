"""The LSTMs of an exported tagger in 8 bits: nearly all of its work, at a fraction of the time.

Weights become small integers with a scale for each gate (symmetric); inputs and states are rounded
while the graph runs, with a scale of their own for each step. That is `DynamicQuantizeLSTM` of
onnxruntime, an operator of its own ("com.microsoft"): other runtimes do not know it. Word tables,
convolutions and emissions stay as they are. A tagger without an LSTM gains nothing and is refused.

Weights have 7 bits, not 8: processors without VNNI add two products in 16 bits, which overflow with
8 (255 * 127 * 2 > 32,767) and would make a tagger's answer depend on the machine.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fedner.errors import FednerError
from fedner.models.onnx_writer import import_onnx

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

DOMAIN: Final = "com.microsoft"
_LARGEST: Final = 63


def with_int8_lstms(model: "ModelProto") -> "ModelProto":
    """Return a graph whose LSTMs compute in 8 bits.

    Args:
        model: A graph that `onnx_graph.emissions_graph` wrote; it is not changed.

    Raises:
        FednerError: It has no LSTM.
    """
    onnx = import_onnx()
    made: ModelProto = onnx.ModelProto()
    made.CopyFrom(model)
    weights = {each.name: each for each in made.graph.initializer}
    lstms = [node for node in made.graph.node if node.op_type == "LSTM"]
    if not lstms:
        raise FednerError(
            "the tagger has no LSTM, so 8 bits bring no gain", "Leave out --precision int8."
        )
    for node in lstms:
        _quantize(node, weights, made)
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return made


def _quantize(node: "NodeProto", weights: dict[str, "TensorProto"], model: "ModelProto") -> None:
    """Make an LSTM one of 8 bits, in place: other weights, their scales, another name."""
    numpy_helper = import_onnx().numpy_helper
    inputs = list(node.input)
    scales: list[str] = []
    for at in (1, 2):  # input weights, recurrent weights
        name = inputs[at]
        values, scale, zero = _rounded(numpy_helper.to_array(weights[name]))
        _replace(model, name, values)
        for suffix, array in (("scale", scale), ("zero", zero)):
            scales.append(f"{name}_{suffix}")
            model.graph.initializer.append(numpy_helper.from_array(array, scales[-1]))
    # No first states and no peepholes.
    nothing = [""] * (8 - len(inputs))
    del node.input[:]
    node.input.extend([*inputs, *nothing, *scales])
    node.op_type, node.domain = "DynamicQuantizeLSTM", DOMAIN


def _rounded(
    weights_DGX: NDArray[np.float32],
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.int8]]:
    """Return weights (directions, inputs, gates) in 8 bits, a scale and a zero for each gate."""
    highest_DG = np.abs(weights_DGX).max(axis=2)
    scale_DG = np.maximum(highest_DG, np.finfo(np.float32).tiny) / np.float32(_LARGEST)
    rounded = np.rint(weights_DGX / scale_DG[:, :, None]).clip(-_LARGEST, _LARGEST)
    values_DXG = np.ascontiguousarray(rounded.astype(np.int8).transpose(0, 2, 1))
    return values_DXG, scale_DG.astype(np.float32), np.zeros(scale_DG.shape, np.int8)


def _replace(model: "ModelProto", name: str, values: NDArray[Any]) -> None:
    packed = import_onnx().numpy_helper.from_array(values, name)
    for each in model.graph.initializer:
        if each.name == name:
            each.CopyFrom(packed)
