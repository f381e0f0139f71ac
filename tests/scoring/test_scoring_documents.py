"""Scores of documents: fragments, overlapping mentions, twins by id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.document import Corpus, Document, Span
from fedner.corpus.sentence import Entity
from fedner.errors import FednerError
from fedner.scoring import (
    Counts,
    RelaxedCounts,
    Scores,
    score,
    score_documents,
    scores_by_document,
)

TEXT = "x" * 40
LABELS = ("ADE", "Drug")


def corpus(*spans: tuple[Span, ...], labels: tuple[str, ...] = LABELS) -> Corpus:
    documents = tuple(Document(str(at), TEXT, each) for at, each in enumerate(spans))
    return Corpus("test", labels, documents)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Any mention: up to three fragments that do not touch each other."""
    size = 2 * draw(st.integers(1, 3))
    points = draw(st.lists(st.integers(0, 40), min_size=size, max_size=size, unique=True))
    points.sort()
    fragments = tuple(zip(points[::2], points[1::2], strict=True))
    return Span(fragments, draw(st.sampled_from((*LABELS, "Other"))))


documents = st.lists(st.lists(spans(), max_size=6).map(tuple), min_size=3, max_size=3)


def characters(span: Span) -> set[int]:
    return {at for start, end in span.fragments for at in range(start, end)}


def slow(gold: tuple[Span, ...], predicted: tuple[Span, ...], label: str) -> tuple[object, ...]:
    gold = tuple(span for span in gold if span.label in LABELS)
    predicted = tuple(span for span in predicted if span.label in LABELS)
    g = [span for span in gold if span.label == label]
    p = [span for span in predicted if span.label == label]
    free, right = list(g), 0
    for span in p:
        if span in free:
            free.remove(span)
            right += 1

    def touched(these: list[Span], others: tuple[Span, ...] | list[Span]) -> int:
        return sum(any(characters(one) & characters(two) for two in others) for one in these)

    return (
        Counts(right, len(p) - right, len(g) - right),
        RelaxedCounts(len(p), touched(p, g), len(g), touched(g, p)),
        RelaxedCounts(len(p), touched(p, gold), len(g), touched(g, predicted)),
    )


@given(documents, documents)
def test_documents_equal_the_slow_reference(
    gold: list[tuple[Span, ...]], predicted: list[tuple[Span, ...]]
) -> None:
    each = scores_by_document(corpus(*gold), corpus(*predicted))
    for g, p, scores in zip(gold, predicted, each, strict=True):
        for label in LABELS:
            found = scores.strict[label], scores.relaxed[label], scores.relaxed_any_type[label]
            assert found == slow(g, p, label)
        assert sum(scores.ignored_predicted.values()) == sum(s.label == "Other" for s in p)
        assert sum(scores.ignored_gold.values()) == sum(s.label == "Other" for s in g)
    assert score_documents(corpus(*gold), corpus(*predicted)) == sum(each, Scores())


@given(st.lists(st.integers(0, 40), max_size=8, unique=True).map(sorted))
def test_flat_mentions_score_as_entities_do(points: list[int]) -> None:
    ranges = list(zip(points[::2], points[1::2], strict=False))
    gold = [Entity(start, end, LABELS[start % 2]) for start, end in ranges]
    predicted = [Entity(start, end, LABELS[end % 2]) for start, end in ranges[1:]]
    as_spans = [tuple(Span.of(*each) for each in side) for side in (gold, predicted)]
    by_documents = score_documents(corpus(as_spans[0]), corpus(as_spans[1]))
    assert by_documents == score([gold], [predicted], LABELS)


def test_the_gap_of_a_discontinuous_mention_is_not_part_of_it() -> None:
    gold = corpus((Span(((0, 4), (10, 14)), "ADE"),))
    in_gap = score_documents(gold, corpus((Span.of(4, 10, "ADE"),)))
    assert in_gap.relaxed_micro == RelaxedCounts(1, 0, 1, 0)
    hull = score_documents(gold, corpus((Span.of(0, 14, "ADE"),)))
    assert hull.strict_micro == Counts(0, 1, 1)
    assert hull.relaxed_micro == RelaxedCounts(1, 1, 1, 1)


def test_a_mention_predicted_twice_is_right_once() -> None:
    span = Span.of(1, 3, "Drug")
    assert score_documents(corpus((span,)), corpus((span, span))).strict_micro == Counts(1, 1, 0)


def test_order_of_predicted_documents_does_not_matter() -> None:
    gold = corpus((Span.of(1, 3, "Drug"),), ())
    backwards = Corpus("predicted", (), gold.documents[::-1])
    assert score_documents(gold, backwards).strict_micro == Counts(tp=1)


def test_every_difference_between_the_documents_is_named() -> None:
    gold = Corpus("gold", LABELS, tuple(Document(each, "abc") for each in "abb"))
    predicted = Corpus("predicted", LABELS, (Document("b", "abd"), Document("c", "abc")))
    with pytest.raises(FednerError) as caught:
        score_documents(gold, predicted)
    for problem in ("'a' has no prediction", "'b' occurs 2 times", "'c' has no gold", "differ"):
        assert problem in caught.value.message


def test_the_list_of_differences_is_bounded() -> None:
    gold = Corpus("gold", LABELS, tuple(Document(str(each), "") for each in range(500)))
    with pytest.raises(FednerError, match="and 480 more") as caught:
        score_documents(gold, Corpus("predicted", LABELS, ()))
    assert len(caught.value.message) < 2_000
