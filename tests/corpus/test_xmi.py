"""XMI: UTF-16 offsets, layers, sentences and tokens; checked against what cassis itself writes."""

from pathlib import Path

import pytest
from format_fixtures import ASPIRIN, NAUSEA, NEEDS_FORMATS, TEXT, TYPE_SYSTEM, XMI, xmi

from fedner.corpus.document import Segment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers.xmi import REMARK_NO_TYPES, REMARK_NO_VALUE
from fedner.corpus.reading import read

cassis = pytest.importorskip("cassis", reason=NEEDS_FORMATS)


def test_offsets_in_utf16_layers_sentences_and_tokens(tmp_path: Path) -> None:
    (document,) = read(xmi(tmp_path))
    assert (document.id, document.source) == ("one.txt", "one.txt.xmi")
    assert document.text == TEXT
    # The relation layer is no mention; a layer without a label feature is its own label.
    assert set(document.spans) == {Span.of(*ASPIRIN, "Drug"), Span.of(*NAUSEA, "Effect")}
    first, second = document.segments or ()
    assert first == Segment(0, 26, (0, 3, 5, 12, 18, 25), (2, 4, 11, 17, 25, 26))
    assert TEXT[second.start : second.end] == "It went away."


def test_a_file_with_its_type_system_beside_it_or_above(tmp_path: Path) -> None:
    root = xmi(tmp_path)
    (root / "annotation").mkdir()
    (root / "one.txt.xmi").rename(root / "annotation/admin.xmi")
    (document,) = read(root)
    assert document.id == "annotation/admin"
    assert len(document.spans) == 2
    (root / "TypeSystem.xml").rename(root / "annotation/TypeSystem.xml")
    (document,) = read(root / "annotation/admin.xmi")
    assert (document.id, len(document.spans)) == ("admin", 2)


def test_without_a_type_system_dkpro_is_assumed(tmp_path: Path) -> None:
    path = tmp_path / "one.xmi"
    path.write_text(XMI)
    log = ProblemLog()
    (document,) = read(path, log=log)
    assert document.spans == (Span.of(*ASPIRIN, "Drug"),)  # the project's own layer is unknown
    assert log.remarks[REMARK_NO_TYPES] == 1


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ('begin="19" end="26" value', 'begin="19" end="260" value', "offset outside the text"),
        ('begin="19" end="26" value', 'begin="26" end="26" value', "zero-length span"),
        ('id="24" sofa="1" begin="19"', 'id="24" sofa="1" begin="2"', "offset outside the text"),
        ("</xmi:XMI>", "", "unreadable file"),
        ('sofaString="', 'other="', "unreadable file"),
        ('members="10', 'members="99 10', "unreadable file"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, old: str, new: str, kind: str) -> None:
    root = xmi(tmp_path)
    assert old in XMI
    (root / "one.txt.xmi").write_text(XMI.replace(old, new))
    log = ProblemLog()
    read(root, lenient=True, log=log)
    assert list(log.counts) == [kind]


def test_a_named_entity_without_a_value_is_named_after_its_layer(tmp_path: Path) -> None:
    root = xmi(tmp_path)
    (root / "one.txt.xmi").write_text(XMI.replace(' value="Drug"', ""))
    log = ProblemLog()
    (document,) = read(root, log=log)
    assert Span.of(*ASPIRIN, "NamedEntity") in document.spans
    assert log.remarks[REMARK_NO_VALUE] == 1


def test_a_broken_type_system_is_reported(tmp_path: Path) -> None:
    root = xmi(tmp_path)
    (root / "TypeSystem.xml").write_text(TYPE_SYSTEM[:600])
    log = ProblemLog()
    read(root, lenient=True, log=log)
    assert [Path(problem.file).name for problem in log.problems] == ["TypeSystem.xml"]


def test_what_cassis_writes_is_read(tmp_path: Path) -> None:
    types = cassis.load_typesystem(TYPE_SYSTEM)
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string = text = "👩‍🚒 took 😀 aspirin 💊 twice"
    entity = types.get_type("de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity")
    places = [(start, start + 7) for start in (text.index("aspirin"),)] + [(0, 3), (17, 19)]
    for begin, end in places:
        cas.add(entity(begin=begin, end=end, value="X"))
    cas.to_xmi(tmp_path / "a.xmi")
    types.to_xml(tmp_path / "TypeSystem.xml")
    (document,) = read(tmp_path)
    assert document.text == text
    assert {(span.start, span.end) for span in document.spans} == set(places)
