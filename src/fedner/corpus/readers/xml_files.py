"""XML as annotation tools write it: streamed, without entities, faults with their line."""

import html
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from fedner.corpus.files import opened
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers.extras import Extra, Fault, attempt, required

MAX_XML_BYTES = 2 * 1024**3
"""The largest XML file that is read (after decompression)."""

# How a parser may see a declaration of an entity: one byte a letter, or two, or four.
_ENTITIES: Final = tuple(
    "<!ENTITY".encode(encoding)
    for encoding in ("ascii", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
)
_LONGEST_ENTITY: Final = max(map(len, _ENTITIES))
# Encodings in which ASCII is ASCII, or which `_ENTITIES` covers. In others (UTF-7, EBCDIC,
# ISO-2022) the same letters are other bytes, and a parser would see what the guard does not.
_SAFE_ENCODING: Final = re.compile(
    r"(utf-?8|utf-?16(le|be)?|ucs-?[24]|utf-?32(le|be)?|iso-10646-ucs-[24]|us-ascii|ascii"
    r"|iso-?8859-?\d{1,2}|iso_8859-\d{1,2}|latin-?\d|(windows-|cp)125\d|koi8-[ru]"
    r"|gbk|gb2312|gb18030|big5|shift_jis|euc-(jp|kr|cn))",
    re.IGNORECASE,
)
_DECLARED: Final = re.compile(rb"""<\?xml[^>]{0,300}?encoding\s*=\s*["']([^"'>]{0,100})["']""")
_HEAD_BYTES: Final = 1024


class Checked:
    """A stream of bytes that refuses declarations of entities and what never ends.

    No annotation tool declares entities, and what they can do (blow up, read other files) nobody
    wants. They could only stand before the first element, but looking everywhere costs little.
    Whatever encoding a parser may take the file for is looked at; one in which a declaration could
    hide is refused.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._last = b""
        self._head = b""
        self._total = 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`."""
        data = self._stream.read(min(size, 1 << 20) if size > 0 else 1 << 20)
        self._total += len(data)
        if len(self._head) < _HEAD_BYTES:
            self._head = (self._head + data)[:_HEAD_BYTES]
            _check_encoding(self._head)
        seen = self._last + data
        if any(entity in seen for entity in _ENTITIES):
            raise ValueError("a declaration of an XML entity")
        if self._total > MAX_XML_BYTES:
            raise ValueError(f"more than {MAX_XML_BYTES // 2**20} MiB of XML")
        self._last = seen[-_LONGEST_ENTITY:]
        return data


def _check_encoding(beginning: bytes) -> None:
    """Refuse an encoding that could hide a declaration from whoever looks at the bytes."""
    # Two or four bytes a letter: without the zeros the declaration is ASCII.
    plain = beginning.replace(b"\0", b"")
    if plain.startswith(b"\x4c\x6f\xa7\x94"):  # "<?xm" in EBCDIC
        raise ValueError("XML in EBCDIC")
    declared = _DECLARED.search(plain)
    if declared is not None:
        name = declared[1].decode("ascii", errors="replace")
        if _SAFE_ENCODING.fullmatch(name) is None:
            raise ValueError(f"XML in the encoding {name[:40]!r}")


def elements(
    path: Path, tag: str, log: ProblemLog, extra: Extra, need: str
) -> Iterator[tuple[int, str]]:
    """Yield the outermost elements of a name as XML of their own, with their lines.

    A fault of the file is reported; what came before it has been read.

    Args:
        path: The file, plain, .gz or .xz.
        tag: The name of the elements.
        log: Where a fault of the file goes.
        extra: The extra that brings the parser.
        need: What it is needed for, for people.
    """
    etree = required("lxml.etree", extra, need)
    with ExitStack() as stack:
        stream = attempt(lambda: stack.enter_context(opened(path)))
        if isinstance(stream, Fault):
            report(log, path, None, stream.found)
            return
        source = Checked(cast("BinaryIO", stream))
        events = etree.iterparse(
            source, events=("end",), tag=tag, resolve_entities=False, no_network=True
        )
        while True:
            found = attempt(lambda: _next(events, etree))
            if isinstance(found, Fault):
                report(log, path, None, found.found)
                return
            if found is None:
                return
            yield found


def _next(events: Any, etree: Any) -> tuple[int, str] | None:
    """Return the next element, and forget it and what stands before it."""
    entry = next(events, None)
    if entry is None:
        return None
    element = entry[1]
    line = element.sourceline
    element.tail = None
    text = etree.tostring(element, encoding="unicode")
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]
    return line, text


def report(log: ProblemLog, path: Path, line: int | None, found: str) -> None:
    """Report a file that is no good XML."""
    log.report(
        Problem(
            "unreadable file", str(path), line, found,
            "well-formed XML without entities, in UTF-8 or another common encoding",
            "Export or copy the file again; what came before the fault was read.",
        )
    )  # fmt: skip


def unescaped(text: str) -> str:
    """Return the text that a piece of XML stands for."""
    return html.unescape(text)
