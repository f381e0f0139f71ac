"""XML that declares entities is refused, whatever its encoding."""

import io
from pathlib import Path

import pytest

from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import READERS
from fedner.corpus.readers.xml_files import Checked

BOMB = (
    '<?xml version="1.0"{}?><!DOCTYPE collection [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    "<collection><source>s</source><document><id>1</id><passage><offset>0</offset>"
    "<text>&b;</text></passage></document></collection>"
)
ENCODINGS = ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
HIDING = ["utf-7", "iso-2022-jp", "hz", "cp037"]


def read_all(data: bytes, size: int) -> bytes:
    stream = Checked(io.BytesIO(data))
    return b"".join(iter(lambda: stream.read(size), b""))


@pytest.mark.parametrize("size", [1, 7, 4096, -1])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("is_declared", [True, False])
def test_an_entity_is_seen_in_every_encoding(encoding: str, size: int, is_declared: bool) -> None:
    name = encoding[:6]
    text = BOMB.format(f' encoding="{name}"' if is_declared else "")
    with pytest.raises(ValueError, match="declaration of an XML entity"):
        read_all(text.encode(encoding), size)


@pytest.mark.parametrize("encoding", HIDING)
def test_an_encoding_that_could_hide_one_is_refused(encoding: str) -> None:
    data = BOMB.format(f" encoding='{encoding}'").encode(encoding)
    with pytest.raises(ValueError, match=r"XML in (the encoding|EBCDIC)"):
        read_all(data, 4096)


@pytest.mark.parametrize("size", [1, 4096])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "iso-8859-1", "shift_jis"])
def test_good_xml_passes_unchanged(encoding: str, size: int) -> None:
    declared = "utf-16" if encoding == "utf-16-le" else encoding
    data = f'<?xml version="1.0" encoding="{declared}"?><a>&lt;b&gt;</a>'.encode(encoding)
    assert read_all(data, size) == data


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_reader_reports_it_and_expands_nothing(tmp_path: Path, encoding: str) -> None:
    pytest.importorskip("bioc")
    path = tmp_path / "b.xml"
    path.write_bytes(BOMB.format(f' encoding="{encoding}"').encode(encoding))
    log = ProblemLog()
    assert list(READERS["bioc"].stream(path, log, READERS["bioc"].options())) == []
    assert "declaration of an XML entity" in log.problems[0].found
