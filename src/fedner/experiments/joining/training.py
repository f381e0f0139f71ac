"""Training and scoring of stacked taggers: Adam with linear decay, each model at its own rate.

Shapes: M models, B sentences of each, L tokens, K tags, S sentences of all platforms, N tokens of
all platforms, P weights of a model.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.experiments.joining import stacked_crf
from fedner.experiments.joining.stack import (
    Rows,
    Tags,
    Tokens,
    Weights,
    hidden_states,
    potentials,
)
from fedner.seeds import seeded

Indices = NDArray[np.int64]
MAX_GRAD_NORM = 5.0
BATCHES_PER_BUCKET = 20
MOST_ROWS = 2_048  # sentences of all models at a time: what memory holds with room to spare
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True, slots=True)
class Sentences:
    """All sentences of all platforms: where their tokens stand, and their gold tags.

    Attributes:
        starts_S: The first token of each sentence.
        lengths_S: Its number of tokens.
        gold_VN: The tag of every token, in the tags of its own platform; one row a variant.
        known_lengths: The lengths once more, on the host.
    """

    starts_S: Tensor
    lengths_S: Tensor
    gold_VN: Tensor
    known_lengths: Indices

    def rows(self, chosen_MB: Indices) -> Rows:
        """Return sentences as rows, padded to the longest; the host waits for nothing."""
        longest = int(self.known_lengths[chosen_MB].max())
        number_MB = torch.from_numpy(chosen_MB).to(self.starts_S.device, non_blocking=True)
        places_L = torch.arange(longest, device=self.starts_S.device)
        token_MBL = self.starts_S[number_MB][..., None] + places_L
        return Rows(token_MBL.clamp_max(self.gold_VN.shape[1] - 1), self.lengths_S[number_MB])


@dataclass(frozen=True, slots=True)
class Source:
    """Where some rows of every batch come from: one platform of each model.

    Attributes:
        sentences: For each model its sentences, by number.
        batch_size: Rows of each step.
        tags: What the tags of these platforms mean.
        weight_M: What the mean loss of these rows counts for.
        prefix: Of the names of a head of their own; empty for the one head of all.
    """

    sentences: Sequence[Indices]
    batch_size: int
    tags: Tags
    weight_M: Tensor
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a stack is trained.

    Attributes:
        steps: How many steps.
        learning_rates: Of each model, falling linearly to 0.
        dropout: While training.
        seed: Names batches and dropout.
        pulls: How strongly each model is held to its first weights, a decay towards them at the
            learning rate; None for not at all.
        variants: Which gold tags each model learns; None for the first.
    """

    steps: int
    learning_rates: Sequence[float]
    dropout: float
    seed: int
    pulls: Sequence[float] | None = None
    variants: Sequence[int] | None = None


def train(
    weights: Weights,
    tokens: Tokens,
    sentences: Sentences,
    sources: Sequence[Source],
    plan: Plan,
) -> Weights:
    """Return the weights after training; what is given stays as it is."""
    device = tokens.features_ND.device
    packing = _Packing.of(weights)
    flat_MP = packing.packed(weights).requires_grad_()
    first_MP = flat_MP.detach().clone() if plan.pulls else None
    adam = _Adam(flat_MP.detach(), plan, device)
    variant_M11 = torch.tensor(plan.variants or [0] * len(flat_MP), device=device)[:, None, None]
    streams = [
        _batches(each, sentences.known_lengths, plan.seed, number)
        for number, each in enumerate(sources)
    ]
    torch.manual_seed(plan.seed)
    for step in range(plan.steps):
        current = packing.named(flat_MP)
        chosen, shares = zip(*(next(stream) for stream in streams), strict=True)
        rows = sentences.rows(np.concatenate(chosen, 1))
        share_MB = torch.from_numpy(np.concatenate(shares, 1)).to(device)
        states = hidden_states(current, tokens, rows, plan.dropout)
        gold_MBL = sentences.gold_VN[variant_M11, rows.token_MBL] * rows.mask
        loss = joint_loss(current, states, sources, Labelled(rows, gold_MBL, share_MB))
        (gradient_MP,) = torch.autograd.grad(loss, flat_MP)
        adam.step(flat_MP, gradient_MP, step, first_MP)
    return {name: each.contiguous() for name, each in packing.named(flat_MP.detach()).items()}


@dataclass(frozen=True, slots=True)
class _Packing:
    """Where each weight lies in the one row of numbers that a model's weights make.

    Attributes:
        shapes: The shape of each weight by name, models left out.
    """

    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, weights: Weights) -> "_Packing":
        return cls({name: tuple(weights[name].shape[1:]) for name in sorted(weights)})

    def packed(self, weights: Weights) -> Tensor:
        """Return all weights side by side (M, P), in memory of their own."""
        return torch.cat([weights[name].flatten(1) for name in self.shapes], 1)

    def named(self, flat_MP: Tensor) -> Weights:
        """Return the weights by name, without a copy."""
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        parts = torch.split(flat_MP, sizes, 1)
        return {
            name: part.view(len(flat_MP), *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


@dataclass(frozen=True, slots=True)
class Labelled:
    """The sentences of one step with what is known of them, source after source.

    Attributes:
        rows: The sentences.
        gold_MBL: Their tags.
        share_MB: What the loss of each counts for within its source; 0 for a row that only fills.
    """

    rows: Rows
    gold_MBL: Tensor
    share_MB: Tensor


def joint_loss(
    weights: Weights, states_MBLD: Tensor, sources: Sequence[Source], batch: Labelled
) -> Tensor:
    """Return the sum over models and sources of their weighted mean losses."""
    loss = states_MBLD.new_zeros(())
    begin = 0
    for source in sources:
        part = slice(begin, begin + source.batch_size)
        own = Rows(batch.rows.token_MBL[:, part], batch.rows.length_MB[:, part])
        found = potentials(head_of(weights, source.prefix), states_MBLD[:, part], own, source.tags)
        values_N = stacked_crf.losses(found, batch.gold_MBL[:, part].flatten(0, 1))
        values_MB = values_N.view(len(states_MBLD), -1)
        mean_M = (values_MB * batch.share_MB[:, part]).sum(1)
        loss = loss + (mean_M * source.weight_M).sum()
        begin += source.batch_size
    return loss


def head_of(weights: Weights, prefix: str) -> Weights:
    """Return the weights under their own names where a source has a head of its own."""
    if not prefix:
        return weights
    return {
        name.removeprefix(prefix): weight
        for name, weight in weights.items()
        if name.startswith(prefix)
    }


class _Adam:
    """Adam over all weights of all models, with one learning rate and one gradient norm each."""

    def __init__(self, flat_MP: Tensor, plan: Plan, device: torch.device) -> None:
        self.first = torch.zeros_like(flat_MP)
        self.second = torch.zeros_like(flat_MP)
        self.steps = plan.steps
        self.rate_M1 = torch.tensor(plan.learning_rates, device=device)[:, None]
        self.pull_M1: Tensor | None = None
        if plan.pulls is not None:
            self.pull_M1 = torch.tensor(plan.pulls, device=device)[:, None]

    @torch.no_grad()
    def step(
        self, flat_MP: Tensor, gradient_MP: Tensor, step: int, begun_MP: Tensor | None
    ) -> None:
        """Step all weights in place."""
        norm_M1 = gradient_MP.norm(dim=1, keepdim=True)
        gradient_MP.mul_((MAX_GRAD_NORM / (norm_M1 + 1e-6)).clamp_max_(1.0))
        self.first.lerp_(gradient_MP, 1 - _BETAS[0])
        self.second.mul_(_BETAS[1]).addcmul_(gradient_MP, gradient_MP, value=1 - _BETAS[1])
        corrected = [1 - beta ** (step + 1) for beta in _BETAS]
        rate_M1 = self.rate_M1 * (1 - step / self.steps)
        divisor = (self.second / corrected[1]).sqrt_().add_(_EPSILON)
        change_MP = (self.first / corrected[0]).div_(divisor)
        if self.pull_M1 is not None and begun_MP is not None:
            change_MP.add_((flat_MP - begun_MP).mul_(self.pull_M1))
        flat_MP.sub_(change_MP.mul_(rate_M1))


def _batches(
    source: Source, lengths: Indices, seed: int, number: int
) -> Iterator[tuple[Indices, NDArray[np.float32]]]:
    """Yield batches (M, B) and their weights for ever.

    Sentences of like length stand together, as in `fedner.training.bucketed_batches`. The order of
    lengths is the same for all models and, where they are large, all sources: little padding.
    """
    most = max(len(each) for each in source.sentences)
    num_batches = min(BATCHES_PER_BUCKET, -(-most // source.batch_size))
    is_large = num_batches == BATCHES_PER_BUCKET
    for bucket in itertools.count():
        chosen, weight = _bucket(source, lengths, (seed, number, bucket), num_batches)
        stream = 0 if is_large else number + 1
        for place in seeded(seed, "joining", "order", stream, bucket).permutation(num_batches):
            yield chosen[:, place], weight[:, place]


def _bucket(
    source: Source, lengths: Indices, place: tuple[int, int, int], num_batches: int
) -> tuple[Indices, NDArray[np.float32]]:
    """Return some batches of every model, shortest sentences first (M, batches, B)."""
    seed, number, bucket = place
    size = source.batch_size
    chosen = np.zeros((len(source.sentences), num_batches, size), dtype=np.int64)
    weight = np.zeros(chosen.shape, dtype=np.float32)
    for model, own in enumerate(source.sentences):
        drawn = _drawn(own, num_batches * size, bucket, (seed, number, model))
        drawn = drawn[np.argsort(lengths[drawn], kind="stable")]
        for row, batch in enumerate(np.array_split(drawn, num_batches)):
            chosen[model, row, : len(batch)] = batch
            chosen[model, row, len(batch) :] = batch[0]
            weight[model, row, : len(batch)] = 1.0 / len(batch)
    return chosen, weight


def _drawn(own: Indices, number: int, bucket: int, stream: tuple[int, int, int]) -> Indices:
    """Return the sentences of one bucket: a part of a permutation, or a whole small platform."""
    seed, source, model = stream
    if len(own) <= number:
        return seeded(seed, "joining", "batches", source, model, bucket).permutation(own)
    per_epoch = len(own) // number
    epoch, part = divmod(bucket, per_epoch)
    order = seeded(seed, "joining", "batches", source, model, epoch).permutation(own)
    return order[part * number : (part + 1) * number]


@torch.no_grad()
def counts(
    members: Sequence[tuple[Weights, Tokens]],
    sentences: Sentences,
    tags: Tags,
    chosen: Sequence[Indices],
) -> Tensor:
    """Return right, found and gold entities of each model on its own sentences (M, 3).

    Args:
        members: Stacks whose scores are averaged before decoding; one for a tagger by itself.
        sentences: All sentences.
        tags: What the tags mean.
        chosen: The sentences that each model is scored on.
    """
    device = sentences.starts_S.device
    order_MS, is_real_MS = _longest_first(chosen, sentences.known_lengths)
    totals = torch.zeros(len(chosen), 3, dtype=torch.int64, device=device)
    size = max(1, MOST_ROWS // len(chosen))
    for begin in range(0, order_MS.shape[1], size):
        rows = sentences.rows(order_MS[:, begin : begin + size])
        found = _mean_potentials(members, rows, tags)
        tags_MBL = stacked_crf.best_paths(found).view(rows.token_MBL.shape)
        is_real = torch.from_numpy(is_real_MS[:, begin : begin + size, None]).to(device)
        inside = rows.mask & is_real
        gold_MBL = sentences.gold_VN[0][rows.token_MBL]
        totals += matches(tags_MBL * inside, gold_MBL * inside)
    return totals


def _longest_first(
    chosen: Sequence[Indices], lengths: Indices
) -> tuple[Indices, NDArray[np.bool_]]:
    """Return the sentences of each model, longest first (M, S), and which are no filling."""
    order_MS = np.zeros((len(chosen), max(len(each) for each in chosen)), dtype=np.int64)
    is_real_MS = np.zeros(order_MS.shape, dtype=bool)
    for model, own in enumerate(chosen):
        ranked = own[np.argsort(-lengths[own], kind="stable")]
        order_MS[model, : len(own)] = ranked
        order_MS[model, len(own) :] = ranked[-1] if len(ranked) else 0
        is_real_MS[model, : len(own)] = True
    return order_MS, is_real_MS


def _mean_potentials(
    members: Sequence[tuple[Weights, Tokens]], rows: Rows, tags: Tags
) -> stacked_crf.Potentials:
    found = [
        potentials(weights, hidden_states(weights, tokens, rows), rows, tags)
        for weights, tokens in members
    ]
    if len(found) == 1:
        return found[0]
    emissions, start, end, transitions, lengths = zip(*found, strict=True)
    means = [torch.stack(each).mean(0) for each in (emissions, start, end, transitions)]
    return stacked_crf.Potentials(means[0], means[1], means[2], means[3], lengths[0])


def matches(found_MBL: Tensor, gold_MBL: Tensor) -> Tensor:
    """Return right, found and gold entities (M, 3) of tags O = 0, B = odd, I = even."""
    ends, starts = [], []
    for tags in (found_MBL, gold_MBL):
        follows = torch.zeros_like(tags, dtype=torch.bool)
        follows[..., :-1] = (tags[..., 1:] % 2 == 0) & (tags[..., 1:] > 0)
        places = torch.arange(tags.shape[-1], device=tags.device).expand_as(tags)
        # The end of an entity is the first place at or after its beginning that nothing follows.
        stops = torch.where(follows, tags.shape[-1], places)
        ends.append(stops.flip(-1).cummin(-1).values.flip(-1))
        starts.append(tags % 2 == 1)
    same = starts[0] & starts[1] & (found_MBL == gold_MBL) & (ends[0] == ends[1])
    return torch.stack([each.sum((1, 2)) for each in (same, *starts)], 1)


def f1(right: int, found: int, gold: int) -> float:
    """Return the strict F1 in percent of entities that are right, found and gold."""
    return 200.0 * right / max(1, found + gold)
