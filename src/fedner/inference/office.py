"""The text of Word documents and PDFs, through python-docx and pypdf (the extra `office`).

What a reader of the document sees is its text: body, tables, text boxes, headers, footers, notes
and comments of a Word document, one paragraph a line, with insertions that are tracked and without
deletions; the pages of a PDF one after the other. Offsets count the characters of that text.
"""

import io
import logging
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fedner.corpus.file_kinds import PDF, WORD, FileKind
from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.errors import FednerError
from fedner.inference.text_files import MAX_BYTES, TextFileError

MAX_OFFICE_BYTES: Final = 64 * 1024 * 1024
"""The largest document, images included."""

_MAX_UNPACKED: Final = 256 * 1024 * 1024
_MODULES: Final = {WORD: "docx", PDF: "pypdf"}
_WORDS: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_PARAGRAPH: Final = f"{_WORDS}p"
# Text that was deleted or moved away, and what another element holds in a second form.
_UNSEEN: Final = (f"{_WORDS}del", f"{_WORDS}moveFrom", _FALLBACK, _PARAGRAPH)
_SIGNS: Final = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# Parts beside the body, in the order in which their text follows it.
_PARTS: Final = ("header", "footer", "footnotes", "endnotes", "comments")
_UNWRITABLE: Final = re.compile("[\x00\ud800-\udfff]")
_OTHER_WAY: Final = "Save it as plain text in UTF-8, and use that file."


def is_office(kind: FileKind | None) -> bool:
    """Whether the text of such a file can be taken out of it."""
    return kind in _MODULES


def missing_library(kind: FileKind) -> str:
    """Return what to do to read such files; empty where the library is installed."""
    try:
        required(_MODULES[kind], "office", "documents")
    except FednerError as error:
        return f"{error.hint}. Or: {kind.hint}"
    return ""


def read_office_file(path: Path, kind: FileKind) -> str:
    """Return the text of a Word document or a PDF.

    Args:
        path: The file.
        kind: What it is, by its content.

    Raises:
        TextFileError: The library is not installed, or the file cannot be read, has a password, has
            no text or too much of it.
    """
    if hint := missing_library(kind):
        raise TextFileError(path, kind.name, hint, is_text=False)
    try:
        size = path.stat().st_size
        if size > MAX_OFFICE_BYTES:
            why = f"{kind.name} of {size:,} bytes; expected at most {MAX_OFFICE_BYTES:,}"
            raise TextFileError(path, why, _OTHER_WAY)
        data = path.read_bytes()
    except OSError as error:
        why = f"cannot be read: {error.strerror or error}"
        raise TextFileError(path, why, "Check its permissions.") from error
    read = _word_text if kind == WORD else _pdf_text
    with _quiet():
        text = attempt(lambda: read(data))
    if isinstance(text, Fault):
        raise TextFileError(path, f"{kind.name} that cannot be read ({text.found})", _OTHER_WAY)
    if not text.strip():
        hint = "If its pages are pictures, run text recognition (OCR) first."
        raise TextFileError(path, f"{kind.name} without text", hint)
    if len(text) > MAX_BYTES:
        raise TextFileError(path, f"{kind.name} with {len(text):,} characters", "Split it.")
    return _UNWRITABLE.sub("\ufffd", text)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep pypdf from logging what it works around."""
    logger = logging.getLogger("pypdf")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _word_text(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        unpacked = sum(each.file_size for each in archive.infolist())
    if unpacked > _MAX_UNPACKED:
        raise ValueError(f"{unpacked:,} bytes unpacked; expected at most {_MAX_UNPACKED:,}")
    document = required("docx", "office", "Word documents").Document(io.BytesIO(data))
    lines = list(_lines(document.element.body))
    for root in _further_parts(document.part):
        lines += [line for line in _lines(root) if line.strip()]
    return "\n".join(lines)


def _further_parts(part: Any) -> Iterator[Any]:
    """Yield the root of each header, footer, note and comment part."""
    etree = required("lxml.etree", "office", "Word documents")
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    for name in _PARTS:
        for relation in part.rels.values():
            if relation.reltype.endswith(f"/{name}") and not relation.is_external:
                yield etree.fromstring(relation.target_part.blob, parser)


def _lines(root: Any) -> Iterator[str]:
    """Yield the text of each paragraph, those in tables and text boxes too."""
    for paragraph in root.iter(_PARAGRAPH):
        if not any(above.tag == _FALLBACK for above in paragraph.iterancestors()):
            yield "".join(_pieces(paragraph))


def _pieces(node: Any) -> Iterator[str]:
    """Yield what a paragraph shows; the paragraphs within it come by themselves."""
    for child in node:
        if child.tag in _UNSEEN:
            continue
        name = str(child.tag).removeprefix(_WORDS)
        if name == "t":
            yield child.text or ""
        elif name in _SIGNS:
            yield _SIGNS[name]
        elif name != "tabs":  # a paragraph's tab stops are no tabs
            yield from _pieces(child)


def _pdf_text(data: bytes) -> str:
    reader = required("pypdf", "office", "PDF files").PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it has a password")
    return "\n".join(page.extract_text() for page in reader.pages)
