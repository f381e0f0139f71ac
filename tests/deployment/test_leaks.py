"""The leak searcher finds a planted leak of every form, wherever it stands, and nothing else."""

import base64
import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from leaks import Leak, find_leaks, leaked
from safetensors.torch import save

CANARY = "Zebrafink-7431"
WIDE = "Käfer Zebrafink 7431"
AROUND = b"INFO some line before\n", b"\nand a line behind\n"


def zipped(data: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        archive.writestr("member", data)
    return held.getvalue()


def tarred(data: bytes) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        info = tarfile.TarInfo("member")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return held.getvalue()


def each_byte(canary: str, form: str) -> bytes:
    return "".join(form.format(each) for each in canary.encode()).encode()


def text(data: bytes) -> str:
    return data.decode()


ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "plain": lambda canary: canary.encode(),
    "upper case": lambda canary: canary.upper().encode(),
    "utf-16-le": lambda canary: canary.encode("utf-16-le"),
    "utf-16-be": lambda canary: canary.encode("utf-16-be"),
    "utf-16 with a mark": lambda canary: canary.encode("utf-16"),
    "utf-32": lambda canary: canary.encode("utf-32"),
    "reversed": lambda canary: canary[::-1].encode(),
    "int32": lambda canary: np.array([ord(each) for each in canary], np.int32).tobytes(),
    "int64": lambda canary: np.array([ord(each) for each in canary], np.int64).tobytes(),
    "float32": lambda canary: np.array([ord(each) for each in canary], np.float32).tobytes(),
    "percent": lambda canary: quote(canary, safe="").encode(),
    "percent, every byte": lambda canary: each_byte(canary, "%{:02X}"),
    "JSON escapes": lambda canary: json.dumps("ü" + canary).encode(),
    "every JSON escape": lambda canary: each_byte(canary, "\\u{:04x}"),
    "Python escapes": lambda canary: each_byte(canary, "\\x{:02x}"),
    "HTML": lambda canary: each_byte(canary, "&#{};"),
    "quoted-printable": lambda canary: each_byte(canary, "={:02X}"),
    "a list of bytes": lambda canary: json.dumps(list(canary.encode())).encode(),
    "a list of floats": lambda canary: json.dumps([float(ord(each)) for each in canary]).encode(),
    "a tensor": lambda canary: save({"w": torch.tensor([ord(each) for each in canary])}),
}  # fmt: skip
WRAPPINGS: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: data,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zlib, quick": lambda data: zlib.compress(data, 1),
    "zip": zipped,
    "zip, stored": lambda data: zipped(data, zipfile.ZIP_STORED),
    "zip, bzip2": lambda data: zipped(data, zipfile.ZIP_BZIP2),
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    "bzip2": bz2.compress,
    "tar.gz": tarred,
    "base64": base64.b64encode,
    "base64 for addresses": base64.urlsafe_b64encode,
    "base64 without its end": lambda data: base64.b64encode(data).rstrip(b"="),
    "base64 in lines": base64.encodebytes,
    "base64 in JSON": lambda data: json.dumps({"data": text(base64.encodebytes(data))}).encode(),
    "base32": base64.b32encode,
    "hex": lambda data: data.hex().encode(),
    "HEX": lambda data: data.hex().upper().encode(),
    "hex with colons": lambda data: data.hex(":").encode(),
    "a certificate's base64 of zlib": lambda data: base64.encodebytes(zlib.compress(data)),
    "gzip in zip": lambda data: zipped(gzip.compress(data)),
    "hex in base64 in xz": lambda data: lzma.compress(base64.b64encode(data.hex().encode())),
}


def planted(folder: Path, data: bytes) -> list[Leak]:
    (folder / "log.txt").write_bytes(data)
    return find_leaks(folder, [CANARY])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_is_found(tmp_path: Path, encoding: str) -> None:
    data = AROUND[0] + ENCODINGS[encoding](CANARY) + AROUND[1]
    assert planted(tmp_path, data)
    another = ENCODINGS[encoding](CANARY.replace("7431", "8520"))
    assert not planted(tmp_path, AROUND[0] + another + AROUND[1])


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("encoding", ["plain", "utf-16-le", "JSON escapes"])
def test_every_wrapping_is_found(tmp_path: Path, wrapping: str, encoding: str) -> None:
    inner = AROUND[0] + ENCODINGS[encoding](CANARY) + AROUND[1]
    data = AROUND[0] + WRAPPINGS[wrapping](inner) + AROUND[1]
    assert planted(tmp_path, data)


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("outside", range(4))
def test_base64_is_found_at_every_alignment(tmp_path: Path, before: int, outside: int) -> None:
    inner = base64.b64encode(b"x" * before + CANARY.encode() + b"yy")
    assert planted(tmp_path, b"A" * outside + inner)


def test_what_overlaps_is_found_each_by_itself(tmp_path: Path) -> None:
    both = ["abracadabra", "dabracadabr"]
    (tmp_path / "one").write_text("abracadabracadabra")
    assert {leak.canary for leak in find_leaks(tmp_path, both)} == set(both)
    stream = zlib.compress(b"nothing of note") + zlib.compress(CANARY.encode())
    (tmp_path / "two").write_bytes(b"\x78\x9c" + stream[:-2])
    assert [leak.place for leak in find_leaks(tmp_path, [CANARY])] == ["two"]
    torn = gzip.compress(CANARY.encode() + random.Random(1).randbytes(9000))[:4000]
    assert leaked(torn, [CANARY]) == {CANARY}, "a stream without its end"


def test_letters_beyond_ascii_are_found(tmp_path: Path) -> None:
    for number, form in enumerate((WIDE.encode(), WIDE.encode("latin-1"), quote(WIDE).encode())):
        (tmp_path / str(number)).write_bytes(form)
    (tmp_path / "3").write_text(json.dumps(WIDE))
    assert len({leak.place for leak in find_leaks(tmp_path, [WIDE])}) == 4


def test_names_of_files_folders_and_links_are_searched(tmp_path: Path) -> None:
    (tmp_path / f"{CANARY}.d" / "inner").mkdir(parents=True)
    (tmp_path / f"{CANARY}.d" / "inner" / quote(f"{CANARY}/x", safe="")).write_text("")
    (tmp_path / "link").symlink_to(f"/data/{CANARY}/notes")
    places = sorted({leak.place for leak in find_leaks(tmp_path, [CANARY])})
    assert [place.split()[0] for place in places] == ["link", "name", "name"]


def test_a_leak_is_named_with_its_place_and_form(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "meta").write_bytes(base64.b64encode(gzip.compress(CANARY.encode())))
    forms = {leak.form for leak in find_leaks(tmp_path, [CANARY])}
    assert "base64 > gzip > utf-8" in forms
    assert {leak.place for leak in find_leaks(tmp_path, [CANARY])} == {"jobs/meta"}


def test_what_holds_no_canary_has_no_leak_and_is_searched_in_good_time(tmp_path: Path) -> None:
    chance = random.Random(7)
    (tmp_path / "weights").write_bytes(chance.randbytes(2**20))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(chance.randbytes(2**18)))
    (tmp_path / "log").write_text("\n".join(f"round {n}: loss {n / 7:.5f}" for n in range(5000)))
    assert find_leaks(tmp_path, [CANARY]) == []


def test_a_canary_that_chance_could_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fewer than"):
        find_leaks(tmp_path, ["short"])
