"""Which words of a text have to go: tokens by the probability that they belong to a removed type.

A tagger's best path leaves out what it thinks less likely than not. For de-identification that is
too much: here a token goes as soon as the probability that it belongs to *any* removed type, summed
over all paths (the marginals of the CRF), reaches a threshold. Tokens of a mention on the best path
share the probability of the surest one, so that a mention goes as a whole. What is removed at a
threshold is therefore also removed at every lower one.

Shapes: B sentences, L tokens, K tags, R removed types.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedner.corpus.sentence import Entity, Sentence
from fedner.inference.predict import Predictor, TaggedBatch
from fedner.inference.reading import Finder, Found

_NO_MENTION = -1
_Scored = tuple[tuple[float, ...], tuple[str, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Removable:
    """How likely each token of a sentence belongs to a removed type.

    Attributes:
        scores: The probability of each token.
        labels: The likeliest removed type of each token.
        mentions: The number of the mention on the best path that each token belongs to; -1 for
            none.
        words: Whether each token has a letter or a digit.
    """

    scores: tuple[float, ...]
    labels: tuple[str, ...]
    mentions: tuple[int, ...]
    words: tuple[bool, ...]


def best_path_finder(predictor: Predictor, labels: Collection[str]) -> Finder:
    """Return what finds the mentions of some types as `fedner predict` does."""

    def find(sentences: Sequence[Sentence]) -> Found:
        found = predictor.predict_sentences(sentences)
        return [[each for each in sentence if each[0].label in labels] for sentence in found]

    return find


def threshold_finder(predictor: Predictor, labels: Sequence[str], threshold: float) -> Finder:
    """Return what finds the words that reach a threshold, joined to mentions.

    The confidence of such a mention is the probability of its surest token.
    """
    return _finder(predictor, labels, lambda removable: joined(removable, threshold))


def token_finder(predictor: Predictor, labels: Sequence[str]) -> Finder:
    """Return what finds every token, as an entity of its own with its probability."""
    return _finder(predictor, labels, _one_by_one)


def _finder(
    predictor: Predictor,
    labels: Sequence[str],
    read: Callable[[Removable], list[tuple[Entity, float]]],
) -> Finder:
    def find(sentences: Sequence[Sentence]) -> Found:
        found: Found = [[] for _ in sentences]
        for number, removable in removables(predictor, labels, sentences):
            found[number] = read(removable)
        return found

    return find


def _one_by_one(removable: Removable) -> list[tuple[Entity, float]]:
    pairs = enumerate(zip(removable.labels, removable.scores, strict=True))
    return [(Entity(at, at + 1, label), score) for at, (label, score) in pairs]


def joined(removable: Removable, threshold: float) -> list[tuple[Entity, float]]:
    """Return the tokens that reach a threshold, neighbours joined.

    What the best path counts to two mentions stays two. A token that it counts to none joins its
    neighbours, whatever its likeliest type: half a street is no mention of its own. Punctuation
    that is on no mention goes only between words that go.
    """
    found: list[_Run] = []
    is_open = False
    for at, score in enumerate(removable.scores):
        own = removable.mentions[at]
        if score < threshold:
            is_open = False
        elif removable.words[at] or own != _NO_MENTION:
            token = _Run(at, at + 1, removable.labels[at], score, own)
            if is_open and (own == found[-1].mention or _NO_MENTION in (own, found[-1].mention)):
                found[-1] = _merged(found[-1], token)
            else:
                found.append(token)
            is_open = True
    return [(Entity(run.start, run.end, run.label), run.score) for run in found]


class _Run(NamedTuple):
    """Neighbouring tokens that go."""

    start: int
    end: int
    label: str
    score: float
    mention: int


def _merged(run: _Run, token: _Run) -> _Run:
    """Return a run with one token more; its type is that of its mention, or of its surest token."""
    sides = sorted((run, token), key=lambda each: (each.mention != _NO_MENTION, each.score))
    best = sides[-1]
    return _Run(run.start, token.end, best.label, max(run.score, token.score), best.mention)


def removables(
    predictor: Predictor, labels: Sequence[str], sentences: Sequence[Sentence]
) -> Iterator[tuple[int, Removable]]:
    """Yield the number of each sentence and what its tokens' probabilities are."""
    of_label_KR = _tags_of(predictor.model.space.tags, labels)
    for tagged in predictor.tag(sentences):
        for number, scored in _of_batch(predictor, labels, of_label_KR, tagged):
            words = tuple(any(map(str.isalnum, each)) for each in sentences[number].tokens)
            yield number, Removable(*scored, words)


def _tags_of(tags: Sequence[str], labels: Sequence[str]) -> Tensor:
    """Return (K, R): whether a tag is one of a type."""
    types = [tag.partition("-")[2] for tag in tags]
    return torch.tensor([[each == label for label in labels] for each in types]).double()


def _of_batch(
    predictor: Predictor, labels: Sequence[str], of_label_KR: Tensor, tagged: TaggedBatch
) -> Iterator[tuple[int, _Scored]]:
    """Yield the number of each sentence with scores, labels and mentions of its tokens."""
    decoder, lengths_B = predictor.model.tagger.decoder, tagged.batch.lengths_B
    marginals_BLK = decoder.marginals(tagged.emissions_BLK, lengths_B).double().cpu()
    by_type_BLR = (marginals_BLK @ of_label_KR).numpy()
    scores_BL = by_type_BLR.sum(-1).clip(0.0, 1.0)
    best_BL = by_type_BLR.argmax(-1)
    mentions_BL = np.full(best_BL.shape, _NO_MENTION)
    for number, (row, entity) in enumerate(tagged.entities):
        if entity.label in labels:
            place = slice(entity.start, entity.end)
            scores_BL[row, place] = scores_BL[row, place].max()
            best_BL[row, place] = labels.index(entity.label)
            mentions_BL[row, place] = number
    for row, sentence in enumerate(tagged.batch.sentences):
        length = int(lengths_B[row])
        names = tuple(labels[each] for each in best_BL[row, :length])
        scores, mentions = scores_BL[row, :length].tolist(), mentions_BL[row, :length].tolist()
        yield int(sentence), (tuple(scores), names, tuple(mentions))
