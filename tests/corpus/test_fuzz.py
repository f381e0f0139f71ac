"""Bad files: whatever stands in them, only FednerError comes out, soon and in little memory.

Every fixture of every format is damaged byte by byte and put together anew from its own pieces; in
compressed files the content is damaged too. `make test-slow` tries ten thousand inputs for each
fixture, the default suite a sample. What is read in spite of the damage must be valid: spans and
sentences within their text, and the text fit for UTF-8.
"""

import bz2
import io
import json
import lzma
import random
import resource
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from format_fixtures import FIXTURES, brat, jsonl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedner.corpus.document import Document
from fedner.corpus.problems import ProblemLog
from fedner.corpus.reading import read
from fedner.errors import FednerError

NUM_MUTATED = 9_000
NUM_DRAWN = 1_000
SAMPLE = 40
MAX_SECONDS = 20.0
MAX_GROWTH_KIB = 600 * 1024

PIECES = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\r\n", b"\n\n", b"\t", b" ", b"|", b'"', b"'", b"\\"),
    *(b"{", b"}", b"[", b"]", b",", b":", b"<", b">", b"/>", b"</", b"&", b"&#0;", b"&x;"),
    *(b"-1", b"0", b"1e999", b"99999999999999999999", b"9" * 5000, b"NaN", b"null", b"true"),
    *(b"[" * 3000, b'{"a":' * 2000, b'"\\ud800"', b"<!ENTITY x 'y'>", b"<!DOCTYPE a [", b"]]>"),
    *(b"<a>" * 3000, b"T1\tX 0 5\tx\n", b"1|t|x\n", b"-DOCSTART-", b"B-", b"I-X", b"\xef\xbb\xbf"),
    *(b"../", b"/etc/x", "😀".encode(), "\u2028".encode(), "é".encode("latin-1"), b"x" * 70_000),
]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return `data` with one to four faults."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        place = chance.randrange(len(found) + 1)
        length = chance.choice((1, 1, 2, 8, 64, 512))
        match chance.randrange(8):
            case 0:
                found[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del found[place : place + length]
            case 2:
                found[place:place] = chance.choice(PIECES)
            case 3:
                found[place : place + length] = chance.choice(PIECES)
            case 4:
                other = chance.randrange(len(found) + 1)
                found[place:place] = found[other : other + length]
            case 5:
                del found[place:]
            case 6:
                for index in range(place, min(place + length, len(found))):
                    found[index] ^= 1 << chance.randrange(8)
            case _:
                digits = [i for i in range(len(found)) if found[i] in b"0123456789"]
                if digits:
                    spot = chance.choice(digits)
                    found[spot : spot + 1] = chance.choice((b"-", b"", b"7", b"123456789012"))
    return bytes(found)


def check(document: Document) -> None:
    """A document that was read must be valid, however bad its file."""
    document.text.encode()
    document.id.encode()
    length = len(document.text)
    for span in document.spans:
        assert span.label
        assert span.fragments
        assert all(0 <= start < end <= length for start, end in span.fragments)
        assert all(left[1] <= right[0] for left, right in pairwise(span.fragments))
    for part in document.segments or ():
        assert 0 <= part.start <= part.end <= length
        starts, ends = part.token_starts or (), part.token_ends or ()
        bounds = [bound for token in zip(starts, ends, strict=True) for bound in token]
        assert all(left <= right for left, right in pairwise(bounds))
        assert not bounds or (part.start <= bounds[0] and bounds[-1] <= part.end)


def attempt(path: Path, format_name: str) -> None:
    """Read leniently; nothing but FednerError may come out."""
    log = ProblemLog()
    try:
        corpus = read(path, format_name, lenient=True, log=log)
    except FednerError as error:
        str(error).encode("utf-8", "replace")
        return
    for document in corpus:
        check(document)
    assert len(log.problems) <= log.limit


class Watch:
    """Takes time (of the processor: others may be busy on it) and memory of a run."""

    def __init__(self) -> None:
        self.slowest = 0.0
        self.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def run(self, path: Path, format_name: str) -> None:
        begin = time.process_time()
        attempt(path, format_name)
        self.slowest = max(self.slowest, time.process_time() - begin)

    def check(self) -> None:
        assert self.slowest < MAX_SECONDS
        if sys.platform == "linux":
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.memory
            assert grown < MAX_GROWTH_KIB


def inside_zlib(data: bytes, chance: random.Random) -> bytes:
    return zlib.compress(mutated(zlib.decompress(data), chance), 1)


def damage_files(
    root: Path, format_name: str, number: int, seed: int, inner: Callable[..., bytes] | None = None
) -> None:
    files = [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
    originals = {file: file.read_bytes() for file in files}
    chance = random.Random(seed)
    watch = Watch()
    for count in range(number):
        file = chance.choice(files)
        change = inner if inner is not None and count % 4 else mutated
        file.write_bytes(change(originals[file], chance))
        watch.run(root, "auto" if count % 8 == 0 else format_name)
        file.write_bytes(originals[file])
    watch.check()


def drawn_files(root: Path, format_name: str, number: int) -> None:
    files = [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
    originals = {file: file.read_bytes() for file in files}
    lines = sorted({line for data in originals.values() for line in data.splitlines(True)})
    piece = st.one_of(
        st.sampled_from(lines), st.sampled_from(PIECES), st.binary(max_size=40),
        st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
    )  # fmt: skip
    watch = Watch()

    @settings(
        max_examples=number, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.sampled_from(files), st.lists(piece, max_size=12).map(b"".join))
    def run(file: Path, data: bytes) -> None:
        file.write_bytes(data)
        try:
            watch.run(root, format_name)
        finally:
            file.write_bytes(originals[file])

    run()
    watch.check()


@pytest.mark.parametrize("name", FIXTURES)
def test_a_sample_of_bad_files(tmp_path: Path, name: str) -> None:
    format_name, make = FIXTURES[name]
    root = make(tmp_path)
    inner = inside_zlib if name == "docbin" else None
    damage_files(root, format_name, SAMPLE, 1, inner)
    drawn_files(root, format_name, SAMPLE // 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", FIXTURES)
def test_ten_thousand_bad_files(tmp_path: Path, name: str) -> None:
    format_name, make = FIXTURES[name]
    root = make(tmp_path)
    inner = inside_zlib if name == "docbin" else None
    damage_files(root, format_name, NUM_MUTATED, 2, inner)
    drawn_files(root, format_name, NUM_DRAWN)


def packed(folder: Path, suffix: str) -> Path:
    """An archive of two corpora, one of which is named."""
    content = folder / "content"
    content.mkdir()
    brat(content)
    jsonl(content / "notes")
    path = folder / f"a{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(content.rglob("*.*")):
                archive.write(file, file.relative_to(content).as_posix())
    else:
        with tarfile.open(path, f"w:{suffix.rpartition('.')[2].replace('tar', '')}") as archive:
            archive.add(content, "c")
    return path


def inside_archive(data: bytes, chance: random.Random) -> bytes:
    """Damage what is packed, not the packing."""
    if data.startswith(b"PK"):
        found = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(found, "w") as new:
            for name in old.namelist():
                renamed = mutated(name.encode(), chance).decode("latin-1").partition("\0")[0]
                renamed = renamed[:99] or "x"  # the library writes no empty name
                new.writestr(renamed, mutated(old.read(name), chance))
        return found.getvalue()
    if data.startswith(b"\xfd7zXZ"):
        return lzma.compress(mutated(lzma.decompress(data), chance), preset=0)
    return bz2.compress(mutated(bz2.decompress(data), chance), 1)


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2"])
@pytest.mark.parametrize("number", [30, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_bad_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, number: int
) -> None:
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    path = packed(tmp_path, suffix)
    before = sorted(tmp_path.rglob("*"))
    has_inner = suffix in (".zip", ".tar.xz", ".tar.bz2")
    damage_files(path, "auto", number, 3, inside_archive if has_inner else None)
    assert sorted(tmp_path.rglob("*")) == before  # nothing left, nothing written elsewhere


def test_white_space_that_int_refuses_around_a_number_of_ade(tmp_path: Path) -> None:
    """Found by mutation: str.strip takes U+001D away, int() does not accept it."""
    path = tmp_path / "DRUG-AE.rel"
    path.write_text("101|Rash after aspirin.|Rash|0|4\x1d|aspirin|11|18\n")
    (document,) = read(path, "ade")
    assert [span.text_in(document.text) for span in document.spans] == ["Rash", "aspirin"]


@pytest.mark.parametrize("name", [["clinic"], {}, 5, None])
def test_a_header_whose_name_is_no_name(tmp_path: Path, name: object) -> None:
    """Found by mutation: a list as the name of a corpus was an error of Python."""
    path = tmp_path / "a.jsonl"
    header = {"fedner": "corpus", "version": 1, "name": name, "labels": []}
    path.write_text(json.dumps(header) + '\n{"id": "1", "text": "x"}\n')
    assert read(path).name == "a"
