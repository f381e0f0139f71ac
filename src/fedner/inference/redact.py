"""Texts without what a tagger found in them: everything else stays byte for byte.

Found mentions become their type in brackets, a pseudonym that is the same for the same words, or a
mask of the same length. A tagger misses mentions: what comes out is not anonymous by itself.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from fedner.errors import FednerError
from fedner.inference.reading import Mention

How = Literal["type", "pseudonym", "mask"]
MASK = "*"


@dataclass(frozen=True, slots=True)
class Replacement:
    """One replaced mention.

    Attributes:
        start: Where the mention began in the text.
        end: Where it ended.
        label: Its type.
        new_start: Where its replacement begins in the redacted text.
        new_end: Where that ends.
    """

    start: int
    end: int
    label: str
    new_start: int
    new_end: int

    def __repr__(self) -> str:
        return f"Replacement({self.start}-{self.end} by {self.new_start}-{self.new_end})"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A redacted text, and what was replaced in it, in order."""

    text: str
    replacements: tuple[Replacement, ...]

    def __repr__(self) -> str:
        return f"Redacted(characters={len(self.text)}, replacements={len(self.replacements)})"


class Names(Protocol):
    """What gives mentions their pseudonyms."""

    def name(self, label: str, words: str) -> str:
        """Return what stands for the words of a mention."""
        ...


@dataclass(slots=True)
class Pseudonyms:
    """Names for mentions: the same words of the same type have the same name, in all texts.

    The names count upwards in the order of appearance; the table that leads back to the words is
    in memory only.
    """

    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def name(self, label: str, words: str) -> str:
        """Return the pseudonym of a mention, whatever its case and blanks."""
        key = (label, " ".join(words.casefold().split()))
        if key not in self._names:
            self._counts[label] = self._counts.get(label, 0) + 1
            self._names[key] = f"[{label}-{self._counts[label]}]"
        return self._names[key]


def removed_types(
    known: Sequence[str], remove: Collection[str] = (), keep: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the types to remove: those named, or all that a tagger knows but those to keep.

    Raises:
        FednerError: Both are given, the tagger lacks one of them, or nothing is left to remove.
    """
    known_words = f"The tagger has {', '.join(known)}."
    if remove and keep:
        raise FednerError(
            "both types to remove and types to keep are given",
            "Give only one of them: all other types are kept, or removed.",
        )
    unknown = sorted({*remove, *keep} - set(known))
    if unknown:
        raise FednerError(f"the tagger has no type {', '.join(unknown)}", known_words)
    chosen = tuple(label for label in known if (label in remove if remove else label not in keep))
    if not chosen:
        raise FednerError("there is no type left to remove", known_words)
    return chosen


def redact(
    text: str,
    mentions: Iterable[Mention],
    how: How = "type",
    pseudonyms: Names | None = None,
) -> Redacted:
    """Replace mentions in a text.

    >>> import fedner
    >>> found = [fedner.Mention(13, 20, "Drug", "aspirin", 0.93)]
    >>> fedner.redact("Nausea after aspirin.", found).text
    'Nausea after [Drug].'

    Args:
        text: The text.
        mentions: What to replace; they must not overlap.
        how: By their type, by a pseudonym, or by a mask of the same length that keeps line breaks.
        pseudonyms: Makes the pseudonyms (`Pseudonyms` counts, `home_key.PatientPseudonyms` has a
            key); pass the same object for all texts that belong together.

    Raises:
        FednerError: Mentions overlap, or lie outside the text.
    """
    names = Pseudonyms() if pseudonyms is None else pseudonyms
    pieces: list[str] = []
    done: list[Replacement] = []
    position = length = 0
    for mention in sorted(mentions):
        if not position <= mention.start < mention.end <= len(text):
            raise FednerError(
                f"mention {mention.start}-{mention.end}; expected it within {position}-{len(text)}",
                "Mentions must not overlap each other and must lie in the text.",
            )
        kept = text[position : mention.start]
        new = _replacement(text[mention.start : mention.end], mention.label, how, names)
        pieces += [kept, new]
        begin = length + len(kept)
        length = begin + len(new)
        done.append(Replacement(mention.start, mention.end, mention.label, begin, length))
        position = mention.end
    return Redacted("".join([*pieces, text[position:]]), tuple(done))


def _replacement(words: str, label: str, how: How, names: Names) -> str:
    if how == "mask":
        return "".join(letter if letter in "\r\n" else MASK for letter in words)
    return f"[{label}]" if how == "type" else names.name(label, words)
