"""What is no corpus is named for what it is, in two lines."""

import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from fedner.corpus.reading import read
from fedner.errors import FednerError
from fedner.models.embeddings.vectors_source import recognise_vectors


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "<x/>")
    return buffer.getvalue()


KINDS = {
    "letter.docx": (zipped("[Content_Types].xml", "word/document.xml"), "a Word document"),
    "table.xlsx": (zipped("[Content_Types].xml", "xl/workbook.xml"), "an Excel workbook"),
    "talk.pptx": (zipped("[Content_Types].xml", "ppt/slides.xml"), "a PowerPoint"),
    "letter.odt": (zipped("mimetype", "content.xml", "META-INF/manifest.xml"), "an OpenDocument"),
    "model.pt": (zipped("model/data.pkl", "model/data/0"), "PyTorch weights"),
    "letter.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "an old Word document"),
    "table.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "an old Excel workbook"),
    "letter.pdf": (b"%PDF-1.7\n%\xe2\xe3", "a PDF"),
    "letter.rtf": (b"{\\rtf1\\ansi Dear colleague}", "a Rich Text"),
    "scan.png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG image"),
    "a.7z": (b"7z\xbc\xaf\x27\x1c" + bytes(50), "a 7-Zip archive"),
    "a.safetensors": (b"\x08\0\0\0\0\0\0\0" + b'{"a":{}}', "safetensors"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_named_for_what_it_is(tmp_path: Path, name: str) -> None:
    content, kind = KINDS[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FednerError, match=f"{name}: {kind}.*no corpus") as caught:
        read(path)
    assert len(str(caught.value).splitlines()) == 2
    assert re.search("Save|Name|text|Unpack", caught.value.hint)
    with pytest.raises(
        FednerError, match=f"{name} is {kind}.*not a table of word vectors"
    ) as caught:
        recognise_vectors(path)
    assert len(str(caught.value).splitlines()) == 2


def test_word_vectors_and_web_pages_are_no_corpus(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("".join(f"word{n}" + " 0.125 -1.5" * 25 + "\n" for n in range(50)))
    with pytest.raises(FednerError, match=r"glove.txt: word vectors, and no corpus"):
        read(path)
    path = tmp_path / "page.txt"
    path.write_text("<!DOCTYPE html><html><body>x</body></html>")
    with pytest.raises(FednerError, match="a web page"):
        read(path)


def test_a_folder_of_letters(tmp_path: Path) -> None:
    for name in ("a.docx", "b.docx"):
        (tmp_path / name).write_bytes(KINDS["letter.docx"][0])
    with pytest.raises(FednerError, match=r"a Word document \(.docx\), 2 times") as caught:
        read(tmp_path)
    assert "plain text" in caught.value.hint
    assert len(str(caught.value).splitlines()) == 2


def test_archives_in_archives_stay_closed_and_are_named(tmp_path: Path) -> None:
    inner = tmp_path / "inner.zip"
    inner.write_bytes(zipped("a.txt"))
    with tarfile.open(tmp_path / "outer.tar.gz", "w:gz") as outer:
        outer.add(inner, "notes/inner.zip")
    with pytest.raises(
        FednerError, match=r"outer.tar.gz: .*archives \(notes/inner.zip\)"
    ) as caught:
        read(tmp_path / "outer.tar.gz")
    assert "stay closed" in caught.value.hint
    with pytest.raises(FednerError) as caught:
        read(tmp_path)
    assert f"for example {inner}" in caught.value.hint
    with pytest.raises(FednerError, match="is an archive, not a table of word vectors"):
        recognise_vectors(inner)


def test_errors_name_a_file_of_an_archive_as_the_user_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cadec/text/A.1.txt", "Aspirin helped.")
        archive.writestr("cadec/original/A.1.ann", "T1\tDrug 0 70\tAspirin\n")
        archive.writestr("cadec/original/A.2.ann", "T1\tDrug 0 7\tAspirin\n")
    with pytest.raises(FednerError) as caught:
        read(path)
    assert f"{path}!/cadec/original/A.1.ann:1" in caught.value.message
    assert "fedner-" not in str(caught.value), "no folder of our own is shown"
    from fedner.corpus.inspection import inspect

    assert "fedner-" not in str(inspect(path).as_dict())
