"""Which of many unlabelled notes to annotate next: read once, judged, a few of them chosen.

The notes come as a stream (`fresh`): empty ones, texts that came before and texts that are
annotated already are passed over. A job (`job.py`) keeps every judged note on the disk; when all
are done, `Chooser` goes through these lines and keeps an uncertainty and a place in the file for
each. Only the texts that diversity looks at are read again.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final, Literal, Protocol

from fedner.corpus.document import Document, Segment
from fedner.errors import FednerError
from fedner.inference.inputs import PredictionInput
from fedner.inference.ranking import Ranking, ranked
from fedner.inference.reading import BYTE_ORDER_MARK, Predicted, sentences_of

Unit = Literal["note", "sentence"]

MOST_SUGGESTED: Final = 2_000
MOST_KNOWN: Final = 6_000
"""With at most so many of the annotated texts others are compared; a sample by their hashes."""

EMPTY, REPEATED, ANNOTATED = "empty", "the same text as another", "annotated already"


class Judges(Protocol):
    """A tagger that says how unsure it is: `Predictor` or `OnnxTagger`."""

    @property
    def labels(self) -> Sequence[str]:
        """The entity types that it finds."""

    @property
    def digest(self) -> str:
        """The name of this very tagger."""

    def judge_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions and how unsure the tagger is of it."""


@dataclass(frozen=True, slots=True)
class Judging:
    """A tagger as a job reads with it: every note is judged."""

    tagger: Judges

    @property
    def labels(self) -> Sequence[str]:
        """The entity types that it finds."""
        return self.tagger.labels

    @property
    def digest(self) -> str:
        """The name of this very tagger."""
        return self.tagger.digest

    def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions and how unsure the tagger is of it."""
        return self.tagger.judge_documents(documents)


@dataclass(frozen=True, slots=True)
class Known:
    """Texts that are annotated already.

    Attributes:
        hashes: Of each text, and of each of its sentences.
        texts: Some of them, to be unlike.
    """

    hashes: frozenset[bytes] = frozenset()
    texts: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The name of these texts."""
        return hashlib.sha256(b"".join(sorted(self.hashes))).hexdigest()


def known_texts(inputs: Iterable[PredictionInput], unit: Unit) -> Known:
    """Return the texts of corpora that are annotated already.

    Raises:
        FednerError: A corpus has none, as a file of Label Studio's in which nobody annotated.
    """
    hashes: set[bytes] = set()
    texts: dict[bytes, str] = {}
    for opened in inputs:
        num_before = len(hashes)
        for document in opened.documents:
            hashes.add(text_hash(document.text))
            parts = [document] if unit == "note" else list(sentence_documents(document))
            hashes.update(text_hash(each.text) for each in parts)
            texts.update((text_hash(each.text), each.text) for each in parts)
            if len(texts) > 2 * MOST_KNOWN:
                texts = _sample(texts)
        if len(hashes) == num_before:
            raise FednerError(
                f"--not-in {opened.source} has no annotated text that the others do not have",
                "Name corpora that are annotated; tasks of Label Studio count when a person "
                "submitted them.",
            )
    return Known(frozenset(hashes), tuple(_sample(texts).values()))


def _sample(texts: dict[bytes, str]) -> dict[bytes, str]:
    """Return the texts of the least hashes: as good as drawn, and the same whatever the order."""
    return {each: texts[each] for each in sorted(texts)[:MOST_KNOWN]}


def text_hash(text: str) -> bytes:
    """Return what texts have in common that differ in blanks and line ends alone."""
    plain = " ".join(text.removeprefix(BYTE_ORDER_MARK).split())
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Fresh:
    """The notes, or their sentences, that are worth judging.

    Attributes:
        opened: The notes.
        unit: What is annotated.
        known: What is annotated already.
        passed_over: How many were passed over, by reason; it fills while they are read.
    """

    opened: PredictionInput
    unit: Unit = "note"
    known: Known = field(default_factory=Known)
    passed_over: Counter[str] = field(default_factory=Counter)

    def input(self) -> PredictionInput:
        """Return what a job reads."""
        total = self.opened.total if self.unit == "note" else None
        return replace(self.opened, documents=self._documents(), total=total)

    def _documents(self) -> Iterator[Document]:
        seen: set[bytes] = set()
        for document in self.opened.documents:
            parts = [document] if self.unit == "note" else sentence_documents(document)
            for part in parts:
                reason = self._reason(part, seen)
                if reason is None:
                    yield part
                else:
                    self.passed_over[reason] += 1
            if self.unit == "sentence" and not document.text.strip():
                self.passed_over[EMPTY] += 1

    def _reason(self, document: Document, seen: set[bytes]) -> str | None:
        """Return why a text is passed over; None where it is not."""
        if not document.text.removeprefix(BYTE_ORDER_MARK).strip():
            return EMPTY
        own = text_hash(document.text)
        if own in self.known.hashes:
            return ANNOTATED
        if own in seen:
            return REPEATED
        seen.add(own)
        return None


def sentence_documents(document: Document) -> Iterator[Document]:
    """Yield the sentences of a document as documents of their own.

    Their source says which characters of the document they are.
    """
    for number, sentence in enumerate(sentences_of(document), start=1):
        if not sentence.tokens:
            continue
        start, end = sentence.starts[0], sentence.ends[-1]
        segment = Segment(
            0,
            end - start,
            tuple(each - start for each in sentence.starts),
            tuple(each - start for each in sentence.ends),
        )
        yield Document(
            f"{document.id}.s{number}",
            document.text[start:end],
            (),
            (segment,),
            document.patient,
            f"{document.source or document.id}:{start}-{end}",
        )


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A chosen text; nothing of what stands in it.

    Attributes:
        id: Of the note, or of the sentence.
        uncertainty: How unsure the tagger is of it, per token.
        rank: Its place among all by uncertainty alone, counted from 1.
        mentions: How many mentions were found in it.
        characters: How long it is.
    """

    id: str
    uncertainty: float
    rank: int
    mentions: int
    characters: int


@dataclass(slots=True)
class Chooser:
    """Chooses among the lines of a job; a `job.Choose`.

    Attributes:
        by: What decides.
        count: How many are wanted.
        known: Texts that are annotated already.
        seed: Draws what is drawn.
        judged: How many texts there were.
        suggestions: What was chosen, the most useful first.
    """

    by: Ranking
    count: int
    known: Known
    seed: int
    judged: int = 0
    suggestions: tuple[Suggestion, ...] = ()

    def __call__(self, lines: BinaryIO) -> Iterator[bytes]:
        """Yield the chosen lines, the most useful first."""
        places, uncertainty = _places(lines)
        chosen = ranked(
            self.by,
            uncertainty,
            lambda numbers: (_record(lines, places[each])["text"] for each in numbers),
            self.count,
            self.known.texts,
            self.seed,
        )
        by_doubt = sorted(range(len(places)), key=lambda each: -uncertainty[each])
        rank = {number: place for place, number in enumerate(by_doubt, start=1)}
        records = [(number, _record(lines, places[number])) for number in chosen]
        self.judged = len(places)
        self.suggestions = tuple(_suggestion(held, rank[number]) for number, held in records)
        for number, _ in records:
            lines.seek(places[number])
            yield lines.readline()


def check_count(count: int) -> None:
    """Refuse a number of suggestions that makes no sense.

    Raises:
        FednerError: It is below 1 or very large.
    """
    if not 1 <= count <= MOST_SUGGESTED:
        raise FednerError(
            f"--count {count:,}; expected 1 to {MOST_SUGGESTED:,}",
            "Annotate in rounds: a tagger that learned from the first texts chooses the next "
            "ones better.",
        )


def _places(lines: BinaryIO) -> tuple[list[int], list[float]]:
    """Return where each line begins, and how unsure the tagger is of its note."""
    places: list[int] = []
    uncertainty: list[float] = []
    place = 0
    for line in lines:
        places.append(place)
        uncertainty.append(float(json.loads(line)["uncertainty"]))
        place += len(line)
    return places, uncertainty


def _record(lines: BinaryIO, place: int) -> dict[str, Any]:
    lines.seek(place)
    found: dict[str, Any] = json.loads(lines.readline())
    return found


def _suggestion(record: dict[str, Any], rank: int) -> Suggestion:
    return Suggestion(
        record["id"], record["uncertainty"], rank, len(record["spans"]), len(record["text"])
    )
