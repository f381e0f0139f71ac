"""Documents and patients keep their identity through splitting, writing and reading again."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedner.corpus import reading
from fedner.corpus.document import Corpus, Document, Span
from fedner.corpus.excerpt import as_documents
from fedner.corpus.groups import Grouping
from fedner.corpus.prepare import prepare
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.splits import leakage, split
from fedner.corpus.writers import WRITERS, WriteOptions, brat, xmi
from fedner.errors import FednerError

words = st.sampled_from(["Aspirin", "helped", "no", "rash.", "(twice)", "über", "a-b"])
lines = st.lists(words, min_size=1, max_size=4).map(" ".join)
texts = st.lists(lines, min_size=1, max_size=4).map("\n".join)
names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)
patients = st.none() | st.sampled_from(["p1", "p 2", "p/3", "p=4%41", "é"])

WITHOUT_PATIENTS = {"brat": brat, "xmi": xmi}
# Annotation tools keep what they do not know under its own key.
READ_WITH = dict.fromkeys(
    ("label-studio", "doccano"), ReadOptions(own={"patient_column": "patient"})
)


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    """Draw at least two documents of several sentences."""
    documents = []
    for name in draw(st.lists(names, min_size=2, max_size=5, unique_by=str.casefold)):
        text = draw(texts)
        end = len(text.split()[0])
        documents.append(
            Document(name, text, (Span.of(0, end, "X"),), patient=draw(patients), source="n.txt")
        )
    return Corpus("notes", ("X",), tuple(documents))


def owners(documents: tuple[Document, ...]) -> dict[str, str | None]:
    return {document.id: document.patient for document in documents}


@pytest.mark.parametrize("to", WRITERS)
@given(corpora(), st.sampled_from(["sentence", "document"]), st.integers(0, 99))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_identity_survives_split_write_read(
    tmp_path_factory: pytest.TempPathFactory, to: str, corpus: Corpus, by: str, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("out")
    sentences = prepare(corpus).sentences
    if len(sentences) < 3:
        return
    try:
        grouping = Grouping.of(sentences, by)  # type: ignore[arg-type]
        train, test = split(grouping, test=0.4, seed=seed).select(sentences)
    except FednerError:  # too few to split: nothing to see
        return
    known = {document.id: document for document in corpus}
    back = []
    for name, chosen in (("train", train), ("test", test)):
        documents = as_documents(chosen, sentences, known)
        assert owners(documents) == {s.document: s.patient for s in chosen}
        written = WRITERS[to].write(folder / name, Corpus("c", ("X",), documents), WriteOptions())
        assert written.documents == len(documents)
        assert written.mentions == sum(len(document.spans) for document in documents)
        read = reading.read(folder / name, lenient=to in READ_WITH, options=READ_WITH.get(to))
        back.append(prepare(read, sentences="auto").sentences)
        if to in WITHOUT_PATIENTS:
            lost = written.losses.get(WITHOUT_PATIENTS[to].LOST_PATIENTS, 0)
            assert lost == sum(document.patient is not None for document in documents)
            if not written.losses.get(WITHOUT_PATIENTS[to].LOST_IDS):
                assert {document.id for document in read} == {each.id for each in documents}
            continue
        assert owners(read.documents) == owners(documents)
        assert [s.tokens for s in back[-1]] == [
            s.tokens for s in prepare(Corpus("", (), documents)).sentences
        ]
    if to not in WITHOUT_PATIENTS:
        found = leakage(back[0], back[1])
        expected = {s.document for s in train} & {s.document for s in test}
        assert set(found.documents) == expected
        assert by == "sentence" or not expected


def test_an_excerpt_has_only_the_text_of_its_sentences() -> None:
    text = "  One pill.\nTwo pills.  \n\nThree pills.\nFour.\n"
    document = Document("d", text, (Span.of(12, 15, "N"), Span.of(26, 31, "N")), source="s.txt")
    sentences = prepare([document]).sentences
    known = {"d": document}
    (some,) = as_documents(sentences[1:3], sentences, known)
    assert some.text == "Two pills.  \n\nThree pills."
    assert [span.text_in(some.text) for span in some.spans] == ["Two", "Three"]
    (apart,) = as_documents([sentences[3], sentences[0]], sentences, known)
    assert apart.text == "One pill.\nFour."
    (whole,) = as_documents(sentences, sentences, known)
    assert (whole.id, whole.text, whole.source) == ("d", text, "s.txt")
    assert [s.tokens for s in prepare([whole]).sentences] == [s.tokens for s in sentences]


def test_markers_of_other_corpora_carry_ids(tmp_path: Path) -> None:
    path = tmp_path / "aida.conll"
    path.write_text(
        "-DOCSTART- (947testa CRICKET)\n\na O\nb B-X\n\nc O\n\n-DOCSTART- -X- O O\n\nd O\n"
    )
    assert [document.id for document in reading.read(path)] == ["947testa CRICKET", "aida.conll#8"]


def test_an_id_in_two_files_of_columns_is_reported(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text(f"-DOCSTART-\tid=one\tO\n\n{name}\tO\nx\tB-X\n\n")
    with pytest.raises(Exception, match="duplicate id"):
        reading.read(tmp_path)
