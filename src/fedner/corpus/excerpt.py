"""Documents made of chosen sentences: what is written when a corpus is split or divided.

A document keeps its id, its patient and its source on whatever side its sentences fall, so that
later commands still know what belongs together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.sentence import Sentence

_BREAK = "\n"


def as_documents(
    chosen: Iterable[Sentence], whole: Iterable[Sentence], documents: Mapping[str, Document]
) -> tuple[Document, ...]:
    """Return the documents that the chosen sentences make, in the order of their first sentences.

    A document of which all sentences are chosen keeps its text. Of another one only the text of the
    chosen sentences is kept: the rest belongs to another part.

    Args:
        chosen: Flat, tokenised sentences; those of no tokens are left out.
        whole: All sentences of the corpus, from which they were chosen.
        documents: The documents of the corpus by id.
    """
    sizes = Counter(sentence.document for sentence in whole if sentence.tokens)
    members: dict[str, list[Sentence]] = {}
    for sentence in chosen:
        if sentence.tokens:
            members.setdefault(sentence.document, []).append(sentence)
    return tuple(
        _document(documents[name], sentences, is_whole=len(sentences) == sizes[name])
        for name, sentences in members.items()
    )


def _document(document: Document, sentences: Sequence[Sentence], *, is_whole: bool) -> Document:
    """Return a document with the text of its chosen sentences and their flat mentions."""
    in_order = sorted(sentences, key=lambda sentence: sentence.starts[0])
    text, shifts = (
        (document.text, [0] * len(in_order)) if is_whole else _cut(document.text, in_order)
    )
    spans: list[Span] = []
    segments: list[Segment] = []
    for sentence, shift in zip(in_order, shifts, strict=True):
        starts = tuple(start + shift for start in sentence.starts)
        ends = tuple(end + shift for end in sentence.ends)
        segments.append(Segment(starts[0], ends[-1], starts, ends))
        spans += [Span.of(starts[e.start], ends[e.end - 1], e.label) for e in sentence.entities]
    return Document(
        document.id, text, tuple(spans), tuple(segments), document.patient, document.source
    )


def _cut(text: str, sentences: Sequence[Sentence]) -> tuple[str, list[int]]:
    """Return the text of some sentences alone, and how far each moved.

    White space between neighbours stays as it is; where anything was left out, a line ends.
    """
    parts, shifts, length = list[str](), list[int](), 0
    gaps = [""] + [
        text[left.ends[-1] : right.starts[0]] if right.index == left.index + 1 else _BREAK
        for left, right in pairwise(sentences)
    ]
    for sentence, gap in zip(sentences, gaps, strict=True):
        first, last = sentence.starts[0], sentence.ends[-1]
        between = gap if gap.isspace() or not gap else _BREAK
        shifts.append(length + len(between) - first)
        parts.append(between + text[first:last])
        length += len(parts[-1])
    return "".join(parts), shifts
