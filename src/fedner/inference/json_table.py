"""Lines of JSON, rewritten: one object a line, of which some values are replaced.

Other keys keep their values, not the way in which their line was spelled. A line that holds lists
or objects, in which words might hide, is left out unless their keys are dropped. Corpora of fedner
are an exception: their spans are moved to the redacted text.
"""

import codecs
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from fedner.corpus.files import opened
from fedner.inference.redact import Replacement
from fedner.inference.text_files import TextFileError
from fedner.inference.whole_tables import ChangedRow, Row
from fedner.visible import visible_json

_HEADER, _TEXT, _SPANS, _SEGMENTS = "fedner", "text", "spans", "segments"
_SPAN_KEYS: Final = ("start", "end", "label", "confidence")


class JsonTable:
    """A file of JSON lines, or standard input.

    Args:
        path: The file; None for a stream.
        stream: Standard input, which is read once.
        texts: The keys of the texts.
        dropped: The keys that are left out.
    """

    columns: tuple[str, ...] | None = None

    def __init__(
        self,
        path: Path | None,
        stream: BinaryIO | None,
        texts: Sequence[str],
        dropped: Collection[str] = (),
    ) -> None:
        self._path, self._stream = path, stream
        self._texts, self._dropped = tuple(texts), frozenset(dropped)

    @property
    def name(self) -> str:
        """What the table is called in errors."""
        return "standard input" if self._path is None else str(self._path)

    def rows(self) -> Iterator[Row]:
        """Yield the objects; of a stream only once."""
        if self._stream is not None:
            yield from self._objects(self._stream)
            return
        path = self._path
        if path is None or not path.is_file():
            raise TextFileError(path or Path("-"), "no such file", "Check the path.")
        try:
            with opened(path) as stream:
                yield from self._objects(stream)
        except (OSError, EOFError) as error:
            why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            raise TextFileError(path, why, "Check that it is whole and may be read.") from error

    def write(self, file: BinaryIO, rows: Iterable[ChangedRow]) -> None:
        """Write the objects with their new values."""
        for each in rows:
            record = {
                key: each.values.get(key, value)
                for key, value in each.row.raw.items()
                if key not in self._dropped
            }
            if _HEADER not in record and _SPANS in record:
                moved = each.replacements.get(_TEXT, ())
                record[_SPANS] = [_moved(span, moved) for span in record[_SPANS]]
                record.pop(_SEGMENTS, None)
            text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
            file.write(visible_json(text).encode() + b"\n")

    def _objects(self, stream: Any) -> Iterator[Row]:
        is_corpus = False
        for number, line in enumerate(stream, start=1):
            try:
                text = line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode()
            except UnicodeDecodeError:
                yield Row(number, {}, None, "a line that is not UTF-8")
                continue
            if text.strip():
                row = self._row(text, number, is_corpus=is_corpus)
                is_corpus = is_corpus or (number == 1 and _is_header(row.raw))
                yield row

    def _row(self, line: str, number: int, *, is_corpus: bool) -> Row:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return Row(number, {}, None, "a line that is no JSON")
        if not isinstance(record, dict):
            return Row(number, {}, None, "a line that is no JSON object")
        if number == 1 and _is_header(record):
            return Row(number, {}, record)
        if not any(key in record for key in self._texts):
            return Row(number, {}, None, f"a line without {' or '.join(self._texts)}")
        wrong = [key for key in self._texts if not isinstance(record.get(key), str | None)]
        if wrong:
            return Row(number, {}, None, f"a line whose {wrong[0]} is no text")
        known = {_SPANS, _SEGMENTS} if is_corpus and _are_spans(record.get(_SPANS, [])) else set()
        nested = [
            key
            for key, value in record.items()
            if isinstance(value, list | dict) and key not in known | self._dropped
        ]
        if nested:
            said = ", ".join(nested[:5])
            return Row(number, {}, None, f"a line with lists or objects under {said}")
        return Row(number, {key: _as_text(value) for key, value in record.items()}, record)


def _is_header(record: object) -> bool:
    return isinstance(record, dict) and record.get(_HEADER) == "corpus"


def _as_text(value: object) -> str | None:
    return None if value is None or value == "" or isinstance(value, list) else str(value)


def _are_spans(value: object) -> bool:
    """Whether spans are as fedner writes them: places and labels."""
    return isinstance(value, list) and all(
        isinstance(span, dict)
        and all(isinstance(place, int) for pair in _fragments(span) for place in pair)
        for span in value
    )


def _fragments(span: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    given = span.get("fragments")
    if given is None:
        return [(span.get("start"), span.get("end"))]
    if not isinstance(given, list):
        return [(None, None)]
    return [
        tuple(each) if isinstance(each, list) and len(each) == 2 else (None, None) for each in given
    ]


def _moved(span: Mapping[str, Any], replacements: Sequence[Replacement]) -> dict[str, Any]:
    """Return a span in the redacted text; a replaced part of it becomes its replacement."""
    record = {key: span[key] for key in _SPAN_KEYS if key in span}
    moved = [
        [_place(start, replacements, is_end=False), _place(end, replacements, is_end=True)]
        for start, end in _fragments(span)
    ]
    if "fragments" in span:
        return record | {"fragments": moved}
    return record | {"start": moved[0][0], "end": moved[0][1]}


def _place(place: int, replacements: Sequence[Replacement], *, is_end: bool) -> int:
    shift = 0
    for each in replacements:
        if place <= each.start:
            break
        if place < each.end:
            return each.new_end if is_end else each.new_start
        shift = each.new_end - each.end
    return place + shift
