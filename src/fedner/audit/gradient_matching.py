"""Gradient matching: the sentences whose gradient is the one that was seen.

Zhu, Liu and Han (2019), "Deep leakage from gradients", for text in the manner of Petrov et al.
(2024, DAGER): first which words there are, from the rows of a trained word table or from the space
that the gradient of the first layer spans; then each token as a mixture of these words and of tags,
moved until the gradient of the mixture is the one that was seen (`reference`); then single words,
tags and places, as long as a change helps.

Shapes: C guesses, L tokens, P words to choose from, D features, K tags; F filters of width W.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import one_hot

from fedner.audit import reference
from fedner.audit.observation import WORD_TABLE, Observation, Target
from fedner.models.features import collate
from fedner.models.layers.bilstm import BiLSTM
from fedner.models.partition import lies_under
from fedner.models.tagger import Tagger
from fedner.seeds import derive

_NUMERIC = 1e-7
_FOUND = 1e-8  # a distance that only the batch itself has
_AT_ONCE = 64  # guesses whose gradients are computed together, at most
_MOST_NUMBERS = 16_000_000  # of their gradients together


@dataclass(frozen=True, slots=True)
class SentenceBudget:
    """How much the attack may try.

    Attributes:
        batch_size: Sentences in a batch.
        longest: Tokens of a sentence, at most, where there are enough of them.
        words: How many words are kept to choose from, for each token of the batch.
        steps: Steps of the matching.
        tries: How many changes of single words, tags and places are tried after it, at most.
        restarts: From how many beginnings.
        trials: How many batches.
        learning_rate: Of the matching.
    """

    batch_size: int = 1
    longest: int = 6
    words: int = 3
    steps: int = 30
    tries: int = 2_000
    restarts: int = 1
    trials: int = 6
    learning_rate: float = 0.2


@dataclass(frozen=True, slots=True)
class Seen:
    """The gradient that is matched.

    Attributes:
        wanted: By name.
        is_scaled: Whether only its direction is known.
    """

    wanted: Mapping[str, Tensor]
    is_scaled: bool


@dataclass(frozen=True, slots=True)
class Recovered:
    """One recovered sentence.

    Attributes:
        words: The distinct word of each token, by its number in the corpus.
        tags: The tag of each token.
        distance: How far its gradient is from the one that was seen.
    """

    words: tuple[int, ...]
    tags: tuple[int, ...]
    distance: float


def matched_names(target: Target) -> list[str]:
    """Return the shared weights whose gradients are matched: all but the embeddings'."""
    return [name for name in target.shared if not name.startswith("embeddings.")]


def recover(
    target: Target,
    seen: Observation,
    lengths: Sequence[int],
    budget: SentenceBudget,
    seed: int,
    *,
    is_scaled: bool = False,
) -> list[Recovered]:
    """Return the sentences whose gradient is nearest to the one that was seen.

    Args:
        target: The attacked platform.
        seen: What was seen.
        lengths: The tokens of each sentence.
        budget: How much may be tried.
        seed: Of the beginnings.
        is_scaled: Whether clipping scaled the gradient by a factor that the attacker must guess.
    """
    words = _candidates(target, seen, budget.words * sum(lengths))
    tagger = copy.deepcopy(target.tagger).double().eval()
    features_PD = token_features(target, words).double()
    names = matched_names(target)
    wanted = {name: seen.gradient[name].double() for name in names}
    aim = Seen(wanted, is_scaled=is_scaled)
    found: list[Recovered] = []
    for restart in range(budget.restarts):
        draw = torch.Generator().manual_seed(derive(seed, "restart", restart) % 2**63)
        best = _match(tagger, features_PD, aim, lengths, budget, draw)
        if not found or best[0] < found[0].distance:
            found = [
                Recovered(tuple(words[at] for at in places), tags, best[0])
                for places, tags in best[1]
            ]
        if best[0] < _FOUND:
            break
    return found


def _candidates(target: Target, seen: Observation, count: int) -> list[int]:
    """Return the distinct words that the gradient speaks for most, by their numbers."""
    corpus = target.corpus
    used = np.unique(corpus.word_T)
    rows = corpus.rows_V[torch.from_numpy(used)]
    if WORD_TABLE in seen.gradient:
        strength = seen.gradient[WORD_TABLE].double().norm(dim=1)[rows]
        order = torch.argsort(strength, descending=True, stable=True)
        order = order[strength[order] > 0]
        # Words that share a row of the table are told apart by the matching.
        return [int(used[at]) for at in order[:count].tolist()]
    outside = _outside(target, seen, used)
    return [int(used[at]) for at in np.argsort(outside, kind="stable")[:count].tolist()]


def _first_layer_rows(target: Target, seen: Observation) -> list[Tensor]:
    """Return gradients of the first layer whose rows are made of what tokens are made of."""
    first = target.tagger.stages.encoders[0]
    if isinstance(first.layer, BiLSTM):
        names = [f"{first.name}.lstm.weight_ih_l0{suffix}" for suffix in ("", "_reverse")]
        return [seen.gradient[name] for name in names if name in seen.gradient]
    names = [name for name in seen.gradient if lies_under(name, first.name)]
    # Of a convolution every tap of every filter is such a row.
    filters = [seen.gradient[name] for name in names if seen.gradient[name].ndim == 3]
    return [each_FDW.transpose(1, 2).flatten(0, 1) for each_FDW in filters]


def _outside(target: Target, seen: Observation, words: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how much of each word lies outside the space of the first layer's gradient."""
    rows = _first_layer_rows(target, seen)
    if not rows:
        return np.zeros(len(words))
    rows_RD = torch.cat(rows).double()
    _, sizes, right_KD = torch.linalg.svd(rows_RD, full_matrices=False)
    least = max(_NUMERIC * float(sizes[0]), seen.deviation * sum(n**0.5 for n in rows_RD.shape))
    space_KD = right_KD[sizes > least]
    features_PD = token_features(target, words.tolist()).double()
    left_PD = features_PD - features_PD @ space_KD.t() @ space_KD
    share: Tensor = left_PD.norm(dim=1) / features_PD.norm(dim=1).clamp(min=1e-12)
    return share.numpy()


@torch.no_grad()
def token_features(target: Target, words: Sequence[int]) -> Tensor:
    """Return what a token of each word is made of (P, D)."""
    corpus = target.corpus
    alone = replace(
        corpus,
        word_T=np.asarray(words, dtype=np.int64),
        starts=np.arange(len(words)),
        lengths=np.ones(len(words), dtype=np.int64),
        tags_T=None,
    )
    batch = collate(alone, range(len(words)))
    tagger = target.tagger.eval()
    parts = [stage.forms.forward(stage.layer, (), batch) for stage in tagger.stages.sources]
    return torch.cat(parts, dim=2).squeeze(1)


def _match(
    tagger: Tagger,
    features_PD: Tensor,
    seen: Seen,
    lengths: Sequence[int],
    budget: SentenceBudget,
    draw: torch.Generator,
) -> tuple[float, list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Return the least distance, and the words and tags of each sentence that come to it."""
    num_tags = tagger.decoder.num_tags
    variables = [
        0.1 * torch.randn(length, size, generator=draw, dtype=torch.float64)
        for length in lengths
        for size in (len(features_PD), num_tags)
    ]
    for each in variables:
        each.requires_grad_(True)
    optimizer = torch.optim.Adam(variables, lr=budget.learning_rate)
    for _ in range(budget.steps):
        optimizer.zero_grad()
        mixed = [torch.softmax(each, dim=1) for each in variables]
        distance = _distance(tagger, features_PD, mixed, seen)
        moved = torch.autograd.grad(distance, variables)
        for each, gradient in zip(variables, moved, strict=True):
            each.grad = gradient
        optimizer.step()
    # Words and tags take turns: variables of each sentence stand beside each other.
    places = [each.detach().argmax(dim=1) for each in variables]
    sizes = [each.shape[1] for each in variables]
    least = polished(tagger, features_PD, seen, places, sizes, budget.tries)
    read = [tuple(each.tolist()) for each in places]
    return least, list(zip(read[::2], read[1::2], strict=True))


def polished(
    tagger: Tagger,
    features_PD: Tensor,
    seen: Seen,
    places: Sequence[Tensor],
    sizes: Sequence[int],
    tries: int,
) -> float:
    """Change single words, tags and pairs of places while that brings the gradient nearer.

    Args:
        tagger: The tagger.
        features_PD: What each word is made of.
        seen: The gradient that was seen.
        places: The words and the tags of each sentence, one after the other; changed in place.
        sizes: How many words, or tags, there are to choose from.
        tries: How many changes are tried, at most.

    Returns:
        The distance that is left.
    """
    gradients = _Gradients(tagger, features_PD, tuple(seen.wanted), sizes[1])
    own = [gradients.of([held]) for held in _pairs(places)]
    least = before = float(_away(seen, _mean(own))[0])
    while tries > 0 and least >= _FOUND:
        for sentence, held in enumerate(_pairs(places)):
            sweep = _changes(held, sizes[:2])
            others = [each for at, each in enumerate(own) if at != sentence]
            while least >= _FOUND and (tried := list(islice(sweep, min(tries, gradients.most)))):
                tries -= len(tried)
                found = gradients.of(tried)
                away = _away(seen, _mean([found, *others]))
                best = int(away.argmin())
                if float(away[best]) < least:
                    least = float(away[best])
                    _put(held, tried[best])
                    own[sentence] = [each[best : best + 1] for each in found]
        if least >= before:
            break  # no single change helps any more
        before = least
    return least


class _SentenceLoss(nn.Module):
    """The loss of one sentence as a function of the tagger's weights."""

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        self.tagger = tagger

    def forward(self, x_LD: Tensor, tags_LK: Tensor) -> Tensor:
        """Return the loss."""
        return reference.loss(self.tagger, x_LD, tags_LK)


class _Gradients:
    """Gradients of many guesses of one sentence at once.

    Attributes:
        most: How many of them fit into memory.
    """

    def __init__(
        self, tagger: Tagger, features_PD: Tensor, names: Sequence[str], num_tags: int
    ) -> None:
        weights = dict(tagger.named_parameters())
        self._weights = {f"tagger.{name}": weights[name].detach() for name in names}
        self._features_PD = features_PD
        self._num_tags = num_tags
        loss = _SentenceLoss(tagger)

        def one(own: dict[str, Tensor], x_LD: Tensor, tags_LK: Tensor) -> Tensor:
            found: Tensor = functional_call(loss, own, (x_LD, tags_LK))
            return found

        self._compute = vmap(grad(one), (None, 0, 0))
        size = sum(each.numel() for each in self._weights.values())
        self.most = max(1, min(_AT_ONCE, _MOST_NUMBERS // max(1, size)))

    def of(self, guesses: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """Return for each weight the gradients of words and tags (C, ...)."""
        words_CL, tags_CL = (torch.stack(each) for each in zip(*guesses, strict=True))
        tags_CLK = one_hot(tags_CL, self._num_tags).double()
        found = self._compute(self._weights, self._features_PD[words_CL], tags_CLK)
        return [each.detach() for each in found.values()]


def _pairs(places: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    """Return words and tags of each sentence."""
    return [places[at : at + 2] for at in range(0, len(places), 2)]


def _mean(sentences: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return the gradient of a batch; one of the sentences may have many guesses."""
    parts = zip(*sentences, strict=True)
    return [sum(part[1:], part[0]) / len(sentences) for part in parts]


def _away(seen: Seen, computed: Sequence[Tensor]) -> Tensor:
    """Return how far each of many gradients is from the one that was seen (C,)."""
    pairs = [
        (aim.flatten().unsqueeze(0), each.flatten(1))
        for aim, each in zip(seen.wanted.values(), computed, strict=True)
    ]
    scale_C1 = _fitting(pairs) if seen.is_scaled else torch.ones(1, 1, dtype=torch.float64)
    away = [
        (aim - scale_C1 * each).square().sum(1) / aim.square().sum().clamp(min=1e-24)
        for aim, each in pairs
    ]
    return torch.stack(away).mean(0)


def _fitting(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the factor that gives each second of a pair the size of the first (C, 1).

    Not the nearest one: that is 0 for a guess that points the other way, and no change would help.
    """
    wanted = torch.stack([aim.square().sum(1) for aim, _ in pairs]).sum(0)
    size = torch.stack([each.square().sum(1) for _, each in pairs]).sum(0).clamp(min=1e-24)
    return (wanted / size).sqrt().unsqueeze(1)


def _put(held: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for each, value in zip(held, values, strict=True):
        each.copy_(value)


def _changes(held: Sequence[Tensor], sizes: Sequence[int]) -> Iterator[list[Tensor]]:
    """Yield tokens in another order, with their tags and without; then other words and tags.

    Each differs by one change from what is held when it is asked for.
    """
    length = len(held[0])
    for first, second in product(range(length), repeat=2):
        if first == second:
            continue
        moved = [at for at in range(length) if at != first]
        moved.insert(second, first)
        yield [each[moved] for each in held]
        if first < second:
            swapped = list(range(length))
            swapped[first], swapped[second] = second, first
            yield [each[swapped] for each in held]
            yield [held[0][swapped], held[1].clone()]
    for kind, size in enumerate(sizes):
        for place, value in product(range(length), range(size)):
            if int(held[kind][place]) != value:
                changed = [each.clone() for each in held]
                changed[kind][place] = value
                yield changed


def _distance(
    tagger: Tagger,
    features_PD: Tensor,
    mixed: Sequence[Tensor],
    seen: Seen,
) -> Tensor:
    """Return how far the gradient of mixtures is from the one that was seen, layer by layer."""
    parameters = dict(tagger.named_parameters())
    total = torch.stack(
        [
            reference.loss(tagger, words_LP @ features_PD, tags_LK)
            for words_LP, tags_LK in zip(mixed[::2], mixed[1::2], strict=True)
        ]
    ).mean()
    own = [parameters[name] for name in seen.wanted]
    computed = torch.autograd.grad(total, own, create_graph=True)
    return _away(seen, [each.unsqueeze(0) for each in computed])[0]
