"""The tokeniser: nothing lost, nothing changed, and borders where annotators put them."""

import lzma
import tarfile
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedner.corpus.tokenise import tokenise


def words(text):
    return [text[start:end] for start, end in tokenise(text)]


# Written with blanks where the tokeniser should split.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10mg", "10 mg"),
        ("20mg/day", "20 mg / day"),
        ("0.5 and 1,500", "0.5 and 1,500"),
        ("1500 mg/m2", "1500 mg / m2"),
        ("2.5mg/kg", "2.5 mg / kg"),
        ("a .5 dose", "a .5 dose"),
        ("5%", "5 %"),
        ("b.i.d. p.o. i.v", "b.i.d. p.o. i.v"),
        ("e.g. this, i.e. that", "e.g. this , i.e. that"),
        ("azithromycin-induced", "azithromycin - induced"),
        ("5-fluorouracil (5-FU)", "5 - fluorouracil ( 5 - FU )"),
        ("nausea/vomiting", "nausea / vomiting"),
        ("CYP3A4 B12 5HT 2nd T4", "CYP3A4 B12 5HT 2nd T4"),
        ("don't can't patient's I'm we’ve", "do n't ca n't patient 's I 'm we ’ve"),
        ("patients' O'Brien", "patients ' O'Brien"),
        ("see https://a.b/c?d=1).", "see https://a.b/c?d=1 ) ."),
        ("www.drugs.com, x", "www.drugs.com , x"),
        ("me@ward.org.", "me@ward.org ."),
        ("@user_1: #headache!!!", "@user_1 : # headache !!!"),
        ("bad :( good :-) ;P", "bad :( good :-) ;P"),
        ("note:(see) n=3", "note : ( see ) n = 3"),
        ("👩🏽‍⚕️👍🏿🇩🇪 ok", "👩🏽‍⚕️ 👍🏿 🇩🇪 ok"),
        ("wait... what… no", "wait ... what … no"),
        ("12/03/2019 2019-03-12 10:30 pm", "12/03/2019 2019-03-12 10:30 pm"),
        ("BP 120/80", "BP 120 / 80"),
        ("38°C, 38.5 ° high", "38 °C , 38.5 ° high"),
        ("“quoted” – well—known", "“ quoted ” – well — known"),
        ("Dr. Who vs. them.", "Dr. Who vs. them ."),
        ("tom &amp; co", "tom &amp; co"),
        ("snake_case __ *** --", "snake _ case __ *** --"),
        ("naïve café µg 5µg", "naïve café µg 5 µg"),
        ("cafe\u0301s here", "cafe\u0301s here"),
        ("mL/min/1.73m2", "mL / min / 1.73 m2"),
        (">=3 +/- 2 <5", ">= 3 +/- 2 < 5"),
        ("([x])", "( [ x ] )"),
        ("x2y 24-year-old", "x2y 24 - year - old"),
        ("surgery.1.5 cm", "surgery . 1.5 cm"),
    ],
)
def test_what_is_split_and_what_is_kept(text, expected):
    assert words(text) == expected.split(" ")


SIGNS = ".,;:!?'’\"-–—/\\()[]{}<>@#%&*+=_^°µ0123456789\n\t\u2005\u00a0\u200d\ufe0f👍🇩"
texts = st.text(st.one_of(st.sampled_from(SIGNS), st.sampled_from("abnstdmgDOPI"), st.characters()))


@given(texts)
@example("")
@example(" \n")
@example("\x1c\x85\u2028\u200b\ufeff\u20e3#\u20e3")
def test_every_character_but_white_space_is_in_exactly_one_token(text):
    spans = tokenise(text)
    covered = [position for start, end in spans for position in range(start, end)]
    assert covered == [index for index, character in enumerate(text) if not character.isspace()]
    assert all(start < end for start, end in spans)


@given(texts, st.data())
def test_a_range_is_tokenised_as_if_it_stood_alone(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    alone = [(left + start, right + start) for left, right in tokenise(text[start:end])]
    assert tokenise(text, start, end) == alone


@pytest.mark.parametrize(
    "text",
    ["a-" * 50_000, "a.b" * 30_000, "-" * 100_000, "1." * 50_000, "http://" + ")" * 100_000,
     "www." * 20_000, "n'" * 50_000, "x" * 100_000, "^_" * 50_000, "@" * 100_000,
     "👍\u200d" * 30_000, "e\u0301" * 50_000, ":" * 100_000, "9/" * 50_000],
    ids=lambda text: repr(text[:6]),
)  # fmt: skip
def test_odd_texts_take_linear_time(text):
    began = time.process_time()
    tokenise(text)
    assert time.process_time() - began < 2.0, "a hundred thousand characters normally take 0.1 s"


def test_a_million_characters_a_second():
    text = (
        "The patient (aged 54) was given 20mg/day of azithromycin-like drugs, b.i.d., twice. "
        * 6000
    )
    best = min(_seconds(text) for _ in range(3))
    assert len(text) / best > 1e6


def _seconds(text):
    began = time.process_time()
    tokenise(text)
    return time.process_time() - began


def brat_documents(path, folder):
    """Pairs of text and character ranges, straight from the archive."""
    with tarfile.open(path) as archive:
        files = {
            member.name: archive.extractfile(member).read().decode()
            for member in archive
            if member.isfile() and folder in member.name
        }
    for name in sorted(files):
        if name.endswith(".txt"):
            rows = files.get(name[:-3] + "ann", "").split("\n")
            ranges = [row.split("\t")[1].split(" ", 1)[1] for row in rows if row.startswith("T")]
            yield (
                files[name],
                [tuple(map(int, piece.split())) for found in ranges for piece in found.split(";")],
            )


def ade_documents(path):
    """Sentences with the first occurrence of each mention: enough to look at its borders."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            _, sentence, effect, _, _, drug, _, _ = line.rstrip("\n").split("|")
            mentions = ((sentence.index(mention), len(mention)) for mention in (effect, drug))
            yield sentence, [(start, start + length) for start, length in mentions]


@pytest.mark.data
@pytest.mark.parametrize(
    ("corpus", "least"), [("twimed", 99.8), ("maccrobat", 99.9), ("ade", 99.9)]
)
def test_borders_of_mentions_fall_between_tokens(data, corpus, least):
    documents = {
        "twimed": lambda: brat_documents(data / "twimed" / "twimed.tar.xz", "gold/pubmed"),
        "maccrobat": lambda: brat_documents(
            data / "maccrobat2020" / "MACCROBAT2020.tar.xz", "MACCROBAT"
        ),
        "ade": lambda: ade_documents(data / "ade-corpus-v2" / "DRUG-AE.rel.xz"),
    }[corpus]()
    borders = aligned = 0
    for text, ranges in documents:
        spans = tokenise(text)
        starts, ends = {start for start, _ in spans}, {end for _, end in spans}
        borders += 2 * len(ranges)
        aligned += sum((start in starts) + (end in ends) for start, end in ranges)
    assert borders > 4_000
    assert 100 * aligned / borders >= least
