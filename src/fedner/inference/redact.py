"""Texts without what a tagger found in them: everything else stays byte for byte.

Found mentions become their type in brackets, a pseudonym that is the same for the same words, or a
mask of the same length. A tagger misses mentions: what comes out is not anonymous by itself.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fedner.durable import write_bytes
from fedner.errors import FednerError
from fedner.inference.notes import Notes, find_notes, summary
from fedner.inference.permissions import make_folders, output_mode
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

    def __repr__(self) -> str:
        return f"Replacement({self.start}-{self.end} by {self.new_start}-{self.new_end})"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A redacted text, and what was replaced in it, in order."""

    text: str
    replacements: tuple[Replacement, ...]

    def __repr__(self) -> str:
        return f"Redacted(characters={len(self.text)}, replacements={len(self.replacements)})"


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

    >>> import fedner
    >>> found = [fedner.Mention(13, 20, "Drug", "aspirin", 0.93)]
    >>> fedner.redact("Nausea after aspirin.", found).text
    'Nausea after [Drug].'

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
    """What became of a file.

    Attributes:
        source: The file.
        target: Where its redacted text went.
        replacements: What was replaced, in order of the text.
    """

    source: Path
    target: Path
    replacements: tuple[Replacement, ...]

    @property
    def replaced(self) -> dict[str, int]:
        """How many mentions were replaced, by type."""
        return dict(sorted(Counter(each.label for each in self.replacements).items()))


def redact_files(
    predictor: Predictor,
    source: Path | Notes,
    target: Path,
    how: How = "type",
    *,
    encoding: str | None = None,
) -> Iterator[RedactedFile]:
    """Redact one file of text, or the notes of a folder, into another place.

    Everything but the mentions stays byte for byte: byte-order mark, line ends, blanks. Pseudonyms
    are consistent over all files. Nothing is written before all files have been looked at.

    Args:
        predictor: What finds the mentions.
        source: A file or a folder; or what `find_notes` found in one, by a caller who says what
            was left out.
        target: The file or folder to write; never the input itself.
        how: How mentions are replaced.
        encoding: How the files are encoded; None for UTF-8.

    Raises:
        FednerError: There is nothing to read, a file is not text, or something would be
            overwritten.
    """
    notes = source if isinstance(source, Notes) else _all_readable(find_notes(source, encoding))
    pairs = redaction_targets(notes, target)
    names = Pseudonyms()
    for file in notes.texts():
        write_to = pairs[file.path]
        mentions = predictor.predict(file.text)
        result = redact(file.text, mentions, how, names)
        _make_folders(notes, file.path, write_to)
        write_bytes(
            write_to,
            file.encoded(result.text),
            mode=output_mode([file.path], write_to),
            overwrite=False,
        )
        yield RedactedFile(file.path, write_to, result.replacements)


def redaction_targets(notes: Notes, target: Path) -> dict[Path, Path]:
    """Return where the redacted text of each note goes.

    Raises:
        FednerError: Something is there already, or the target lies within the input.
    """
    source = notes.root
    if source.is_dir():
        if target.resolve().is_relative_to(source.resolve()):
            raise FednerError(f"{target} lies within {source}", "Choose a folder outside of it.")
        pairs = {path: target / path.relative_to(source) for path in notes.files}
    else:
        pairs = {source: target / source.name if target.is_dir() else target}
    there = [str(each) for each in pairs.values() if os.path.lexists(each)]
    if there:
        files = "1 file is" if len(there) == 1 else f"{len(there):,} files are"
        raise FednerError(
            f"{files} already there: {', '.join(there[:5])}",
            "Choose another --out: redacting never overwrites.",
        )
    return pairs


def _all_readable(notes: Notes) -> Notes:
    """Refuse a folder of which a part cannot be redacted."""
    if notes.refused:
        raise FednerError(
            f"{notes.root} has files that cannot be redacted: {'; '.join(summary(notes.refused))}",
            notes.refused[0].hint,
        )
    return notes


def _make_folders(notes: Notes, source: Path, target: Path) -> None:
    """Make the folders of a target, each as open as its counterpart in the input at most."""
    if notes.root.is_dir():
        depth = len(source.relative_to(notes.root).parents)
        for above in reversed(range(depth)):
            make_folders(target.parents[above], source.parents[above])
    else:
        make_folders(target.parent, source.resolve().parent)
