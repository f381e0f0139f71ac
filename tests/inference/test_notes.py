"""Notes of files and folders: text by content, and nothing left out without a word."""

import csv
import io
import json
import os
import zipfile
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.file_kinds import kind_of
from fedner.errors import FednerError
from fedner.inference.inputs import open_input
from fedner.inference.notes import find_notes, summary
from fedner.inference.text_files import MAX_BYTES, decode_text, read_text_file
from fedner.models.checkpoint import save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized


def zipped(*names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in names:
            archive.writestr(name, "Took aspirin. " * 100)
    return held.getvalue()


DOCX = zipped("[Content_Types].xml", "_rels/.rels", "word/document.xml")
NOT_TEXT = {
    "a Word document": DOCX,
    "an Excel workbook": zipped("[Content_Types].xml", "xl/workbook.xml"),
    "a PowerPoint": zipped("[Content_Types].xml", "ppt/presentation.xml"),
    "an OpenDocument": zipped("mimetype", "content.xml", "META-INF/manifest.xml"),
    "a zip archive": zipped("a.txt"),
    "an old Word document": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 50,
    "a PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj",
    "a Rich Text": b"{\\rtf1\\ansi Took aspirin.}",
    "a PNG": b"\x89PNG\r\n\x1a\n\x00\x00",
    "a JPEG": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "a GIF": b"GIF89a\x01\x00\x01\x00",
    "a TIFF": b"II*\x00\x08\x00",
    "a DICOM": b"\x00" * 128 + b"DICM\x02\x00",
    "gzip": b"\x1f\x8b\x08\x00abc",
    "bzip2": b"BZh91AY&SY\xff\x00",
    "a 7-Zip": b"7z\xbc\xaf\x27\x1c\x00",
    "a tar": b"a.txt".ljust(257, b"\0") + b"ustar\x0000",
    "text in UTF-16": "Took aspirin".encode("utf-16"),
    "text in UTF-16 or UTF-32": "Took aspirin".encode("utf-16-le"),
    "binary data": b"Took\x00aspirin and more words of a note",
    "a pickle": b"\x80\x04\x95\x00",
    "a NumPy": b"\x93NUMPY\x01\x00",
    "safetensors": b'\x40\x00\x00\x00\x00\x00\x00\x00{"a":',
    "PyTorch": zipped("model/data.pkl"),
    "an SQLite": b"SQLite format 3\x00\x10",
}
TEXTS = (
    b"",
    b"Took aspirin.",
    "\ufeff漢字 🤒\r\n".encode(),
    b"GIF89a is how an image begins.",
    b"BZh is a prefix.",
    b"PAR1 of the letter",
    b"RIFFs: WEBP is an image format.",
    b"caf\xe9",
    b"%PDF is no PDF without its dash",
    b"PK is a pair of letters",
)


@pytest.mark.parametrize("name", NOT_TEXT)
def test_what_is_not_text_is_named(name: str, tmp_path: Path) -> None:
    kind = kind_of(NOT_TEXT[name])
    assert kind is not None
    assert kind.name.startswith(name)
    path = tmp_path / "letter.txt"
    path.write_bytes(NOT_TEXT[name])
    with pytest.raises(FednerError, match="is not text: it is") as caught:
        read_text_file(path)
    assert name in caught.value.message
    assert caught.value.hint


def test_a_long_office_document_is_named_by_its_beginning(tmp_path: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("[Content_Types].xml", "x")
        archive.writestr("word/document.xml", os.urandom(200_000))
    path = tmp_path / "a.docx"
    path.write_bytes(held.getvalue())
    (tmp_path / "cut.docx").write_bytes(held.getvalue()[:100_000])
    (tmp_path / "a.txt").write_text("x")
    assert [each.why for each in find_notes(tmp_path).left_out] == ["a Word document (.docx)"] * 2


@pytest.mark.parametrize("data", TEXTS)
def test_text_is_none_of_them(data: bytes) -> None:
    assert kind_of(data) is None


def test_a_wrong_byte_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"Took aspirin.\nUn caf\xe9.\n")
    with pytest.raises(FednerError, match=r"not UTF-8: byte 0xe9 in line 2") as caught:
        read_text_file(path)
    assert "--encoding" in caught.value.hint
    assert read_text_file(path, "latin-1").text == "Took aspirin.\nUn café.\n"
    for name in ("klingon", "hex", "zlib", "rot13"):
        with pytest.raises(FednerError, match="encoding"):
            read_text_file(path, name)


def test_a_note_has_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(FednerError, match="at most"):
        read_text_file(path)


def test_the_bytes_come_back() -> None:
    for data in (b"", "\ufeffa\r\nb\r漢🤒".encode(), b"\xef\xbb\xbf\xef\xbb\xbfa"):
        file = decode_text(data, Path("a"))
        assert file.encoded(file.text) == data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("Took aspirin.")
    (root / "B.TXT").write_text("Took ibuprofen.")
    (root / "deep" / "c.Text").write_text("Rash.")
    (root / "letter.docx").write_bytes(DOCX)
    (root / "scan.txt").write_bytes(NOT_TEXT["a PNG"])
    (root / "old.txt").write_bytes(b"caf\xe9")
    (root / "readme.md").write_text("about these notes")
    (root / ".DS_Store").write_bytes(b"\0\0")
    return root


def test_a_folder_says_what_it_leaves_out(folder: Path) -> None:
    notes = find_notes(folder)
    assert [path.name for path in notes.files] == ["B.TXT", "a.txt", "c.Text"]
    assert {each.path.name for each in notes.refused} == {"letter.docx", "scan.txt", "old.txt"}
    skipped = {each.path.name: each.why for each in notes.left_out if not each.is_refused}
    assert skipped == {"readme.md": "not called .txt (.md)", ".DS_Store": "hidden"}
    assert "1 a Word document (.docx): letter.docx" in summary(notes.left_out)
    assert [each.id for each in notes.documents()] == ["B", "a", "deep/c.Text"]


def test_links_to_folders_and_names_of_one_stem(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (folder / "link").symlink_to(tmp_path / "other")
    (folder / "broken.txt").symlink_to(tmp_path / "nowhere")
    (folder / "a.TXT").write_text("Another.")
    notes = find_notes(folder)
    refused = {each.path.name: each.why for each in notes.refused}
    assert refused["link"] == "a link to a folder"
    assert "broken.txt" in {each.path.name for each in notes.left_out}
    assert {"a.txt", "a.TXT"} < set(notes.ids().values())


@pytest.mark.parametrize("data", [b"", b"Took aspirin."])
def test_a_folder_without_notes_says_what_is_there(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FednerError, match="is empty"):
        find_notes(tmp_path)
    (tmp_path / "letter.docx").write_bytes(DOCX)
    with pytest.raises(FednerError, match="a Word document"):
        find_notes(tmp_path)
    (tmp_path / "letter.docx").write_bytes(NOT_TEXT["a GIF"])
    with pytest.raises(FednerError, match="a GIF"):
        open_input(tmp_path)


def test_what_a_prediction_reads(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="a Word document"):
        open_input(folder / "letter.docx")
    structured = tmp_path / "a.json"
    structured.write_text('{"not": "a corpus"}')
    with pytest.raises(FednerError) as caught:
        open_input(structured)
    assert "--format text" in caught.value.hint
    assert next(open_input(structured, "text").documents).text == '{"not": "a corpus"}'
    (folder / "train.conll").write_text("Aspirin B-Drug\nhelps O\n\nA O\nrash B-ADE\n")
    with pytest.raises(FednerError, match="both a corpus") as caught:
        open_input(folder)
    assert "--format text" in caught.value.hint
    assert len(list(open_input(folder, "text").documents)) == 3
    with pytest.raises(FednerError, match="no such file"):
        open_input(tmp_path / "nothing.txt")
    for path in (structured, folder):
        with pytest.raises(FednerError):
            open_input(path, "klingon")
    corpus = tmp_path / "a.jsonl"
    corpus.write_text('{"id": "1", "text": "Rash."}\n')
    with pytest.raises(FednerError, match="is a corpus"):
        open_input(corpus, encoding="latin-1")
    texts = [each.text for each in open_input(folder / "old.txt", encoding="latin-1").documents]
    assert texts == ["café"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("ADE", "Drug"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    with torch.no_grad():
        tagger.emissions.bias[0] = -0.3
    held = tmp_path_factory.mktemp("model") / "tagger"
    save_tagger(held, tagger, recipe, space)
    return held


def test_the_commands_do_the_rest_and_exit_1(folder: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["redact", str(model), str(folder), "--out", str(out)])
    assert result.exit_code == 1
    assert sorted(path.name for path in out.rglob("*.*")) == ["B.TXT", "a.txt", "c.Text"]
    for words in ("refused: 3 files", "letter.docx", "old.txt", "scan.txt", "skipped: 2 files"):
        assert words in result.stderr
    listed = tmp_path / "skipped.csv"
    command = ["predict", str(model), str(folder), "--json", "--skipped", str(listed)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "refused: 3 files" in result.stderr
    header, *records = map(json.loads, result.stdout.splitlines())
    assert len(records) == 3
    refused = {Path(each["file"]).name for each in header["left_out"] if each["refused"]}
    assert refused >= {"old.txt", "scan.txt"}, "what is known before the notes are read"
    with listed.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    refused = {Path(row["file"]).name for row in rows if row["refused"] == "yes"}
    assert refused == {"letter.docx", "old.txt", "scan.txt"}
    assert all(row["why"] for row in rows)
    again = CliRunner().invoke(app, command)
    assert isinstance(again.exception, FednerError), "a list is never overwritten"
    for name in ("letter.docx", "scan.txt", "old.txt"):
        (folder / name).unlink()
    redact = ["redact", str(model), str(folder), "--out", str(tmp_path / "b"), "--json"]
    result = CliRunner().invoke(app, redact, catch_exceptions=False)
    assert result.exit_code == 0, "what only lies beside the notes is named, and no failure"
    assert len(json.loads(result.stdout)["left_out"]) == 2


@pytest.mark.parametrize("command", ["redact", "predict"])
def test_one_file_that_is_not_text_is_refused(command: str, model: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "letter.docx", tmp_path / "out"
    path.write_bytes(DOCX)
    result = CliRunner().invoke(app, [command, str(model), str(path), "--out", str(out)])
    assert isinstance(result.exception, FednerError)
    assert "a Word document" in result.exception.message
    assert not out.exists()
    assert path.read_bytes() == DOCX


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on file sizes")
@pytest.mark.parametrize("command", ["redact", "predict"])
def test_a_full_disk_leaves_nothing_behind(command: str, model: Path, tmp_path: Path) -> None:
    import resource

    path, out = tmp_path / "a.txt", tmp_path / "out"
    path.write_text("Took aspirin.\n" * 2000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        result = CliRunner().invoke(app, [command, str(model), str(path), "--out", str(out)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(result.exception, FednerError)
    assert "cannot write" in result.exception.message
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]
