"""Tag schemes: flat entities to one tag per token and back, and what a CRF may step between.

A tag is "O" or a prefix, a hyphen and a label ("B-Drug"). The label begins after the first hyphen,
so labels may contain hyphens. Encoding and validating are strict. Decoding is lenient, as conlleval
is: any sequence of tags has exactly one reading, and a legal sequence the expected one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Literal

from fedner.corpus.sentence import Entity
from fedner.errors import FednerError

Scheme = Literal["IO", "IOB1", "BIO", "BIOES", "BILOU"]

OUTSIDE = "O"

# The prefixes of each scheme: first, inner and last token of an entity, and its only token.
# IOB1 begins with B only next to another entity of the same type, which `encode` sees to.
_PREFIXES: dict[Scheme, tuple[str, str, str, str]] = {
    "IO": ("I", "I", "I", "I"),
    "IOB1": ("I", "I", "I", "I"),
    "BIO": ("B", "I", "I", "B"),
    "BIOES": ("B", "I", "E", "S"),
    "BILOU": ("B", "I", "L", "U"),
}
_NAMES: dict[str, Scheme] = {
    "IO": "IO",
    "IOB1": "IOB1",
    "BIO": "BIO",
    "IOB2": "BIO",
    "BIOES": "BIOES",
    "IOBES": "BIOES",
    "BILOU": "BILOU",
    "BILUO": "BILOU",
    "BIOUL": "BILOU",
}
# Canonical order of the prefixes that a scheme may use.
_TAG_PREFIXES: dict[Scheme, str] = {
    "IO": "I",
    "IOB1": "BI",
    "BIO": "BI",
    "BIOES": "BIES",
    "BILOU": "BILU",
}
# What tells the two five-prefix schemes apart: their own last and only tokens, and the other's.
_ENDINGS: tuple[tuple[Scheme, str, str], ...] = (("BILOU", "LU", "ES"), ("BIOES", "ES", "LU"))
SCHEMES: tuple[Scheme, ...] = tuple(_PREFIXES)

_MAX_DISTINCT_PAIRS = 100_000  # a column that holds no tags must not fill the memory


def canonical(name: str) -> Scheme:
    """Return the scheme that `name` stands for, whatever its case.

    >>> canonical("iob2")
    'BIO'
    """
    scheme = _NAMES.get(name) or _NAMES.get(name.upper())
    if scheme is None:
        known = ", ".join(_NAMES)
        hint = f"Choose one of {known}."
        if name.upper() == "IOB":
            hint = (
                'Say which: "IOB2" (= "BIO"), where every entity begins with B-, or "IOB1" '
                "(CoNLL 2003), where B- stands only between two adjacent entities of one type."
            )
        raise FednerError(f'tag scheme: found "{name}"; expected one of {known}', hint)
    return scheme


@lru_cache(maxsize=8192)
def split_tag(tag: str) -> tuple[str, str]:
    """Return prefix and label of a tag; ("O", "") for "O", ("", "") for what is no tag.

    >>> split_tag("B-Regulon-operon")
    ('B', 'Regulon-operon')
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if len(tag) > 2 and tag[1] == "-" and tag[0] in "BIELSU":
        return tag[0], tag[2:]
    return "", ""


def encode(entities: Sequence[Entity], length: int, scheme: str) -> list[str]:
    """Return the tags of a sentence of `length` tokens; the entities may come in any order.

    Raises:
        FednerError: If the scheme cannot carry the annotation: an entity outside the sentence, an
            empty label, overlapping entities, or adjacent entities of one type under IO.
    """
    name = canonical(scheme)
    tags = [OUTSIDE] * length
    first, inner, last, only = _PREFIXES[name]
    previous = Entity(-1, -1, "")
    for entity in sorted(entities):
        start, end, label = entity
        touches = start == previous.end and label == previous.label
        _check_carried(entity, previous, length, touches and name == "IO")
        if end - start == 1:
            tags[start] = f"{only}-{label}"
        else:
            tags[start] = f"{first}-{label}"
            tags[start + 1 : end - 1] = [f"{inner}-{label}"] * (end - start - 2)
            tags[end - 1] = f"{last}-{label}"
        if touches and name == "IOB1":
            tags[start] = f"B-{label}"
        previous = entity
    return tags


def _check_carried(entity: Entity, previous: Entity, length: int, would_merge: bool) -> None:
    """Raise if `entity` cannot be written after `previous`, its neighbour to the left."""
    if not 0 <= entity.start < entity.end <= length:
        raise FednerError(
            f"entity {entity.label} over tokens {entity.start} to {entity.end}: expected a "
            f"non-empty range within the {length} tokens of its sentence",
            "Offsets are half-open token indices: 0 <= start < end <= number of tokens.",
        )
    if not entity.label:
        raise FednerError(
            f"entity over tokens {entity.start} to {entity.end}: found an empty label",
            "Give every entity a type.",
        )
    if entity.start < previous.end:
        raise FednerError(
            f"entities overlap: {previous.label} over tokens {previous.start} to {previous.end} "
            f"and {entity.label} over {entity.start} to {entity.end}; tags carry flat entities",
            "Flatten the annotation first (--flatten).",
        )
    if would_merge:
        raise FednerError(
            f"scheme IO cannot separate two adjacent {entity.label} entities that meet at token "
            f"{entity.start}",
            "Use IOB1, BIO, BIOES or BILOU.",
        )


def decode(tags: Sequence[str], scheme: str = "BIO") -> list[Entity]:
    """Return the entities of a tag sequence, read the conlleval way whatever its faults.

    An entity begins at every B, S and U, and at every I, E and L that has no open entity of its
    type before it; it ends after E, L, S and U and before whatever does not continue it. What is no
    tag counts as "O". One rule reads every scheme, since their prefixes never contradict each
    other, so that a stray prefix of another scheme does no harm.
    """
    if scheme not in _PREFIXES:
        canonical(scheme)
    if tags.count(OUTSIDE) == len(tags):
        return []
    entities: list[Entity] = []
    start, open_label = 0, ""  # an empty label: no entity is open
    for index, tag in enumerate(tags):
        if tag == OUTSIDE:
            if open_label:
                entities.append(Entity(start, index, open_label))
                open_label = ""
            continue
        prefix, label = split_tag(tag)
        if label != open_label or prefix in "BSU":
            if open_label:
                entities.append(Entity(start, index, open_label))
            start, open_label = index, label
        if prefix in "ELSU" and label:
            entities.append(Entity(start, index + 1, label))
            open_label = ""
    if open_label:
        entities.append(Entity(start, len(tags), open_label))
    return entities


def convert(tags: Sequence[str], source: str, target: str) -> list[str]:
    """Return `tags` rewritten from one scheme into another; illegal sequences come out fixed."""
    return encode(decode(tags, source), len(tags), target)


def _left_fault(scheme: Scheme, previous: tuple[str, str], tag: tuple[str, str]) -> str:
    """Say why `tag` may not follow `previous` as far as `tag` is concerned, or nothing."""
    prefix, label = tag
    if scheme == "IO" or prefix == OUTSIDE:
        return ""
    if scheme == "IOB1":
        if prefix == "B" and previous[1] != label:
            return f"B in IOB1 stands only right after another entity of type {label}"
        return ""
    if prefix in "IEL" and not (previous[0] in ("B", "I") and previous[1] == label):
        return f"{prefix} continues an entity, but none of type {label} is open before it"
    return ""


def _right_fault(scheme: Scheme, tag: tuple[str, str], following: tuple[str, str]) -> str:
    """Say why `tag` may not stand before `following` as far as `tag` is concerned, or nothing."""
    prefix, label = tag
    if scheme not in ("BIOES", "BILOU") or prefix not in ("B", "I"):
        return ""
    last = _PREFIXES[scheme][2]
    if following[0] in ("I", last) and following[1] == label:
        return ""
    return f"the entity is not ended: {prefix} must be followed by I or {last} of type {label}"


def validate(tags: Sequence[str], scheme: str) -> list[tuple[int, str, str]]:
    """Return (index, tag, why) for every tag that the scheme does not allow where it stands."""
    name = canonical(scheme)
    if tags.count(OUTSIDE) == len(tags):
        return []
    outside = (OUTSIDE, "")
    known = _TAG_PREFIXES[name]
    parts = [split_tag(tag) for tag in tags]
    placed = [part if part[0] and part[0] in known else outside for part in parts]
    faults = []
    for index, tag in enumerate(tags):
        if tag == OUTSIDE:
            continue
        if placed[index] is outside:
            choices = ", ".join(f"{prefix}-LABEL" for prefix in known)
            faults.append((index, tag, f"no tag of {name}: expected O, {choices}"))
            continue
        before = placed[index - 1] if index else outside
        after = placed[index + 1] if index + 1 < len(tags) else outside
        whys = (
            _left_fault(name, before, placed[index]),
            _right_fault(name, placed[index], after),
        )
        if any(whys):
            faults.append((index, tag, "; ".join(why for why in whys if why)))
    return faults


def tag_set(labels: Iterable[str], scheme: str) -> tuple[str, ...]:
    """Return every tag of `labels`: "O" first, then label by label in sorted order.

    >>> tag_set(["Drug", "ADE"], "BIO")
    ('O', 'B-ADE', 'I-ADE', 'B-Drug', 'I-Drug')
    """
    prefixes = _TAG_PREFIXES[canonical(scheme)]
    named = (f"{prefix}-{label}" for label in sorted(set(labels)) for prefix in prefixes)
    return (OUTSIDE, *named)


@dataclass(frozen=True, slots=True)
class Transitions:
    """Which tags may begin, end and follow each other; indices are those of the given tags.

    Attributes:
        start: Whether each tag may stand first.
        end: Whether each tag may stand last.
        step: step[i][j] says whether tag j may follow tag i.
    """

    start: tuple[bool, ...]
    end: tuple[bool, ...]
    step: tuple[tuple[bool, ...], ...]


def allowed_transitions(tags: tuple[str, ...], scheme: str) -> Transitions:
    """Return what `scheme` allows between `tags`: the mask of a constrained CRF.

    Raises:
        FednerError: If one of `tags` is no tag of the scheme.
    """
    name = canonical(scheme)
    parts = [split_tag(tag) for tag in tags]
    for tag, (prefix, _) in zip(tags, parts, strict=True):
        if prefix != OUTSIDE and (not prefix or prefix not in _TAG_PREFIXES[name]):
            raise FednerError(
                f'tag set: found "{tag}"; expected O or one of {_TAG_PREFIXES[name]} with a label',
                f"Make the tag set with tag_set(labels, {name!r}).",
            )
    outside = (OUTSIDE, "")

    def may_follow(previous: tuple[str, str], tag: tuple[str, str]) -> bool:
        return not (_left_fault(name, previous, tag) or _right_fault(name, previous, tag))

    return Transitions(
        start=tuple(may_follow(outside, part) for part in parts),
        end=tuple(may_follow(part, outside) for part in parts),
        step=tuple(tuple(may_follow(part, after) for after in parts) for part in parts),
    )


@dataclass(slots=True)
class SchemeEvidence:
    """What the tags of one file say about its scheme; feed it sentences, then ask `decide`.

    Attributes:
        pairs: How often each tag follows each other, sentence starts counting as "O". Bounded:
            beyond a hundred thousand distinct pairs no more are gathered.
    """

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, tags: Sequence[str]) -> None:
        """Take the tags of one sentence into account; sentences of "O" alone may be left out."""
        if len(self.pairs) < _MAX_DISTINCT_PAIRS:
            self.pairs.update(zip(chain((OUTSIDE,), tags), tags, strict=False))

    def decide(self) -> tuple[Scheme, str]:
        """Return the scheme that explains the tags best, and why.

        IO is never answered: a file with I- tags alone is the same file in IOB1.
        """
        prefixes, fresh = self._count()
        for name, ending, rival in _ENDINGS:
            count = sum(prefixes[prefix] for prefix in ending)
            if count and count >= sum(prefixes[prefix] for prefix in rival):
                return name, f"{count:,} tags begin with {ending[0]}- or {ending[1]}-"
        if not prefixes:
            return "BIO", "no entity tags: every scheme reads the file alike"
        if not prefixes["B"]:
            return "IOB1", "I- tags only, no B-: IO, or IOB1 where no entities of a type touch"
        if not fresh["I"]:
            return "BIO", f"all {fresh['B']:,} entities after O or another type begin with B-"
        if not fresh["B"]:
            return "IOB1", (
                f"{fresh['I']:,} entities begin with I-; B- stands only between adjacent entities "
                "of one type"
            )
        winner: Scheme = "BIO" if fresh["B"] >= fresh["I"] else "IOB1"
        return winner, (
            f"mixed: {fresh['B']:,} entities after O or another type begin with B-, "
            f"{fresh['I']:,} with I-; the majority decides"
        )

    def _count(self) -> tuple[Counter[str], Counter[str]]:
        """Count prefixes, and those that begin an entity after "O" or after another type."""
        prefixes: Counter[str] = Counter()
        fresh: Counter[str] = Counter()
        for (previous, tag), count in self.pairs.items():
            prefix, label = split_tag(tag)
            if not label:
                continue
            prefixes[prefix] += count
            if split_tag(previous)[1] != label:
                fresh[prefix] += count
        return prefixes, fresh
