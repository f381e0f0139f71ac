"""Finds canaries in whatever a party stored or received, in any form that software gives to text.

Every file of a folder is searched, and so are the names of files and the targets of links. Data are
*peeled*: whatever part of them looks compressed or encoded is decoded at every place where it may
begin, and what comes out is peeled again. Each layer is searched for the canary in every encoding
of text, and as numbers of a tensor, in any case of letters.

Not found: what was encrypted, and a canary that was cut into pieces.
"""

import base64
import bz2
import hashlib
import html
import io
import lzma
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

MOST_DEPTH = 5
MOST_BYTES = 64 * 2**20  # of what one stream unpacks to
LEAST_CANARY = 8  # characters: a shorter one is found by chance


@dataclass(frozen=True, slots=True)
class Leak:
    """A canary that was found.

    Attributes:
        place: The file, relative to the folder; of a name, the name itself.
        canary: Which.
        form: How it was hidden, from the outside to the inside.
    """

    place: str
    canary: str
    form: str


def find_leaks(folder: Path, canaries: Iterable[str]) -> list[Leak]:
    """Return every canary in the files of a folder, in their names and in the targets of links."""
    needles = [(canary, form, needle) for canary in canaries for form, needle in _needles(canary)]
    found: set[Leak] = set()
    for place, data in _places(folder):
        for layer, content in peeled(data):
            lowered = content.lower()
            for canary, form, needle in needles:
                if needle in lowered:
                    found.add(Leak(place, canary, " > ".join([*layer, form])))
    return sorted(found, key=lambda leak: (leak.place, leak.canary, leak.form))


def leaked(data: bytes, canaries: Iterable[str]) -> set[str]:
    """Return the canaries in some bytes, as those that crossed a wire."""
    needles = [(canary, needle) for canary in canaries for _, needle in _needles(canary)]
    layers = [content.lower() for _, content in peeled(data)]
    return {canary for canary, needle in needles if any(needle in each for each in layers)}


def _places(folder: Path) -> Iterator[tuple[str, bytes]]:
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(root) / name
            place = str(path.relative_to(folder))
            yield f"name {place}", os.fsencode(name)
            if path.is_symlink():
                yield f"link {place}", os.fsencode(path.readlink())
            elif path.is_file():
                yield place, path.read_bytes()


def _needles(canary: str) -> Iterator[tuple[str, bytes]]:
    """Yield a canary in every encoding of text and as every array of its code points."""
    if len(canary) < LEAST_CANARY:
        raise ValueError(f"the canary {canary!r} has fewer than {LEAST_CANARY} characters")
    forms: dict[str, bytes] = {}
    for encoding in ("latin-1", "utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        try:
            forms[encoding] = canary.encode(encoding)
        except UnicodeEncodeError:
            continue
    codes = [ord(character) for character in canary]
    for name, letter in (("int64", "q"), ("float32", "f"), ("float64", "d")):
        forms[name] = struct.pack(f"<{len(codes)}{letter}", *codes)
    forms["reversed"] = canary[::-1].encode()
    yield from {data.lower(): (form, data.lower()) for form, data in forms.items()}.values()


def peeled(data: bytes) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield data and everything that can be decoded out of them, with how it was encoded."""
    waiting: list[tuple[tuple[str, ...], bytes]] = [((), data)]
    seen: set[bytes] = set()
    while waiting:
        layer, content = waiting.pop()
        mark = hashlib.sha256(content).digest()
        if mark in seen:
            continue
        seen.add(mark)
        yield layer, content
        if len(layer) < MOST_DEPTH:
            waiting += [
                ((*layer, name), inner)
                for name, peel in PEELS.items()
                for inner in peel(content)
                if len(inner) >= LEAST_CANARY and inner != content
            ]


# Compressed streams, at every place where one may begin; of a cut one, what is there.


def _unpacked(unpacker: Any, data: bytes) -> bytes:
    """Return what a stream unpacks to, as far as it does."""
    pieces = io.BytesIO()
    for start in range(0, len(data), 512):  # small: a broken end must not hide its beginning
        try:
            pieces.write(unpacker.decompress(data[start : start + 512]))
        except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError):
            break
        if getattr(unpacker, "eof", False) or pieces.tell() > MOST_BYTES:
            break
    return pieces.getvalue()


def _streams(magic: bytes, make: Callable[[], Any]) -> Callable[[bytes], Iterator[bytes]]:
    pattern = re.compile(magic, re.DOTALL)

    def peel(data: bytes) -> Iterator[bytes]:
        for start in (match.start() for match in pattern.finditer(data)):
            yield _unpacked(make(), data[start:])

    return peel


def _zip_members(data: bytes) -> Iterator[bytes]:
    """Yield the packed members of zip files, each by its own header: the rest may be missing."""
    for match in re.finditer(rb"PK\x03\x04", data):
        header = data[match.start() : match.start() + 30]
        if len(header) < 30:
            continue
        method, name, extra = *struct.unpack("<H", header[8:10]), *struct.unpack("<HH", header[26:])
        body = data[match.start() + 30 + name + extra :]
        if method == 8:
            yield _unpacked(zlib.decompressobj(-15), body)
        elif method == 12:
            yield _unpacked(bz2.BZ2Decompressor(), body)


# Text that stands for bytes.


def _texts(data: bytes) -> list[bytes]:
    """Return data that are text, or else the texts in them: noise is full of stray escapes."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return re.findall(rb"[\t\r\n\x20-\x7e]{8,}", data)
    return [data]


def _base64(data: bytes) -> Iterator[bytes]:
    """Yield what runs of base64, plain or for addresses, decode to from each of four beginnings."""
    for text in {data, re.sub(rb"\s|\\r|\\n", b"", data)}:
        for run in re.findall(rb"[A-Za-z0-9+/_-]{11,}", text):
            plain = run.translate(bytes.maketrans(b"-_", b"+/"))
            for start in range(4):
                part = plain[start:]
                part = part[: len(part) - (len(part) % 4 == 1)]
                yield base64.b64decode(part + b"=" * (-len(part) % 4))


def _base32(data: bytes) -> Iterator[bytes]:
    for run in re.findall(rb"[A-Z2-7]{13,}", data.upper()):
        for start in range(8):
            part = run[start : start + (len(run) - start) // 8 * 8]
            rest = run[start + len(part) :]
            rest = rest[: max(size for size in (0, 2, 4, 5, 7) if size <= len(rest))]
            yield base64.b32decode(part + rest + b"=" * (-len(rest) % 8))


def _hex(data: bytes) -> Iterator[bytes]:
    """Yield what runs of hex digits decode to, also 63:61:6e and \\x63\\x61\\x6e."""
    plain = re.sub(rb"\\x|0x|[:,\s-]+(?=[0-9A-Fa-f]{2})", b"", data)
    for text in {data, plain}:
        for run in re.findall(rb"[0-9A-Fa-f]{16,}", text):
            for start in range(2):
                part = run[start:]
                yield bytes.fromhex(part[: len(part) // 2 * 2].decode())


def _percent(data: bytes) -> Iterator[bytes]:
    for text in _texts(data):
        if re.search(rb"%[0-9A-Fa-f]{2}", text):
            yield unquote_to_bytes(text.replace(b"+", b" "))


def _escapes(data: bytes) -> Iterator[bytes]:
    """Yield text with the escapes of JSON, Python and HTML undone."""
    for text in _texts(data):
        if re.search(rb"\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[0-7]{3}", text):
            bare = re.sub(rb"\\u([0-9A-Fa-f]{4})", _utf8, text)
            bare = re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda m: bytes.fromhex(m[1].decode()), bare)
            yield re.sub(rb"\\([0-3][0-7]{2})", lambda m: bytes([int(m[1], 8)]), bare)
        if re.search(rb"&#?\w+;", text):
            yield html.unescape(text.decode("utf-8", "replace")).encode("utf-8", "replace")
        if re.search(rb"=[0-9A-F]{2}", text):
            joined = re.sub(rb"=\r?\n", b"", text)
            yield re.sub(rb"=([0-9A-F]{2})", lambda m: bytes.fromhex(m[1].decode()), joined)


def _utf8(match: "re.Match[bytes]") -> bytes:
    return chr(int(match[1], 16)).encode("utf-8", "replace")


def _numbers(data: bytes) -> Iterator[bytes]:
    """Yield lists of numbers, as JSON writes bytes or code points, as text."""
    for run in re.findall(rb"\d{1,6}(?:\.0)?(?:[,;\s]+\d{1,6}(?:\.0)?){7,}", data):
        codes = [int(each) for each in re.findall(rb"\d+(?=\.0|[,;\s]|$)", run)]
        yield "".join(map(chr, codes)).encode("utf-8", "replace")
        yield bytes(code % 256 for code in codes)


PEELS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _streams(rb"\x1f\x8b\x08", lambda: zlib.decompressobj(31)),
    "zlib": _streams(rb"\x78[\x01\x5e\x9c\xda]", zlib.decompressobj),
    "zip": _zip_members,
    "xz": _streams(rb"\xfd7zXZ\x00", lzma.LZMADecompressor),
    "lzma": _streams(rb"\x5d\x00\x00", lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE)),
    "bzip2": _streams(rb"BZh[1-9]1AY&SY", bz2.BZ2Decompressor),
    "base64": _base64,
    "base32": _base32,
    "hex": _hex,
    "percent": _percent,
    "escapes": _escapes,
    "numbers": _numbers,
}
