"""Writes token columns: token, tab, tag; a blank line after each sentence.

Read again, a file without `-DOCSTART-` lines has a document for each sentence, named by its line.
Where that is not what the corpus has, such a line stands before each document and carries its id
and its patient: `-DOCSTART-`, `id=...`, `patient=...`, `O`. What columns have no place for is
counted: the text between tokens, types that are annotated but never occur.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from fedner.corpus.document import Corpus, Document, labels_of
from fedner.corpus.files import atomic_writer
from fedner.corpus.prepare import prepare
from fedner.corpus.readers.column_layout import MARKER, marker_line
from fedner.corpus.schemes import canonical, encode
from fedner.corpus.sentence import Sentence
from fedner.corpus.writers.writer import Losses, WriteOptions, Writer, Written
from fedner.errors import FednerError

LOST_IDS = "ids that name documents by their line (they change with the file)"
LOST_TEXT = "texts with other white space than columns stand for"
LOST_EMPTY = "documents without tokens (left out)"
LOST_LABELS = "annotated types that never occur (columns do not declare them)"

_BYTE_ORDER_MARK = "\ufeff"
_SEPARATORS = ("\t", "\n", "\r")


def write_columns(
    path: Path,
    sentences: Iterable[Sentence],
    scheme: str = "BIO",
    *,
    has_markers: bool = False,
) -> int:
    """Write sentences as they come, wholly or not at all, and return how many there were.

    Columns carry tokens and flat entities, and ids and patients in markers: not the text between
    tokens. A sentence without tokens cannot be written and is left out.

    Args:
        path: Where the file shall stand; `.gz` and `.xz` are compressed.
        sentences: The sentences; they are not held in memory.
        scheme: The tag scheme.
        has_markers: Whether a `-DOCSTART-` line with id and patient stands before each document.

    Raises:
        FednerError: If a token or label cannot stand in a column, or the scheme cannot carry the
            entities.
    """
    name = canonical(scheme)
    count = 0
    document: str | None = None
    with atomic_writer(path) as file:
        for sentence in sentences:
            if has_markers and sentence.document != document:
                document = sentence.document
                file.write(f"{marker_line(document, sentence.patient)}\n\n")
            if sentence.tokens:
                if not (count or has_markers) and sentence.tokens[0][:1] == _BYTE_ORDER_MARK:
                    _refuse(sentence, ["O"] * len(sentence.tokens), (_BYTE_ORDER_MARK,))
                file.write(_lines(sentence, encode(sentence.entities, len(sentence.tokens), name)))
                count += 1
    return count


def _lines(sentence: Sentence, tags: list[str]) -> str:
    rows = [f"{token}\t{tag}\n" for token, tag in zip(sentence.tokens, tags, strict=True)]
    text = "".join(rows)
    # A stray separator in a token or a label shows in the counts; only then is it looked for.
    num_rows = len(rows)
    if text.count("\t") != num_rows or text.count("\n") != num_rows or "\r\n" in text:
        _refuse(sentence, tags, _SEPARATORS)
    if not all(sentence.tokens) or MARKER in sentence.tokens:
        _refuse(sentence, tags, _SEPARATORS)
    if not text.isascii():
        _check_encoding(sentence, tags, text)
    if "\0" in text:
        _refuse(sentence, tags, ("\0",))
    return f"{text}\n"


def _check_encoding(sentence: Sentence, tags: list[str], text: str) -> None:
    """Refuse what UTF-8 does not have."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        _refuse(sentence, tags, (text[error.start],))


def _refuse(sentence: Sentence, tags: list[str], marks: tuple[str, ...]) -> None:
    for token, tag in zip(sentence.tokens, tags, strict=True):
        for what, text in (("token", token), ("tag", tag)):
            if not text or text == MARKER or any(mark in text for mark in marks):
                raise FednerError(
                    f'document "{sentence.document}", sentence {sentence.index}: the {what} '
                    f"{text!a} cannot stand in a column file",
                    "Tokens and labels must not be empty, hold tabs, line ends, NUL or half a "
                    f"surrogate pair, be {MARKER}, or begin the file with a byte-order mark; fix "
                    "the text, or write JSONL instead.",
                )


def _write(path: Path, corpus: Corpus, options: WriteOptions) -> Written:
    prepared = prepare(corpus, sentences=options.sentences, flatten=options.flatten)
    has_markers = any(sentence.index > 0 for sentence in prepared.sentences) or not all(
        _is_named_by_line(document) for document in corpus
    )
    write_columns(path, prepared.sentences, options.scheme, has_markers=has_markers)
    losses = Counter(dict(prepared.changes.rows()))
    losses.update(_not_carried(corpus, prepared.sentences))
    if not has_markers:
        losses[LOST_IDS] = len(corpus)
    num_documents = len({sentence.document for sentence in prepared.sentences})
    return Written(num_documents, prepared.changes.entities, dict(losses))


def _is_named_by_line(document: Document) -> bool:
    """Whether an id only says where the document stood in a file of columns, and nothing else."""
    name, mark, line = document.id.rpartition("#")
    return bool(mark) and name == document.source and line.isdecimal() and document.patient is None


def _not_carried(corpus: Corpus, sentences: Iterable[Sentence]) -> Losses:
    """Count what a reader of the columns will not see, beside what preparing them changed."""
    texts = {
        name: "\n".join(" ".join(sentence.tokens) for sentence in group)
        for name, group in groupby(sentences, key=lambda sentence: sentence.document)
    }
    counts = {
        LOST_TEXT: sum(texts.get(each.id, each.text) != each.text for each in corpus),
        LOST_EMPTY: sum(document.id not in texts for document in corpus),
        LOST_LABELS: len(set(corpus.labels) - set(labels_of(corpus))),
    }
    return {what: count for what, count in counts.items() if count}


WRITER = Writer(
    name="columns", description="token columns: token, tab, tag; flat mentions", write=_write
)
