"""Tag schemes against the conlleval rules, seqeval and enumeration."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES, Entities

from fedner.corpus import schemes
from fedner.corpus.schemes import SCHEMES, SchemeEvidence
from fedner.corpus.sentence import Entity
from fedner.errors import FednerError

LABELS = ("ADE", "Drug", "Regulon-operon")


@st.composite
def flat_annotations(draw):
    """A sentence length and flat entities over it, adjacent ones included."""
    length = draw(st.integers(0, 12))
    position, entities = 0, []
    while position < length:
        start = position + draw(st.integers(0, 2))
        end = start + draw(st.integers(1, 4))
        if end > length:
            break
        entities.append(Entity(start, end, draw(st.sampled_from(LABELS))))
        position = end
    return length, entities


def random_tags(prefixes, labels=LABELS[:2], extra=()):
    tags = ["O", *extra, *(f"{prefix}-{label}" for prefix in prefixes for label in labels)]
    return st.lists(st.sampled_from(tags), max_size=10)


def touches(entities):
    return any(a.end == b.start and a.label == b.label for a, b in pairwise(entities))


def conlleval_entities(tags):
    """The rules of conlleval (startOfChunk, endOfChunk), one condition a line, with S for "[ ]"."""
    entities, begin = [], 0
    parts = [tuple((tag + "-").split("-")[:2]) for tag in tags]
    before, before_type = "O", ""
    for index, (tag, kind) in enumerate([*parts, ("O", "")]):
        ends = (
            (before, tag)
            in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("B", "S"), ("I", "S")}
            or before in ("E", "S")
            or (before != "O" and before_type != kind)
        )
        starts = (
            tag in ("B", "S")
            or (before, tag)
            in {("E", "E"), ("E", "I"), ("S", "E"), ("S", "I"), ("O", "E"), ("O", "I")}
            or (tag != "O" and before_type != kind)
        )
        if ends:
            entities.append(Entity(begin, index, before_type))
        if starts:
            begin = index
        before, before_type = tag, kind
    return entities


@pytest.mark.parametrize("scheme", SCHEMES)
@given(annotation=flat_annotations())
def test_what_is_encoded_comes_back_and_is_legal(scheme, annotation):
    length, entities = annotation
    if scheme == "IO" and touches(entities):
        with pytest.raises(FednerError, match="adjacent"):
            schemes.encode(entities, length, scheme)
        return
    tags = schemes.encode(entities, length, scheme)
    assert len(tags) == length
    assert schemes.decode(tags, scheme) == entities
    assert schemes.validate(tags, scheme) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_transitions_allow_exactly_what_validate_accepts(scheme, data):
    names = schemes.tag_set(LABELS[:2], scheme)
    table = schemes.allowed_transitions(names, scheme)
    path = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=6))
    allowed = (
        table.start[path[0]]
        and table.end[path[-1]]
        and all(table.step[i][j] for i, j in pairwise(path))
    )
    assert allowed == (not schemes.validate([names[i] for i in path], scheme))


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_a_legal_sequence_is_the_encoding_of_its_entities(scheme, data):
    names = schemes.tag_set(LABELS[:2], scheme)
    tags = data.draw(st.lists(st.sampled_from(names), max_size=6))
    if not schemes.validate(tags, scheme):
        assert schemes.encode(schemes.decode(tags, scheme), len(tags), scheme) == tags


@given(tags=random_tags("BIES"))
def test_illegal_sequences_are_read_as_conlleval_and_seqeval_read_them(tags):
    expected = conlleval_entities(tags)
    assert schemes.decode(tags, "BIOES") == expected
    assert [Entity(s, e + 1, label) for label, s, e in get_entities(tags)] == expected
    bilou = [tag.translate({ord("E"): "L", ord("S"): "U"})[0] + tag[1:] for tag in tags]
    assert schemes.decode(bilou, "BILOU") == expected


@given(tags=random_tags("BI"))
def test_every_two_prefix_scheme_reads_alike(tags):
    expected = conlleval_entities(tags)
    assert [schemes.decode(tags, name) for name in ("IO", "IOB1", "BIO", "iob2")] == [expected] * 4


@pytest.mark.parametrize(("scheme", "theirs"), [("BIO", IOB2), ("BIOES", IOBES)])
@given(annotation=flat_annotations())
def test_seqeval_strict_reads_what_we_write(scheme, theirs, annotation):
    length, entities = annotation
    tags = schemes.encode(entities, length, scheme)
    found = Entities([tags], theirs).entities[0] if tags else []
    assert [Entity(e.start, e.end, e.tag) for e in found] == entities


@given(tags=random_tags("BIELSU", extra=("X", "B-", "-", "", "o", "BI-ADE")))
def test_decoding_takes_anything_and_mends_it(tags):
    before = list(tags)
    entities = schemes.decode(tags, "BIO")
    assert tags == before
    assert entities == sorted(entities)
    for scheme in SCHEMES[1:]:
        fixed = schemes.convert(tags, "BIO", scheme)
        assert schemes.decode(fixed, scheme) == entities
        assert schemes.validate(fixed, scheme) == []


def test_each_scheme_written_out():
    entities = [Entity(0, 2, "A"), Entity(2, 3, "A"), Entity(4, 7, "B")]
    written = {
        "IOB1": "I-A I-A B-A O I-B I-B I-B",
        "BIO": "B-A I-A B-A O B-B I-B I-B",
        "BIOES": "B-A E-A S-A O B-B I-B E-B",
        "BILOU": "B-A L-A U-A O B-B I-B L-B",
    }
    for scheme, tags in written.items():
        assert schemes.encode(entities, 7, scheme) == tags.split()


@pytest.mark.parametrize(
    ("entities", "why"),
    [
        ([Entity(0, 4, "A")], "within the 3 tokens"),
        ([Entity(-1, 1, "A")], "within the 3 tokens"),
        ([Entity(1, 1, "A")], "non-empty range"),
        ([Entity(0, 1, "")], "empty label"),
        ([Entity(1, 3, "A"), Entity(0, 2, "B")], "overlap"),
        ([Entity(0, 1, "A"), Entity(0, 1, "A")], "overlap"),
    ],
)
def test_what_no_scheme_carries_is_refused(entities, why):
    for scheme in SCHEMES:
        with pytest.raises(FednerError, match=why):
            schemes.encode(entities, 3, scheme)


def test_validate_says_where_and_why():
    assert schemes.validate(["O", "I-A", "B-A", "I-B"], "BIO") == [
        (1, "I-A", "I continues an entity, but none of type A is open before it"),
        (3, "I-B", "I continues an entity, but none of type B is open before it"),
    ]
    assert [fault[0] for fault in schemes.validate(["B-A", "O", "S-A", "E-A", "I-A"], "BIOES")] == [
        0,
        3,
        4,
    ]
    ((index, tag, why),) = schemes.validate(["O", "E-A"], "BIO")
    assert (index, tag) == (1, "E-A")
    assert "no tag of BIO" in why
    assert [fault[0] for fault in schemes.validate(["B-A", "B-A", "B-B"], "IOB1")] == [0, 2]


def test_tag_set_does_not_depend_on_the_order_of_the_labels():
    assert schemes.tag_set(["b", "a", "b"], "BIOES") == (
        "O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b",
    )  # fmt: skip
    assert schemes.tag_set([], "BIO") == ("O",)


def test_transitions_of_bio_written_out():
    table = schemes.allowed_transitions(("O", "B-x", "I-x"), "BIO")
    assert table.start == (True, True, False)
    assert table.end == (True, True, True)
    assert table.step == ((True, True, False), (True, True, True), (True, True, True))
    with pytest.raises(FednerError, match='found "E-x"'):
        schemes.allowed_transitions(("O", "E-x"), "BIO")


def test_names_and_aliases():
    assert [schemes.canonical(name) for name in ("IOB2", "bio", "IOBES", "BILUO", "io")] == [
        "BIO", "BIO", "BIOES", "BILOU", "IO",
    ]  # fmt: skip
    with pytest.raises(FednerError, match="BMEWO") as error:
        schemes.canonical("BMEWO")
    assert "BILOU" in error.value.hint
    with pytest.raises(FednerError) as error:
        schemes.canonical("IOB")
    assert "IOB1" in error.value.hint
    with pytest.raises(FednerError):
        schemes.decode(["O"], "nonsense")


@pytest.mark.parametrize(
    ("sentences", "scheme", "reason"),
    [
        ([], "BIO", "no entity tags"),
        (["O O"], "BIO", "no entity tags"),
        (["I-A O I-B I-B", "O I-A"], "IOB1", "I- tags only"),
        (["I-A B-A O", "I-B I-A"], "IOB1", "3 entities"),
        (["B-A I-A B-A", "B-B"], "BIO", "begin with B-"),
        (["B-A E-A O", "S-B"], "BIOES", "2 tags"),
        (["B-A L-A O", "U-B"], "BILOU", "2 tags"),
        (["B-A", "B-A", "I-A O"], "BIO", "mixed: 2"),
        (["B-A", "I-A O I-B"], "IOB1", "mixed: 1"),
    ],
)
def test_detection(sentences, scheme, reason):
    evidence = SchemeEvidence()
    for sentence in sentences:
        evidence.add(sentence.split())
    found, why = evidence.decide()
    assert found == scheme
    assert reason in why


@pytest.mark.parametrize("scheme", SCHEMES[1:])
@given(annotations=st.lists(flat_annotations(), min_size=1, max_size=5))
def test_detection_never_picks_a_scheme_that_rejects_the_file(scheme, annotations):
    evidence, sentences = SchemeEvidence(), []
    for length, entities in annotations:
        sentences.append(schemes.encode(entities, length, scheme))
        evidence.add(sentences[-1])
    found, _ = evidence.decide()
    if scheme in ("BIOES", "BILOU"):  # with B- and I- alone such a file cannot exist
        assert found == scheme or not any(entities for _, entities in annotations)
    assert all(schemes.validate(tags, found) == [] for tags in sentences)


def test_evidence_stays_bounded_on_a_column_of_words(monkeypatch):
    monkeypatch.setattr(schemes, "_MAX_DISTINCT_PAIRS", 50)
    evidence = SchemeEvidence()
    for number in range(1000):
        evidence.add([f"word{number}", "O"])
    assert len(evidence.pairs) < 60


def test_decoding_is_fast_enough_for_the_column_reader():
    quiet = ["O"] * 25
    busy = (["O"] * 5 + ["B-Drug", "I-Drug", "O"] + ["B-ADE"]) * 3
    began = time.process_time()
    for _ in range(2_000):
        schemes.decode(quiet, "BIO")
        schemes.decode(busy, "BIO")
    seconds = time.process_time() - began
    assert seconds < 1.0, f"104,000 tags took {seconds:.2f} s; about 0.02 s is normal"
