"""Questions with the identifiers that stand in them, by value (synthetic-phi-query-framework).

    ===QUERY===
    Is Anna S. ready to leave?
    ===PHI_TAGS===
    {"identifier_type": "NAME", "value": "Anna S."}

See https://github.com/JamesWeatherhead/synthetic-phi-query-framework. There are no offsets: a value
is every place at which it stands in the question as whole words, the longest values first, so that
no two mentions share a character. A value that does not stand in its question is reported.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from fedner.corpus.document import Document, Span
from fedner.corpus.files import display_name, head, lines
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers.folder import choose, reason_in
from fedner.corpus.readers.json_records import MalformedError, as_name, as_object
from fedner.corpus.readers.options import NoOptions
from fedner.corpus.readers.reader import Reader

_QUERY, _TAGS = "===QUERY===", "===PHI_TAGS==="

Values = list[tuple[str, str, int]]  # type, value and line


def _reason(path: Path) -> str | None:
    beginning = head(path)
    if beginning is None or not beginning.lstrip().startswith(_QUERY):
        return None
    return f"the file begins with {_QUERY}"


def recognise(path: Path) -> str | None:
    """Say why a file, or a file of a folder, looks like such questions."""
    return reason_in(path, _reason)


def stream(path: Path, log: ProblemLog, _options: NoOptions) -> Iterator[Document]:
    """Read a file, or the files of a folder that look right; ids count the questions of a file."""
    for file in choose(
        path, lambda each: _reason(each) is not None, log, "questions with PHI tags"
    ):
        source = display_name(file, path)
        for number, (text, values) in enumerate(_questions(file, log), 1):
            identity = f"{source}#{number}"
            yield Document(identity, text, _spans(text, values, file, identity, log), source=source)


def _questions(path: Path, log: ProblemLog) -> Iterator[tuple[str, Values]]:
    """Yield each question with its values."""
    words: list[str] | None = None
    values: Values = []
    is_text = False
    for number, line in lines(path, log):
        mark = line.strip()
        if mark == _QUERY:
            if words is not None:
                yield "\n".join(words).strip(), values
            words, values, is_text = [], [], True
        elif mark == _TAGS:
            is_text = False
        elif is_text and words is not None:
            words.append(line)
        elif mark:
            values += _value(mark, number, path, log)
    if words is not None:
        yield "\n".join(words).strip(), values


def _value(line: str, number: int, path: Path, log: ProblemLog) -> Values:
    try:
        record = as_object(json.loads(line))
        label = as_name(record.get("identifier_type"), "identifier_type")
        return [(label, as_name(record.get("value"), "value"), number)]
    except (ValueError, RecursionError) as error:
        found = error.found if isinstance(error, MalformedError) else "no JSON"
        log.report(
            Problem(
                "malformed line", str(path), number, found,
                '{"identifier_type": "NAME", "value": "..."}', "Fix the line; it is skipped.",
            )
        )  # fmt: skip
        return []


def _spans(
    text: str, values: Values, path: Path, document: str, log: ProblemLog
) -> tuple[Span, ...]:
    """Return every place of every value; the longest values choose first."""
    taken = [False] * len(text)
    spans: list[Span] = []
    for label, value, line in sorted(values, key=lambda each: (-len(each[1]), each[2])):
        places = [at for at in _places(text, value) if not any(taken[at : at + len(value)])]
        for at in places:
            taken[at : at + len(value)] = [True] * len(value)
            spans.append(Span.of(at, at + len(value), label))
        if not places and not _stands_elsewhere(spans, text, value):
            problem = Problem(
                "offset and quote differ", str(path), line, f"{label} of {len(value)} characters",
                "a value that stands in its question", "Fix the value; it is skipped.",
            )  # fmt: skip
            log.skip_mention(problem, document, label)
    return tuple(sorted(spans))


def _stands_elsewhere(spans: list[Span], text: str, value: str) -> bool:
    """Whether a value is part of a longer one, or is listed twice."""
    return any(value in each.text_in(text) for each in spans)


def _places(text: str, value: str) -> Iterator[int]:
    """Yield where a value stands as whole words."""
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        begins = at == 0 or not (text[at - 1].isalnum() and value[0].isalnum())
        ends = end == len(text) or not (text[end].isalnum() and value[-1].isalnum())
        if begins and ends:
            yield at
        at = text.find(value, at + 1)


READER = Reader(
    name="phi-queries",
    description="questions with the identifiers in them by value (===QUERY===, ===PHI_TAGS===)",
    recognise=recognise,
    stream=stream,
    sentences="rule",
    options=NoOptions,
    has_unique_ids=True,
)
