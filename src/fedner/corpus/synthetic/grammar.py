"""Templates of sentences, and the draft that they are written into with their mentions.

A template is text with alternatives in square brackets, `[a|b {slot}|]`, which nest, and slots in
braces: `{name}` is a rule (a list of templates) or a filler (a function that writes itself), and
`{name:Label}` tells a filler to annotate what it writes.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from fedner.corpus.document import Fragment, Span
from fedner.corpus.synthetic.vocabulary import Topic
from fedner.corpus.synthetic.wordlists import lines

Item = TypeVar("Item")
Mangle = Callable[[random.Random, str], str]


class Slot(NamedTuple):
    """A place in a template for a filler to write into."""

    name: str
    label: str


class Choice(NamedTuple):
    """Alternatives, all equally likely."""

    options: "tuple[Template, ...]"


Template = tuple[str | Slot | Choice, ...]


@dataclass(slots=True)
class Draft:
    """A document in the making: pieces of text and the mentions in them.

    Attributes:
        rng: The stream that every choice is drawn from.
        topic: What the document is about.
        mangle: What the writer's hand does to every piece of text (typos), or None.
        pieces: The text so far.
        length: How long it is.
        spans: The mentions so far.
    """

    rng: random.Random
    topic: Topic
    mangle: Mangle | None = None
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    spans: list[Span] = field(default_factory=list)

    def write(self, text: str) -> Fragment:
        """Add text and return where it stands."""
        if self.mangle is not None:
            text = self.mangle(self.rng, text)
        start = self.length
        self.pieces.append(text)
        self.length = start + len(text)
        return start, self.length

    def mark(self, text: str, label: str) -> None:
        """Add text as a mention of `label`, or as plain text where the label is empty."""
        fragment = self.write(text)
        if label:
            self.spans.append(Span((fragment,), label))

    def pick(self, options: Sequence[Item]) -> Item:
        """Return one of `options`, all equally likely."""
        return options[int(self.rng.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability


Filler = Callable[[Draft, str], None]


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules and fillers of one platform; rules are parsed and linked when it is made."""

    rules: Mapping[str, Choice]
    fillers: Mapping[str, Filler]

    def expand(self, rule: str, draft: Draft) -> None:
        """Write one sentence of `rule` into the draft."""
        self._write(self.rules[rule], draft)

    def _write(self, choice: Choice, draft: Draft) -> None:
        for part in draft.pick(choice.options):
            if isinstance(part, str):
                draft.write(part)
            elif isinstance(part, Choice):
                self._write(part, draft)
            elif part.name in self.rules:
                self._write(self.rules[part.name], draft)
            else:
                self.fillers[part.name](draft, part.label)


def grammar(rules: Mapping[str, str], fillers: Mapping[str, Filler]) -> Grammar:
    """Parse rules, one template a line (an indented line continues the last), into a grammar.

    Raises:
        KeyError: A slot names neither a rule nor a filler: a mistake in the templates themselves.
        ValueError: A template is not balanced, or a rule and a filler have the same name.
    """
    parsed = {
        name: Choice(tuple(_parse(line) for line in lines(text))) for name, text in rules.items()
    }
    if twice := sorted(set(parsed) & set(fillers)):
        raise ValueError(f"both rule and filler: {', '.join(twice)}")
    for choice in parsed.values():
        _check(choice, {*parsed, *fillers})
    return Grammar(parsed, fillers)


def _check(choice: Choice, known: set[str]) -> None:
    for part in (part for option in choice.options for part in option):
        if isinstance(part, Choice):
            _check(part, known)
        elif isinstance(part, Slot) and part.name not in known:
            raise KeyError(part.name)


def _parse(line: str) -> Template:
    options, end = _parse_options(line, 0)
    if end != len(line) or len(options) != 1:
        raise ValueError(f"unbalanced template: {line}")
    return options[0]


def _parse_options(line: str, position: int) -> tuple[tuple[Template, ...], int]:
    """Parse alternatives from `position` to the bracket that closes them or the end of the line."""
    options: list[Template] = []
    parts: list[str | Slot | Choice] = []
    while position < len(line) and line[position] != "]":
        character = line[position]
        if character == "[":
            inner, position = _parse_options(line, position + 1)
            parts.append(Choice(inner))
            position += 1
        elif character == "|":
            options.append(tuple(parts))
            parts = []
            position += 1
        elif character == "{":
            end = line.index("}", position)
            name, _, label = line[position + 1 : end].partition(":")
            parts.append(Slot(name, label))
            position = end + 1
        else:
            end = min((at for at in map(line.find, "[]{|", [position] * 4) if at >= 0), default=-1)
            end = len(line) if end < 0 else end
            parts.append(line[position:end])
            position = end
    return (*options, tuple(parts)), position
