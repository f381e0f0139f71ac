"""DP-SGD of stacked taggers: exact clipping of sentences (`stacked_clipping`), simulated noise.

Noise comes from a seed: for experiments, it protects nobody.

Shapes: M models, P platforms, B sentences of each, N = M B rows (or all weights of a model), L
tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.experiments.joining.stack import Tags, Tokens, Weights
from fedner.experiments.joining.stacked_clipping import add_clipped
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
