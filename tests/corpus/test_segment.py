"""Sentence policies: what splits and what does not, and borders that fit the text."""

import tarfile
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.segment import SENTENCE_POLICIES, segment
from fedner.errors import FednerError


def sentences(text, policy="rule"):
    return [text[start:end] for start, end in segment(Document("d", text), policy)]


# A bar stands where the sentence should end.
@pytest.mark.parametrize(
    "marked",
    [
        "It hurt. |She slept.",
        "Dr. Miller vs. Mr. Brown, e.g. here, i.e. there.",
        "He took approx. 20 tablets, cf. Fig. 3 and No. 5.",
        "He said no. |Then he left.",
        "She took 20 mg. of it b.i.d. for a week.",
        "She took 20 mg. |Later she slept.",
        "Given p.o. |She recovered.",
        "The value was 3.5 and p was .05 in 2010. |12 patients left.",
        "John F. Kennedy and J. R. Smith came.",
        "It was hepatitis B. |She was treated.",
        "Grown: E. coli and S. aureus.",
        "He lives in the U.S. |The drug is sold there.",
        "He lives in the U.S. Virgin Islands.",
        "It was severe MR. |Valves failed.",
        "The level was 20 U/L. |HIV was negative.",
        "Well... it hurt... |Then it stopped.",
        "Really?! |yes. it did",
        'He said "It hurts." |She nodded.',
        '"Does it hurt?" he asked.',
        "It was described (see above). |Others agree.",
        "As described.[12] |It was rare.",
        "First part\nsecond part. |Third.",
        "Heading\n\n|Body text",
        "MEDICATIONS\n|Aspirin daily",
        "Medications:\n|Aspirin daily\n|- ibuprofen\n|* codeine\n|1. Morphine\n|2) Heroin",
        "- item that\ngoes on\n|Next line",
        "1. Aspirin was given. |2. It helped.",
        "the pain.|She was well!|Great",
        "See www.Drugs.Com for it.",
        "i took it. |then i slept. |it helped",
        "We saw susp. pneumonia there.",
        "痛い。|はい！|そう",
        "Windows ends.\r\n\r\n|Here",
        "He was given i.v. fluids.\n|and then slept",
    ],
)
def test_the_rules(marked):
    expected = [part.strip() for part in marked.split("|")]
    assert sentences(marked.replace("|", "")) == expected


def test_lines_are_trimmed_and_blank_ones_dropped():
    assert sentences(" one \n\n\t\r\ntwo. three\rfour", "line") == ["one", "two. three", "four"]


def test_as_given_keeps_the_sentences_of_the_file():
    parts = (Segment(0, 4), Segment(4, 5), Segment(5, 9))
    document = Document("d", "one  two ", segments=parts)
    assert segment(document, "as given") == [(0, 3), (5, 8)]


def test_what_cannot_be_is_refused():
    with pytest.raises(FednerError, match='"d": its file marks no sentences'):
        segment(Document("d", "text"), "as given")
    with pytest.raises(FednerError, match='found "page"'):
        segment(Document("d", "text"), "page")


texts = st.text(
    st.one_of(
        st.sampled_from(" \n\r\t.!?…。:\"')]-*12bB"),
        st.sampled_from("abcdrDRvsmg"),
        st.characters(),
    )
)


@pytest.mark.parametrize("policy", ["line", "rule"])
@given(text=texts)
def test_sentences_cover_the_text_in_order(policy, text):
    ranges = segment(Document("d", text), policy)
    covered = [text[start:end] for start, end in ranges]
    assert all(part and part == part.strip() for part in covered)
    assert all(one[1] <= two[0] for one, two in pairwise(ranges))
    outside = "".join(
        text[one:two]
        for one, two in zip(
            [0, *(end for _, end in ranges)],
            [*(start for start, _ in ranges), len(text)],
            strict=True,
        )
    )
    assert not outside.strip()


@given(text=texts)
def test_mentions_have_no_influence(text):
    plain, annotated = Document("d", text), Document("d", text, (Span.of(0, len(text) + 1, "A"),))
    assert segment(plain, "rule") == segment(annotated, "rule")


@pytest.mark.parametrize("piece", [". ", "a. ", "\n", "- \n", ".", "...A", "A. ", "1. "])
def test_odd_texts_take_linear_time(piece):
    began = time.process_time()
    segment(Document("d", piece * 40_000), "rule")
    assert time.process_time() - began < 3.0, "normally about 0.1 s"


def test_every_policy_is_described():
    assert set(SENTENCE_POLICIES) == {"as given", "line", "rule"}
    assert all(SENTENCE_POLICIES.values())


@pytest.mark.data
def test_case_reports_split_where_their_lines_end(data):
    """MACCROBAT has a sentence a line; with blanks for line breaks the rules find them again."""
    found = expected = common = 0
    with tarfile.open(data / "maccrobat2020" / "MACCROBAT2020.tar.xz") as archive:
        for member in archive:
            if not member.name.endswith(".txt"):
                continue
            text = archive.extractfile(member).read().decode()
            lines = {end for _, end in segment(Document("d", text), "line")[:-1]}
            joined = Document("d", text.replace("\n", " "))
            rules = {end for _, end in segment(joined, "rule")[:-1]}
            found, expected = found + len(rules), expected + len(lines)
            common += len(rules & lines)
    assert expected > 4_000
    assert common / found > 0.995
    assert common / expected > 0.995
