"""What a removal leaves behind and what it costs, on documents in which the truth is known.

A mention is removed when no letter and no digit of it is left; a name of which the first half still
stands has remained. What is removed beside the mentions are other words that are lost. Documents of
one patient resemble each other, so they are one group.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedner.corpus.document import Document, Span
from fedner.inference.reading import Mention, Predicted
from fedner.scoring.intervals import CONFIDENCE, Interval
from fedner.scoring.proportions import grouped_share


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """The probabilities of one document's mentions and of its other words.

    Attributes:
        group: The patient, or the document where that is not known.
        mentions: The type of each mention, and the threshold up to which it is removed.
        others: The same threshold for each word that belongs to no mention.
    """

    group: str
    mentions: tuple[tuple[str, float], ...]
    others: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Remaining:
    """How many mentions a removal leaves.

    Attributes:
        mentions: How many there are.
        missed: How many of them remain.
        share: The share of those that remain, with its interval.
    """

    mentions: int
    missed: int
    share: Interval


@dataclass(frozen=True, slots=True)
class RemovalScores:
    """What a removal at one threshold comes to.

    Attributes:
        overall: All mentions.
        by_type: Those of each type.
        words: How many words belong to no mention.
        lost: The share of them that is removed as well, with its interval.
        groups: How many patients (or documents) were looked at.
    """

    overall: Remaining
    by_type: dict[str, Remaining]
    words: int
    lost: Interval
    groups: int


def score_tokens(
    predicted: Iterable[Predicted], gold: Iterable[Document], labels: Collection[str]
) -> Iterator[ScoredDocument]:
    """Yield how far each mention is removed, given every token with its probability.

    Args:
        predicted: Each document with all its tokens as mentions (`removal.token_finder`), or with
            what another tool removed.
        gold: The same documents with their true mentions.
        labels: The types that have to go.
    """
    for tokens, truth in zip(predicted, gold, strict=True):
        wanted = [span for span in truth.spans if span.label in labels]
        yield _scored(truth, wanted, tokens.mentions)


def _scored(
    document: Document, wanted: Sequence[Span], tokens: Sequence[Mention]
) -> ScoredDocument:
    text, scores = document.text, [0.0] * len(document.text)
    for token in tokens:
        for at in range(token.start, token.end):
            scores[at] = max(scores[at], token.confidence)
    is_wanted = [False] * len(text)
    mentions = []
    for span in wanted:
        places = [at for start, end in span.fragments for at in range(start, end)]
        for at in places:
            is_wanted[at] = True
        readable = (scores[at] for at in places if text[at].isalnum())
        mentions.append((span.label, min(readable, default=1.0)))
    others = tuple(
        min(scores[start:end]) for start, end in _words(text) if not any(is_wanted[start:end])
    )
    return ScoredDocument(document.patient or document.id, tuple(mentions), others)


def _words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the runs of letters and digits."""
    start: int | None = None
    for at in range(len(text) + 1):
        is_word = at < len(text) and text[at].isalnum()
        if is_word and start is None:
            start = at
        elif not is_word and start is not None:
            yield start, at
            start = None


def scores_at(
    documents: Sequence[ScoredDocument], threshold: float, confidence: float = CONFIDENCE
) -> RemovalScores:
    """Return what remains and what is lost at a threshold."""
    groups: dict[str, list[ScoredDocument]] = {}
    for document in documents:
        groups.setdefault(document.group, []).append(document)
    labels = sorted({label for document in documents for label, _ in document.mentions})
    own = list(groups.values())
    num_words = [sum(len(each.others) for each in group) for group in own]
    lost = [sum(score >= threshold for each in group for score in each.others) for group in own]
    return RemovalScores(
        _remaining(own, threshold, labels, confidence),
        {label: _remaining(own, threshold, (label,), confidence) for label in labels},
        sum(num_words),
        grouped_share(lost, num_words, confidence),
        len(own),
    )


def _remaining(
    groups: Sequence[Sequence[ScoredDocument]],
    threshold: float,
    labels: Collection[str],
    confidence: float,
) -> Remaining:
    counted = [
        [score for each in group for label, score in each.mentions if label in labels]
        for group in groups
    ]
    sizes = [len(scores) for scores in counted]
    missed = [sum(score < threshold for score in scores) for scores in counted]
    return Remaining(sum(sizes), sum(missed), grouped_share(missed, sizes, confidence))
