"""DP-SGD of stacked taggers: exact clipping of every sentence, simulated noise.

One forward and one backward pass give the gradients at the LSTM's gates and at the emissions. From
them and the layers' inputs follow the norm of each sentence's whole gradient, by products of
tokens, and then the sum of all of them, each times its factor: as in `privacy.dpsgd`, in single
precision and for honest weights. A test compares the sums. Noise comes from a seed: for
experiments, it protects nobody.

Shapes: M models, P platforms, B sentences of each, N = M B rows (or all weights of a model), L
tokens, D features, H hidden units, G = 4H gates, K tags, R rank, E numbers of a description.
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
from fedner.privacy.discrete_noise import discrete_gaussian
from fedner.privacy.entropy import SeededSimulation
from fedner.privacy.mechanisms.distributed import rounded
from fedner.privacy.noise_shares import JointSum, box
from fedner.privacy.sum_terms import SumTerms
from fedner.seeds import seeded
from fedner.settings.policy import NoisePlace

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
        public: Platforms whose sentences are public. Their mean gradient, clipped but not noised,
            joins that of the others in every step: it costs no epsilon.
        public_weight: What it is multiplied by; 0 leaves the public platforms out.
        public_batch: Expected public sentences of a step.
        pull: A decay towards the first weights, at the learning rate.
        place: Who adds the noise: the server to the sum, each platform its own to its part, or all
            of them together, rounded to a grid and discrete as `privacy.mechanisms.distributed`.
        terms: Of the secure sum, where the noise is distributed.
    """

    steps: int
    probability: float
    noise_multipliers: Sequence[float]
    learning_rates: Sequence[float]
    max_grad_norm: float
    noise_seeds: Sequence[int]
    frozen: tuple[str, ...] = ()
    ema_decay: float | None = None
    public: Sequence[Platform] = ()
    public_weight: float = 0.0
    public_batch: int = 1_024
    pull: float = 0.0
    place: NoisePlace = "central"
    terms: SumTerms | None = None

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
        sums: list[Weights] = []
        for number, platform in enumerate(platforms):
            if not sums or plan.terms is not None:
                sums.append({name: torch.zeros_like(weight) for name, weight in trained.items()})
            sample = _Sample(plan.probability, ("sample", step, number))
            _add_platform(sums[-1], current, tokens, sentences, platform, plan, sample)
        if plan.terms is None:
            totals = sums[0]
            # The noises of all platforms add up to one of sqrt(platforms) times the deviation.
            factor = math.sqrt(len(platforms)) if plan.place == "local" else 1.0
            for total in totals.values():
                _add_noise(total, noise, plan, factor)
        else:
            totals = opened_sum(sums, plan, plan.terms, step)
        for total in totals.values():
            total.mul_(_along(scale_M, total))
        if plan.public_weight:
            _add_public(totals, current, tokens, sentences, plan, step)
        adam.step(current, totals, step)
        if plan.pull:
            _pull(current, weights, trained, adam.rate_M * plan.falling(step) * plan.pull)
        if plan.ema_decay is not None:
            ema = averaged(ema, current, step, plan.ema_decay)
    return current if plan.ema_decay is None else ema


def _pull(current: Weights, first: Weights, trained: Weights, share_M: Tensor) -> None:
    """Move the trained weights a share of the way back to the first ones, in place."""
    for name in trained:
        current[name].lerp_(first[name], _along(share_M, first[name]))


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


def opened_sum(
    sums: Sequence[Weights], plan: PrivatePlan, terms: SumTerms, step: int
) -> dict[str, Tensor]:
    """Return the sum over platforms of what each sends: rounded, with its share of the noise.

    The shares are drawn as one discrete Gaussian of their joint variance: their sum is that law
    to 1e-60 (`privacy.discrete_bound`), and its deviation is rounded to a whole number of steps.
    """
    names, bound = tuple(sums[0]), plan.max_grad_norm
    shapes = [sums[0][name].shape[1:] for name in names]
    sizes = [shape.numel() for shape in shapes]
    joint = JointSum(terms, sum(sizes))
    found: dict[str, list[Tensor]] = {name: [] for name in names}
    for model, seed in enumerate(plan.noise_seeds):
        noise = joint.noise(bound, plan.noise_multipliers[model])
        sent_PN = torch.stack(
            [torch.cat([each[n][model].flatten() for n in names]) for each in sums]
        )
        total_N = rounded(sent_PN, noise.step, box(bound)).sum(0)
        source = SeededSimulation(seed, ("joining", "shares", step))
        deviation = round(noise.deviation * math.sqrt(len(sums)))
        total_N.add_(discrete_gaussian(len(total_N), deviation, source, total_N.device))
        total_N = total_N.double().mul_(noise.step).float()
        for name, part, shape in zip(names, torch.split(total_N, sizes), shapes, strict=True):
            found[name].append(part.view(shape))
    return {name: torch.stack(parts) for name, parts in found.items()}


def _add_noise(
    total: Tensor, noise: Sequence[torch.Generator], plan: PrivatePlan, factor: float
) -> None:
    for model, generator in enumerate(noise):
        deviation = plan.noise_multipliers[model] * plan.max_grad_norm * factor
        if deviation:
            drawn = torch.randn(total.shape[1:], generator=generator, device=total.device)
            total[model].add_(drawn, alpha=deviation)


@dataclass(frozen=True, slots=True)
class _Sample:
    """A Poisson sample: with which probability a sentence enters it, and what names its draws."""

    probability: float
    name: tuple[str | int, ...]


def _add_public(
    totals: Weights,
    weights: Weights,
    tokens: Tokens,
    sentences: Sentences,
    plan: PrivatePlan,
    step: int,
) -> None:
    """Add the mean clipped gradient of a sample of the public sentences, times its weight."""
    found = {name: torch.zeros_like(total) for name, total in totals.items()}
    size = sum(len(each.sentences[0]) for each in plan.public)
    probability = min(1.0, plan.public_batch / size)
    for number, platform in enumerate(plan.public):
        sample = _Sample(probability, ("public sample", step, number))
        _add_platform(found, weights, tokens, sentences, platform, plan, sample)
    for name, total in totals.items():
        total.add_(found[name], alpha=plan.public_weight / (probability * size))


def _add_platform(
    totals: Weights,
    weights: Weights,
    tokens: Tokens,
    sentences: Sentences,
    platform: Platform,
    plan: PrivatePlan,
    sample: _Sample,
) -> None:
    """Add the clipped gradients of one platform's Poisson sample, short sentences first."""
    drawn = []
    for model, own in enumerate(platform.sentences):
        generator = seeded(plan.noise_seeds[model], "joining", *sample.name)
        chosen = own[generator.random(len(own)) < sample.probability]
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
