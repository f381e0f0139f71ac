"""Sentences as documents of their own: what is written when sentences are split or divided."""

from collections.abc import Iterable, Mapping

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.sentence import Sentence


def as_documents(sentences: Iterable[Sentence], texts: Mapping[str, str]) -> tuple[Document, ...]:
    """Return one document for each sentence, its offsets counted from its first token.

    Args:
        sentences: Flat, tokenised sentences; those of no tokens are left out.
        texts: The text of each document by id; what stands between tokens is taken from there.
    """
    return tuple(_as_document(each, texts[each.document]) for each in sentences if each.tokens)


def _as_document(sentence: Sentence, text: str) -> Document:
    first, last = sentence.starts[0], sentence.ends[-1]
    starts = tuple(start - first for start in sentence.starts)
    ends = tuple(end - first for end in sentence.ends)
    return Document(
        id=f"{sentence.document}/{sentence.index}",
        text=text[first:last],
        spans=tuple(Span.of(starts[e.start], ends[e.end - 1], e.label) for e in sentence.entities),
        segments=(Segment(0, last - first, starts, ends),),
        patient=sentence.patient,
    )
