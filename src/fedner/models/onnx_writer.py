"""An ONNX graph that is being written, operator by operator: what a layer's ONNX form writes into.

Nothing here imports onnx before the first operator is written.

Shapes: B sentences, L tokens, U distinct words, F features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedner.corpus.readers.extras import required

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

# Types of tensors, as the ONNX standard numbers them.
FLOAT, INT32, INT64 = 1, 6, 7
TO_THE_END = np.iinfo(np.int64).max

Input = Literal["rows", "characters", "places", "lengths", "context"]


@dataclass(slots=True)
class GraphWriter:
    """A graph that is being written; every operator returns the name of what it computes.

    Attributes:
        nodes: The operators, in the order of the computation.
        constants: What they take beside the inputs.
        inputs: The inputs that were asked for.
        table_file: The file, beside that of the graph, in which the word table lies.
    """

    nodes: list["NodeProto"] = field(default_factory=list)
    constants: list["TensorProto"] = field(default_factory=list)
    inputs: set[Input] = field(default_factory=set)
    table_file: str = ""
    _mask: str = ""

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append an operator of one output."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, num_outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Append an operator of several outputs."""
        outputs = [f"{kind.lower()}_{len(self.nodes)}_{n}" for n in range(num_outputs)]
        node = import_onnx().helper.make_node(kind, list(inputs), outputs, **attributes)
        self.nodes.append(node)
        return outputs

    def constant(self, values: NDArray[Any] | Sequence[int]) -> str:
        """Add a constant; bare numbers are integers."""
        array = np.asarray(values, np.int64) if not isinstance(values, np.ndarray) else values
        name = f"constant_{len(self.constants)}"
        packed = import_onnx().numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.constants.append(packed)
        return name

    def scalar(self, value: float, dtype: type[np.number[Any]] = np.float32) -> str:
        """Add a single number."""
        return self.constant(np.asarray(value, dtype))

    def weight(self, tensor: Tensor) -> str:
        """Add the values of a parameter."""
        return self.constant(to_array(tensor))

    def read(self, name: Input) -> str:
        """Return an input of the graph, which is declared from then on."""
        self.inputs.add(name)
        return name

    def joined(self, parts: Sequence[str], axis: int = 2) -> str:
        """Join values side by side: by default what every token is made of."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def linear(self, x_BLD: str, weight_KD: Tensor, bias_K: Tensor | None) -> str:
        """Multiply with a weight and add a bias (B, L, K)."""
        product_BLK = self.op("MatMul", x_BLD, self.constant(to_array(weight_KD).T))
        return product_BLK if bias_K is None else self.op("Add", product_BLK, self.weight(bias_K))

    def at_tokens(self, values_UF: str) -> str:
        """Put the values of the distinct words where they stand (B, L, F)."""
        return self.op("Gather", values_UF, self.read("places"), axis=0)

    def masked(self, x_BLF: str) -> str:
        """Set values to zero where there is no token."""
        # Chosen, not multiplied: what a caller left behind an end may be infinite.
        return self.op("Where", self.mask(), x_BLF, self.scalar(0))

    def mask(self) -> str:
        """Return whether there is a token (B, L, 1)."""
        if not self._mask:
            zero, one = self.scalar(0, np.int64), self.scalar(1, np.int64)
            num_tokens = self.op("Gather", self.op("Shape", self.read("places")), one, axis=0)
            token_L = self.op("Range", zero, num_tokens, one)
            lengths_B1 = self.op("Unsqueeze", self.read("lengths"), self.constant([1]))
            is_token_BL = self.op("Less", token_L, lengths_B1)
            self._mask = self.op("Unsqueeze", is_token_BL, self.constant([2]))
        return self._mask

    def outer_table(self, name: str, num_rows: int, dimension: int) -> str:
        """Add a table of float32 whose numbers lie in `table_file`, once however often asked."""
        if any(each.name == name for each in self.constants):
            return name
        proto = import_onnx().TensorProto
        table = proto(
            name=name, data_type=FLOAT, dims=(num_rows, dimension), data_location=proto.EXTERNAL
        )
        num_bytes = num_rows * dimension * np.dtype(np.float32).itemsize
        where = {"location": self.table_file, "offset": "0", "length": str(num_bytes)}
        for key, value in where.items():
            table.external_data.add(key=key, value=value)
        self.constants.append(table)
        return name


def to_array(tensor: Tensor) -> NDArray[np.float32]:
    """Return a tensor as NumPy has it."""
    return tensor.detach().cpu().float().numpy()


def import_onnx() -> Any:
    """Return the onnx package.

    Raises:
        FednerError: It is not installed.
    """
    return required("onnx", "onnx", "ONNX exports")
