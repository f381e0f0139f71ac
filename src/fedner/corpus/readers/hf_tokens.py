"""Token classification as the Hugging Face hub keeps it: `tokens` and `ner_tags`, a sentence a row.

A folder (or one file) of parquet, JSONL or JSON. Tags are strings, or numbers whose names stand in
the metadata of the parquet file, in dataset_info.json or in the head of README.md
(https://huggingface.co/docs/datasets/about_dataset_features, ClassLabel), or in label.json as T-NER
writes it. Parquet comes in batches and JSONL by lines, so that memory stays bounded.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.files import display_name, head, stem
from fedner.corpus.problems import Kind, Problem, ProblemLog
from fedner.corpus.readers import standoff
from fedner.corpus.readers.columns import CHANGE_EMPTY_TOKEN, EMPTY_TOKEN
from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.corpus.readers.json_records import MalformedError, as_list, as_text, probe, records
from fedner.corpus.readers.options import option
from fedner.corpus.readers.reader import Declared, Reader
from fedner.corpus.schemes import OUTSIDE, SchemeEvidence, canonical, decode, split_tag, validate

SCHEME_SCAN_ROWS = 20_000
"""How many rows of a file decide its tag scheme."""

BATCH_ROWS = 1_000
"""How many rows of a parquet file are held at once."""

MAX_PARQUET_BYTES = 4 * 1024**3
"""The largest parquet file that is read."""

_NEED = "parquet files"
_TOKENS = ("tokens", "words")
_TAGS = ("ner_tags", "tags", "ner", "labels", "ner_labels")
_PARQUET = b"PAR1"
_INFO_FILES = ("dataset_info.json", "dataset_infos.json")
_LABEL_FILES = ("label.json", "label2id.json", "labels.json")
_MAX_WALK = 2_000
_README_NAME = re.compile(r"^\s*-\s+name:\s*['\"]?([\w-]+)['\"]?\s*$")
_README_LABEL = re.compile(r"^\s*['\"]?(\d{1,6})['\"]?\s*:\s*(.+?)\s*$")


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns hold the tokens and the tags, and the names of the tags where numbered."""

    tokens: str
    tags: str
    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class HfOptions:
    """The options of token classification data.

    Attributes:
        scheme: The tag scheme; None to detect it.
        patient_column: The column that says whose a row is.
    """

    scheme: str | None = option(
        None, "the tag scheme, such as BIO; detected by default", canonical, is_detected=True
    )
    patient_column: str | None = option(None, "the name of the column that holds the patient")


def recognise(path: Path) -> str | None:
    """Say why a file, or some file under a folder, looks like token classification."""
    for file in _candidates(path):
        if _is_parquet(file):
            return f"{file.name} is a parquet file"
        if (pair := _pair_in(file)) is not None:
            return f"{file.name}: records with {pair[0]} and {pair[1]}"
    return None


def declared_labels(path: Path) -> tuple[str, ...]:
    """Return the entity types that the names of the tags declare, sorted."""
    labels: set[str] = set()
    for file in _files(path):
        for tags in _TAGS:
            labels.update(split_tag(name)[1] for name in _names_beside(file, path, tags) or ())
    return tuple(sorted(labels - {""}))


def declared(path: Path, options: HfOptions, _encoding: str | None) -> Declared:
    """Return the tag scheme that the first file shows, or that the user says."""
    if options.scheme is not None:
        return Declared(tag_scheme=canonical(options.scheme), tag_scheme_why="as given")
    for file in _files(path):
        if not _is_parquet(file):
            scheme, why = _scheme_of(file, path)
            return Declared(tag_scheme=scheme, tag_scheme_why=f"{file.name}: {why}")
    return Declared()


def stream(path: Path, log: ProblemLog, options: HfOptions) -> Iterator[Document]:
    """Read a file, or the files under a folder; a row is a document of one sentence."""
    files = _files(path)
    if not files:
        _report(log, path, None, "not a corpus", "no rows of tokens and tags", "parquet or JSONL")
    for file in files:
        scheme = canonical(options.scheme) if options.scheme else _scheme_of(file, path)[0]
        source = display_name(file, path)
        patients = _Patients(options.patient_column)
        for row, tokens, tags in _rows(file, path, log, patients):
            try:
                found = _document(f"{source}#{row}", source, tokens, tags, scheme, file, row, log)
                yield replace(found, patient=patients.last)
            except MalformedError as fault:
                log.report(fault.problem(file, row, "Fix the row; it is skipped."))


# Files and columns.


def _candidates(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in islice(standoff.walk(path), _MAX_WALK):
        name = stem(file).lower()
        is_data = name.endswith((".parquet", ".jsonl", ".json", ".ndjson"))
        if is_data and name not in (*_INFO_FILES, *_LABEL_FILES):
            yield file


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [file for file in _candidates(path) if _is_parquet(file) or _pair_in(file) is not None]


def _pair_in(path: Path) -> tuple[str, str] | None:
    """Return the columns of tokens and tags that the first record of a JSON file shows."""
    found = probe(path)
    if found is None or (pair := _pair(found.keys)) is None:
        return None
    columns = [] if found.record is None else [found.record[name] for name in pair]
    is_flat = all(
        isinstance(column, list) and not any(isinstance(item, (dict, list)) for item in column)
        for column in columns
    )
    return pair if is_flat else None


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except OSError:
        return False


def _pair(keys: "frozenset[str] | Sequence[str]") -> tuple[str, str] | None:
    """Return the columns of tokens and tags, or None."""
    tokens = next((name for name in _TOKENS if name in keys), None)
    tags = next((name for name in _TAGS if name in keys), None)
    return None if tokens is None or tags is None else (tokens, tags)


# The names of numbered tags.


def _names_beside(file: Path, root: Path, tags: str) -> tuple[str, ...] | None:
    """Return the names of the tags from the files beside a data file or above it."""
    folder = file.parent
    while True:
        for name in _INFO_FILES:
            if names := _names_in_info(_json_of(folder / name), tags):
                return names
        if names := _names_in_readme(head(folder / "README.md") or "", tags):
            return names
        for name in _LABEL_FILES:
            if names := _names_in_map(_json_of(folder / name)):
                return names
        if folder == root or root not in folder.parents:
            return None
        folder = folder.parent


def _json_of(path: Path) -> object:
    try:
        return json.loads(head(path, 1 << 20) or "null")
    except (ValueError, RecursionError):
        return None


def _names_in_info(info: object, tags: str, depth: int = 0) -> tuple[str, ...] | None:
    """Find the class names of a column in what `datasets` writes, whatever stands around it."""
    if not isinstance(info, dict) or depth > 4:
        return None
    features = info.get("features")
    if isinstance(features, dict):
        feature = features.get(tags)
        for _ in range(3):
            if not isinstance(feature, dict):
                break
            names = feature.get("names")
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                return tuple(names)
            feature = feature.get("feature")
    for value in islice(info.values(), 50):
        if (names := _names_in_info(value, tags, depth + 1)) is not None:
            return names
    return None


def _names_in_readme(text: str, tags: str) -> tuple[str, ...] | None:
    """Find the class names of a column in the YAML at the head of a data set's card."""
    if not text.startswith("---"):
        return None
    found: dict[int, str] = {}
    is_ours = False
    for line in text.split("\n---", 1)[0].split("\n"):
        if match := _README_NAME.match(line):
            if found:
                break
            is_ours = match[1] == tags
        elif is_ours and (match := _README_LABEL.match(line)):
            found[int(match[1])] = match[2].strip("'\"")
    is_whole = bool(found) and sorted(found) == list(range(len(found)))
    return tuple(found[number] for number in range(len(found))) if is_whole else None


def _names_in_map(value: object) -> tuple[str, ...] | None:
    """Return names from {"O": 0, "B-LOC": 1} or from a list."""
    if isinstance(value, list):
        return tuple(value) if value and all(isinstance(each, str) for each in value) else None
    if not isinstance(value, dict) or not all(type(number) is int for number in value.values()):
        return None
    by_number = {number: name for name, number in value.items()}
    if not by_number or sorted(by_number) != list(range(len(by_number))):
        return None
    return tuple(by_number[number] for number in range(len(by_number)))


# Rows.


@dataclass(slots=True)
class _Patients:
    """The column that says whose a row is, and what it says of the row read last."""

    column: str | None = None
    last: str | None = None

    def note(self, value: object) -> None:
        """Keep the patient of the row that is being read."""
        self.last = None if value is None or value == "" else str(value)


def _rows(
    path: Path, root: Path, log: ProblemLog, patients: _Patients | None = None
) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the number, the tokens and the tags of each row; report what is none."""
    names: dict[str, tuple[str, ...] | None] = {}
    for row, tokens, tags, column in _raw(path, log, names, patients or _Patients()):
        if column not in names:
            names[column] = _names_beside(path, root, column)
        try:
            words = _words(tokens, log)
            yield row, words, _tags(tags, names[column])
        except MalformedError as fault:
            log.report(fault.problem(path, row, "Fix the row; it is skipped."))


def _raw(
    path: Path, log: ProblemLog, names: dict[str, tuple[str, ...] | None], patients: _Patients
) -> Iterator[tuple[int, object, object, str]]:
    """Yield number, tokens, tags and the column of the tags for each row."""
    if _is_parquet(path):
        yield from _raw_parquet(path, log, names, patients)
        return
    for row, record in records(path, log):
        pair = _pair(tuple(record))
        if pair is None:
            found = f"a record with {', '.join(sorted(record))[:80] or 'nothing'}"
            _report(log, path, row, "malformed line", found, "tokens and ner_tags")
        else:
            patients.note(record.get(patients.column or ""))
            yield row, record[pair[0]], record[pair[1]], pair[1]


def _raw_parquet(
    path: Path, log: ProblemLog, names: dict[str, tuple[str, ...] | None], patients: _Patients
) -> Iterator[tuple[int, object, object, str]]:
    opened = attempt(partial(_open_parquet, path, patients.column))
    if isinstance(opened, Fault):
        _report(log, path, None, "unreadable file", opened.found, "a readable parquet file")
        return
    columns, batches = opened
    if columns.names is not None:
        names[columns.tags] = columns.names
    number = 0
    while True:
        batch = attempt(partial(_next_batch, batches, columns, patients.column))
        if isinstance(batch, Fault):
            _report(log, path, None, "unreadable file", batch.found, "a readable parquet file")
            return
        if batch is None:
            return
        for tokens, tags, patient in batch:
            number += 1
            patients.note(patient)
            yield number, tokens, tags, columns.tags


def _open_parquet(path: Path, patient: str | None) -> tuple[_Columns, Iterator[Any]]:
    parquet = required("pyarrow.parquet", "formats", _NEED)
    if path.stat().st_size > MAX_PARQUET_BYTES:
        raise ValueError(f"more than {MAX_PARQUET_BYTES // 2**30} GiB")
    file = parquet.ParquetFile(path)
    schema = file.schema_arrow
    pair = _pair(tuple(schema.names))
    if pair is None:
        raise ValueError(f"columns {', '.join(schema.names)[:80]} without tokens and ner_tags")
    written = (schema.metadata or {}).get(b"huggingface", b"null")
    names = _names_in_info(json.loads(written), pair[1])
    wanted = [*pair, *([patient] if patient in schema.names else [])]
    return _Columns(*pair, names), file.iter_batches(BATCH_ROWS, columns=wanted)


def _next_batch(
    batches: Iterator[Any], columns: _Columns, patient: str | None
) -> list[tuple[object, object, object]] | None:
    """Return tokens, tags and patient of the next rows; None at the end."""
    batch = next(batches, None)
    if batch is None:
        return None
    tokens, tags = (batch.column(name).to_pylist() for name in (columns.tokens, columns.tags))
    has_patients = patient is not None and patient in batch.schema.names
    owners = batch.column(patient).to_pylist() if has_patients else [None] * len(tokens)
    return list(zip(tokens, tags, owners, strict=True))


def _words(value: object, log: ProblemLog) -> list[str]:
    words = [as_text(word, "a token") for word in as_list(value, "tokens")]
    if not all(words):
        log.changes[CHANGE_EMPTY_TOKEN] += words.count("")
    return [word or EMPTY_TOKEN for word in words]


def _tags(value: object, names: tuple[str, ...] | None) -> list[str]:
    tags = []
    for tag in as_list(value, "tags"):
        if isinstance(tag, str):
            tags.append(as_text(tag, "a tag"))
        elif type(tag) is not int:
            raise MalformedError(f"the tag {str(tag)[:40]}", "strings or whole numbers")
        elif names is None:
            raise MalformedError(
                f"the tag {tag} and no names of tags",
                "their names in dataset_info.json, README.md or label.json", "unknown tag",
            )  # fmt: skip
        elif not 0 <= tag < len(names):
            raise MalformedError(f"the tag {tag}", f"0 to {len(names) - 1}", "unknown tag")
        else:
            tags.append(names[tag])
    return tags


def _scheme_of(path: Path, root: Path) -> tuple[str, str]:
    """Return the tag scheme that the first rows of a file show, and why."""
    evidence = SchemeEvidence()
    for _, _, tags in islice(_rows(path, root, ProblemLog(limit=0)), SCHEME_SCAN_ROWS):
        evidence.add(tags)
    return evidence.decide()


def _document(
    identity: str,
    source: str,
    tokens: list[str],
    tags: list[str],
    scheme: str,
    path: Path,
    row: int,
    log: ProblemLog,
) -> Document:
    if len(tokens) != len(tags):
        raise MalformedError(
            f"{len(tokens)} tokens and {len(tags)} tags", "a tag for each token",
            "wrong column count",
        )  # fmt: skip
    for _, tag, why in validate(tags, scheme):
        _report_tag(log, path, row, tag, why)
    starts, ends, position = [], [], 0
    for token in tokens:
        starts.append(position)
        ends.append(position + len(token))
        position = ends[-1] + 1
    spans = tuple(
        Span.of(starts[entity.start], ends[entity.end - 1], entity.label)
        for entity in decode(tags, scheme)
    )
    segments = (Segment(0, ends[-1], tuple(starts), tuple(ends)),) if tokens else ()
    return Document(identity, " ".join(tokens), spans, segments, source=source)


def _report_tag(log: ProblemLog, path: Path, row: int, tag: str, why: str) -> None:
    is_tag = bool(split_tag(tag)[0])
    kind: Kind = "illegal tag" if is_tag else "unknown tag"
    log.report(
        Problem(
            kind, str(path), row, f'"{tag[:60]}"', f"a legal tag ({why})",
            "Fix it; conlleval's reading is kept." if is_tag else f"It counts as {OUTSIDE}.",
            kept=is_tag,
        )
    )  # fmt: skip


def _report(
    log: ProblemLog, path: Path, row: int | None, kind: Kind, found: str, expected: str
) -> None:
    log.report(Problem(kind, str(path), row, found, expected, "Fix it; it is skipped."))


READER = Reader(
    name="hf-tokens",
    description="Hugging Face token classification: parquet or JSONL with tokens and ner_tags",
    recognise=recognise,
    stream=stream,
    sentences="as given",
    options=HfOptions,
    declared_labels=declared_labels,
    declared=declared,
    has_unique_ids=True,
)
