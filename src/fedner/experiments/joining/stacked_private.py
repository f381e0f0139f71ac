"""DP-SGD of stacked taggers: exact clipping of every sentence, simulated noise on the sum.

One forward and one backward pass give the gradients at the LSTM's gates and at the emissions. From
them and the layers' inputs follow the norm of each sentence's whole gradient, by products of
tokens, and then the sum of all of them, each times its factor: as in `privacy.dpsgd`, in single
precision and for honest weights. A test compares the sums. Noise comes from a seed: for
experiments, it protects nobody.

Shapes: M models, B sentences of each, N = M B rows, L tokens, D features, H hidden units, G = 4H
gates, K tags, R rank, E numbers of a description.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.experiments.joining import stack, stacked_crf
from fedner.experiments.joining.stack import Rows, Tags, Tokens, Weights
from fedner.experiments.joining.training import Indices, Sentences
from fedner.federated.ema import averaged
from fedner.seeds import seeded

TOKENS_AT_ONCE = 2**17  # of all models together, padding included
_BETAS, _EPSILON = (0.9, 0.999), 1e-8
_LSTM = (*stack._INPUT, *stack._HIDDEN, *stack._BIASES[0], *stack._BIASES[1])
_TYPES = {"emissions.type.B.weight", "emissions.type.I.weight"}


@dataclass(frozen=True, slots=True)
class Platform:
    """One platform of every model: its sentences, and what its tags mean."""

    sentences: Sequence[Indices]
    tags: Tags


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """How a stack is trained under differential privacy.

    Attributes:
        steps: How many steps.
        probability: With which every sentence enters a step.
        noise_multipliers: Of each model; 0 clips without noise.
        learning_rates: Of each model's Adam, falling linearly to 0 where there is no EMA.
        max_grad_norm: The largest norm of a sentence's gradient.
        noise_seeds: Name sample and noise of each model.
        frozen: Beginnings of the names of weights that stay as they are, as "bilstm."; they are
            neither clipped nor noised.
        ema_decay: Of the EMA of the weights, which is returned in their place; the learning rates
            then stay as they are. None returns the last weights.
    """

    steps: int
    probability: float
    noise_multipliers: Sequence[float]
    learning_rates: Sequence[float]
    max_grad_norm: float
    noise_seeds: Sequence[int]
    frozen: tuple[str, ...] = ()
    ema_decay: float | None = None

    def falling(self, step: int) -> float:
        """Return what the learning rates are multiplied by in a step."""
        return 1 - step / self.steps if self.ema_decay is None else 1.0


def train_private(
    weights: Weights,
    tokens: Tokens,
    sentences: Sentences,
    platforms: Sequence[Platform],
    plan: PrivatePlan,
) -> Weights:
    """Return the weights after DP-SGD; only described heads have the gradients for it."""
    current = {name: weight.clone() for name, weight in weights.items()}
    device = tokens.features_ND.device
    trained = {name: each for name, each in current.items() if not name.startswith(plan.frozen)}
    adam, ema = _Adam(trained, plan, device), current
    noise = [torch.Generator(device).manual_seed(seed) for seed in plan.noise_seeds]
    expected = plan.probability * np.asarray(
        [sum(len(each.sentences[m]) for each in platforms) for m in range(len(noise))]
    )
    scale_M = torch.tensor(1.0 / expected, dtype=torch.float32, device=device)
    for step in range(plan.steps):
        totals = {name: torch.zeros_like(weight) for name, weight in trained.items()}
        for number, platform in enumerate(platforms):
            _add_platform(totals, current, tokens, sentences, platform, plan, (step, number))
        for total in totals.values():
            _add_noise(total, noise, plan)
            total.mul_(_along(scale_M, total))
        adam.step(current, totals, step)
        if plan.ema_decay is not None:
            ema = averaged(ema, current, step, plan.ema_decay)
    return current if plan.ema_decay is None else ema


def _along(values_M: Tensor, like: Tensor) -> Tensor:
    """Return one value a model in a shape that multiplies its weights."""
    return values_M.view(-1, *[1] * (like.dim() - 1))


class _Adam:
    """Adam over the weights of all models by name, each model at its own learning rate."""

    def __init__(self, weights: Weights, plan: PrivatePlan, device: torch.device) -> None:
        self.first = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        self.second = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        self.rate_M = torch.tensor(plan.learning_rates, device=device)
        self.falling = plan.falling

    def step(self, weights: Weights, gradients: Weights, step: int) -> None:
        """Step all weights in place."""
        rate_M = self.rate_M * self.falling(step)
        corrected = [1 - beta ** (step + 1) for beta in _BETAS]
        for name, gradient in gradients.items():
            first, second = self.first[name], self.second[name]
            first.lerp_(gradient, 1 - _BETAS[0])
            second.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
            divisor = (second / corrected[1]).sqrt_().add_(_EPSILON)
            change = (first / corrected[0]).div_(divisor)
            weights[name].sub_(change.mul_(_along(rate_M, gradient)))


def _add_noise(total: Tensor, noise: Sequence[torch.Generator], plan: PrivatePlan) -> None:
    for model, generator in enumerate(noise):
        deviation = plan.noise_multipliers[model] * plan.max_grad_norm
        if deviation:
            drawn = torch.randn(total.shape[1:], generator=generator, device=total.device)
            total[model].add_(drawn, alpha=deviation)


def _add_platform(
    totals: Weights,
    weights: Weights,
    tokens: Tokens,
    sentences: Sentences,
    platform: Platform,
    plan: PrivatePlan,
    place: tuple[int, int],
) -> None:
    """Add the clipped gradients of one platform's Poisson sample, short sentences first."""
    drawn = []
    for model, own in enumerate(platform.sentences):
        generator = seeded(plan.noise_seeds[model], "joining", "sample", *place)
        chosen = own[generator.random(len(own)) < plan.probability]
        drawn.append(chosen[np.argsort(sentences.known_lengths[chosen], kind="stable")])
    for begin, end in _pieces([sentences.known_lengths[each] for each in drawn]):
        chosen_MB, is_real = _filled([each[begin:end] for each in drawn])
        rows = sentences.rows(chosen_MB)
        gold_MBL = sentences.gold_VN[0][rows.token_MBL] * rows.mask
        real_MB = torch.from_numpy(is_real).to(rows.length_MB.device)
        add_clipped(
            totals, weights, tokens, rows, gold_MBL, platform.tags, plan.max_grad_norm, real_MB
        )


def _pieces(lengths: Sequence[Indices]) -> list[tuple[int, int]]:
    """Return where to cut samples that are sorted by length, so that each piece has its room."""
    longest = np.zeros(max(map(len, lengths)), dtype=np.int64)
    for each in lengths:
        longest[: len(each)] = np.maximum(longest[: len(each)], each)
    np.maximum.accumulate(longest, out=longest)
    found, begin = [], 0
    for end in range(1, len(longest) + 1):
        is_full = end == len(longest) or (
            (end + 1 - begin) * longest[end] * len(lengths) > TOKENS_AT_ONCE
        )
        if is_full:
            found.append((begin, end))
            begin = end
    return found


def _filled(parts: Sequence[Indices]) -> tuple[Indices, NDArray[np.float32]]:
    """Return the sentences of all models as one table (M, B), and where they are no filling."""
    width = max(map(len, parts))
    filler = next(part[0] for part in parts if len(part))
    chosen_MB = np.full((len(parts), width), filler, dtype=np.int64)
    is_real = np.zeros((len(parts), width), dtype=np.float32)
    for model, part in enumerate(parts):
        chosen_MB[model, : len(part)] = part
        is_real[model, : len(part)] = 1.0
    return chosen_MB, is_real


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
    encoder = _encode(weights, tokens, rows)
    head = _head(
        weights, encoder.states_MBLD, rows, gold_MBL, tags, has_types=_TYPES.issubset(totals)
    )
    squares_N, into_gates_LXBG = head.squares_N, None
    if any(name in totals for name in _LSTM):
        into_gates_LXBG = encoder.backward(head.into_states_MBLD)
        squares_N = squares_N + _lstm_squares(encoder, into_gates_LXBG, totals)
    norms_N = squares_N.clamp_min(0).sqrt()
    factor_MB = (max_grad_norm / norms_N.clamp_min(1e-12)).clamp_max(1.0).view_as(real_MB) * real_MB
    if into_gates_LXBG is not None:
        _add_lstm(totals, encoder, into_gates_LXBG, factor_MB)
    head.add(totals, factor_MB)
    return norms_N.view_as(real_MB)


class _Encoder:
    """The BiLSTM of a batch with all that its gradients are made of."""

    def __init__(self, x_MBLD: Tensor, gates_LXBG: Tensor, states_LXBH: Tensor, mirror: Tensor):
        self.x_MBLD, self.gates_LXBG, self.states_LXBH = x_MBLD, gates_LXBG, states_LXBH
        self.mirrored_MBL = mirror
        ahead, back = stack.directions(states_LXBH)
        self.states_MBLD = torch.cat((ahead, stack._reordered(back, mirror)), -1).detach()

    def backward(self, into_MBLD: Tensor) -> Tensor:
        """Return the gradient at the gates (L, 2 M, B, G), from that at the states."""
        ahead, back = into_MBLD.chunk(2, -1)
        both = torch.stack((ahead, stack._reordered(back, self.mirrored_MBL)))
        into_LXBH = both.permute(3, 0, 1, 2, 4).flatten(1, 2)
        (gradient,) = torch.autograd.grad(self.states_LXBH, self.gates_LXBG, into_LXBH)
        return gradient


def _encode(weights: Weights, tokens: Tokens, rows: Rows) -> _Encoder:
    x_MBLD = tokens.features_ND[rows.token_MBL].float() * rows.mask[..., None]
    mirrored_MBL = stack._mirrored(rows.length_MB, x_MBLD.shape[2])
    gates_LXBG = stack.gates(weights, x_MBLD, mirrored_MBL)
    with torch.enable_grad():
        leaf = gates_LXBG.requires_grad_()
        recurrent_XGH = torch.cat([weights[name] for name in stack._HIDDEN])
        states: Tensor = stack._Recurrence.apply(leaf, recurrent_XGH)  # type: ignore[no-untyped-call]
    return _Encoder(x_MBLD, leaf, states, mirrored_MBL)


def _by_direction(
    encoder: _Encoder, into_gates_LXBG: Tensor, direction: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gates' gradients, inputs and earlier states of one direction, tokens in its order."""
    num_models = len(encoder.x_MBLD)
    chosen = slice(direction * num_models, (direction + 1) * num_models)
    into_MBLG = into_gates_LXBG[:, chosen].permute(1, 2, 0, 3)
    states_LXBH = encoder.states_LXBH.detach()[:, chosen]
    before_MBLH = torch.nn.functional.pad(states_LXBH[:-1], (0, 0, 0, 0, 0, 0, 1, 0)).permute(
        1, 2, 0, 3
    )
    x_MBLD = encoder.x_MBLD
    if direction:
        x_MBLD = stack._reordered(x_MBLD, encoder.mirrored_MBL)
    return into_MBLG, x_MBLD, before_MBLH


def _gram(values_MBLD: Tensor) -> Tensor:
    flat = values_MBLD.flatten(0, 1)
    return torch.bmm(flat, flat.transpose(1, 2))


def _lstm_squares(encoder: _Encoder, into_gates_LXBG: Tensor, totals: Weights) -> Tensor:
    """Return the squared norm of each row's gradient of the BiLSTM's trained weights (N,)."""
    total = torch.zeros((), device=into_gates_LXBG.device)
    for direction in range(2):
        into, x, before = _by_direction(encoder, into_gates_LXBG, direction)
        # Biases have inputs of a constant 1.
        inputs = torch.full((), float(sum(each in totals for each in stack._BIASES[direction])))
        inputs = inputs.to(into.device)
        if stack._INPUT[direction] in totals:
            inputs = inputs + _gram(x)
        if stack._HIDDEN[direction] in totals:
            inputs = inputs + _gram(before)
        total = total + (_gram(into) * inputs).sum((1, 2))
    return total


def _add_lstm(
    totals: Weights, encoder: _Encoder, into_gates_LXBG: Tensor, factor_MB: Tensor
) -> None:
    for direction in range(2):
        into, x, before = _by_direction(encoder, into_gates_LXBG, direction)
        scaled_MGN = (into * factor_MB[..., None, None]).flatten(1, 2).transpose(1, 2)
        if stack._INPUT[direction] in totals:
            totals[stack._INPUT[direction]].baddbmm_(scaled_MGN, x.flatten(1, 2))
        if stack._HIDDEN[direction] in totals:
            totals[stack._HIDDEN[direction]].baddbmm_(scaled_MGN, before.flatten(1, 2))
        for name in stack._BIASES[direction]:
            if name in totals:
                totals[name].add_(scaled_MGN.sum(2))


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
    into_states = torch.matmul(into_MBLK, folded_MKD[:, None])
    outside_NLD = into_MBLK[..., :1] * states_MBLD
    squares_N = steps_N8.square().sum(1)
    squares_N = squares_N + outside_NLD.sum(2).square().sum(-1).flatten()
    states_gram = _gram(states_MBLD)
    for kind, own_MKE in _of_kind(tags):
        token_MRD = weights[f"emissions.token.{kind}.weight"]
        root = math.sqrt(token_MRD.shape[1])
        type_MRE = weights[f"emissions.type.{kind}.weight"]
        query_MKR = torch.bmm(own_MKE, type_MRE.transpose(1, 2)) / root
        arrived_MBLR = torch.matmul(into_MBLK, query_MKR[:, None])
        squares_N = squares_N + (_gram(arrived_MBLR) * states_gram).sum((1, 2))
        if has_types:
            mapped_MBLR = torch.matmul(states_MBLD, token_MRD.transpose(1, 2)[:, None]) / root
            squares_N = squares_N + _type_squares(into_MBLK, mapped_MBLR, own_MKE)
    return _Head(weights, tags, states_MBLD, into_MBLK, steps_N8, into_states, squares_N)


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
