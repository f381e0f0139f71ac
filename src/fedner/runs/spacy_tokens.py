"""Tokens of a spaCy document, split where mentions begin or end within them.

spaCy's entities are made of whole tokens. Splitting changes no character, and entities and span
groups that are there already keep their characters. Imports spaCy only when something is split.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token


class _Place(NamedTuple):
    """A span by its characters: token numbers do not outlive a split."""

    start: int
    end: int
    label: str
    kb_id: str
    span_id: str

    @classmethod
    def of(cls, span: "Span") -> "_Place":
        return cls(span.start_char, span.end_char, span.label_, span.kb_id_, span.id_)

    def again(self, doc: "Doc") -> "Span":
        span = doc.char_span(*self[:4], span_id=self.span_id)
        if span is None:  # cannot be: splitting takes no border away
            raise RuntimeError(f"no tokens at {self.start}-{self.end}")
        return span


def split_tokens(doc: "Doc", borders: Collection[int]) -> None:
    """Split the tokens of a document at character offsets, in place.

    A part of a token keeps nothing of its annotation but its place in a dependency tree, where
    there is one: later parts depend on the first.

    Args:
        doc: The document.
        borders: Where tokens shall begin or end.
    """
    cuts = _cuts(doc, borders)
    if not cuts:
        return
    entities = [_Place.of(span) for span in doc.ents]
    groups = {
        key: ([_Place.of(span) for span in group], dict(group.attrs))
        for key, group in doc.spans.items()
    }
    is_parsed = doc.has_annotation("DEP")
    with doc.retokenize() as retokenizer:
        for token, inner in cuts:
            parts = _parts(token, inner)
            retokenizer.split(token, parts, **_tree(token, len(parts), is_parsed=is_parsed))
    doc.set_ents([place.again(doc) for place in entities])
    _restore(doc, groups)


def _cuts(doc: "Doc", borders: Collection[int]) -> list[tuple["Token", list[int]]]:
    """Return the tokens to split, and where, in characters of the token."""
    wanted = sorted(borders)
    found, at = [], 0
    for token in doc:
        start, end = token.idx, token.idx + len(token)
        while at < len(wanted) and wanted[at] <= start:
            at += 1
        inner = []
        while at < len(wanted) and wanted[at] < end:
            inner.append(wanted[at] - start)
            at += 1
        if inner:
            found.append((token, inner))
    return found


def _parts(token: "Token", inner: list[int]) -> list[str]:
    text = token.text
    ends = [*inner, len(text)]
    return [text[start:end] for start, end in zip([0, *inner], ends, strict=True)]


def _tree(token: "Token", num_parts: int, *, is_parsed: bool) -> dict[str, Any]:
    """Return what the parts depend on."""
    first = (token, 0)
    if not is_parsed:
        return {"heads": [first] * num_parts}
    head = first if token.head.i == token.i else token.head
    rest = num_parts - 1
    return {"heads": [head, *[first] * rest], "attrs": {"DEP": [token.dep_, *["dep"] * rest]}}


def _restore(doc: "Doc", groups: dict[str, tuple[list[_Place], dict[str, Any]]]) -> None:
    from spacy.tokens import SpanGroup

    for key, (places, attributes) in groups.items():
        spans = [place.again(doc) for place in places]
        doc.spans[key] = SpanGroup(doc, name=key, attrs=attributes, spans=spans)
