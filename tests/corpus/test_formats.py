"""Every format is recognised by its content alone, in a file, a folder and an archive."""

import shutil
import sys
from pathlib import Path

import pytest
from format_fixtures import FIXTURES

from fedner.corpus.inspection import inspect
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import READERS, extras
from fedner.corpus.readers.utf16 import has_pairs, to_characters
from fedner.corpus.reading import read, recognise
from fedner.errors import FednerError


@pytest.mark.parametrize("name", FIXTURES)
def test_the_format_is_recognised_and_read_without_problems(tmp_path: Path, name: str) -> None:
    expected, make = FIXTURES[name]
    path = make(tmp_path)
    assert recognise(path).format == expected
    log = ProblemLog()
    corpus = read(path, log=log)
    assert log.total == 0
    assert sum(len(document.spans) for document in corpus) > 0
    assert inspect(path).total.documents == len(corpus)


@pytest.mark.parametrize("name", FIXTURES)
def test_no_other_reader_claims_the_fixture_of_a_format(tmp_path: Path, name: str) -> None:
    expected, make = FIXTURES[name]
    path = make(tmp_path)
    order = list(READERS)
    before = order[: order.index(expected)]
    assert [each for each in before if READERS[each].recognise(path) is not None] == []


@pytest.mark.parametrize("name", FIXTURES)
def test_a_name_says_nothing_only_the_content_does(tmp_path: Path, name: str) -> None:
    expected, make = FIXTURES[name]
    path = make(tmp_path)
    if path.is_dir():
        pytest.skip("folders are known by the names in them")
    other = path.with_name("data.bin")
    path.rename(other)
    assert recognise(other).format == expected


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("kind", ["zip", "tar", "gztar", "xztar", "bztar"])
def test_an_archive_reads_as_its_content_does(tmp_path: Path, name: str, kind: str) -> None:
    _, make = FIXTURES[name]
    content = tmp_path / "content"
    content.mkdir()
    plain = read(make(content))
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), kind, content))
    packed = read(archive)
    assert packed.labels == plain.labels
    assert [each.text for each in packed] == [each.text for each in plain]
    assert [each.spans for each in packed] == [each.spans for each in plain]
    assert all((content / each.source).exists() for each in packed)


def test_the_lack_of_a_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bioc", None)
    with pytest.raises(FednerError) as caught:
        extras.required("bioc", "formats", "BioC files")
    assert "BioC files need the package bioc" in caught.value.message
    assert "fedner[formats]" in caught.value.hint


@pytest.mark.parametrize(
    ("module", "name", "extra"),
    [
        ("bioc.biocxml", "bioc", "formats"),
        ("bioc.biocjson", "bioc-json", "formats"),
        ("bioc.pubtator", "pubtator", "formats"),
        ("cassis", "xmi", "formats"),
        ("pyarrow.parquet", "hf-parquet", "formats"),
        ("spacy.strings", "docbin", "spacy"),
    ],
)
def test_a_format_without_its_library_is_recognised_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, extra: str
) -> None:
    expected, make = FIXTURES[name]
    path = make(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert recognise(path).format == expected
    with pytest.raises(FednerError) as caught:
        read(path)
    assert f"fedner[{extra}]" in caught.value.hint


def test_units_of_java_and_javascript_become_characters() -> None:
    text = "a😀b👩‍🚒c"
    convert = to_characters(text)
    for index in range(len(text) + 1):
        units = len(text[:index].encode("utf-16-le")) // 2
        assert convert(units) == index
    assert convert(2) == 1  # within a pair: the beginning of its character
    assert convert(-1) == -1
    assert convert(1000) > len(text)
    assert not has_pairs("é")
    assert not has_pairs("")
    assert to_characters("é")(1) == 1
