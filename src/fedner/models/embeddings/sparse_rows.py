"""Adam over the rows that a batch touches, with the result of Adam over all rows.

Dense Adam (Kingma and Ba 2015) also moves the rows that had no gradient: their moments decay and
their weights drift on. For a row that was last brought up to date at step s, the idle steps
j = s+1, s+2, ... are

    m <- b1 m        v <- b2 v        w <- w - lr_j / (1 - b1^j) * m / (sqrt(v / (1 - b2^j)) + eps)

They are made up for just before the row is read or stepped again. The moments have a closed form.
The weights are replayed step by step, all rows at once, until what is left of the drift (which
shrinks by b1 / sqrt(b2) a step) can no longer change a float32 weight: about two hundred steps,
however long the row was idle. A row that never had a gradient has nothing to make up for.

Plain SGD needs nothing of the kind: without a gradient it leaves a row alone, and
`torch.optim.SGD` takes row-sparse gradients as they are.

Shapes: V rows of the parameter, R rows concerned, D dimension.
"""

from array import array
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from fedner.errors import FednerError

ROWS_AT_A_TIME = 1 << 15
# Below half a unit in the last place of a float32, adding changes nothing.
_HALF_ULP = 2.0**-25
_NOTHING = 1e-15
_CHECK_EVERY = 8


class SparseRowsAdam:
    """Adam for one parameter whose gradients are row-sparse; equal to dense Adam on all rows.

    Rows are up to date after `catch_up` of them or after `flush`; reading other rows of the
    parameter in between gives values of an earlier step. `WordEmbedding.follow` sees to both.

    Attributes:
        parameter: The V x D parameter.
        lr: The learning rate of the next step; may be set between steps.
        betas: Decay of the first and second moment.
        eps: Added to the denominator.
        num_steps: How many steps were taken.
    """

    def __init__(
        self,
        parameter: nn.Parameter,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        if parameter.ndim != 2:
            shape = tuple(parameter.shape)
            raise FednerError(f"a parameter of shape {shape} has no rows", "Give a matrix.")
        if lr < 0 or eps <= 0 or not all(0 <= beta < 1 for beta in betas):
            raise FednerError(
                f"Adam with lr {lr}, betas {betas}, eps {eps}",
                "Expected are lr >= 0, betas from 0 to below 1, and eps > 0.",
            )
        self.parameter = parameter
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.num_steps = 0
        self._rates = array("d")
        self._mean_VD = torch.zeros_like(parameter, requires_grad=False)
        self._square_VD = torch.zeros_like(parameter, requires_grad=False)
        # The step up to which a row is done; 0 for a row that never had a gradient.
        self._done_V = torch.zeros(len(parameter), dtype=torch.int64, device=parameter.device)

    @torch.no_grad()
    def step(self) -> None:
        """Take one step with the parameter's gradient; without one, nothing happens."""
        gradient = self.parameter.grad
        if gradient is None:
            return
        rows_R, gradient_RD = _rows_of(gradient)
        self.catch_up(rows_R)
        self.num_steps += 1
        self._rates.append(self.lr)
        beta1, beta2 = self.betas
        mean_RD = self._mean_VD[rows_R].lerp_(gradient_RD, 1 - beta1)
        square_RD = self._square_VD[rows_R].mul_(beta2)
        square_RD.addcmul_(gradient_RD, gradient_RD, value=1 - beta2)
        step_size = self.lr / (1 - beta1**self.num_steps)
        root = (1 - beta2**self.num_steps) ** 0.5
        denominator_RD = (square_RD.sqrt() / root).add_(self.eps)
        weight_RD = self.parameter[rows_R].addcdiv_(mean_RD, denominator_RD, value=-step_size)
        self._store(rows_R, weight_RD, mean_RD, square_RD)

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self.parameter.grad = None

    @torch.no_grad()
    def catch_up(self, rows_R: Tensor) -> None:
        """Make up for the idle steps of the distinct rows `rows_R`."""
        done_R = self._done_V[rows_R]
        rows_R = rows_R[(done_R > 0) & (done_R < self.num_steps)]
        for start in range(0, len(rows_R), ROWS_AT_A_TIME):
            self._replay(rows_R[start : start + ROWS_AT_A_TIME])

    def flush(self) -> None:
        """Bring every row up to date: do this before the whole parameter is read."""
        idle_V = (self._done_V > 0) & (self._done_V < self.num_steps)
        self.catch_up(idle_V.nonzero().squeeze(1))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as tensors: only of rows that ever had a gradient."""
        rows_R = (self._done_V > 0).nonzero().squeeze(1)
        return {
            "rows": rows_R.clone(),
            "done": self._done_V[rows_R],
            "mean": self._mean_VD[rows_R],
            "square": self._square_VD[rows_R],
            "rates": torch.tensor(self._rates.tolist(), dtype=torch.float64),
        }

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state that `state_dict` returned for a parameter of the same shape."""
        names = {"rows", "done", "mean", "square", "rates"}
        rows_R = state.get("rows", torch.empty(0))
        shape = (len(rows_R), self.parameter.shape[1])
        if set(state) != names or {state["mean"].shape, state["square"].shape} != {shape}:
            raise FednerError(
                f"the state {sorted(state)} is not one of row-sparse Adam for this table",
                f"Expected are {sorted(names)} with moments of shape {shape}.",
            )
        for tensor in (self._mean_VD, self._square_VD, self._done_V):
            tensor.zero_()
        device = self.parameter.device
        rows_R = rows_R.to(device)
        self._mean_VD[rows_R] = state["mean"].to(device)
        self._square_VD[rows_R] = state["square"].to(device)
        self._done_V[rows_R] = state["done"].to(device)
        self._rates = array("d", state["rates"].tolist())
        self.num_steps = len(self._rates)

    def _replay(self, rows_R: Tensor) -> None:
        """Replay the idle steps of rows, at most ROWS_AT_A_TIME of them."""
        # Longest idle first: the rows that still have steps to replay are a prefix.
        done_R, order_R = self._done_V[rows_R].sort()
        rows_R = rows_R[order_R]
        idle_R = self.num_steps - done_R
        mean_RD, square_RD = self._mean_VD[rows_R], self._square_VD[rows_R]
        weight_RD = self.parameter[rows_R]
        beta1, beta2 = self.betas
        rates = torch.tensor(self._rates[int(done_R[0]) :], dtype=torch.float64)
        rates, highest = rates.to(done_R.device), float(rates.max())
        falling_idle, zero, step = -idle_R.cpu().numpy(), mean_RD.new_zeros(()), 0
        for step in range(1, int(idle_R[0]) + 1):
            count = int(np.searchsorted(falling_idle, -step, side="right"))
            # As dense Adam rounds it: a step towards a gradient of zero.
            mean_RD[:count].lerp_(zero, 1 - beta1)
            square_RD[:count].mul_(beta2)
            step_R = done_R[:count] + step
            rate_R = rates[step_R - 1 - done_R[0]]
            part = (weight_RD[:count], mean_RD[:count], square_RD[:count], step_R, rate_R)
            reach_RD = self._drift(*part) * highest
            if step % _CHECK_EVERY == 0 and self._is_over(weight_RD[:count], reach_RD, step_R):
                break
        left_R1 = (idle_R - step).clamp_(min=0).to(torch.float64).unsqueeze(1)
        mean_RD *= (beta1**left_R1).to(mean_RD.dtype)
        square_RD *= (beta2**left_R1).to(square_RD.dtype)
        self._store(rows_R, weight_RD, mean_RD, square_RD)

    def _drift(
        self, weight_RD: Tensor, mean_RD: Tensor, square_RD: Tensor, step_R: Tensor, rate_R: Tensor
    ) -> Tensor:
        """Move the weights by one idle step, each row at its own; return the size at rate 1."""
        beta1, beta2 = self.betas
        dtype, wide_R1 = weight_RD.dtype, step_R.to(torch.float64).unsqueeze(1)
        root_R1 = (1 - beta2**wide_R1).sqrt().to(dtype)
        correction_R1 = 1 - beta1**wide_R1
        step_size_R1 = (rate_R.unsqueeze(1) / correction_R1).to(dtype)
        denominator_RD = (square_RD.sqrt() / root_R1).add_(self.eps)
        weight_RD.sub_((mean_RD * step_size_R1).div_(denominator_RD))
        return (mean_RD.abs() / correction_R1.to(dtype)).div_(denominator_RD)

    def _is_over(self, weight_RD: Tensor, reach_RD: Tensor, step_R: Tensor) -> bool:
        """Whether no later idle step can change a weight, at the highest rate there was."""
        beta1, beta2 = self.betas
        earliest = int(step_R.min())
        growth = ((1 - beta2 ** (earliest + 1)) / (1 - beta2**earliest)) ** 0.5
        if beta1 * growth >= beta2**0.5:
            return False  # the drift may still grow
        return bool((reach_RD <= weight_RD.abs() * _HALF_ULP + _NOTHING).all())

    def _store(self, rows_R: Tensor, weight_RD: Tensor, mean_RD: Tensor, square_RD: Tensor) -> None:
        self.parameter[rows_R] = weight_RD
        self._mean_VD[rows_R] = mean_RD
        self._square_VD[rows_R] = square_RD
        self._done_V[rows_R] = self.num_steps


@torch.no_grad()
def clip_gradient_norm(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients together so that their joint L2 norm is at most `max_norm`.

    Like `torch.nn.utils.clip_grad_norm_`, and for row-sparse gradients too, whose repeated rows
    are summed first.

    Returns:
        The norm before clipping.
    """
    values: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        else:
            values.append(parameter.grad)
    if not values:
        return torch.zeros(())
    norms = torch.stack([torch.linalg.vector_norm(value).to(values[0].device) for value in values])
    norm: Tensor = torch.linalg.vector_norm(norms)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(scale.to(value.device))
    return norm


def _rows_of(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of a gradient and their values; of a dense one, those not zero."""
    if gradient.is_sparse:
        coalesced = gradient.coalesce()
        return coalesced.indices()[0], coalesced.values()
    rows_R = gradient.any(dim=1).nonzero().squeeze(1)
    return rows_R, gradient[rows_R]
