"""Scores of annotated documents: mentions as character ranges, flat or not.

Strict means the same fragments and the same label; a mention that is predicted twice is right once.
Relaxed means that fragments share a character: the gap of a discontinuous mention is no part of it.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from fedner.corpus.document import Corpus, Document, Fragment, Span
from fedner.errors import FednerError
from fedner.scoring.counts import Counts, RelaxedCounts
from fedner.scoring.scores import Scores

MAX_LISTED = 20


def score_documents(
    gold: Corpus, predicted: Corpus, labels: Collection[str] | None = None
) -> Scores:
    """Score the mentions of `predicted` against those of `gold`, documents matched by id.

    There are no token-level scores: these documents need not be tokenised.

    >>> import fedner
    >>> text, drug = "Nausea after aspirin.", fedner.Span.of(13, 20, "Drug")
    >>> gold = fedner.Corpus("gold", ("Drug",), (fedner.Document("1", text, (drug,)),))
    >>> missed = fedner.Corpus("missed", ("Drug",), (fedner.Document("1", text),))
    >>> fedner.score(gold, gold).strict_micro.f1, fedner.score(gold, missed).strict_micro.f1
    (1.0, 0.0)

    Args:
        gold: The gold corpus.
        predicted: The same texts with predicted mentions.
        labels: What to score; None for all that the gold corpus annotates. Mentions of other
            labels are left out and counted as ignored.

    Raises:
        FednerError: The two have different documents or texts; all differences are named.
    """
    return sum(scores_by_document(gold, predicted, labels), Scores())


def scores_by_document(
    gold: Corpus, predicted: Corpus, labels: Collection[str] | None = None
) -> list[Scores]:
    """Return the scores of each document in the order of `gold`: the units of a bootstrap.

    Arguments and errors are those of `score_documents`.
    """
    twins = {document.id: document for document in predicted}
    _check_twins(gold, predicted, twins)
    chosen = frozenset(gold.labels if labels is None else labels)
    return [_score_spans(each.spans, twins[each.id].spans, chosen) for each in gold]


def _check_twins(gold: Corpus, predicted: Corpus, twins: dict[str, Document]) -> None:
    """Collect whatever keeps the two from being compared, then raise once."""
    problems = []
    for name, corpus in (("gold", gold), ("predicted", predicted)):
        times = Counter(document.id for document in corpus)
        problems += [
            f"document {each!r} occurs {count} times among the {name} ones"
            for each, count in times.items()
            if count > 1
        ]
    known = {document.id for document in gold}
    problems += [f"document {each!r} has no gold twin" for each in twins if each not in known]
    for document in gold:
        twin = twins.get(document.id)
        if twin is None:
            problems.append(f"document {document.id!r} has no prediction")
        elif twin.text != document.text:
            problems.append(
                f"document {document.id!r} has {len(document.text):,} gold and "
                f"{len(twin.text):,} predicted characters, and the texts differ"
            )
    if problems:
        hidden = len(problems) - MAX_LISTED
        listed = problems[:MAX_LISTED] + ([f"... and {hidden:,} more"] if hidden > 0 else [])
        raise FednerError(
            f"{gold.name} and {predicted.name} cannot be compared:\n  " + "\n  ".join(listed),
            "Predict exactly the files of the gold standard: same ids, same texts.",
        )


def _score_spans(
    gold: Sequence[Span], predicted: Sequence[Span], labels: Collection[str]
) -> Scores:
    ignored_gold = Counter(span.label for span in gold if span.label not in labels)
    ignored_predicted = Counter(span.label for span in predicted if span.label not in labels)
    gold = [span for span in gold if span.label in labels]
    predicted = [span for span in predicted if span.label in labels]
    ordered = sorted(labels)
    correct = Counter(span.label for span in (Counter(gold) & Counter(predicted)).elements())
    num_gold = Counter(span.label for span in gold)
    num_predicted = Counter(span.label for span in predicted)
    return Scores(
        strict={
            label: Counts(
                correct[label],
                num_predicted[label] - correct[label],
                num_gold[label] - correct[label],
            )
            for label in ordered
        },
        relaxed=_relaxed(gold, predicted, ordered, any_type=False),
        relaxed_any_type=_relaxed(gold, predicted, ordered, any_type=True),
        ignored_predicted=dict(sorted(ignored_predicted.items())),
        ignored_gold=dict(sorted(ignored_gold.items())),
    )


def _relaxed(
    gold: Sequence[Span], predicted: Sequence[Span], labels: Sequence[str], *, any_type: bool
) -> dict[str, RelaxedCounts]:
    touching = _touching(predicted, gold, any_type=any_type)
    touched = _touching(gold, predicted, any_type=any_type)
    num_gold = Counter(span.label for span in gold)
    num_predicted = Counter(span.label for span in predicted)
    return {
        label: RelaxedCounts(num_predicted[label], touching[label], num_gold[label], touched[label])
        for label in labels
    }


def _touching(these: Iterable[Span], others: Iterable[Span], *, any_type: bool) -> Counter[str]:
    """Count, by label, which of `these` share a character with one of `others`."""
    fragments: defaultdict[str, list[Fragment]] = defaultdict(list)
    for span in others:
        fragments["" if any_type else span.label].extend(span.fragments)
    covers = {key: _union(ranges) for key, ranges in fragments.items()}
    return Counter(
        span.label
        for span in these
        if _meets(span.fragments, covers.get("" if any_type else span.label, ([], [])))
    )


def _union(ranges: list[Fragment]) -> tuple[list[int], list[int]]:
    """Return starts and ends of the disjoint ranges that cover the same characters."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(ranges):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def _meets(fragments: Iterable[Fragment], cover: tuple[list[int], list[int]]) -> bool:
    starts, ends = cover
    for start, end in fragments:
        # The first covering range that is not over when the fragment begins.
        at = bisect_right(ends, start)
        if at < len(starts) and starts[at] < end:
            return True
    return False
