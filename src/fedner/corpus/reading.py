"""`read`: any input that fedner knows, recognised by content, its problems reported together."""

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedner.corpus import archive_corpora, archives, folder_corpora
from fedner.corpus.document import Corpus, Document, labels_of
from fedner.corpus.files import files_in, head, stem
from fedner.corpus.foreign import foreign_files, not_a_corpus
from fedner.corpus.patients import with_patients
from fedner.corpus.prepare import SentenceChoice
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.read_options import ReadOptions, options_of
from fedner.corpus.readers import READERS
from fedner.corpus.readers.reader import Declared, Reader, SentencePolicy
from fedner.errors import FednerError

AUTO = "auto"
Format = str | Reader[Any]
"""A name of the readers' table, "auto", or a reader of your own."""

_MAX_FOLDERS_TRIED = 20


@dataclass(frozen=True, slots=True)
class Recognition:
    """What an input is taken for.

    Attributes:
        format: The name of the format in the readers' table.
        why: What in the input says so.
        sentences: Where sentences come from unless the user says otherwise.
        labels: The entity types that user or input declare as annotated, or None.
        declared: What else the input says about itself.
    """

    format: str
    why: str
    sentences: SentencePolicy
    labels: tuple[str, ...] | None
    declared: Declared

    @property
    def sentence_choice(self) -> SentenceChoice:
        """The sentence policy of the format; where a document marks no sentences, its lines."""
        return "auto" if self.sentences == "as given" else self.sentences

    @property
    def tag_scheme(self) -> str | None:
        """The tag scheme of token columns; None where there are no tags."""
        return self.declared.tag_scheme


def read(
    path: Path | str,
    format: Format = AUTO,
    *,
    lenient: bool = False,
    options: ReadOptions | None = None,
    name: str | None = None,
    log: ProblemLog | None = None,
) -> Corpus:
    r"""Read a whole corpus into memory.

    >>> import fedner, pathlib
    >>> _ = pathlib.Path("notes.conll").write_text("Nausea B-ADE\nafter O\naspirin B-Drug\n")
    >>> corpus = fedner.read("notes.conll")
    >>> corpus.labels
    ('ADE', 'Drug')

    Args:
        path: A file, a folder, an archive of them, or a path within an archive (`a.zip!/notes`).
        format: A name of the readers' table, "auto" to recognise it, or a reader of your own.
        lenient: Whether to keep what has a valid place and skip the rest, instead of refusing an
            input with problems.
        options: More about how to read it, the format's own options included.
        name: What to call the corpus; by default what it calls itself, or its file name.
        log: Collects problems and remarks, for callers who want to show them.

    Raises:
        InputProblemsError: If the input has problems and `lenient` is not set; it lists them all.
        FednerError: If there is no such input, or its format is unknown.
    """
    recognised = read_recognised(
        Path(path), format, lenient=lenient, options=options, name=name, log=log
    )
    return recognised[1]


def read_recognised(
    path: Path,
    format: Format = AUTO,
    *,
    lenient: bool = False,
    options: ReadOptions | None = None,
    name: str | None = None,
    log: ProblemLog | None = None,
) -> tuple[Recognition, Corpus]:
    """Read as `read` does, and say what the input was taken for."""
    recognition, documents, log = open_corpus(path, format, options, log=log)
    held = tuple(documents)
    if not lenient:
        log.raise_if_any(str(path))
    labels = recognition.labels
    if options is None or options.labels is None:
        labels = tuple(sorted({*(labels or ()), *labels_of(held)}))
    name = name or recognition.declared.name or _plain_name(path)
    return recognition, Corpus(name, labels or (), held)


def open_corpus(
    path: Path,
    format: Format = AUTO,
    options: ReadOptions | None = None,
    *,
    log: ProblemLog | None = None,
) -> tuple[Recognition, Iterator[Document], ProblemLog]:
    """Return what an input is, its documents as a stream, and the log that fills as they are read.

    Reading is lenient; the caller decides from the log.
    """
    options = options or ReadOptions()
    log = ProblemLog() if log is None else log
    if (place := archives.place_of(path)) is not None:
        return _open_archive(place, format, options, log)
    log.encoding = options.checked_encoding
    reader, why = _reader_of(path, format)
    own = options_of(reader, options)
    recognition = _described(reader, path, why, options, own)
    if format == AUTO:
        _remark_others(path, reader.name, log)
    documents = reader.stream(path, log, own)
    if not reader.has_unique_ids:
        documents = _with_unique_ids(documents, log)
    if (source := options.patient_source) is not None:
        documents = with_patients(documents, source, log)
    if options.labels is not None:
        documents = _with_labels(documents, frozenset(options.labels), log)
    return recognition, documents, log


def _open_archive(
    place: archives.Place,
    format: Format,
    options: ReadOptions,
    log: ProblemLog,
) -> tuple[Recognition, Iterator[Document], ProblemLog]:
    """Do what `open_corpus` does for an archive; it is removed again when the stream ends."""
    readers = READERS.values() if format == AUTO else [reader_named(format)]
    unpacked = archives.unpacked(place)
    try:
        root = archive_corpora.meant(unpacked, readers)
        recognition, documents, _ = open_corpus(root, format, options, log=log)
    except FednerError as error:
        unpacked.close()
        raise archive_corpora.in_users_words(error, unpacked) from error
    except BaseException:
        unpacked.close()
        raise
    shown = f"{place.archive}{archives.MARK}"
    log.renamed = (str(unpacked.folder), shown)
    for problem in unpacked.problems.problems:
        log.report(problem)
    inner = root.relative_to(unpacked.folder).as_posix()
    why = recognition.why.replace(str(unpacked.folder), shown)
    recognition = replace(recognition, why=f"{why} (in the archive, at {inner})")
    return recognition, archive_corpora.from_archive(documents, unpacked, root), log


def recognise(
    path: Path,
    format: Format = AUTO,
    options: ReadOptions | None = None,
) -> Recognition:
    """Say what an input is, and why.

    Raises:
        FednerError: If there is no such input, or nothing known is recognised in it.
    """
    options = options or ReadOptions()
    if (place := archives.place_of(path)) is not None:
        recognition, documents, _ = _open_archive(place, format, options, ProblemLog())
        del documents  # and with them what was unpacked
        return recognition
    reader, why = _reader_of(path, format)
    return _described(reader, path, why, options, options_of(reader, options))


def _reader_of(path: Path, format: Format) -> tuple[Reader[Any], str]:
    """Return the reader of an input, and why it is that one."""
    if not path.exists():
        raise FednerError(f"{path}: no such file or folder", _nearest_path(path))
    if format != AUTO:
        return reader_named(format), "as given"
    for reader in READERS.values():
        if (why := reader.recognise(path)) is not None:
            return reader, why
    is_blank = path.is_file() and not (head(path) or "").strip()
    if is_blank and not_a_corpus(path) is None:
        # Nothing can be seen in it; the reader that its name suggests reports what is wrong.
        reader = READERS["jsonl" if Path(stem(path)).suffix == ".jsonl" else "columns"]
        return reader, "by its name: no text can be read in it"
    raise FednerError(*_not_recognised(path))


def _described(
    reader: Reader[Any], path: Path, why: str, options: ReadOptions, own: Any
) -> Recognition:
    labels = options.labels
    if labels is None and reader.declared_labels is not None:
        labels = reader.declared_labels(path) or None
    labels = None if labels is None else tuple(sorted(set(labels)))
    declared = reader.declared(path, own, options.checked_encoding)
    return Recognition(reader.name, why, reader.sentences, labels, declared)


def reader_named(format: Format) -> Reader[Any]:
    """Return the reader of a format; raises where there is none of that name."""
    if isinstance(format, Reader):
        return format
    if format in READERS:
        return READERS[format]
    known = ", ".join([AUTO, *READERS])
    near = difflib.get_close_matches(format.lower(), READERS, 1, 0.5)
    hint = f'Did you mean "{near[0]}"?' if near else f"Choose one of {known}."
    raise FednerError(f'format: found "{format}"; expected one of {known}', hint)


def _remark_others(path: Path, format: str, log: ProblemLog) -> None:
    """Say which corpora of other formats stand in a folder and are left out."""
    for each in folder_corpora.corpora_in(path) if path.is_dir() else ():
        if each.format != format:
            inner = each.path.relative_to(path).as_posix()
            log.remark(f"left out: {each.format} in {'this folder' if inner == '.' else inner}")


def _with_unique_ids(documents: Iterator[Document], log: ProblemLog) -> Iterator[Document]:
    """Pass on documents; one whose id has been seen is reported and left out."""
    # Hashes of 64 bits instead of the ids: a third of the memory, and among ten million ids an
    # accidental match has a chance of about one in three hundred thousand.
    seen: set[int] = set()
    for document in documents:
        key = hash(document.id)
        if key in seen:
            log.report(
                Problem(
                    "duplicate id", document.source, None, f'"{document.id}" again',
                    "one document for each id", "Rename or remove one; the first is kept.",
                )
            )  # fmt: skip
            continue
        seen.add(key)
        yield document


def _with_labels(
    documents: Iterator[Document], labels: frozenset[str], log: ProblemLog
) -> Iterator[Document]:
    """Pass on documents; mentions outside the declared labels are reported and left out."""
    for document in documents:
        strange = [span for span in document.spans if span.label not in labels]
        for span in strange:
            problem = Problem(
                "unknown tag", document.source, None,
                f'the label "{span.label}" in document "{document.id}"',
                f"one of the declared labels ({', '.join(sorted(labels)) or 'none'})",
                "Declare it too, or fix the label.",
            )  # fmt: skip
            log.skip_mention(problem, document.id, span.label, span.fragments)
        if strange:
            kept = tuple(span for span in document.spans if span.label in labels)
            document = replace(document, spans=kept)
        yield document


# What to say where nothing is recognised.


def _plain_name(path: Path) -> str:
    if (place := archives.place_of(path)) is not None:
        return archives.plain_name(place)
    path = path.resolve()
    return path.name if path.is_dir() else Path(stem(path)).stem


def _nearest_path(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return "Check the path."
    near = difflib.get_close_matches(path.name, names, 1)
    return f"Did you mean {path.parent / near[0]}?" if near else "Check the path."


def _not_recognised(path: Path) -> tuple[str, str]:
    """Return message and hint: what is there, and what it may be instead."""
    if path.is_file() and (what := not_a_corpus(path)) is not None:
        return f"{path}: {what.name}, and no corpus of a known format", what.hint
    message = f"{path}: no known format; found {_contents(path)}"
    if packed := folder_corpora.archives_in(path):
        return message, f"Name one of the archives in it, for example {packed[0]}."
    if counted := foreign_files(path):
        return message, max(counted, key=lambda what: counted[what]).hint
    for folder in _folders_in(path)[:_MAX_FOLDERS_TRIED]:
        for reader in READERS.values():
            if (why := reader.recognise(folder)) is not None:
                return message, f"{folder} looks like {reader.name} ({why}): name that."
    known = ", ".join(READERS)
    return message, f"Name the folder or file that holds the corpus; --format knows {known}."


def _folders_in(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    try:
        return sorted(entry for entry in path.iterdir() if entry.is_dir())
    except OSError:
        return []


def _contents(path: Path) -> str:
    """Describe in a few words what stands at a path."""
    if not path.is_dir():
        text = head(path, 4096)
        first = (text or "").lstrip().partition("\n")[0]
        return f'a file that begins "{first[:60]}"' if first else "a file without readable text"
    suffixes = Counter(file.suffix or "(no suffix)" for file in files_in(path))
    parts = [f"{count} {suffix}" for suffix, count in suffixes.most_common(6)]
    parts += [f"{what.name}, {count} times" for what, count in foreign_files(path).items()]
    num_folders = len(_folders_in(path))
    if num_folders:
        parts.append(f"{num_folders} folder{'s' if num_folders > 1 else ''}")
    return f"a folder with {', '.join(parts) or 'nothing in it'}"
