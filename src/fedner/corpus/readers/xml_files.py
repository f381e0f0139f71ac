"""XML as annotation tools write it: streamed, without entities, faults with their line."""

import html
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

from fedner.corpus.files import opened
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers.extras import Extra, Fault, attempt, required

MAX_XML_BYTES = 2 * 1024**3
"""The largest XML file that is read (after decompression)."""

_ENTITY = b"<!ENTITY"


class Checked:
    """A stream of bytes that refuses declarations of entities and what never ends.

    No annotation tool declares entities, and what they can do (blow up, read other files) nobody
    wants. They could only stand before the first element, but looking everywhere costs little.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._last = b""
        self._total = 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`."""
        data = self._stream.read(min(size, 1 << 20) if size > 0 else 1 << 20)
        self._total += len(data)
        if _ENTITY in self._last + data:
            raise ValueError("a declaration of an XML entity")
        if self._total > MAX_XML_BYTES:
            raise ValueError(f"more than {MAX_XML_BYTES // 2**20} MiB of XML")
        self._last = data[-len(_ENTITY) :]
        return data


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
            "unreadable file", str(path), line, found, "well-formed XML without entities",
            "Export or copy the file again; what came before the fault was read.",
        )
    )  # fmt: skip


def unescaped(text: str) -> str:
    """Return the text that a piece of XML stands for."""
    return html.unescape(text)
