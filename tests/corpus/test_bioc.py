"""BioC: offsets of documents, passages and sentences; both encodings; what is malformed."""

import gzip
import json
from pathlib import Path

import pytest
from format_fixtures import BIOC_XML, NEEDS_FORMATS, bioc, bioc_json
from hypothesis import given, settings
from hypothesis import strategies as st
from test_jsonl import corpora

from fedner.corpus.document import Corpus, Document, Segment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.reading import read
from fedner.corpus.writers import WRITERS, WriteOptions, write_bioc, write_bioc_json
from fedner.errors import FednerError

pytest.importorskip("bioc", reason=NEEDS_FORMATS)


def read_xml(folder: Path, *documents: str) -> tuple[Corpus, ProblemLog]:
    path = folder / "a.xml"
    path.write_text(f"<collection><source>s</source>{''.join(documents)}</collection>")
    log = ProblemLog()
    return read(path, lenient=True, log=log), log


def test_passages_are_joined_at_their_offsets(tmp_path: Path) -> None:
    first, second = read(bioc(tmp_path))
    assert first.id == "17299597"
    assert first.text == "Nausea after aspirin.\nPain in knees and 😀 hips. It went."
    assert first.spans == (Span.of(0, 6, "Disease"), Span(((22, 29), (42, 46)), "Disease"))
    assert [first.text[each.start : each.end].strip() for each in first.segments or ()] == [
        "Nausea after aspirin.",
        "Pain in knees and 😀 hips.",
        "It went.",
    ]
    assert second.text == "One rash. No more."
    assert second.segments == (Segment(0, 9), Segment(10, 18))
    assert second.spans == (Span.of(4, 8, "Disease"),)


def test_compressed_and_json_collections(tmp_path: Path) -> None:
    packed = tmp_path / "c.xml.gz"
    packed.write_bytes(gzip.compress(BIOC_XML.encode()))
    assert len(read(packed)) == 2
    (document,) = read(bioc_json(tmp_path))
    assert document.spans == (Span.of(13, 20, "Chemical"),)
    assert document.text[13:20] == "aspirin"


def test_json_documents_one_a_line_and_without_empty_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"bioctype": "BioCDocument", "id": "1", "passages": [{"offset": 0, "text": "Rash."}]},
        {"id": "2", "passages": [{"offset": 3, "text": "Rash.", "annotations": [
            {"infons": {"type": "D"}, "locations": [{"offset": 3, "length": 4}]}]}]},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = read(path)
    assert first.spans == ()
    assert second.spans == (Span.of(0, 4, "D"),)  # a text begins with its first passage


def test_a_bad_document_costs_only_itself(tmp_path: Path) -> None:
    good = "<document><id>{}</id><passage><offset>0</offset><text>x</text></passage></document>"
    bad = "<document><id>b</id><passage><offset>soon</offset></passage></document>"
    corpus, log = read_xml(tmp_path, good.format("a"), bad, good.format("c"))
    assert [document.id for document in corpus] == ["a", "c"]
    assert log.counts == {"malformed line": 1}


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ('<infon key="type">D</infon><location offset="0" length="99"/>', "offset outside"),
        ('<infon key="type">D</infon><location offset="1" length="0"/>', "zero-length"),
        ('<infon key="type">D</infon>', "malformed line"),
        ('<location offset="0" length="1"/>', "malformed line"),
        ('<infon key="type">D</infon><location offset="0" length="1"/><text>z</text>', "quote"),
    ],
)
def test_what_is_wrong_with_an_annotation(tmp_path: Path, annotation: str, kind: str) -> None:
    corpus, log = read_xml(
        tmp_path,
        "<document><id>1</id><passage><offset>0</offset><text>xyz</text>"
        f'<annotation id="1">{annotation}</annotation></passage></document>',
    )
    (problem,) = log.problems
    assert kind in problem.kind
    assert len(corpus.documents[0].spans) == problem.kept


def test_offsets_that_cannot_be_are_reported_and_cost_no_memory(tmp_path: Path) -> None:
    far = "<passage><offset>900000000000</offset><text>far</text></passage>"
    back = "<passage><offset>0</offset><text>back</text></passage>"
    corpus, log = read_xml(
        tmp_path,
        f"<document><id>1</id><passage><offset>0</offset><text>ab</text></passage>{far}{back}"
        "</document>",
    )
    assert corpus.documents[0].text == "ab\nfar\nback"
    assert log.counts == {"offset outside the text": 2}
    assert log.kept == 2


def test_entities_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.xml"
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    path.write_text(
        f'<!DOCTYPE collection [<!ENTITY l0 "lol">{laughs}]><collection><source>&l9;</source>'
        "<document><id>1</id></document></collection>"
    )
    log = ProblemLog()
    assert len(read(path, "bioc", lenient=True, log=log)) == 0
    assert "entity" in log.problems[0].found


XML_TEXT = st.characters(
    exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff", include_characters="\t\n\r"
)


def carried_by_xml(corpus: Corpus) -> bool:
    strings = [corpus.name, *corpus.labels]
    for each in corpus:
        strings += [each.text, each.source, each.patient or ""]
    bad = {chr(code) for code in range(32)} - set("\t\n\r") | {"\ufffe", "\uffff"}
    return not any(bad & set(string) for string in strings)


@given(corpora())
@settings(max_examples=100, deadline=None)
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, corpus: Corpus
) -> None:
    folder = tmp_path_factory.mktemp("bioc")
    write_bioc_json(folder / "c.json.gz", corpus)
    assert read(folder / "c.json.gz") == corpus
    if carried_by_xml(corpus):
        write_bioc(folder / "c.xml", corpus)
        assert read(folder / "c.xml") == corpus
    else:
        with pytest.raises(FednerError, match="cannot stand in BioC"):
            write_bioc(folder / "c.xml", corpus)
        assert not (folder / "c.xml").exists()


@given(st.text(XML_TEXT, min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_every_character_of_xml_comes_back(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("bioc") / "c.xml.xz"
    corpus = Corpus("c", ("x <&>",), (Document("1", text, (Span.of(0, len(text), "x <&>"),)),))
    assert WRITERS["bioc"].write(path, corpus, WriteOptions()).losses == {}
    assert read(path) == corpus


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    from bioc import biocjson, biocxml

    text = "Pain in knees and hips."
    span = Span(((0, 7), (18, 22)), "ADE")
    corpus = Corpus("c", ("ADE",), (Document("1", text, (span,)),))
    write_bioc(tmp_path / "c.xml", corpus)
    write_bioc_json(tmp_path / "c.json", corpus)
    with (tmp_path / "c.json").open() as file:
        collections = [biocjson.load(file), biocxml.load(str(tmp_path / "c.xml"))]
    for collection in collections:
        (annotation,) = collection.documents[0].passages[0].annotations
        assert annotation.text == "Pain in hips"
        assert annotation.infons == {"type": "ADE"}
        places = [(place.offset, place.length) for place in annotation.locations]
        assert places == [(0, 7), (18, 4)]


def test_an_empty_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="empty id or label"):
        write_bioc(tmp_path / "c.xml", Corpus("c", (), (Document("", "x"),)))
