"""Keyed assignment: one unit more or less, or another order of the file, moves no other unit."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.assignment import (
    identity_of,
    is_numbered,
    keyed_number,
    keyed_sample,
    keyed_split,
)
from fedner.corpus.groups import Unit, groups_of
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.privacy.sampling import sliced, units_of

KEY = bytes(range(32))
WORDS = st.lists(st.sampled_from(["a", "b", "fever", "\u00e9", "\ud800"]), min_size=1, max_size=3)
# Documents: the words of their sentences, few enough that equal ones occur.
CORPORA = st.lists(st.lists(WORDS, min_size=1, max_size=3), min_size=2, max_size=12)


def corpus(documents: Sequence[Sequence[Sequence[str]]], names: Sequence[str]) -> list[Sentence]:
    return [
        replace(Sentence.of(tuple(words)), document=name, index=index, patient=f"p {name}")
        for name, sentences in zip(names, documents, strict=True)
        for index, words in enumerate(sentences)
    ]


def positional(documents: Sequence[Sequence[Sequence[str]]]) -> list[Sentence]:
    """As a reader of columns gives them: ids are lines of the file."""
    return corpus(documents, [f"notes.tsv#{number + 1}" for number in range(len(documents))])


def fates(sentences: Sequence[Sentence], by: Unit) -> list[tuple[bool, bool, int]]:
    """Say of each unit, in the order of the file: tested, kept, and its slice."""
    try:
        tested = set(keyed_split(sentences, by=by, test=0.5, key=KEY).test)
    except FednerError as error:  # few units: all of them on one side is no move
        tested = set() if "test side" in error.message else set(range(len(sentences)))
    try:
        kept = set(keyed_sample(sentences, 0.5, by, KEY))
    except FednerError:
        kept = set()
    every = units_of(sentences, by)
    slices = sliced(sentences, every, 3, "thirds", KEY)
    place = {members: number for number, part in enumerate(slices) for members in part.members}
    found = []
    for group in groups_of(sentences, by):
        assert {at in tested for at in group} in ({True}, {False}), "no unit on two sides"
        found.append((group[0] in tested, group[0] in kept, place[group]))
    return found


@pytest.mark.parametrize("by", ["sentence", "document", "patient"])
@pytest.mark.parametrize("are_named", [True, False])
@given(documents=CORPORA, data=st.data())
def test_one_unit_less_and_another_order_move_nobody(
    by: Unit, are_named: bool, documents: list[list[list[str]]], data: st.DataObject
) -> None:
    def read(order: Sequence[int]) -> list[Sentence]:
        """Read the file again, with its documents in this order."""
        found = [documents[at] for at in order]
        named = are_named or by == "patient"  # a patient has a name, or is no unit
        return corpus(found, [f"report {at}" for at in order]) if named else positional(found)

    order = list(range(len(documents)))
    before = fates(read(order), by)
    gone = data.draw(st.sampled_from(order))
    left = [at for at in order if at != gone]
    Random(data.draw(st.integers(0, 99))).shuffle(left)
    after = fates(read(left), by)
    size = {at: len(documents[at]) if by == "sentence" else 1 for at in order}
    first = {at: sum(size[each] for each in order[:at]) for at in order}
    expected = [fate for at in left for fate in before[first[at] : first[at] + size[at]]]
    assert after == expected


@given(documents=CORPORA, data=st.data())
def test_a_sentence_less_in_a_named_document_moves_no_other_document(
    documents: list[list[list[str]]], data: st.DataObject
) -> None:
    """The unit may be finer than what the split goes by: then names alone stay put."""
    sentences = corpus(documents, [f"report {at}" for at in range(len(documents))])
    gone = data.draw(st.integers(0, len(sentences) - 1))
    fewer = [each for at, each in enumerate(sentences) if at != gone]

    def by_name(found: list[Sentence]) -> dict[str, tuple[bool, bool, int]]:
        names = [found[group[0]].document for group in groups_of(found, "document")]
        return dict(zip(names, fates(found, "document"), strict=True))

    before, after = by_name(sentences), by_name(fewer)
    assert after.items() <= before.items()


@pytest.mark.parametrize("share", [0.1, 0.2, 0.75])
@pytest.mark.parametrize(
    "choose",
    [
        lambda all_, share: keyed_split(all_, by="sentence", test=share, key=KEY).test,
        lambda all_, share: keyed_sample(all_, share, "sentence", KEY),
    ],
)
def test_sizes_are_near_the_asked_share(
    share: float, choose: Callable[[list[Sentence], float], tuple[int, ...]]
) -> None:
    sentences = [Sentence.of((f"word{number}",)) for number in range(4000)]
    found = choose(sentences, share)
    deviation = (share * (1 - share) * 4000) ** 0.5
    assert abs(len(found) - share * 4000) < 4 * deviation
    assert set(choose(sentences, share / 2)) < set(found), "a smaller share is part of a larger"
    sizes = Counter(keyed_number(KEY, "tenths", each.tokens[0]) % 10 for each in sentences)
    assert all(abs(size - 400) < 4 * 19 for size in sizes.values())


def test_the_key_decides_and_purposes_are_independent() -> None:
    sentences = [Sentence.of((f"word{number}",)) for number in range(400)]

    def tested(key: bytes) -> set[int]:
        return set(keyed_split(sentences, by="sentence", test=0.5, key=key).test)

    other = bytes(reversed(KEY))
    assert 60 < len(tested(KEY) & tested(other)) < 140, "another key, another choice"
    kept = set(keyed_sample(sentences, 0.5, "sentence", KEY))
    assert 60 < len(tested(KEY) & kept) < 140, "what is tested on says nothing about what is kept"


def test_equal_sentences_share_their_side_and_numbered_documents_are_their_words() -> None:
    pair = [Sentence.of(("the", "same")), Sentence.of(("the", "same"))]
    assert identity_of(pair, (0,), "sentence") == identity_of(pair, (1,), "sentence")
    one, other = (positional([[["x"], ["y"]]] * 2)[at : at + 2] for at in (0, 2))
    assert one[0].document != other[0].document
    assert identity_of(one, (0, 1), "document") == identity_of(other, (0, 1), "document")
    split_otherwise = positional([[["x", "y"]]])
    assert identity_of(split_otherwise, (0,), "document") != identity_of(one, (0, 1), "document")
    named = corpus([[["x"]]], ["report 7"])
    assert identity_of(named, (0,), "document") == "report 7"


def test_ids_that_readers_make_from_places_are_no_names() -> None:
    assert is_numbered("ward/notes.tsv#17")
    assert is_numbered("")
    assert not is_numbered("19167")  # a PubMed id
    assert not is_numbered("case #17 revised")


def test_an_empty_side_and_a_short_key_are_refused() -> None:
    [one] = [Sentence.of(("alone",))]
    with pytest.raises(FednerError, match="none of 1 sentences fell on the"):
        keyed_split([one], by="sentence", test=0.5, key=KEY)
    with pytest.raises(FednerError, match="expected 32"):
        keyed_sample([one], 0.5, "sentence", KEY[:8])
