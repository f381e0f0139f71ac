"""Archives: read in place, nothing left behind, nothing let out, bombs and links refused."""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from format_fixtures import brat, jsonl

from fedner.corpus import archives
from fedner.corpus.inspection import inspect
from fedner.corpus.problems import InputProblemsError, ProblemLog
from fedner.corpus.reading import open_corpus, read, recognise
from fedner.errors import FednerError

ANN = "T1\tDrug 0 7\tAspirin\n"


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, which must be empty again after every test."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def tar(path: Path, *entries: tuple[str | tarfile.TarInfo, bytes], packing: str = "") -> Path:
    with tarfile.open(path, f"w:{packing}") as archive:
        for entry, data in entries:
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            info.size = len(data) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(data))
    return path


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in entries:
            archive.writestr(entry, data)
    return path


def pair(folder: str, name: str = "a", annotation: str = ANN) -> list[tuple[str, bytes]]:
    return [
        (f"{folder}{name}.txt", b"Aspirin helps."),
        (f"{folder}{name}.ann", annotation.encode()),
    ]


def test_problems_and_sources_carry_the_names_in_the_archive(tmp_path: Path) -> None:
    path = tar(
        tmp_path / "c.tar.xz", *pair("top/x/"), *pair("top/x/", "b", "nonsense\n"), packing="xz"
    )
    log = ProblemLog()
    corpus = read(path, lenient=True, log=log)
    assert corpus.name == "c"
    assert [each.source for each in corpus] == ["top/x/a.txt", "top/x/b.txt"]
    assert [problem.file for problem in log.problems] == [f"{path}!/top/x/b.ann"]
    with pytest.raises(InputProblemsError) as caught:
        read(path)
    assert "fedner-" not in str(caught.value)
    assert recognise(path).why.endswith("(in the archive, at top/x)")


def test_a_path_within_an_archive(tmp_path: Path) -> None:
    path = zipped(tmp_path / "c.zip", *pair("gold/pubmed/"), *pair("gold/twitter/", "t"))
    corpus = read(Path(f"{path}!/gold/twitter"))
    assert (corpus.name, [each.id for each in corpus]) == ("twitter", ["t"])
    assert corpus.documents[0].source == "gold/twitter/t.txt"
    assert [each.id for each in read(f"{path}!/gold")] == ["pubmed/a", "twitter/t"]
    assert len(read(f"{path}!/")) == 2
    (one,) = read(f"{path}!/gold/pubmed/a.ann")
    assert one.source == "gold/pubmed/a.txt"
    with pytest.raises(FednerError) as caught:
        read(f"{path}!/gold/pubmd")
    assert caught.value.hint == f"Did you mean {path}!/gold/pubmed?"


def test_several_corpora_are_listed_with_how_to_choose(tmp_path: Path) -> None:
    path = zipped(
        tmp_path / "c.zip", *pair("gold/pubmed/"), *pair("gold/twitter/"),
        ("columns/train.txt", b"Took\tO\naspirin\tB-Drug\n"), ("README.md", b"# Corpora\n"),
    )  # fmt: skip
    with pytest.raises(FednerError) as caught:
        read(path)
    assert "3 corpora" in caught.value.message
    for each in ("columns (columns)", "gold/pubmed (brat)", "gold/twitter (brat)"):
        assert each in caught.value.message
    assert f"{path}!/columns" in caught.value.hint
    # A format that only one of them has needs no choice.
    assert len(read(path, "columns")) == 1


def test_the_stream_removes_its_files_whenever_it_ends(tmp_path: Path, temporary: Path) -> None:
    path = tar(tmp_path / "c.tar", *pair("", "a"), *pair("", "b"))
    _, documents, _ = open_corpus(path)
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    next(documents)
    documents.close()
    assert list(temporary.iterdir()) == []
    _, documents, _ = open_corpus(path)
    del documents  # never begun
    assert list(temporary.iterdir()) == []
    assert inspect(path).total.documents == 2


@pytest.mark.parametrize("name", ["../a.txt", "x/../../a.txt", "/a.txt", "C:/a.txt", "C:a.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_leads_out_refuses_the_archive(tmp_path: Path, kind: str, name: str) -> None:
    make = zipped if kind == "zip" else tar
    path = make(tmp_path / f"c.{kind}", *pair("ok/"), (name, b"x"))
    before = sorted(tmp_path.parent.rglob("*"))
    with pytest.raises(FednerError, match="leads outside the archive"):
        read(path, lenient=True)
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_backslashes_in_a_zip_are_separators(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("x")
    info.filename = "..\\evil.txt"
    path = zipped(tmp_path / "c.zip", (info, b"x"))
    with pytest.raises(FednerError, match="leads outside the archive"):
        read(path)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"),
        (b"Z", "an unknown entry"),
    ],
)
def test_links_and_devices_are_told_and_never_made(tmp_path: Path, kind: bytes, what: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("Aspirin of others.")
    info = tarfile.TarInfo("b.txt")
    info.type, info.linkname = kind, str(secret)
    path = tar(tmp_path / "c.tar", *pair(""), (info, b""), ("b.ann", ANN.encode()))
    log = ProblemLog()
    assert [each.id for each in read(path, lenient=True, log=log)] == ["a"]
    first = log.problems[0]
    assert (first.file, first.found) == (f"{path}!/b.txt", what)
    with pytest.raises(InputProblemsError):
        read(path)


def test_a_link_in_a_zip_is_told_and_never_made(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("b.txt")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    log = ProblemLog()
    read(zipped(tmp_path / "c.zip", *pair(""), (info, b"/etc/hostname")), lenient=True, log=log)
    assert [problem.found for problem in log.problems] == ["a link"]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_bomb_is_stopped_by_what_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object
) -> None:
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 20)
    plain = tar(tmp_path / "c.tar", *pair(""), ("big.txt", bytes(8 << 20)))
    path = tmp_path / "c.tar.x"
    path.write_bytes(pack(plain.read_bytes()))  # type: ignore[operator]
    with pytest.raises(FednerError, match="bytes unpack to more than"):
        read(path)


def test_a_zip_bomb_and_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "c.zip", *pair(""), ("big.txt", bytes(8 << 20)))
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 20)
    with pytest.raises(FednerError, match="bytes unpack to more than"):
        read(path)
    monkeypatch.setattr(archives, "MAX_MEMBERS", 2)
    with pytest.raises(FednerError, match="more than 2 entries"):
        read(path)


def test_a_huge_extended_header_takes_no_memory(tmp_path: Path) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 64 << 20
    path = tmp_path / "c.tar.xz"
    path.write_bytes(lzma.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(64 << 20)))
    with pytest.raises(FednerError, match="extended header of"):
        read(path)


@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_long_and_foreign_names_of_every_layout(tmp_path: Path, layout: int) -> None:
    name = (
        f"{'d' * 60}/{'é' * 30}" if layout == tarfile.USTAR_FORMAT else f"{'d' * 120}/{'é' * 100}"
    )
    path = tmp_path / "c.tar"
    with tarfile.open(path, "w", format=layout) as archive:
        for suffix, data in ((".txt", b"Aspirin helps."), (".ann", ANN.encode())):
            info = tarfile.TarInfo(name + suffix)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    (document,) = read(path)
    assert document.source == f"{name}.txt"


def test_contents_of_whole_blocks_and_of_none(tmp_path: Path) -> None:
    text = ("Aspirin " * 128)[:1024]
    entries = [
        ("a.txt", text.encode()),
        ("a.ann", b""),
        ("b.txt", text[:512].encode()),
        ("b.ann", b""),
    ]
    found = read(tar(tmp_path / "c.tar", *entries))
    assert [each.text for each in found] == [text, text[:512]]


def test_damage_is_told_and_what_came_before_it_is_read(tmp_path: Path) -> None:
    whole = tar(tmp_path / "c.tar", *pair("", "a"), *pair("", "b")).read_bytes()
    path = tmp_path / "cut.tar"
    path.write_bytes(whole[: 4 * 512 + 700])  # a.txt, a.ann and a part of b.txt
    log = ProblemLog()
    assert "a" in [each.id for each in read(path, lenient=True, log=log)]
    assert log.counts["unreadable file"] >= 1
    (tmp_path / "bad.tar.gz").write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(FednerError, match="damaged, or not a known kind of archive"):
        read(tmp_path / "bad.tar.gz")
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(FednerError, match="damaged, or not a known kind of archive"):
        read(tmp_path / "bad.zip")


def test_an_entry_that_comes_twice_is_told(tmp_path: Path) -> None:
    path = tar(tmp_path / "c.tar", *pair(""), ("a.txt", b"Another."), ("a.txt/b.txt", b"x"))
    log = ProblemLog()
    assert read(path, lenient=True, log=log).documents[0].text == "Aspirin helps."
    assert [problem.found for problem in log.problems] == ["a second entry of that name"] * 2


def test_what_systems_hide_in_archives_is_left_out(tmp_path: Path) -> None:
    path = zipped(
        tmp_path / "c.zip", *pair("n/"), ("__MACOSX/n/._a.txt", b"x"), ("n/.DS_Store", b"\0")
    )
    assert len(read(path)) == 1


def test_plain_compressed_files_and_folders_are_no_archives(tmp_path: Path) -> None:
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(b"Took\tO\naspirin\tB-Drug\n"))
    assert archives.place_of(path) is None
    assert len(read(path)) == 1
    assert archives.place_of(brat(tmp_path)) is None
    assert archives.place_of(jsonl(tmp_path)) is None
    (tmp_path / "odd!").mkdir()
    assert archives.place_of(tmp_path / "odd!" / "x") is None
    assert archives.input_exists(tmp_path)
    assert not archives.input_exists(tmp_path / "absent.zip!" / "x")


def test_an_archive_of_nothing_known_says_so_by_its_names(tmp_path: Path) -> None:
    path = zipped(tmp_path / "c.zip", ("a/picture.png", bytes(range(256))))
    with pytest.raises(FednerError) as caught:
        read(path)
    assert caught.value.message.startswith(f"{path}!: no known format")


def test_no_room_for_temporary_files_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tar(tmp_path / "c.tar", *pair(""))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(FednerError, match="No space left on device"):
        read(path)


def test_folders_of_an_archive_are_not_listed_for_every_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand documents of two thousand files were two million looks at the disk."""
    folder = brat(tmp_path)
    for number in range(30):
        for ending in ("txt", "ann"):
            copied = (folder / f"one.{ending}").read_bytes()
            (folder / f"more-{number}.{ending}").write_bytes(copied)
    with tarfile.open(tmp_path / "corpus.tar.xz", "w:xz") as archive:
        archive.add(folder, "notes")
    listed: list[Path] = []
    iterdir = Path.iterdir

    def counted(path: Path) -> Iterator[Path]:
        listed.append(path)
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", counted)
    corpus = read(tmp_path / "corpus.tar.xz")
    assert len(corpus) == 31
    assert {each.source.split("/")[0] for each in corpus} == {"notes"}
    assert len(listed) < 20


@pytest.mark.data
def test_twimed_in_place(data: Path) -> None:
    path = data / "twimed/twimed.tar.xz"
    with pytest.raises(FednerError) as caught:
        recognise(path)
    assert "gold/pubmed (brat)" in caught.value.message
    log = ProblemLog()
    corpus = read(f"{path}!/gold/pubmed", lenient=True, log=log)
    num_placed = sum(len(each.spans) for each in corpus)
    assert (len(corpus), num_placed + len(log.skipped_mentions)) == (1_000, 2_382)
    assert all(f"{path}!/gold/pubmed/" in problem.file for problem in log.problems)
