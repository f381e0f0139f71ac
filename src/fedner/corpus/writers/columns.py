"""Writes token columns: token, tab, tag; a blank line after each sentence."""

from collections.abc import Iterable
from pathlib import Path

from fedner.corpus.document import Corpus
from fedner.corpus.files import atomic_writer
from fedner.corpus.prepare import prepare
from fedner.corpus.readers.column_layout import MARKER
from fedner.corpus.schemes import canonical, encode
from fedner.corpus.sentence import Sentence
from fedner.corpus.writers.writer import Losses, WriteOptions, Writer
from fedner.errors import FednerError


def write_columns(
    path: Path,
    sentences: Iterable[Sentence],
    scheme: str = "BIO",
    *,
    has_markers: bool = False,
) -> int:
    """Write sentences as they come, wholly or not at all, and return how many there were.

    Columns carry tokens and flat entities only: not the text between tokens, nor ids. A sentence
    without tokens cannot be written and is left out.

    Args:
        path: Where the file shall stand; `.gz` and `.xz` are compressed.
        sentences: The sentences; they are not held in memory.
        scheme: The tag scheme.
        has_markers: Whether a `-DOCSTART-` line stands before each document.

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
                file.write(f"{MARKER}\tO\n\n")
            if sentence.tokens:
                file.write(_lines(sentence, encode(sentence.entities, len(sentence.tokens), name)))
                count += 1
    return count


def _lines(sentence: Sentence, tags: list[str]) -> str:
    rows = [f"{token}\t{tag}\n" for token, tag in zip(sentence.tokens, tags, strict=True)]
    text = "".join(rows)
    # A stray separator in a token or a label shows in the counts; only then is it looked for.
    num_rows = len(rows)
    if text.count("\t") != num_rows or text.count("\n") != num_rows or "\r\n" in text:
        _refuse(sentence, tags)
    if not all(sentence.tokens) or MARKER in sentence.tokens:
        _refuse(sentence, tags)
    return f"{text}\n"


def _refuse(sentence: Sentence, tags: list[str]) -> None:
    for token, tag in zip(sentence.tokens, tags, strict=True):
        for what, text in (("token", token), ("tag", tag)):
            if not text or text == MARKER or any(mark in text for mark in "\t\n\r"):
                raise FednerError(
                    f'document "{sentence.document}", sentence {sentence.index}: the {what} '
                    f"{text!r} cannot stand in a column file",
                    f"Tokens and labels must not be empty, hold tabs or line ends, or be {MARKER}; "
                    "write JSONL instead.",
                )


def _write(path: Path, corpus: Corpus, options: WriteOptions) -> Losses:
    prepared = prepare(corpus, sentences=options.sentences, flatten=options.flatten)
    write_columns(path, prepared.sentences, options.scheme)
    return dict(prepared.changes.rows())


WRITER = Writer(
    name="columns", description="token columns: token, tab, tag; flat mentions", write=_write
)
