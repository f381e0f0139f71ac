"""Writes brat standoff: a folder with NAME.txt, NAME.ann and annotation.conf.

The id of a document is its path in the folder; one that cannot be a file name is replaced, and
counted. Sentences and tokens as given, and patients, have no place in the format: they are counted
as lost. Read again, documents come in the order of their names.
"""

import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fedner.corpus.document import Corpus, Document, Span
from fedner.corpus.files import MAX_LINE_CHARACTERS
from fedner.corpus.readers.brat import CONFIGURATION
from fedner.corpus.writers.writer import WriteOptions, Writer, Written
from fedner.durable import sync_folder
from fedner.errors import FednerError

LOST_SENTENCES = "sentences and tokens as given (brat has lines only)"
LOST_PATIENTS = "patients (brat has no place for them)"
LOST_IDS = "ids that no file can have (renamed)"
LOST_EMPTY = "documents without text (left out)"

_LABEL = re.compile(r"[^\s!<#\[-]\S*")
_MAX_NAME_BYTES = 200
_MAX_DEPTH = 20
# What Windows, macOS or Linux would not take, or take for something else.
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f\ud800-\udfff\\<>:"|?*]')


def write_brat(path: Path, corpus: Corpus) -> Written:
    """Write a corpus as a folder that appears when all is written.

    Args:
        path: The folder; it must not exist yet, or be empty.
        corpus: The documents.

    Returns:
        How much was written, and what the format could not carry.

    Raises:
        FednerError: If the folder is in use, or a label or a text cannot stand in brat.
    """
    check_target(path)
    check_labels({*corpus.labels, *(span.label for each in corpus for span in each.spans)})
    losses: Counter[str] = Counter()
    num_documents = num_mentions = 0
    target = path.resolve()
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        temporary.mkdir(parents=True)
        folders = {temporary}
        for document, name in _named(corpus, losses):
            folders |= _write_document(temporary, name, document)
            num_documents += 1
            num_mentions += len(document.spans)
        _put(temporary / CONFIGURATION, configuration(corpus.labels))
        for folder in folders:
            sync_folder(folder)
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise FednerError(
            f"cannot write {path}: {error.strerror or error}",
            "Check that you may create the folder there and that the disk has room.",
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Written(num_documents, num_mentions, dict(losses))


def check_labels(labels: Iterable[str]) -> None:
    """Refuse a label that brat cannot carry."""
    for label in sorted(set(labels)):
        if not _LABEL.fullmatch(label):
            raise FednerError(
                f"brat cannot carry the label {label!r}",
                "Labels there hold no white space and do not begin with one of ! < # [ -; rename "
                "it, or write JSONL.",
            )


def check_target(path: Path) -> None:
    """Refuse a folder that holds something."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        what = "a folder with files in it" if path.is_dir() else "a file"
        raise FednerError(
            f"{path} is {what}", "Name a new folder: these files must not be mixed with others."
        )


def _named(corpus: Corpus, losses: Counter[str]) -> Iterable[tuple[Document, str]]:
    """Yield every document that can be written with the name of its files; count the losses."""
    taken: set[str] = set()
    wanted = {document.id.casefold() for document in corpus}
    for number, document in enumerate(corpus, 1):
        check_text(document)
        losses.update(
            [LOST_SENTENCES] * (document.segments is not None)
            + [LOST_PATIENTS] * (document.patient is not None)
            + [LOST_EMPTY] * (not document.text)
        )
        if not document.text:
            continue
        name = document.id
        if not is_file_name(name) or name.casefold() in taken:
            losses[LOST_IDS] += 1
            name = f"document-{number:06d}"
            while name.casefold() in taken | wanted:
                name += "-"
        taken.add(name.casefold())
        yield document, name


def is_file_name(name: str) -> bool:
    """Whether `name` can be the path of a file that the reader finds again, on any system."""
    parts = name.split("/")
    if not all(parts) or len(parts) > _MAX_DEPTH:
        return False  # an empty part would make it absolute
    if any(folder.lower().endswith((".txt", ".ann")) for folder in parts[:-1]):
        return False  # a file of another document may have that name
    return all(
        part.strip(" ") == part
        and not part.startswith(".")
        and not part.endswith(".")
        and part != "__MACOSX"
        and not _FORBIDDEN.search(part)
        and len(part.encode("utf-8", errors="replace")) <= _MAX_NAME_BYTES
        for part in parts
    )


def check_text(document: Document) -> None:
    """Refuse a text that would not come back as it is."""
    fault = ""
    if "\0" in document.text:
        fault = "holds a NUL"
    elif document.text.startswith("\ufeff"):
        fault = "begins with a byte-order mark"
    elif len(document.text) > MAX_LINE_CHARACTERS and any(
        len(line) > MAX_LINE_CHARACTERS for line in document.text.split("\n")
    ):
        fault = f"has a line of more than {MAX_LINE_CHARACTERS:,} characters"
    else:
        try:
            document.text.encode()
        except UnicodeEncodeError:
            fault = "holds half a surrogate pair"
    if fault:
        raise FednerError(
            f'document "{document.id}": its text {fault}, which brat cannot carry',
            "Fix the text, or write JSONL.",
        )


def _write_document(folder: Path, name: str, document: Document) -> set[Path]:
    """Write the two files of a document, and return the folders that hold them."""
    text = folder / f"{name}.txt"
    if not text.is_relative_to(folder):  # whatever `is_file_name` let through
        raise FednerError(
            f"the id {document.id!a} leads outside the folder", "Rename the document."
        )
    text.parent.mkdir(parents=True, exist_ok=True)
    _put(text, document.text)
    _put(folder / f"{name}.ann", "".join(annotation_lines(document)))
    return {parent for parent in text.parents if parent.is_relative_to(folder)}


def annotation_lines(document: Document) -> list[str]:
    """Return a line for each mention, numbered from T1."""
    return [_line(number, span, document.text) for number, span in enumerate(document.spans, 1)]


def _line(number: int, span: Span, text: str) -> str:
    ranges = ";".join(f"{start} {end}" for start, end in span.fragments)
    quote = span.text_in(text).replace("\r\n", " ").replace("\n", " ")
    return f"T{number}\t{span.label} {ranges}\t{quote}\n"


def configuration(labels: Iterable[str]) -> str:
    """Return annotation.conf for labels."""
    entities = "".join(f"{label}\n" for label in sorted(labels))
    return f"[entities]\n{entities}\n[relations]\n\n[events]\n\n[attributes]\n"


def _put(path: Path, text: str) -> None:
    with path.open("xb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, corpus: Corpus, _options: WriteOptions) -> Written:
    return write_brat(path, corpus)


WRITER = Writer(
    name="brat",
    description="brat standoff: a folder of NAME.txt with NAME.ann",
    write=_write,
    makes_folder=True,
)
