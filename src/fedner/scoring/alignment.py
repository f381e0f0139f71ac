"""From tags or entities of sentences to mentions of both sides on one axis of tokens.

This module imports NumPy; `sentences.py` imports it only when something is scored.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from fedner.corpus.sentence import Entity
from fedner.errors import FednerError
from fedner.scoring.counts import OUTSIDE, TokenCounts
from fedner.scoring.mentions import Ints, Mentions

Codes = npt.NDArray[np.int32] | npt.NDArray[np.uint8]

# How a tag stands to its neighbours: may it go on with the mention of the token before, and may the
# token after go on with it? BILOU says L and U for E and S.
_CONTINUES = {"B": False, "I": True, "E": True, "L": True, "S": False, "U": False}
_CAN_GO_ON = {"B": True, "I": True, "E": False, "L": False, "S": False, "U": False}


@dataclass(frozen=True, slots=True)
class Aligned:
    """Both sides on one axis.

    Attributes:
        gold: The gold mentions.
        predicted: The predicted ones.
        names: The label of each code.
        offsets: Where each sentence begins on the axis.
        tokens: The token-level totals; empty where the lengths of the sentences are unknown.
    """

    gold: Mentions
    predicted: Mentions
    names: tuple[str, ...]
    offsets: Ints
    tokens: TokenCounts


def _codes_by_appearance(first: Sequence[str] = ()) -> defaultdict[str, int]:
    """Return a table that numbers each new name when it is first looked up."""
    table: defaultdict[str, int] = defaultdict()
    table.update((name, code) for code, name in enumerate(first))
    table.default_factory = table.__len__
    return table


# ------------------------------------------------------------------ from tags


def align_tags(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    is_scored: Callable[[str], bool],
) -> Aligned:
    """Read the tags of both sides by the conlleval rules; see `sentences.score_tags`."""
    lengths = _lengths(gold)
    _check_lengths(lengths, _lengths(predicted))
    table = _codes_by_appearance((OUTSIDE,))
    sides = [_flat_codes(table, tags, int(lengths.sum())) for tags in (gold, predicted)]
    parts = [_split_tag(tag) for tag in table]
    label_table = _codes_by_appearance()
    labels = np.array([label_table[label] for _, label in parts], np.int64)
    offsets = np.cumsum(lengths) - lengths
    mentions = [_chunks(codes, labels, [prefix for prefix, _ in parts], offsets) for codes in sides]
    scored = [is_scored(label) for _, label in parts]
    tokens = _token_counts(sides[0], sides[1], tuple(table), scored)
    return Aligned(mentions[0], mentions[1], tuple(label_table), offsets, tokens)


def _lengths(sentences: Sequence[Sequence[object]]) -> Ints:
    return np.fromiter(map(len, sentences), np.int64, count=len(sentences))


def _check_lengths(gold: Ints, predicted: Ints) -> None:
    if gold.size != predicted.size:
        raise FednerError(
            f"{gold.size:,} gold sentences but {predicted.size:,} predicted ones",
            "Predict every gold sentence, in the same order.",
        )
    differing = np.flatnonzero(gold != predicted)
    if differing.size:
        at = int(differing[0])
        raise FednerError(
            f"sentence {at} has {gold[at]} gold tags but {predicted[at]} predicted ones "
            f"({differing.size:,} such sentences)",
            "Give every token of a sentence one tag on both sides.",
        )


def _flat_codes(
    table: defaultdict[str, int], tags: Sequence[Sequence[str]], num_tokens: int
) -> Codes:
    # Looking a tag up is all that is done token by token, and at C speed. Bytes are filled fastest;
    # they have room for 256 different tags.
    try:
        looked_up = map(table.__getitem__, chain.from_iterable(tags))
        return np.frombuffer(bytearray(looked_up), np.uint8)
    except ValueError:
        looked_up = map(table.__getitem__, chain.from_iterable(tags))
        return np.fromiter(looked_up, np.int32, count=num_tokens)


def _split_tag(tag: str) -> tuple[str, str]:
    """Return prefix and label of a tag; "O" has no label."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, hyphen, label = str(tag).partition("-")
    if prefix not in _CONTINUES or not hyphen or not label:
        raise FednerError(
            f"unknown tag {tag!r}; expected O, or one of {', '.join(_CONTINUES)} before a hyphen "
            "and a label, as in B-Drug",
            "Convert the tags to IO, IOB1, BIO, BIOES or BILOU.",
        )
    return prefix, label


def _chunks(codes: Codes, labels: Ints, prefixes: Sequence[str], offsets: Ints) -> Mentions:
    """Find the mentions of one side; `labels` and `prefixes` describe each code."""
    # A tag goes on with the tag before it where what it asks for is what that one offers: its own
    # label, if its prefix allows it to, and else something that nobody offers.
    asks = np.where([_CONTINUES.get(prefix, False) for prefix in prefixes], labels, -1)
    offers = np.where([_CAN_GO_ON.get(prefix, False) for prefix in prefixes], labels, -2)
    at = np.flatnonzero(codes != 0)  # the code of "O"
    tag = codes[at]
    begins = np.ones(at.size + 1, np.bool_)  # one more: nothing goes on after the last token
    begins[1:-1] = (asks[tag[1:]] != offers[tag[:-1]]) | (at[1:] != at[:-1] + 1)
    begins[np.searchsorted(at, offsets)] = True  # no mention goes beyond its sentence
    first = begins[:-1]
    return Mentions(at[first], at[begins[1:]] + 1, labels[tag[first]])


def _token_counts(
    gold: Codes, predicted: Codes, names: tuple[str, ...], is_scored: Sequence[bool]
) -> TokenCounts:
    """Count the tags; those of labels that are not scored count as "O"."""
    if not all(is_scored[1:]):
        counted = np.where(is_scored, np.arange(len(names), dtype=np.int32), 0)
        gold, predicted = counted[gold], counted[predicted]
    columns = (gold, predicted, gold[gold == predicted])
    totals = [np.bincount(codes, minlength=len(names)).tolist() for codes in columns]
    occurring = sorted(
        (name, *row) for name, *row in zip(names, *totals, strict=True) if row[0] or row[1]
    )
    return TokenCounts(
        {name: row[0] for name, *row in occurring},
        {name: row[1] for name, *row in occurring},
        {name: row[2] for name, *row in occurring},
    )


# -------------------------------------------------------------- from entities


def align_entities(
    gold: Sequence[Sequence[Entity]],
    predicted: Sequence[Sequence[Entity]],
    is_scored: Callable[[str], bool],
    lengths: Sequence[int] | None,
) -> Aligned:
    """Lay the entities of both sides on one axis; see `sentences.score`."""
    counts = [_lengths(side) for side in (gold, predicted)]
    if counts[0].size != counts[1].size:
        _check_lengths(*counts)
    table = _codes_by_appearance()
    columns = [_columns(side, table) for side in (gold, predicted)]
    if lengths is None:
        stride = 1 + max((int(ends.max()) for _, ends, _ in columns if ends.size), default=0)
        room = np.full(len(gold), stride, np.int64)
    else:
        room = np.fromiter(lengths, np.int64)
    if room.size != len(gold):
        raise FednerError(
            f"{len(gold):,} sentences but {room.size:,} lengths",
            "Give the number of tokens of every sentence, in the same order.",
        )
    offsets = np.cumsum(room) - room
    sides = [
        _placed(name, side, count, room, offsets)
        for name, side, count in zip(("gold", "predicted"), columns, counts, strict=True)
    ]
    names = tuple(table)
    tokens = TokenCounts()
    if lengths is not None:
        tokens = _entity_tokens(sides[0], sides[1], int(room.sum()), names, is_scored)
    return Aligned(sides[0], sides[1], names, offsets, tokens)


def _columns(
    side: Sequence[Sequence[Entity]], table: defaultdict[str, int]
) -> tuple[Ints, Ints, Ints]:
    entities = list(chain.from_iterable(side))
    if not entities:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    starts, ends, labels = zip(*entities, strict=True)
    codes = np.fromiter(map(table.__getitem__, labels), np.int64, count=len(labels))
    return np.array(starts, np.int64), np.array(ends, np.int64), codes


def _placed(
    name: str,
    columns: tuple[Ints, Ints, Ints],
    counts: Ints,
    room: Ints,
    offsets: Ints,
) -> Mentions:
    """Move the entities of one side to the axis, sorted; refuse what is not flat."""
    starts, ends, labels = columns
    sentence = np.repeat(np.arange(counts.size), counts)
    wrong = (starts < 0) | (starts >= ends) | (ends > room[sentence])
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise FednerError(
            f"{name} entity [{starts[at]}, {ends[at]}) of sentence {sentence[at]}: expected "
            f"0 <= start < end <= {room[sentence[at]]}",
            "Give half-open token indices within the sentence.",
        )
    begin, end = starts + offsets[sentence], ends + offsets[sentence]
    order = np.argsort(begin, kind="stable")
    mentions = Mentions(begin[order], end[order], labels[order])
    overlapping = np.flatnonzero(mentions.starts[1:] < mentions.ends[:-1])
    if overlapping.size:
        at = int(sentence[order[int(overlapping[0])]])
        raise FednerError(
            f"{name} entities of sentence {at} overlap; expected flat ones",
            "Flatten the mentions first, or score the documents with score_documents.",
        )
    return mentions


def _entity_tokens(
    gold: Mentions,
    predicted: Mentions,
    num_tokens: int,
    names: tuple[str, ...],
    is_scored: Callable[[str], bool],
) -> TokenCounts:
    """Count the tokens under the BIO tags of the entities."""
    tags = (OUTSIDE, *(f"{prefix}-{name}" for name in names for prefix in "BI"))
    scored = [True, *(is_scored(name) for name in names for _ in "BI")]
    gold_codes, predicted_codes = _bio_codes(gold, num_tokens), _bio_codes(predicted, num_tokens)
    return _token_counts(gold_codes, predicted_codes, tags, scored)


def _bio_codes(mentions: Mentions, num_tokens: int) -> Codes:
    codes = np.zeros(num_tokens, np.int32)
    lengths = mentions.ends - mentions.starts
    before = np.cumsum(lengths) - lengths
    inside = np.repeat(mentions.starts - before, lengths) + np.arange(int(lengths.sum()))
    codes[inside] = np.repeat(2 * mentions.labels + 2, lengths)
    codes[mentions.starts] = 2 * mentions.labels + 1
    return codes
