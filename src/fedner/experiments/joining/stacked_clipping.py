"""The clipped gradients of stacked taggers: every sentence's own norm, without its own gradient.

One forward and one backward pass give the gradients at the LSTM's gates and at the emissions. From
them and the layers' inputs follow the norm of each sentence's whole gradient, by products of
tokens, and then the sum of all of them, each times its factor: as in `privacy.dpsgd`, in single
precision and for honest weights. A test compares the sums.

Shapes: M models, B sentences of each, N = M B rows, L tokens, D features, H hidden units, G = 4H
gates, X both directions of all models, K tags, R rank, E numbers of a description.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedner.experiments.joining import stack, stacked_crf
from fedner.experiments.joining.stack import Rows, Tags, Tokens, Weights

_LSTM = (*stack._INPUT, *stack._HIDDEN, *stack._BIASES[0], *stack._BIASES[1])
_TYPES = {"emissions.type.B.weight", "emissions.type.I.weight"}


@torch.no_grad()
def add_clipped(
    totals: Weights,
    weights: Weights,
    tokens: Tokens,
    rows: Rows,
    gold_MBL: Tensor,
    tags: Tags,
    max_grad_norm: float,
    real_MB: Tensor,
) -> Tensor:
    """Add each sentence's clipped gradient to the totals; return the norms before (M, B).

    Weights without a total are frozen.
    """
    encoder = _Encoder(weights, tokens, rows)
    head = _head(
        weights, encoder.states_MBLD, rows, gold_MBL, tags, has_types=_TYPES.issubset(totals)
    )
    squares_N, directions = head.squares_N, []
    if any(name in totals for name in _LSTM):
        directions = encoder.backward(head.into_states_MBLD)
        squares_N = squares_N + sum(each.squares(totals) for each in directions)
    norms_N = squares_N.clamp_min(0).sqrt()
    factor_MB = (max_grad_norm / norms_N.clamp_min(1e-12)).clamp_max(1.0).view_as(real_MB) * real_MB
    for each in directions:
        each.add(totals, factor_MB)
    head.add(totals, factor_MB)
    return norms_N.view_as(real_MB)


class _Encoder:
    """The BiLSTM of a batch with all that its gradients are made of.

    What stands behind a sentence's end is another sentence: no gradient arrives there.
    """

    def __init__(self, weights: Weights, tokens: Tokens, rows: Rows) -> None:
        self.mirrored_MBL = stack._mirrored(rows.length_MB, rows.token_MBL.shape[2])
        orders = (rows.token_MBL, rows.token_MBL.gather(2, self.mirrored_MBL))
        self.inputs = [tokens.features_ND[token_MBL].float() for token_MBL in orders]
        with torch.enable_grad():
            self.gates_LXBG = _gates(weights, self.inputs).requires_grad_()
            recurrent_XGH = torch.cat([weights[name] for name in stack._HIDDEN])
            self.states_LXBH: Tensor = stack._Recurrence.apply(  # type: ignore[no-untyped-call]
                self.gates_LXBG, recurrent_XGH
            )
        ahead, back = stack.directions(self.states_LXBH.detach())
        self.states_MBLD = torch.cat((ahead, stack._reordered(back, self.mirrored_MBL)), -1)

    def backward(self, into_MBLD: Tensor) -> "list[_Direction]":
        """Return both directions with the gradients at their gates, from those at the states."""
        ahead, back = into_MBLD.chunk(2, -1)
        both = torch.stack((ahead, stack._reordered(back, self.mirrored_MBL)))
        into_LXBH = both.permute(3, 0, 1, 2, 4).flatten(1, 2)
        (gradient_LXBG,) = torch.autograd.grad(self.states_LXBH, self.gates_LXBG, into_LXBH)
        states_LXBH = self.states_LXBH.detach()
        before_LXBH = torch.cat((torch.zeros_like(states_LXBH[:1]), states_LXBH[:-1]))
        return [
            _Direction(number, into_MBLG.contiguous(), x_MBLD, before_MBLH.contiguous())
            for number, (into_MBLG, x_MBLD, before_MBLH) in enumerate(
                zip(
                    stack.directions(gradient_LXBG),
                    self.inputs,
                    stack.directions(before_LXBH),
                    strict=True,
                )
            )
        ]


def _gates(weights: Weights, inputs: Sequence[Tensor]) -> Tensor:
    """Return what the inputs of both directions give the gates (L, 2 M, B, G)."""
    num_models, num_rows, num_tokens, size = inputs[0].shape
    num_gates = weights[stack._INPUT[0]].shape[1]
    found = inputs[0].new_empty(num_tokens, 2 * num_models, num_rows, num_gates)
    for direction, x_MBLD in enumerate(inputs):
        first, second = stack._BIASES[direction]
        gates_MNG = torch.baddbmm(
            (weights[first] + weights[second])[:, None],
            x_MBLD.view(num_models, -1, size),
            weights[stack._INPUT[direction]].transpose(1, 2),
        )
        own = slice(direction * num_models, (direction + 1) * num_models)
        gates_MBLG = gates_MNG.view(num_models, num_rows, num_tokens, num_gates)
        found[:, own].copy_(gates_MBLG.permute(2, 0, 1, 3))
    return found


@dataclass(frozen=True, slots=True)
class _Direction:
    """One direction of the BiLSTM, tokens in its order: what its weights' gradients are made of."""

    number: int
    into_MBLG: Tensor
    x_MBLD: Tensor
    before_MBLH: Tensor

    def squares(self, totals: Weights) -> Tensor:
        """Return the squared norm of each row's gradient of the trained weights (N,)."""
        # Biases have inputs of a constant 1.
        inputs = torch.full((), float(sum(each in totals for each in stack._BIASES[self.number])))
        inputs = inputs.to(self.into_MBLG.device)
        if stack._INPUT[self.number] in totals:
            inputs = inputs + _gram(self.x_MBLD)
        if stack._HIDDEN[self.number] in totals:
            inputs = inputs + _gram(self.before_MBLH)
        return (_gram(self.into_MBLG) * inputs).sum((1, 2))

    def add(self, totals: Weights, factor_MB: Tensor) -> None:
        """Add the weighted sum of all rows' gradients; scales the gates' gradients in place."""
        scaled_MGN = self.into_MBLG.mul_(factor_MB[..., None, None]).flatten(1, 2).transpose(1, 2)
        for names, inputs_MBLD in ((stack._INPUT, self.x_MBLD), (stack._HIDDEN, self.before_MBLH)):
            if names[self.number] in totals:
                totals[names[self.number]].baddbmm_(scaled_MGN, inputs_MBLD.flatten(1, 2))
        for name in stack._BIASES[self.number]:
            if name in totals:
                totals[name].add_(scaled_MGN.sum(2))


def _gram(values_MBLD: Tensor) -> Tensor:
    flat = values_MBLD.flatten(0, 1)
    return torch.bmm(flat, flat.transpose(1, 2))


@dataclass(frozen=True, slots=True)
class _Head:
    """The described head of a batch: gradients at the emissions and what follows from them."""

    weights: Weights
    tags: Tags
    states_MBLD: Tensor
    into_MBLK: Tensor
    steps_N8: Tensor
    into_states_MBLD: Tensor
    squares_N: Tensor

    def add(self, totals: Weights, factor_MB: Tensor) -> None:
        """Add the weighted sum of all rows' gradients."""
        scaled_MBLK = self.into_MBLK * factor_MB[..., None, None]
        flat_MND = self.states_MBLD.flatten(1, 2)
        # One gradient for the folded weight of all tags: the maps' own follow from it.
        folded_MKD = torch.bmm(scaled_MBLK.flatten(1, 2).transpose(1, 2), flat_MND)
        totals["emissions.outside.weight"].add_(folded_MKD[:, :1])
        for kind, own_MKE in _of_kind(self.tags):
            token_MRD = self.weights[f"emissions.token.{kind}.weight"]
            type_MRE = self.weights[f"emissions.type.{kind}.weight"]
            root = math.sqrt(token_MRD.shape[1])
            query_MKR = torch.bmm(own_MKE, type_MRE.transpose(1, 2)) / root
            totals[f"emissions.token.{kind}.weight"].baddbmm_(query_MKR.transpose(1, 2), folded_MKD)
            if f"emissions.type.{kind}.weight" in totals:
                answer_MKR = torch.bmm(folded_MKD, token_MRD.transpose(1, 2)) / root
                total_MRE = totals[f"emissions.type.{kind}.weight"]
                total_MRE.baddbmm_(answer_MKR.transpose(1, 2), own_MKE)
        weighted_M8 = (self.steps_N8 * factor_MB.view(-1, 1)).view(len(factor_MB), -1, 8).sum(1)
        totals["decoder.steps"].add_(weighted_M8)


def _of_kind(tags: Tags) -> list[tuple[str, Tensor]]:
    """Return the vectors of the tags of each kind, zeros for all other tags (M, K, E)."""
    is_begin_K1 = tags.is_begin_K[:, None]
    is_inside_K1 = ~is_begin_K1.clone()
    is_inside_K1[0] = False
    return [("B", tags.vectors_MKE * is_begin_K1), ("I", tags.vectors_MKE * is_inside_K1)]


def _head(
    weights: Weights,
    states_MBLD: Tensor,
    rows: Rows,
    gold_MBL: Tensor,
    tags: Tags,
    *,
    has_types: bool,
) -> _Head:
    found = stack.potentials(weights, states_MBLD, rows, tags)
    into_NLK, steps_NKK = stacked_crf.row_gradients(found, gold_MBL.flatten(0, 1))
    into_MBLK = into_NLK.view(*states_MBLD.shape[:3], -1) * tags.is_own_MK[:, None, None]
    steps_N8 = _by_step(steps_NKK, tags)
    folded_MKD = stack._described(weights, tags)
    into_states = _by_model(into_MBLK, folded_MKD)
    states_gram = _gram(states_MBLD)
    outside_N1L = into_MBLK[..., 0].flatten(0, 1)[:, None]
    squares_N = steps_N8.square().sum(1)
    squares_N = squares_N + (outside_N1L @ states_gram @ outside_N1L.transpose(1, 2)).flatten()
    for kind, own_MKE in _of_kind(tags):
        token_MRD = weights[f"emissions.token.{kind}.weight"]
        root = math.sqrt(token_MRD.shape[1])
        type_MRE = weights[f"emissions.type.{kind}.weight"]
        query_MKR = torch.bmm(own_MKE, type_MRE.transpose(1, 2)) / root
        arrived_MBLR = _by_model(into_MBLK, query_MKR)
        squares_N = squares_N + (_gram(arrived_MBLR) * states_gram).sum((1, 2))
        if has_types:
            mapped_MBLR = _by_model(states_MBLD, token_MRD.transpose(1, 2)) / root
            squares_N = squares_N + _type_squares(into_MBLK, mapped_MBLR, own_MKE)
    return _Head(weights, tags, states_MBLD, into_MBLK, steps_N8, into_states, squares_N)


def _by_model(values_MBLD: Tensor, weights_MDR: Tensor) -> Tensor:
    """Return the products of all tokens with their model's weights (M, B, L, R).

    A product that broadcasts would copy the weights for every sentence.
    """
    return torch.bmm(values_MBLD.flatten(1, 2), weights_MDR).view(*values_MBLD.shape[:3], -1)


def _type_squares(into_MBLK: Tensor, mapped_MBLR: Tensor, own_MKE: Tensor) -> Tensor:
    """Return the squared norm of each row's gradient of one kind's map of types (N,)."""
    answers_MBKR = torch.matmul(into_MBLK.transpose(2, 3), mapped_MBLR)
    types_MKK = torch.bmm(own_MKE, own_MKE.transpose(1, 2))
    products = torch.matmul(answers_MBKR, answers_MBKR.transpose(2, 3)) * types_MKK[:, None]
    return products.sum((2, 3)).flatten()


def _by_step(steps_NKK: Tensor, tags: Tags) -> Tensor:
    """Return each row's gradient of the eight numbers of the kind-only transitions (N, 8)."""
    kept_NKK = steps_NKK * tags.allowed_KK
    by_nine = steps_NKK.new_zeros(len(steps_NKK), 9)
    by_nine.index_add_(1, tags.step_KK.flatten(), kept_NKK.flatten(1))
    places = torch.tensor(list(stack.STEP_ORDER.values()), device=steps_NKK.device)
    return by_nine[:, places]
