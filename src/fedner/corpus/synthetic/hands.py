"""The hands that write and annotate: typos, drawn-out words, and annotators who make mistakes."""

import random
from dataclasses import dataclass

from fedner.corpus.document import Segment, Span

_VOWELS = "aeiou"


@dataclass(frozen=True, slots=True)
class Annotator:
    """How often the annotator of a platform errs, per mention.

    Attributes:
        missed: The share of mentions that are overlooked.
        shifted: The share whose border is one word off.
    """

    missed: float
    shifted: float


def typo(rng: random.Random, text: str, rate: float) -> str:
    """Misspell one letter of `text` with probability `rate`; never empties it."""
    if rng.random() >= rate or len(text) < 4:
        return text
    at = 1 + int(rng.random() * (len(text) - 2))
    if not (text[at - 1].isalpha() and text[at].isalpha() and text[at + 1].isalpha()):
        return text
    kind = rng.random()
    if kind < 0.3:
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if kind < 0.6:
        return text[:at] + text[at + 1 :]
    if kind < 0.75 or text[at] not in _VOWELS:
        return text[:at] + text[at] + text[at:]
    return text[:at] + _VOWELS[int(rng.random() * 5)] + text[at + 1 :]


def drawn_out(rng: random.Random, word: str) -> str:
    """Draw out the last letter or the last vowel: "so" becomes "sooo", "sleepy" "sleepyyy"."""
    times = 2 + int(rng.random() * 3)
    vowel = max((word.rfind(letter) for letter in "aeiouy"), default=-1)
    at = vowel if vowel > 0 and rng.random() < 0.5 else len(word) - 1
    return word[:at] + word[at] * times + word[at:]


def annotated(
    rng: random.Random,
    annotator: Annotator,
    text: str,
    spans: list[Span],
    segments: tuple[Segment, ...],
) -> tuple[Span, ...]:
    """Return the mentions as the annotator has marked them, sorted."""
    kept = []
    for span in spans:
        luck = rng.random()
        if luck < annotator.missed:
            continue
        if luck < annotator.missed + annotator.shifted and not span.is_discontinuous:
            segment = next(part for part in segments if part.start <= span.start < part.end)
            span = _shifted(rng, text, span, segment)
        kept.append(span)
    return tuple(sorted(set(kept)))


def _shifted(rng: random.Random, text: str, span: Span, segment: Segment) -> Span:
    """Move one border by one word: drop the first or last, or take in a neighbour."""
    words = span.text_in(text).split(" ")
    if len(words) > 1 and rng.random() < 0.5:
        if rng.random() < 0.5:
            return Span.of(span.start + len(words[0]) + 1, span.end, span.label)
        return Span.of(span.start, span.end - len(words[-1]) - 1, span.label)
    if text[span.start - 1 : span.start] == " " and span.start - 1 > segment.start:
        start = max(text.rfind(" ", segment.start, span.start - 1) + 1, segment.start)
        return Span.of(start, span.end, span.label)
    return span
