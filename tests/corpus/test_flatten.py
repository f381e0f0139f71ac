"""Flattening against the slow, obvious version, and what its counts promise."""

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.document import Span
from fedner.corpus.flatten import FLATTEN_POLICIES, Flattening, flatten, longest_first
from fedner.errors import FednerError


@st.composite
def mentions(draw):
    borders = sorted(draw(st.sets(st.integers(0, 20), min_size=2, max_size=6)))
    if len(borders) % 2:
        borders.pop()
    fragments = tuple(zip(borders[::2], borders[1::2], strict=True))
    return Span(fragments, draw(st.sampled_from("AB")))


span_lists = st.lists(mentions(), max_size=8)
policies = st.sampled_from(sorted(FLATTEN_POLICIES))


def slow_flatten(spans, policy):
    """One rule a line, quadratic."""
    spans = sorted(set(spans), key=lambda span: span.is_discontinuous)
    if policy == "contiguous":
        spans = [span for span in spans if not span.is_discontinuous]
    if policy == "first-fragment":
        spans = [Span((span.fragments[0],), span.label) for span in spans]
    hulls = [Span.of(span.start, span.end, span.label) for span in spans]
    kept = []
    for hull in sorted(hulls, key=lambda hull: (hull.start - hull.end, hull.start, hull.label)):
        taken = {place for other in kept for place in range(other.start, other.end)}
        if taken.isdisjoint(range(hull.start, hull.end)):
            kept.append(hull)
    return sorted(kept)


@given(span_lists, policies)
def test_as_the_slow_version(spans, policy):
    before = list(spans)
    flat, _ = flatten(spans, policy)
    assert spans == before
    assert list(flat) == slow_flatten(spans, policy)


@given(span_lists, policies)
def test_every_mention_is_accounted_for(spans, policy):
    flat, changes = flatten(spans, policy)
    assert changes.kept == len(flat)
    assert changes.given == len(spans)
    assert changes.given == (
        changes.kept
        + changes.dropped_discontinuous
        + changes.dropped_overlapping
        + changes.dropped_duplicates
    )
    assert changes.hulled + changes.cut_to_first <= changes.kept


@given(span_lists, policies, st.randoms())
def test_the_order_of_the_file_has_no_influence(spans, policy, random):
    shuffled = random.sample(spans, len(spans))
    assert flatten(spans, policy) == flatten(shuffled, policy)


@given(span_lists, policies)
def test_flat_mentions_stay_as_they_are(spans, policy):
    flat, _ = flatten(spans, policy)
    again, changes = flatten(flat, policy)
    assert again == flat
    assert changes == Flattening(given=len(flat), kept=len(flat))


def test_each_policy_written_out():
    pain = Span(((0, 4), (10, 14)), "ADE")
    drug = Span.of(5, 9, "Drug")
    spans = [pain, drug, drug, Span.of(20, 22, "B"), Span.of(20, 22, "A"), Span.of(21, 25, "C")]
    hull, hulled = flatten(spans, "longest")
    assert hull == (Span.of(0, 14, "ADE"), Span.of(21, 25, "C"))
    assert hulled == Flattening(
        given=6, kept=2, hulled=1, dropped_overlapping=3, dropped_duplicates=1
    )
    first, cut = flatten(spans, "first-fragment")
    assert first == (Span.of(0, 4, "ADE"), drug, Span.of(21, 25, "C"))
    assert cut == Flattening(
        given=6, kept=3, cut_to_first=1, dropped_overlapping=2, dropped_duplicates=1
    )
    whole, dropped = flatten(spans, "contiguous")
    assert whole == (drug, Span.of(21, 25, "C"))
    assert dropped.dropped_discontinuous == 1


def test_ties_go_to_the_earlier_start_then_to_the_label():
    assert longest_first([(1, 3, "A"), (0, 2, "Z"), (0, 2, "B"), (3, 5, "A")]) == [2, 3]


@given(span_lists, span_lists, policies)
def test_counts_merge(left, right, policy):
    one, two = flatten(left, policy)[1], flatten(right, policy)[1]
    summed = (a + b for a, b in zip(astuple(one), astuple(two), strict=True))
    assert one + two == Flattening(*summed)
    assert one + Flattening() == one


def test_an_unknown_policy_is_refused():
    with pytest.raises(FednerError, match="shortest"):
        flatten([], "shortest")
