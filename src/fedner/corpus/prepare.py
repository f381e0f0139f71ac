"""From documents as they were annotated to the flat, tokenised sentences that a tagger sees.

The steps, in order: labels are renamed or left out; mentions are flattened; the text is cut into
sentences and tokens; mentions are moved to token borders and given to one sentence each. Nothing is
lost in silence: every change is counted in `Changes`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain, pairwise
from operator import attrgetter
from typing import Final, Literal

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.flatten import Flattening, FlattenPolicy, longest_first
from fedner.corpus.flatten import flatten as flatten_spans
from fedner.corpus.segment import SentencePolicy, segment
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.tokenise import tokenise
from fedner.errors import FednerError

SentenceChoice = SentencePolicy | Literal["auto"]

_ROWS: Final = {
    "dropped_labels": "mentions of a type that the label map or the label list leaves out",
    "renamed": "mentions renamed by the label map",
    "dropped_duplicates": "duplicate mentions dropped",
    "dropped_discontinuous": "discontinuous mentions dropped",
    "dropped_overlapping": "overlapping mentions dropped in favour of a longer one",
    "hulled": "discontinuous mentions widened to their hull",
    "cut_to_first": "discontinuous mentions cut to their first fragment",
    "snapped": "mentions moved to token borders",
    "crossing": "mentions across a sentence border cut to their larger part",
    "colliding": "mentions dropped for sharing a token with a longer one",
    "unplaced": "mentions dropped for touching no token",
    "split_sentences": "sentences split for having too many tokens",
}


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the mentions on their way to a tagger; records add up.

    Attributes:
        documents: How many documents were prepared.
        sentences: How many sentences came out.
        tokens: How many tokens they have.
        mentions: How many mentions the documents have.
        entities: How many flat entities came out.
        flattening: What flattening changed.
        dropped_labels: Mentions of types that the label map or the label list leaves out.
        renamed: Mentions that the label map renamed.
        snapped: Mentions whose borders were not token borders.
        crossing: Mentions that crossed a sentence border and were cut to their larger part.
        colliding: Mentions dropped for sharing a token, after snapping, with a longer one.
        unplaced: Mentions dropped for touching no token.
        split_sentences: Sentences that were split for having too many tokens.
    """

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    mentions: int = 0
    entities: int = 0
    flattening: Flattening = field(default_factory=Flattening)
    dropped_labels: int = 0
    renamed: int = 0
    snapped: int = 0
    crossing: int = 0
    colliding: int = 0
    unplaced: int = 0
    split_sentences: int = 0

    def __add__(self, other: "Changes") -> "Changes":
        return Changes(*(getattr(self, name) + getattr(other, name) for name in _FIELDS))

    def rows(self) -> list[tuple[str, int]]:
        """Return what was changed, in words, and how often; what never happened is left out."""
        counts = ((what, self._count(name)) for name, what in _ROWS.items())
        return [(what, count) for what, count in counts if count]

    def counts(self) -> dict[str, int]:
        """Return every count by name, zeros included, for machines."""
        totals = ("documents", "sentences", "tokens", "mentions", "entities")
        return {name: self._count(name) for name in (*totals, *_ROWS)}

    def _count(self, name: str) -> int:
        count: int = getattr(self if name in _FIELDS else self.flattening, name)
        return count


_FIELDS: Final = tuple(one.name for one in fields(Changes))


@dataclass(frozen=True, slots=True)
class Prepared:
    """Sentences for a tagger, and what was changed to get there."""

    sentences: tuple[Sentence, ...]
    changes: Changes

    def __repr__(self) -> str:
        return f"Prepared(sentences={len(self.sentences)}, entities={self.changes.entities})"


def prepare(
    documents: Iterable[Document],
    *,
    sentences: SentenceChoice = "auto",
    flatten: FlattenPolicy = "longest",
    labels: Collection[str] | None = None,
    label_map: Mapping[str, str | None] | None = None,
    max_tokens: int | None = None,
) -> Prepared:
    """Return all sentences of `documents` at once; `iterate_prepared` explains the arguments.

    >>> import fedner
    >>> note = fedner.Document("1", "Nausea after aspirin.", (fedner.Span.of(13, 20, "Drug"),))
    >>> prepared = fedner.prepare([note])
    >>> prepared.sentences
    (Sentence(tokens=4, entities=1),)
    """
    total = Changes()
    gathered: list[Sentence] = []
    for part in iterate_prepared(
        documents,
        sentences=sentences,
        flatten=flatten,
        labels=labels,
        label_map=label_map,
        max_tokens=max_tokens,
    ):
        gathered.extend(part.sentences)
        total += part.changes
    return Prepared(tuple(gathered), total)


def iterate_prepared(
    documents: Iterable[Document],
    *,
    sentences: SentenceChoice = "auto",
    flatten: FlattenPolicy = "longest",
    labels: Collection[str] | None = None,
    label_map: Mapping[str, str | None] | None = None,
    max_tokens: int | None = None,
) -> Iterator[Prepared]:
    """Yield the sentences of one document after the other, and the changes that were made to it.

    Tokens are those of the file if it has them, whatever the sentence policy; otherwise those of
    `tokenise`. A mention that does not begin and end on token borders takes all tokens that it
    touches. A mention that crosses a sentence border keeps the part with more characters (of equal
    parts the first): dropping it would teach the tagger that all of it is "O", and keeping both
    parts would make two mentions of one.

    Args:
        documents: What to prepare; it is not changed.
        sentences: The sentence policy; "auto" takes the sentences of the file if it has them, and
            the lines of the text otherwise.
        flatten: The flattening policy.
        labels: The types to keep, after renaming; None keeps all.
        label_map: New names of types; a type mapped to None is left out, one that is not in the map
            keeps its name.
        max_tokens: Longer sentences are split, after a punctuation mark if there is one in the
            second half of these tokens; None never splits.

    Raises:
        FednerError: If a policy does not exist or does not fit a document, or `max_tokens` is less
            than 1.
    """
    if max_tokens is not None and max_tokens < 1:
        raise FednerError(
            f"max_tokens: found {max_tokens}; expected at least 1", "Leave it out for no limit."
        )
    kept_labels = None if labels is None else frozenset(labels)
    for document in documents:
        spans, dropped, renamed = _relabel(document.spans, kept_labels, label_map or {})
        flat, flattening = flatten_spans(spans, flatten)
        pieces, num_split = _limit(document.text, _tokenised(document, sentences), max_tokens)
        layout = _Layout.of(pieces)
        placed, placement = _place(flat, layout)
        made = _sentences(document, layout, placed)
        yield Prepared(
            made,
            placement
            + Changes(
                documents=1,
                sentences=len(made),
                tokens=len(layout.starts),
                mentions=len(document.spans),
                flattening=flattening,
                dropped_labels=dropped,
                renamed=renamed,
                split_sentences=num_split,
            ),
        )


def _relabel(
    spans: tuple[Span, ...], labels: frozenset[str] | None, label_map: Mapping[str, str | None]
) -> tuple[list[Span], int, int]:
    """Return the spans to keep under their new names, how many were left out, how many renamed."""
    kept: list[Span] = []
    renamed = 0
    for span in spans:
        label = label_map.get(span.label, span.label)
        if label is None or (labels is not None and label not in labels):
            continue
        if label != span.label:
            renamed += 1
            span = Span(span.fragments, label)
        kept.append(span)
    return kept, len(spans) - len(kept), renamed


Tokens = list[tuple[int, int]]


def _tokenised(document: Document, choice: SentenceChoice) -> Iterator[Tokens]:
    """Yield the tokens of one sentence after the other; no sentence is empty."""
    if document.segments is not None and choice in ("auto", "as given"):
        yield from filter(None, (_tokens_of(document.text, part) for part in _in_order(document)))
        return
    ranges = segment(document, "line" if choice == "auto" else choice)
    given = _given_tokens(document)
    if given is None:
        yield from (tokenise(document.text, start, end) for start, end in ranges)
        return
    # A token belongs to the sentence in which it begins.
    begins = [start for start, _ in given]
    inner = [bisect_left(begins, start) for start, _ in ranges[1:]]
    yield from (
        given[left:right] for left, right in pairwise((0, *inner, len(given))) if left < right
    )


def _in_order(document: Document) -> list[Segment]:
    """Return the sentences of the file in the order of the text."""
    return sorted(document.segments or (), key=attrgetter("start"))


def _tokens_of(text: str, part: Segment) -> Tokens:
    """Return the tokens of a sentence of the file: its own, or those of the tokeniser."""
    if part.token_starts is None or part.token_ends is None:
        return tokenise(text, part.start, part.end)
    return list(zip(part.token_starts, part.token_ends, strict=True))


def _given_tokens(document: Document) -> Tokens | None:
    """Return the tokens of the file in text order, or None where a sentence has none."""
    parts = _in_order(document)
    if not parts or any(part.token_starts is None for part in parts):
        return None
    return list(chain.from_iterable(_tokens_of(document.text, part) for part in parts))


def _limit(
    text: str, sentences: Iterable[Tokens], max_tokens: int | None
) -> tuple[list[Tokens], int]:
    """Return the sentences with long ones split, and how many were split."""
    if max_tokens is None:
        return list(sentences), 0
    pieces: list[Tokens] = []
    num_split = 0
    for tokens in sentences:
        num_split += len(tokens) > max_tokens
        while len(tokens) > max_tokens:
            cut = max_tokens
            for at in range(max_tokens, max_tokens // 2, -1):
                start, end = tokens[at - 1]
                if not any(map(str.isalnum, text[start:end])):
                    cut = at
                    break
            pieces.append(tokens[:cut])
            tokens = tokens[cut:]
        pieces.append(tokens)
    return pieces, num_split


@dataclass(frozen=True, slots=True)
class _Layout:
    """The tokens of a whole document in text order, and where its sentences begin among them.

    Attributes:
        starts: Where each token begins in the text.
        ends: Where each token ends.
        firsts: The index of the first token of each sentence, and at last the number of tokens.
    """

    starts: list[int]
    ends: list[int]
    firsts: list[int]

    @classmethod
    def of(cls, pieces: list[Tokens]) -> "_Layout":
        firsts = [0]
        for piece in pieces:
            firsts.append(firsts[-1] + len(piece))
        starts = [start for start, _ in chain.from_iterable(pieces)]
        ends = [end for _, end in chain.from_iterable(pieces)]
        return cls(starts, ends, firsts)


def _place(spans: Iterable[Span], layout: _Layout) -> tuple[list[Entity], Changes]:
    """Return the entities over token indices of the document, each in one sentence, in order."""
    starts, ends = layout.starts, layout.ends
    ranges: list[tuple[int, int]] = []
    candidates: list[tuple[int, int, str]] = []
    snapped = crossing = unplaced = 0
    for span in spans:
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end)
        if first >= last:
            unplaced += 1
            continue
        snapped += starts[first] != span.start or ends[last - 1] != span.end
        whole = (first, last)
        first, last = _larger_part(whole, layout)
        crossing += (first, last) != whole
        ranges.append((first, last))
        candidates.append((starts[first], ends[last - 1], span.label))
    winners = longest_first(candidates)
    entities = [Entity(*ranges[winner], candidates[winner][2]) for winner in winners]
    return entities, Changes(
        entities=len(entities),
        snapped=snapped,
        crossing=crossing,
        colliding=len(candidates) - len(winners),
        unplaced=unplaced,
    )


def _larger_part(whole: tuple[int, int], layout: _Layout) -> tuple[int, int]:
    """Return the part of a token range that lies in one sentence and has the most characters."""
    first, last = whole
    sentence = bisect_right(layout.firsts, first)  # the sentence after that of the first token
    if last <= layout.firsts[sentence]:
        return whole
    inner = layout.firsts[sentence : bisect_left(layout.firsts, last)]
    parts = pairwise((first, *inner, last))
    return max(parts, key=lambda part: layout.ends[part[1] - 1] - layout.starts[part[0]])


def _sentences(document: Document, layout: _Layout, entities: list[Entity]) -> tuple[Sentence, ...]:
    """Return the sentences of the document with their entities over their own tokens."""
    made: list[Sentence] = []
    text, at = document.text, 0
    for index, (left, right) in enumerate(pairwise(layout.firsts)):
        own: list[Entity] = []
        while at < len(entities) and entities[at].start < right:
            first, last, label = entities[at]
            own.append(Entity(first - left, last - left, label))
            at += 1
        starts, ends = tuple(layout.starts[left:right]), tuple(layout.ends[left:right])
        tokens = tuple([text[start:end] for start, end in zip(starts, ends, strict=True)])
        made.append(
            Sentence(document.id, index, tokens, starts, ends, tuple(own), document.patient)
        )
    return tuple(made)
