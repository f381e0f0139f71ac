"""Files of one corpus that hold the same sentences: counted twice, or test data in training data.

Some distributions ship the whole corpus beside its parts (`all.full` beside train, dev and test).
Read as one folder, every sentence is there twice. Memory is bounded: of a large corpus only the
sentences with certain hashes are compared, the same ones in every file.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import PurePosixPath

from fedner.corpus.document import Document

MAX_COMPARED = 200_000
"""How many different sentences are held at once."""

MAX_FILES = 50
"""With more files, folders are compared instead; what comes after so many is not compared."""

LEAST_SHARE = 0.5
"""What share of the smaller file's sentences must be in the larger one to be worth saying."""

_LEAST_SENTENCES = 10
_HASH_MASK = (1 << 61) - 1


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two files (or folders) that hold the same sentences.

    Attributes:
        larger: The file with more different sentences.
        smaller: The other one.
        sentences: How many different sentences both have; an estimate where not all were compared.
        share: Those as a share of the smaller file's different sentences.
        is_estimate: Whether only a sample was compared.
    """

    larger: str
    smaller: str
    sentences: int
    share: float
    is_estimate: bool

    def __str__(self) -> str:
        about = "about " if self.is_estimate else ""
        return (
            f"{about}{self.sentences:,} sentences of {self.smaller} ({self.share:.0%}) are in "
            f"{self.larger} too"
        )


@dataclass(slots=True)
class Repeats:
    """Remembers which files hold which sentences, while a corpus is read.

    Attributes:
        groups: The files or folders so far, with their numbers.
        owners: The files of each sentence, as bits, by its hash.
        step: One sentence in so many is compared.
        by_folder: Whether folders are compared instead of files.
    """

    groups: dict[str, int] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    step: int = 1
    by_folder: bool = False

    def add(self, document: Document) -> None:
        """Remember the sentences of a document, or its text where it has no sentences."""
        bit = self._bit(document.source)
        if not bit:
            return
        text = document.text
        if document.segments is None:
            self._add_text(text, bit)
            return
        for part in document.segments:
            self._add_text(text[part.start : part.end], bit)

    def found(self) -> list[Repeat]:
        """Return the pairs of files that have much in common, the most first."""
        sizes, common = Counter[int](), Counter[tuple[int, int]]()
        numbers = range(len(self.groups))
        for owners, count in Counter(self.owners.values()).items():
            held = [number for number in numbers if owners >> number & 1]
            sizes.update(dict.fromkeys(held, count))
            common.update(dict.fromkeys(combinations(held, 2), count))
        repeats = [self._repeat(pair, count, sizes) for pair, count in common.items()]
        kept = [each for each in repeats if each.share >= LEAST_SHARE]
        kept = [each for each in kept if each.sentences >= _LEAST_SENTENCES * self.step]
        return sorted(kept, key=lambda each: (-each.sentences, each.larger, each.smaller))

    def _repeat(self, pair: tuple[int, int], count: int, sizes: Counter[int]) -> Repeat:
        names = list(self.groups)
        smaller, larger = sorted(pair, key=lambda number: sizes[number])
        share = count / sizes[smaller]
        return Repeat(names[larger], names[smaller], count * self.step, share, self.step > 1)

    def _add_text(self, text: str, bit: int) -> None:
        key = hash(text) & _HASH_MASK
        if not text or key % self.step:
            return
        self.owners[key] = self.owners.get(key, 0) | bit
        if len(self.owners) > MAX_COMPARED:
            self.step *= 2
            self.owners = {key: bits for key, bits in self.owners.items() if not key % self.step}

    def _bit(self, source: str) -> int:
        """Return the bit of a file, or of its folder; 0 where there are too many."""
        name = _folder(source) if self.by_folder else source
        number = self.groups.get(name)
        if number is None:
            if len(self.groups) == MAX_FILES:
                if self.by_folder:
                    return 0
                self._compare_folders()
                return self._bit(source)
            number = self.groups[name] = len(self.groups)
        return 1 << number

    def _compare_folders(self) -> None:
        """Put the files of each folder together."""
        self.by_folder = True
        folders: dict[str, int] = {}
        places = [folders.setdefault(_folder(name), len(folders)) for name in self.groups]
        for key, bits in self.owners.items():
            merged = 0
            for number, place in enumerate(places):
                merged |= (bits >> number & 1) << place
            self.owners[key] = merged
        self.groups = folders


def _folder(source: str) -> str:
    return str(PurePosixPath(source).parent)
