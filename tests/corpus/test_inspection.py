"""Inspection: overlap by fragments against a slow version, and the real corpora's counts."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.document import Corpus, Document, Segment, Span
from fedner.corpus.inspection import inspect
from fedner.corpus.tally import num_overlapping
from fedner.corpus.writers.jsonl import write_jsonl

pieces = st.tuples(st.integers(0, 15), st.integers(1, 5)).map(lambda p: (p[0], p[0] + p[1]))
mentions = st.lists(st.lists(pieces, min_size=1, max_size=3).map(tuple), max_size=6)


@given(mentions)
def test_overlap_is_sharing_a_character_with_another_mention(declared: list) -> None:
    covered = [
        {char for start, end in fragments for char in range(start, end)} for fragments in declared
    ]
    expected = sum(
        any(one & other for j, other in enumerate(covered) if j != i)
        for i, one in enumerate(covered)
    )
    assert num_overlapping(declared) == expected


COLUMNS = "a\tB-X\nb\tI-X\n\nc\tO\n\nd\tB-Y\n"
TEXT = "Pain in knees and hips.\nNo rash."


@pytest.mark.parametrize("name", ["file.tsv", "docs.jsonl"])
def test_ready_documents_count_as_prepared_ones_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(COLUMNS * 3)
    if name.endswith("jsonl"):
        spans = (Span(((0, 7), (18, 22)), "ADE"), Span.of(0, 13, "ADE"), Span.of(3, 9, "ADE"))
        tokens = (Segment(0, 13, (0, 5, 8), (4, 7, 13)), Segment(14, 32, (14, 18), (17, 22)))
        flat = Document("b", TEXT, (Span.of(0, 4, "ADE"), Span.of(18, 22, "ADE")), tokens)
        crossing = Document("c", TEXT, (Span.of(8, 17, "ADE"),), tokens)
        documents = (Document("a", TEXT, spans), flat, crossing, Document("d", TEXT, spans, tokens))
        write_jsonl(path, Corpus("test", ("ADE",), documents))
    slow = inspect(path, num_examples=10**6).as_dict()
    fast = inspect(path, num_examples=0).as_dict()
    assert fast == slow


def unpacked(archive: Path, into: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return into


@pytest.mark.data
def test_ade(data: Path) -> None:
    found = inspect(data / "ade-corpus-v2").as_dict()
    assert found["format"] == "ade"
    assert (found["documents"], found["sentences"]) == (1_644, 4_271)
    assert found["mentions"] == {"ADE": 5_776, "Drug": 5_063, "Dosage": 230}
    assert found["problems"] == []


@pytest.mark.data
def test_twimed(data: Path, tmp_path: Path) -> None:
    root = unpacked(data / "twimed" / "twimed.tar.xz", tmp_path)
    found = inspect(root / "gold" / "pubmed").as_dict()
    assert (found["documents"], found["sentences"]) == (1_000, 1_000)
    assert found["mentions"] == {"Drug": 1_210, "Disease": 697, "Symptom": 475}
    assert (found["discontinuous"], found["overlapping"]) == (19, 109)
    tweets = inspect(root / "gold" / "twitter").as_dict()
    assert tweets["problems_by_kind"] == {"missing twin file": 1_000}
    assert sum(tweets["mentions"].values()) > 0


@pytest.mark.data
def test_maccrobat(data: Path, tmp_path: Path) -> None:
    root = unpacked(data / "maccrobat2020" / "MACCROBAT2020.tar.xz", tmp_path)
    found = inspect(root).as_dict()
    assert (found["documents"], found["sentences"]) == (200, 4_541)
    assert sum(found["mentions"].values()) == 25_189
    assert len(found["mentions"]) == 41
    assert (found["discontinuous"], found["overlapping"]) == (44, 737)
    assert found["problems"] == []


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "sentences", "mentions"),
    [
        ("psytar/all.full.txt.xz", 5_591, 5_043),
        ("psytar/all.train.txt.xz", 3_850, None),
        ("psytar/all.dev.txt.xz", 550, None),
        ("psytar/all.test.txt.xz", 1_191, None),
        ("wnut17/wnut17train.conll.xz", 3_394, 1_975),
        ("wnut17/emerging.dev.conll.xz", 1_009, 836),
        ("wnut17/emerging.test.annotated.xz", 1_287, 1_079),
        ("btc/a.conll.xz", 1_000, 521),
        ("btc/b.conll.xz", 2_000, 1_610),
        ("btc/e.conll.xz", 200, 325),
        ("btc/f.conll.xz", 2_000, 4_376),
        ("btc/g.conll.xz", 2_138, 4_685),
        ("btc/h.conll.xz", 2_001, 3_368),
        ("sec-fin/FIN5.txt.xz", 1_169, 1_168),
        ("sec-fin/FIN3.txt.xz", 306, 318),
    ],
)
def test_column_files(data: Path, file: str, sentences: int, mentions: int | None) -> None:
    found = inspect(data / file).as_dict()
    assert found["format"] == "columns"
    assert found["sentences"] == sentences
    if mentions is not None:
        assert sum(found["mentions"].values()) == mentions


MTL = {
    "BC5CDR-IOB": ((4_560, 9_385), (4_581, 9_593), (4_797, 9_809)),
    "NCBI-disease-IOB": ((5_424, 5_134), (923, 787), (940, 960)),
    "BC2GM-IOB": ((12_574, 15_197), (2_519, 3_061), (5_038, 6_325)),
    "AnatEM-IOB": ((5_861, 6_946), (2_118, 2_139), (3_830, 4_616)),
    "BioNLP09-IOB": ((7_462, 9_296), (1_448, 2_078), (2_446, 3_589)),
    "BioNLP11EPI-IOB": ((5_698, 7_586), (1_955, 2_495), (4_122, 5_730)),
    "BioNLP11ID-IOB": ((2_496, 5_674), (721, 1_598), (1_961, 3_810)),
    "BioNLP13CG-IOB": ((3_033, 10_826), (1_003, 3_616), (1_906, 6_881)),
    "BioNLP13GE-IOB": ((2_449, 3_566), (2_737, 4_132), (3_391, 4_359)),
    "BioNLP13PC-IOB": ((2_499, 7_853), (857, 2_734), (1_695, 5_306)),
    "CRAFT-IOB": ((10_875, 29_026), (3_730, 9_727), (7_425, 18_881)),
    "Ex-PTM-IOB": ((1_377, 1_787), (437, 603), (1_839, 2_308)),
    "linnaeus-IOB": ((11_935, 2_119), (4_078, 711), (7_142, 1_433)),
    "JNLPBA": (None, (1_939, 4_551), (4_260, 8_662)),
}


@pytest.mark.data
@pytest.mark.parametrize("name", MTL)
def test_mtl_bio(data: Path, tmp_path: Path, name: str) -> None:
    root = unpacked(data / "mtl-bio" / f"{name}.tar.xz", tmp_path)
    for part, expected in zip(("train", "devel", "test"), MTL[name], strict=True):
        if expected is None:
            continue
        found = inspect(root / name / f"{part}.tsv").as_dict()
        assert (found["sentences"], sum(found["mentions"].values())) == expected
