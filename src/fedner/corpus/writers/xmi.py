"""Writes UIMA CAS XMI for INCEpTION: a folder with NAME.xmi for each document and TypeSystem.xml.

Mentions are annotations of INCEpTION's own layer Named entity; sentences and tokens as given go
along, and where there are none INCEpTION makes its own. The layer has no place for a confidence,
nor the format for patients: they are counted as lost.
"""

import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fedner.corpus.document import Corpus, Document
from fedner.corpus.readers.extras import required
from fedner.corpus.readers.xmi import NAMED_ENTITY, SENTENCE, TOKEN
from fedner.corpus.writers.brat import check_target, is_file_name
from fedner.corpus.writers.writer import WriteOptions, Writer, Written
from fedner.durable import sync_folder, write_bytes
from fedner.errors import FednerError

TYPE_SYSTEM: Final = "TypeSystem.xml"
LOST_FRAGMENTS = "discontinuous mentions (written as their hull)"
LOST_PATIENTS = "patients (the format has no place for them)"
LOST_IDS = "ids that no file can have (renamed)"
_NEED = "XMI files"
_NOT_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def type_system() -> bytes:
    """Return the type system of DKPro Core, in which INCEpTION's own layers are."""
    return bytes(_types().to_xml(), "utf-8")


def document_xmi(document: Document) -> bytes:
    """Return a document as a CAS.

    Raises:
        FednerError: XML cannot carry its text, or the extra is missing.
    """
    check_document(document)
    types = _types()
    cas = required("cassis", "formats", _NEED).Cas(types)
    cas.sofa_string, cas.sofa_mime = document.text, "text/plain"
    for name, start, end, value in _marks(document):
        kind = types.get_type(name)
        extra = {"value": value} if value else {}
        cas.add(kind(begin=start, end=end, **extra))
    return bytes(cas.to_xmi(), "utf-8")


@cache
def _types() -> Any:
    cassis = required("cassis", "formats", _NEED)
    # Not `load_dkpro_core_typesystem`: it opens the same file in a way that Python deprecates.
    place = files("cassis.resources").joinpath("dkpro-core-types.xml")
    with place.open("rb") as stream:
        return cassis.load_typesystem(stream)


def _marks(document: Document) -> Iterator[tuple[str, int, int, str]]:
    for part in document.segments or ():
        yield SENTENCE, part.start, part.end, ""
        for start, end in zip(part.token_starts or (), part.token_ends or (), strict=True):
            yield TOKEN, start, end, ""
    for span in document.spans:
        yield NAMED_ENTITY, span.start, span.end, span.label


def check_document(document: Document) -> None:
    """Refuse a document that XML cannot carry."""
    for text in (document.text, *(span.label for span in document.spans)):
        if found := _NOT_IN_XML.search(text):
            raise FednerError(
                f"document {document.id!a}: the character U+{ord(found.group()):04X}, which XML "
                "cannot carry",
                "Remove it, or write JSONL.",
            )


def write_xmi(path: Path, corpus: Corpus) -> Written:
    """Write a corpus as a folder that appears when all is written."""
    check_target(path)
    losses: Counter[str] = Counter()
    target = path.resolve()
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        temporary.mkdir(parents=True)
        for document, name in file_names(corpus, losses):
            place = temporary / f"{name}.xmi"
            place.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(place, document_xmi(document))
        write_bytes(temporary / TYPE_SYSTEM, type_system())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise FednerError(
            f"cannot write {path}: {error.strerror or error}",
            "Check that you may create the folder there and that the disk has room.",
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    mentions = sum(len(document.spans) for document in corpus)
    return Written(len(corpus), mentions, {what: n for what, n in losses.items() if n})


def file_names(corpus: Iterable[Document], losses: Counter[str]) -> Iterator[tuple[Document, str]]:
    """Yield every document with the name of its file; count what the format cannot carry."""
    taken: set[str] = set()
    for number, document in enumerate(corpus, 1):
        losses[LOST_FRAGMENTS] += sum(span.is_discontinuous for span in document.spans)
        losses[LOST_PATIENTS] += document.patient is not None
        name = document.id
        if not is_file_name(name) or name.casefold() in taken:
            losses[LOST_IDS] += 1
            name = f"document-{number:06d}"
        taken.add(name.casefold())
        yield document, name


def _write(path: Path, corpus: Corpus, _options: WriteOptions) -> Written:
    return write_xmi(path, corpus)


WRITER = Writer(
    "xmi", "UIMA CAS XMI for INCEpTION: NAME.xmi and TypeSystem.xml", _write, makes_folder=True
)
