"""Products whose rows do not depend on one another: not in their last bit, nor through padding.

The libraries behind torch choose their way of adding by the number of rows: a row's result changes
in its last bit when other rows come or go. For honest weights that is nothing. A server that sends
chaotic weights makes the last bit of one unit decide the gradient of another, and no clipping of
single units bounds the sum any more. From some number of rows and columns on, each row is added up
in the same order wherever it stands and whatever stands beside it (a test looks at many shapes);
smaller products are filled up with zeros to these numbers.

Shapes: N rows, E directions, K inputs, M outputs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

# Seen with MKL on AMD and Intel, one thread, weights stored output by output: fewer rows, or fewer
# columns, are added up in another order.
_CPU_ROWS = 16
_COLUMNS = 16
# Seen with cuBLAS on Hopper: batched products of at least 17 rows each keep one order, and plain
# ones do not; so rows are multiplied as a batch of two halves.
_DEVICE_ROWS = 64
# A multiple of all that torch works on at once, with any instruction set.
_LANES = 64


def least_rows(device: torch.device) -> int:
    """Return how many rows a product needs so that they do not depend on their number."""
    return _CPU_ROWS if device.type == "cpu" else _DEVICE_ROWS


def by_output(weight_KM: Tensor) -> Tensor:
    """Return a weight stored output by output, as products on a CPU want it."""
    is_ready = weight_KM.stride(0) == 1 or weight_KM.device.type != "cpu"
    return weight_KM if is_ready else weight_KM.t().contiguous().t()


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Work on a CPU with one thread: several share rows among them by how many there are."""
    before = torch.get_num_threads()
    if device.type != "cpu" or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def product(x_NK: Tensor, weight_KM: Tensor, bias_M: Tensor | None = None) -> Tensor:
    """Return x times a fixed weight plus a bias, differentiable once, in x alone."""
    result: Tensor = _Product.apply(x_NK, weight_KM, bias_M)  # type: ignore[no-untyped-call]
    return result


def elementwise(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Return a function of every value, the same to the last bit wherever the value stands.

    For functions that are rounded, such as sigmoid, tanh and exp: on a CPU torch computes the last
    few values of a tensor in another way than the others.

    Args:
        function: Takes values of one axis, each by itself.
        values: The values, of any shape.
    """
    flat = functional.pad(values.reshape(-1), (0, -values.numel() % _LANES))
    return function(flat)[: values.numel()].view(values.shape)


def batch_product(x_BLK: Tensor, weight_KM: Tensor, bias_M: Tensor | None = None) -> Tensor:
    """Return the product of every cell of a batch (B, L, M)."""
    return product(x_BLK.flatten(0, 1), weight_KM, bias_M).view(*x_BLK.shape[:2], -1)


def add_product_(total_NM: Tensor, x_NK: Tensor, weight_KM: Tensor) -> None:
    """Add x times a weight, which is stored `by_output`, to a total: in place, on a CPU."""
    num_rows, num_columns = total_NM.shape
    if num_rows >= least_rows(x_NK.device) and num_columns >= _COLUMNS:
        total_NM.addmm_(x_NK, weight_KM)
        return
    filled_NM = _filled(_wide(total_NM)).addmm_(_filled(x_NK), _wide(weight_KM))
    total_NM.copy_(filled_NM[:num_rows, :num_columns])


def paired_product(x_NEK: Tensor, weights_EKM: Tensor) -> Tensor:
    """Return (N, E, M) the product of each of E values of a row with a weight of its own."""
    num_rows, num_pairs, _ = x_NEK.shape
    missing = least_rows(x_NEK.device) - num_rows
    filled_NEK = functional.pad(x_NEK, (0, 0, 0, 0, 0, missing)) if missing > 0 else x_NEK
    result_NEM = x_NEK.new_empty(len(filled_NEK), num_pairs, weights_EKM.shape[2])
    torch.bmm(filled_NEK.transpose(0, 1), weights_EKM, out=result_NEM.transpose(0, 1))
    return result_NEM[:num_rows]


def add_paired_product_(total_NEM: Tensor, x_NEK: Tensor, weights_EKM: Tensor) -> None:
    """Add to each of E values of a row its product with a weight of its own, in place."""
    missing = least_rows(x_NEK.device) - len(x_NEK)
    if missing <= 0:
        total_NEM.transpose(0, 1).baddbmm_(x_NEK.transpose(0, 1), weights_EKM)
        return
    total, x = (functional.pad(each, (0, 0, 0, 0, 0, missing)) for each in (total_NEM, x_NEK))
    total.transpose(0, 1).baddbmm_(x.transpose(0, 1), weights_EKM)
    total_NEM.copy_(total[: len(x_NEK)])


def _filled(x_NK: Tensor) -> Tensor:
    """Return x with enough rows, an even number of them on an accelerator."""
    num_rows = max(len(x_NK), least_rows(x_NK.device))
    num_rows += num_rows % 2 if x_NK.device.type != "cpu" else 0
    missing = num_rows - len(x_NK)
    return functional.pad(x_NK, (0, 0, 0, missing)) if missing else x_NK.contiguous()


def _wide(weight_KM: Tensor) -> Tensor:
    """Return a weight with enough columns."""
    missing = _COLUMNS - weight_KM.shape[1]
    return functional.pad(weight_KM, (0, missing)) if missing > 0 else weight_KM


def _rows(x_NK: Tensor, weight_KM: Tensor, bias_M: Tensor | None) -> Tensor:
    filled_NK, wide_KM = _filled(x_NK), by_output(_wide(weight_KM))
    wide_1M = None if bias_M is None else _wide(bias_M.unsqueeze(0))
    if x_NK.device.type != "cpu":
        halves_2NK = filled_NK.view(2, -1, filled_NK.shape[1])
        result = torch.bmm(halves_2NK, wide_KM.expand(2, -1, -1)).flatten(0, 1)
        result = result if wide_1M is None else result.add_(wide_1M)
    elif wide_1M is None:
        result = filled_NK @ wide_KM
    else:
        result = torch.addmm(wide_1M, filled_NK, wide_KM)
    is_whole = len(filled_NK) == len(x_NK) and wide_KM.shape == weight_KM.shape
    # Else a copy: callers write into what they get.
    return result if is_whole else result[: len(x_NK), : weight_KM.shape[1]].clone()


class _Product(torch.autograd.Function):
    """A product with a fixed weight, and its gradient in the same way."""

    @staticmethod
    def forward(ctx: Any, x_NK: Tensor, weight_KM: Tensor, bias_M: Tensor | None) -> Tensor:
        """Return the product."""
        ctx.weight_KM = weight_KM
        return _rows(x_NK, weight_KM, bias_M)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, into_NM: Tensor) -> tuple[Tensor | None, None, None]:
        """Return the gradient of the rows."""
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return _rows(into_NM, ctx.weight_KM.t(), None), None, None
