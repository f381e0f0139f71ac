"""Notes with inline tags as a format of fedner's: python custom_reader.py ANY FEDNER COMMAND."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fedner
from fedner.cli import main
from fedner.corpus import Problem, ProblemLog, option

TAG = re.compile(r"<(/?)(\w+)>")


@dataclass(frozen=True, slots=True)
class InlineOptions:
    """What a user of the format may say."""

    suffix: str = option(".tagged", "what the names of its files end with")


def recognise(path: Path) -> str | None:
    """Say why a file or folder looks like the format; never raise."""
    first = path if path.is_file() else next(iter(sorted(path.glob("*.tagged"))), None)
    if first is None or first.suffix != ".tagged":
        return None
    return "its files end with .tagged"


def stream(path: Path, log: ProblemLog, options: InlineOptions) -> Iterator[fedner.Document]:
    """Yield a document for each file; report what is wrong, keep what can be placed, go on."""
    files = [path] if path.is_file() else sorted(path.glob(f"*{options.suffix}"))
    for file in files:
        text, spans = without_tags(file.read_text(encoding="utf-8"), file, log)
        yield fedner.Document(file.stem, text, spans, source=str(file))


def without_tags(marked: str, file: Path, log: ProblemLog) -> tuple[str, tuple[fedner.Span, ...]]:
    """Return a note without its tags, and the mentions between them."""
    parts, spans, end = [], [], 0
    begun: tuple[str, int] | None = None  # the type of the open tag, and where its mention begins
    for tag in TAG.finditer(marked):
        parts.append(marked[end : tag.start()])
        end, here = tag.end(), sum(map(len, parts))
        closes, label = bool(tag[1]), tag[2]
        if closes and begun is not None and begun[0] == label and begun[1] < here:
            spans.append(fedner.Span.of(begun[1], here, label))
        elif closes or begun is not None:
            log.report(wrong_tag(file, marked.count("\n", 0, tag.start()) + 1, tag[0]))
        begun = None if closes else (label, here)
    if begun is not None:
        log.report(wrong_tag(file, marked.count("\n") + 1, f"no </{begun[0]}> to the end"))
    return "".join([*parts, marked[end:]]), tuple(spans)


def wrong_tag(file: Path, line: int, found: str) -> Problem:
    """Say where a tag is that marks nothing."""
    expected = "tags in pairs around words, none within another"
    hint = "Fix the tag; its mention is skipped."
    return Problem("illegal tag", str(file), line, found, expected, hint)


INLINE = fedner.Reader(
    name="inline",
    description="notes with <Type>inline tags</Type>, a file each",
    recognise=recognise,
    stream=stream,
    sentences="rule",
    options=InlineOptions,
)

if __name__ == "__main__":
    fedner.register_reader(INLINE)
    main()
