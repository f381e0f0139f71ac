"""Texts without what a tagger found in them: everything else stays byte for byte.

Found mentions become their type in brackets, a pseudonym that is the same for the same words, or a
mask of the same length. A tagger misses mentions: what comes out is not anonymous by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fedner.corpus.document import Document
from fedner.durable import write_bytes
from fedner.errors import FednerError
from fedner.inference.predict import Mention, Predictor

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


@dataclass(frozen=True, slots=True)
class Redacted:
    """A redacted text, and what was replaced in it, in order."""

    text: str
    replacements: tuple[Replacement, ...]


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


def redact(
    text: str,
    mentions: Iterable[Mention],
    how: How = "type",
    pseudonyms: Pseudonyms | None = None,
) -> Redacted:
    """Replace mentions in a text.

    Args:
        text: The text.
        mentions: What to replace; they must not overlap.
        how: By their type, by a pseudonym, or by a mask of the same length that keeps line breaks.
        pseudonyms: The names so far; hand in the same ones for all texts that belong together.

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


def _replacement(words: str, label: str, how: How, names: Pseudonyms) -> str:
    if how == "mask":
        return "".join(letter if letter in "\r\n" else MASK for letter in words)
    return f"[{label}]" if how == "type" else names.name(label, words)


@dataclass(frozen=True, slots=True)
class RedactedFile:
    """What became of a file: where it went, and what was replaced, by type."""

    source: Path
    target: Path
    replaced: dict[str, int]


def redact_files(
    predictor: Predictor, source: Path, target: Path, how: How = "type"
) -> Iterator[RedactedFile]:
    """Redact one file, or every .txt file under a folder, into another place.

    Bytes that are not UTF-8 stay what they are. Pseudonyms are consistent over all files.

    Args:
        predictor: What finds the mentions.
        source: A file of text, or a folder.
        target: The file or folder to write; never the input itself.
        how: How mentions are replaced.

    Raises:
        FednerError: There is nothing to read, or something would be overwritten.
    """
    pairs = _pairs(source, target)
    names = Pseudonyms()
    for read_from, write_to in pairs:
        # Undecodable bytes become lone surrogates, and the very same bytes again on the way out.
        text = _bytes_of(read_from).decode("utf-8", "surrogateescape")
        mentions = next(predictor.predict_documents([Document(read_from.name, text)])).mentions
        result = redact(text, mentions, how, names)
        write_to.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(write_to, result.text.encode("utf-8", "surrogateescape"))
        yield RedactedFile(read_from, write_to, _by_label(result.replacements))


def _by_label(replacements: Sequence[Replacement]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in replacements:
        counts[each.label] = counts.get(each.label, 0) + 1
    return dict(sorted(counts.items()))


def _pairs(source: Path, target: Path) -> list[tuple[Path, Path]]:
    """Return which file goes where; nothing that exists is ever a target."""
    if source.is_dir():
        inside = target.resolve().is_relative_to(source.resolve())
        if inside:
            raise FednerError(f"{target} lies within {source}", "Choose a folder outside of it.")
        found = sorted(path for path in source.rglob("*.txt") if path.is_file())
        pairs = [(path, target / path.relative_to(source)) for path in found]
        if not pairs:
            raise FednerError(f"{source} has no .txt file", "Name a folder of .txt files.")
    elif source.is_file():
        pairs = [(source, target / source.name if target.is_dir() else target)]
    else:
        raise FednerError(f"{source}: no such file or folder", "Check the path.")
    there = [str(write_to) for _, write_to in pairs if write_to.exists()]
    if there:
        raise FednerError(
            f"{len(there)} files are already there: {', '.join(there[:5])}",
            "Choose another --out: redacting never overwrites.",
        )
    return pairs


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FednerError(f"cannot read {path}: {error.strerror}", "Check the path.") from error
