"""Training and scoring of stacked taggers: Adam with linear decay, each model at its own rate.

Shapes: M models, B sentences of each, L tokens, K tags, S sentences of all platforms, N tokens of
all platforms, P weights of a model.
"""

import itertools
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
    names = sorted(weights)
    shapes = [weights[name].shape for name in names]
    flat_MP = torch.cat([weights[name].flatten(1) for name in names], 1).requires_grad_()
    sizes = [int(np.prod(shape[1:])) for shape in shapes]
    first_MP = flat_MP.detach().clone() if plan.pulls else None
    adam = _Adam(flat_MP.detach(), plan, device)
    lengths = sentences.known_lengths
    variant_M11 = torch.tensor(plan.variants or [0] * len(flat_MP), device=device)[:, None, None]
    streams = [
        _batches(each, lengths, plan.seed, number) for number, each in enumerate(sources)
    ]
    torch.manual_seed(plan.seed)
    for step in range(plan.steps):
        parts = torch.split(flat_MP, sizes, 1)
        current = {
            name: part.unflatten(1, shape[1:])
            for name, part, shape in zip(names, parts, shapes, strict=True)
        }
        drawn = [next(stream) for stream in streams]
        weight_MB = torch.from_numpy(np.concatenate([each for _, each in drawn], 1)).to(device)
        rows = sentences.rows(np.concatenate([each for each, _ in drawn], 1))
        states = hidden_states(current, tokens, rows, plan.dropout)
        gold_MBL = sentences.gold_VN[variant_M11, rows.token_MBL] * rows.mask_MBL
        loss = flat_MP.new_zeros(())
        at = 0
        for source in sources:
            end = at + source.batch_size
            own = Rows(rows.token_MBL[:, at:end], rows.length_MB[:, at:end])
            found = potentials(head_of(current, source.prefix), states[:, at:end], own, source.tags)
            values_MB = stacked_crf.losses(found, gold_MBL[:, at:end].flatten(0, 1)).view(
                len(flat_MP), -1
            )
            mean_M = (values_MB * weight_MB[:, at:end]).sum(1)
            loss = loss + (mean_M * source.weight_M).sum()
            at = end
        (gradient_MP,) = torch.autograd.grad(loss, flat_MP)
        adam.step(flat_MP, gradient_MP, step, first_MP)
    final = torch.split(flat_MP.detach(), sizes, 1)
    return {
        name: part.unflatten(1, shape[1:]).contiguous()
        for name, part, shape in zip(names, final, shapes, strict=True)
    }


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
        self.pull_M1 = None if plan.pulls is None else torch.tensor(plan.pulls, device=device)[:, None]

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
    lengths = sentences.known_lengths
    most = max(len(each) for each in chosen)
    order = np.zeros((len(chosen), most), dtype=np.int64)
    is_real = np.zeros((len(chosen), most), dtype=bool)
    for model, own in enumerate(chosen):
        ranked = own[np.argsort(-lengths[own], kind="stable")]
        order[model, : len(own)] = ranked
        order[model, len(own) :] = ranked[-1] if len(ranked) else 0
        is_real[model, : len(own)] = True
    totals = torch.zeros(len(chosen), 3, dtype=torch.int64, device=device)
    size = max(1, MOST_ROWS // len(chosen))
    for begin in range(0, most, size):
        rows = sentences.rows(order[:, begin : begin + size])
        found = _mean_potentials(members, rows, tags)
        tags_MBL = stacked_crf.best_paths(found).view(rows.token_MBL.shape)
        inside = rows.mask_MBL & torch.from_numpy(
            is_real[:, begin : begin + size, None]
        ).to(device)
        gold_MBL = sentences.gold_VN[0][rows.token_MBL]
        totals += matches(tags_MBL * inside, gold_MBL * inside)
    return totals


def _mean_potentials(
    members: Sequence[tuple[Weights, Tokens]], rows: Rows, tags: Tags
) -> stacked_crf.Potentials:
    found = [
        potentials(weights, hidden_states(weights, tokens, rows), rows, tags)
        for weights, tokens in members
    ]
    if len(found) == 1:
        return found[0]
    means = [torch.stack(each).mean(0) for each in zip(*(one[:4] for one in found), strict=True)]
    return stacked_crf.Potentials(*means, found[0].lengths_N)


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


def f1(totals: Tensor | Mapping[str, int]) -> Tensor:
    """Return the strict F1 in percent of counts (..., 3); 0 where there is nothing."""
    values = totals if isinstance(totals, Tensor) else torch.tensor(list(totals.values()))
    right, found, gold = values.double().unbind(-1)
    return 200.0 * right / (found + gold).clamp_min(1.0)
