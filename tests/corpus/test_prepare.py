"""From documents to sentences: nothing changed in silence, offsets that lead back to the text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.flatten import FLATTEN_POLICIES, Flattening
from fedner.corpus.prepare import Changes, iterate_prepared, prepare
from fedner.corpus.sentence import Entity
from fedner.errors import FednerError

TEXT = "She took aspirin-like pills. Then\nbad head ache came"


@st.composite
def documents(draw):
    text = draw(st.text("ab-. \n5", max_size=40))
    spans = []
    for _ in range(draw(st.integers(0, 5)) if text else 0):
        borders = sorted(draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=4)))
        if len(borders) % 2:
            borders.pop()
        fragments = tuple(zip(borders[::2], borders[1::2], strict=True))
        spans.append(Span(fragments, draw(st.sampled_from("XYZ"))))
    return Document(draw(st.text("d", max_size=2)), text, tuple(spans), patient="p")


@st.composite
def column_documents(draw):
    """Sentences of given tokens with flat entities, as a column file gives them."""
    text, segments, spans, expected = "", [], [], []
    for _ in range(draw(st.integers(0, 4))):
        tokens = draw(
            st.lists(st.sampled_from(["ab", "10mg", "\u00a0", "don't"]), min_size=1, max_size=5)
        )
        start, starts = len(text), []
        for token in tokens:
            starts.append(len(text))
            text += token + " "
        text = text[:-1] + "\n"
        ends = tuple(begin + len(token) for begin, token in zip(starts, tokens, strict=True))
        segments.append(Segment(start, len(text) - 1, tuple(starts), ends))
        borders = sorted(draw(st.sets(st.integers(0, len(tokens)), max_size=4)))
        chosen = [
            Entity(left, right, draw(st.sampled_from("XY"))) for left, right in pairwise(borders)
        ][:: draw(st.integers(1, 2))]
        spans += [Span.of(starts[left], ends[right - 1], label) for left, right, label in chosen]
        expected.append((tuple(tokens), tuple(chosen)))
    return Document("d", text, tuple(spans), tuple(segments)), expected


settings = st.fixed_dictionaries(
    {
        "sentences": st.sampled_from(["auto", "line", "rule"]),
        "flatten": st.sampled_from(sorted(FLATTEN_POLICIES)),
        "max_tokens": st.one_of(st.none(), st.integers(1, 6)),
        "labels": st.one_of(st.none(), st.just(("X", "Q"))),
        "label_map": st.one_of(st.none(), st.just({"Y": None, "Z": "Q"})),
    }
)


@given(st.lists(documents(), max_size=3), settings)
def test_sentences_are_sound_whatever_comes(given_documents, chosen):
    for document, part in zip(
        given_documents, iterate_prepared(given_documents, **chosen), strict=True
    ):
        assert [sentence.index for sentence in part.sentences] == list(range(len(part.sentences)))
        for sentence in part.sentences:
            assert (sentence.document, sentence.patient) == (document.id, "p")
            assert sentence.tokens
            assert len(sentence.tokens) <= (chosen["max_tokens"] or len(sentence.tokens))
            for token, start, end in zip(
                sentence.tokens, sentence.starts, sentence.ends, strict=True
            ):
                assert document.text[start:end] == token
            assert list(sentence.entities) == sorted(sentence.entities)
            assert all(one.end <= two.start for one, two in pairwise(sentence.entities))
            for entity in sentence.entities:
                assert 0 <= entity.start < entity.end <= len(sentence.tokens)
                span = sentence.span(entity)
                # Every entity comes from a mention that it touches.
                assert any(old.start < span.end and span.start < old.end for old in document.spans)
        tokens = [token for sentence in part.sentences for token in sentence.tokens]
        assert "".join(tokens) == "".join(document.text.split())


@given(st.lists(documents(), max_size=3), settings)
def test_every_mention_is_accounted_for(given_documents, chosen):
    prepared = prepare(given_documents, **chosen)
    changes = prepared.changes
    assert changes.mentions == sum(len(document.spans) for document in given_documents)
    assert changes.mentions - changes.dropped_labels == changes.flattening.given
    assert changes.flattening.kept == changes.entities + changes.colliding + changes.unplaced
    assert changes.entities == sum(len(sentence.entities) for sentence in prepared.sentences)
    assert changes.sentences == len(prepared.sentences)
    assert changes.tokens == sum(len(sentence.tokens) for sentence in prepared.sentences)
    assert changes.documents == len(given_documents)
    parts = list(iterate_prepared(given_documents, **chosen))
    assert sum((part.changes for part in parts), Changes()) == changes
    assert tuple(sentence for part in parts for sentence in part.sentences) == prepared.sentences


@given(column_documents())
def test_flat_mentions_on_given_tokens_come_out_as_they_went_in(drawn):
    document, expected = drawn
    prepared = prepare([document])
    assert [(sentence.tokens, sentence.entities) for sentence in prepared.sentences] == expected
    assert prepared.changes.rows() == []
    spans = [
        sentence.span(entity) for sentence in prepared.sentences for entity in sentence.entities
    ]
    assert tuple(spans) == document.spans


@given(column_documents(), st.sampled_from(["line", "rule"]))
def test_given_tokens_are_kept_under_every_sentence_policy(drawn, policy):
    document, expected = drawn
    prepared = prepare([document], sentences=policy)
    tokens = [token for sentence in prepared.sentences for token in sentence.tokens]
    kept = [token for words, _ in expected for token in words]
    if document.text.strip():
        assert tokens == kept


def test_the_steps_written_out():
    spans = (
        Span.of(9, 14, "Drug"),  # "aspir" of "aspirin"
        Span.of(14, 21, "Other"),  # "in-like", which then shares the token "aspirin"
        Span.of(29, 42, "ADE"),  # "Then\nbad head" crosses the line break
        Span.of(8, 9, "Drug"),  # a blank
        Span(((34, 37), (43, 46)), "ADE"),  # "bad ... ache"
    )
    document = Document("d", TEXT, spans, patient="p")
    prepared = prepare([document])
    first, second = prepared.sentences
    assert first.tokens == ("She", "took", "aspirin", "-", "like", "pills", ".", "Then")
    assert first.entities == (Entity(2, 5, "Other"),)
    assert second.tokens == ("bad", "head", "ache", "came")
    assert second.entities == (Entity(0, 2, "ADE"),)
    assert (second.index, second.document, second.patient) == (1, "d", "p")
    changes = prepared.changes
    assert changes.flattening == Flattening(given=5, kept=4, dropped_overlapping=1)
    assert (changes.snapped, changes.crossing, changes.colliding, changes.unplaced) == (2, 1, 1, 1)
    assert dict(changes.rows()) == {
        "overlapping mentions dropped in favour of a longer one": 1,
        "mentions moved to token borders": 2,
        "mentions across a sentence border cut to their larger part": 1,
        "mentions dropped for sharing a token with a longer one": 1,
        "mentions dropped for touching no token": 1,
    }
    assert changes.counts()["entities"] == 2
    assert changes.counts()["renamed"] == 0


def test_of_equal_parts_the_first_is_kept():
    prepared = prepare([Document("d", "aa\nbb", (Span.of(0, 5, "X"),))])
    assert [sentence.entities for sentence in prepared.sentences] == [(Entity(0, 1, "X"),), ()]


def test_a_mention_over_three_sentences_keeps_its_largest_part():
    prepared = prepare([Document("d", "x a\nbbb bb\nc y", (Span.of(2, 12, "X"),))])
    assert [sentence.entities for sentence in prepared.sentences] == [(), (Entity(0, 2, "X"),), ()]


def test_labels_are_renamed_then_chosen():
    spans = (Span.of(0, 1, "a"), Span.of(2, 3, "b"), Span.of(4, 5, "c"), Span.of(6, 7, "d"))
    document = Document("d", "w x y z", spans)
    prepared = prepare([document], label_map={"a": "ADE", "b": None}, labels=("ADE", "c"))
    assert prepared.sentences[0].entities == (Entity(0, 1, "ADE"), Entity(2, 3, "c"))
    assert (prepared.changes.renamed, prepared.changes.dropped_labels) == (1, 2)


def test_auto_takes_the_sentences_of_the_file_or_else_lines():
    text = "one two\nthree"
    assert len(prepare([Document("d", text)]).sentences) == 2
    whole = Document("d", text, segments=(Segment(0, len(text)),))
    assert [s.tokens for s in prepare([whole]).sentences] == [("one", "two", "three")]
    assert len(prepare([whole], sentences="line").sentences) == 2
    with pytest.raises(FednerError, match="marks no sentences"):
        prepare([Document("d", text)], sentences="as given")


def test_long_sentences_are_split_after_punctuation():
    document = Document("d", "a b c, d e f g h i j k", (Span.of(15, 19, "X"),))
    prepared = prepare([document], max_tokens=5)
    assert [sentence.tokens for sentence in prepared.sentences] == [
        ("a", "b", "c", ","),
        ("d", "e", "f", "g", "h"),
        ("i", "j", "k"),
    ]
    assert prepared.changes.split_sentences == 1
    assert prepared.changes.crossing == 1
    with pytest.raises(FednerError, match="found 0"):
        prepare([document], max_tokens=0)


def test_no_documents_no_sentences():
    assert prepare([]).sentences == ()
    assert prepare([Document("d", " \n ")]).sentences == ()
