"""spaCy's DocBin (`.spacy`): the training format of spaCy 3.

See https://spacy.io/api/docbin. The file is zlib-compressed msgpack: a matrix of 64-bit token
attributes, the spaces, the lengths of the documents and the strings behind the hashes. It is
decoded here down to numbers, with a limit on its size, and only the strings are looked up by spaCy:
a damaged file must not reach the C code that builds its documents. Nothing is unpickled.

Mentions are the entities (`doc.ents`) and the spans of the group `sc` (span categorisation).
Sentences are those of the file where it marks them, else split by rule.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.files import display_name, files_in
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.corpus.readers.options import NoOptions
from fedner.corpus.readers.reader import Reader
from fedner.corpus.segment import split_by_rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 512 * 1024 * 1024
"""The largest content that is read (after decompression): about ten million tokens."""

SPAN_GROUP = "sc"
"""The group in which spaCy's span categoriser keeps its spans by default."""

REMARK_UNKNOWN = "document whose entities were never set (read as having none)"
REMARK_NO_LABEL = "span without a label (left out)"

_NEED = "DocBin files"
_ZLIB_MARKS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_VERSION_KEY = b"version"
_INSIDE, _BEGIN, _UNSET = 1, 3, 0
_SPAN = struct.Struct(">QQQllll")


@dataclass(frozen=True, slots=True)
class _Bin:
    """The decoded content of a file.

    Attributes:
        orth: The hash of each token. Shape [T].
        iob: 1 inside, 2 outside, 3 begin of an entity, 0 unknown. Shape [T].
        types: The hash of the label of each token's entity. Shape [T].
        starts: 1 where a sentence begins. Shape [T].
        spaces: Whether a blank follows each token. Shape [T].
        lengths: The number of tokens of each document.
        groups: The packed span groups of each document.
        string: Looks up what stands behind a hash.
    """

    orth: list[int]
    iob: list[int]
    types: list[int]
    starts: list[int]
    spaces: list[bool]
    lengths: list[int]
    groups: list[bytes]
    string: Callable[[int], str]


def recognise(path: Path) -> str | None:
    """Say why a file, or some file of a folder, looks like a DocBin."""
    for file in files_in(path):
        if _looks_right(file):
            return f"{file.name} is zlib-compressed msgpack with attrs, tokens and strings"
    return None


def stream(path: Path, log: ProblemLog, _options: NoOptions) -> Iterator[Document]:
    """Read a file, or those files of a folder that are DocBins; ids count their documents."""
    files = [file for file in files_in(path) if file == path or _looks_right(file)]
    if not files:
        _report(log, path, "no .spacy file", "files that DocBin.to_disk wrote")
    for file in files:
        source = display_name(file, path)
        content = attempt(partial(_decoded, file))
        if isinstance(content, Fault):
            _report(log, file, content.found, "a file that DocBin.to_disk wrote")
            continue
        begin = 0
        for number, length in enumerate(content.lengths):
            build = partial(_document, content, number, begin, f"{source}#{number + 1}", source)
            found = attempt(partial(build, log))
            if isinstance(found, Fault):
                _report(
                    log,
                    file,
                    f"document {number + 1}: {found.found}",
                    "token data that spaCy can read",
                )
            else:
                yield found
            begin += length


def _looks_right(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(4096)
        if not start.startswith(_ZLIB_MARKS):
            return False
        beginning = zlib.decompressobj().decompress(start, 256)
    except (OSError, zlib.error):
        return False
    return _VERSION_KEY in beginning and b"attrs" in beginning


def _decoded(path: Path) -> _Bin:
    """Return the content of a file; raises whatever is wrong with it."""
    import numpy as np

    loads = required("srsly", "spacy", _NEED).msgpack_loads
    strings = required("spacy.strings", "spacy", _NEED).StringStore
    attributes = required("spacy.attrs", "spacy", _NEED).IDS
    message = loads(_inflated(path))
    names = [int(name) for name in message["attrs"]]
    tokens = np.frombuffer(message["tokens"], dtype="<u8")
    if tokens.size % len(names):
        raise ValueError(f"{tokens.size} values for {len(names)} attributes a token")
    table = tokens.reshape(-1, len(names))
    lengths = [int(length) for length in np.frombuffer(message["lengths"], dtype="<i4")]
    spaces = [bool(space) for space in np.frombuffer(message["spaces"], dtype="u1")]
    if min(lengths, default=0) < 0 or not sum(lengths) == len(table) == len(spaces):
        raise ValueError(
            f"{sum(lengths)} tokens by length, {len(table)} rows, {len(spaces)} spaces"
        )
    for number, flags in enumerate(message.get("flags") or []):
        if number < len(lengths) and flags.get("has_unknown_spaces"):
            begin = sum(lengths[:number])
            spaces[begin : begin + lengths[number]] = [True] * lengths[number]
    column = partial(_column, table, names)
    return _Bin(
        column(attributes["ORTH"]),
        column(attributes["ENT_IOB"]),
        column(attributes["ENT_TYPE"]),
        column(attributes["SENT_START"]),
        spaces,
        lengths,
        list(message.get("span_groups") or []),
        strings(message["strings"]).__getitem__,
    )


def _inflated(path: Path) -> bytes:
    with path.open("rb") as file:
        packed = file.read(MAX_BYTES + 1)
    inflater = zlib.decompressobj()
    content = inflater.decompress(packed, MAX_BYTES)
    if not inflater.eof:
        raise ValueError(f"cut short, or more than {MAX_BYTES // 2**20} MiB of content")
    return content


def _column(table: "NDArray[Any]", names: list[int], name: int) -> list[int]:
    """Return one attribute of all tokens; zeros where the file does not keep it."""
    if name not in names:
        return [0] * len(table)
    values: list[int] = table[:, names.index(name)].tolist()
    return values


def _document(
    content: _Bin, number: int, begin: int, identity: str, source: str, log: ProblemLog
) -> Document:
    stop = begin + content.lengths[number]
    words = [content.string(orth) for orth in content.orth[begin:stop]]
    starts, ends, position, parts = [], [], 0, []
    for word, has_space in zip(words, content.spaces[begin:stop], strict=True):
        starts.append(position)
        ends.append(position + len(word))
        position = ends[-1] + has_space
        parts.append(f"{word} " if has_space else word)
    text = "".join(parts)
    text.encode()  # raises for half a surrogate pair
    spans = list(_entities(content, begin, stop, starts, ends))
    if stop > begin and not any(content.iob[begin:stop]):
        log.remark(REMARK_UNKNOWN)
    packed = content.groups[number] if number < len(content.groups) else b""
    for span in _grouped(packed, content, starts, ends, log):
        if span not in spans:
            spans.append(span)
    segments = _segments(text, starts, ends, content.starts[begin:stop])
    return Document(identity, text, tuple(spans), segments, source=source)


def _entities(
    content: _Bin, begin: int, stop: int, starts: list[int], ends: list[int]
) -> Iterator[Span]:
    """Yield the runs of tokens that one entity covers."""
    first: int | None = None
    for index in range(begin, stop + 1):
        iob = content.iob[index] if index < stop else _UNSET
        goes_on = (
            first is not None and iob == _INSIDE and content.types[index] == content.types[first]
        )
        if goes_on:
            continue
        if first is not None:
            label = content.string(content.types[first])
            yield Span.of(starts[first - begin], ends[index - 1 - begin], label)
        is_entity = iob in (_BEGIN, _INSIDE) and content.types[index] != 0
        first = index if is_entity else None


def _grouped(
    packed: bytes, content: _Bin, starts: list[int], ends: list[int], log: ProblemLog
) -> Iterator[Span]:
    """Yield the spans of the group that span categorisation trains on."""
    if not packed:
        return
    loads = required("srsly", "spacy", _NEED).msgpack_loads
    message = loads(packed)
    named = message.items() if isinstance(message, dict) else ((each, None) for each in message)
    for group, keys in named:
        record = loads(group)
        names = [record["name"]] if keys is None else keys
        if SPAN_GROUP not in names:
            log.remark(f"span group {str(names[0])[:40]!r} (left out)")
            continue
        for data in record["spans"]:
            _, _, label, first, stop, _, _ = _SPAN.unpack(data)
            if not label:
                log.remark(REMARK_NO_LABEL)
            elif 0 <= first < stop <= len(starts):
                yield Span.of(starts[first], ends[stop - 1], content.string(label))
            else:
                raise ValueError(f"a span of the tokens {first} to {stop} of {len(starts)}")


def _segments(
    text: str, starts: list[int], ends: list[int], marks: list[int]
) -> tuple[Segment, ...]:
    """Return the sentences with their tokens, without those of white space alone."""
    if any(mark == 1 for mark in marks[1:]):
        borders = [index for index, mark in enumerate(marks) if mark == 1 or index == 0]
    else:
        borders, position = [], 0
        for begin, _ in split_by_rule(text):
            while position < len(starts) and starts[position] < begin:
                position += 1
            borders.append(position)
        borders = sorted({0, *borders} if starts else set())
    segments = []
    for first, stop in zip(borders, [*borders[1:], len(starts)], strict=True):
        places = [
            (starts[index], ends[index])
            for index in range(first, stop)
            if not text[starts[index] : ends[index]].isspace() and starts[index] != ends[index]
        ]
        if places:
            begins, stops = zip(*places, strict=True)
            segments.append(Segment(begins[0], stops[-1], begins, stops))
    return tuple(segments)


def _report(log: ProblemLog, path: Path, found: str, expected: str) -> None:
    log.report(
        Problem("unreadable file", str(path), None, found, expected, "Write or copy it again.")
    )


READER = Reader(
    name="docbin",
    description="spaCy's DocBin: files of the suffix .spacy",
    recognise=recognise,
    stream=stream,
    sentences="as given",
    options=NoOptions,
    has_unique_ids=True,
)
