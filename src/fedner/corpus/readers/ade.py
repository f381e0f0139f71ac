"""ADE Corpus V2 (Gurulingappa et al. 2012): DRUG-AE.rel, DRUG-DOSE.rel and ADE-NEG.txt.

Gurulingappa et al.: "Development of a benchmark corpus to support the automatic extraction of
drug-related adverse effects from medical case reports", Journal of Biomedical Informatics 45
(2012). A row is a relation between two mentions of one sentence:

    PubMed id | sentence | effect or dose | begin | end | drug | begin | end

The offsets count in a document that is not given. A pair of occurrences of the two strings whose
distance is that of the offsets says where the sentence begins there; the rows of one sentence must
agree on it. Here a document is one PubMed id, and its text is its sentences in their order, one per
line. Drugs without a relation are not marked. A sentence that stands under a second PubMed id is no
second sentence (there is one): its document has it in the text and no segment for it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.files import COMPRESSED_SUFFIXES, head, lines, stem
from fedner.corpus.problems import Kind, Problem, ProblemLog
from fedner.corpus.readers.folder import reason_or_none
from fedner.corpus.readers.options import NoOptions
from fedner.corpus.readers.reader import Reader

NUM_COLUMNS = 8
NEGATIVES = "ADE-NEG.txt"
FIRST_LABEL = {"DRUG-AE.rel": "ADE", "DRUG-DOSE.rel": "Dosage"}
"""The files of relations, in reading order, and what the first string of their rows is."""

REMARK_NEGATIVES = f"{NEGATIVES} left out: its drugs are not marked"
REMARK_REPEATED = "sentence that stands under a second PubMed id, or twice (one segment)"

_ROW = re.compile(r"[0-9]+\|[^|]+\|[^|]+\|[0-9]+\|[0-9]+\|[^|]+\|[0-9]+\|[0-9]+")
_NEGATIVE = re.compile(r"([0-9]+) NEG (.+)")
_NUMBER = re.compile(r"[0-9]{1,12}")
_PROBES = 5


@dataclass(frozen=True, slots=True)
class Claim:
    """One of the two mentions that a row declares; offsets count in the document not given."""

    label: str
    string: str
    begin: int
    end: int
    file: str
    line: int


Row = tuple[Claim, Claim]
Sentences = dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Placed:
    """A sentence at its place in the document, with the mentions in characters of the sentence."""

    begin: int
    sentence: str
    spans: tuple[Span, ...]


def recognise(path: Path) -> str | None:
    """Say why a path looks like ADE Corpus V2, or None."""
    return reason_or_none(path, _reason)


def stream(path: Path, log: ProblemLog, _options: NoOptions) -> Iterator[Document]:
    """Yield one document per PubMed id, in the order of their first rows."""
    if path.is_file() and _is_negatives(path):
        yield from _stream_negatives(path, log)
        return
    files = _relation_files(path) if path.is_dir() else [(_first_label(path), path)]
    if not files:
        problem = Problem(
            "not a corpus", str(path), None, "no such file in the folder", " or ".join(FIRST_LABEL),
            "Name the folder that holds them, or choose another format.",
        )  # fmt: skip
        log.report(problem)
    if path.is_dir() and _existing(path, NEGATIVES) is not None:
        log.remark(REMARK_NEGATIVES)
    documents: dict[str, Sentences] = {}
    sources: dict[str, str] = {}
    for label, file in files:
        for pubmed_id, sentence, row in _rows(file, label, log):
            documents.setdefault(pubmed_id, {}).setdefault(sentence, []).append(row)
            sources.setdefault(pubmed_id, stem(file))
    known: set[str] = set()
    for pubmed_id, sentences in documents.items():
        placed = [
            place
            for sentence, rows in sentences.items()
            for place in _place_sentence(pubmed_id, sentence, rows, log)
        ]
        placed.sort(key=lambda place: place.begin)
        yield _document(pubmed_id, placed, sources[pubmed_id], known, log)


def declared_labels(path: Path) -> tuple[str, ...]:
    """Return the types that the files annotate; ADE-NEG.txt says that there is no ADE."""
    if path.is_dir():
        firsts = [label for label, _ in _relation_files(path)]
    elif _is_negatives(path):
        return ("ADE",)
    else:
        firsts = [_first_label(path)]
    return tuple(sorted({*firsts, "Drug"})) if firsts else ()


def _reason(path: Path) -> str | None:
    if path.is_dir():
        for _, file in _relation_files(path):
            beginning = head(file)
            if beginning is not None and _begins_with(_ROW, beginning):
                return f"{file.name} has rows of eight fields between |"
        return None
    beginning = head(path)
    if beginning is None:
        return None
    if _begins_with(_ROW, beginning):
        return "rows of eight fields between |: PubMed id, sentence, two strings with offsets"
    if _begins_with(_NEGATIVE, beginning):
        return "rows of PubMed id, NEG and a sentence"
    return None


def _existing(folder: Path, name: str) -> Path | None:
    for suffix in ("", *COMPRESSED_SUFFIXES):
        candidate = folder / f"{name}{suffix}"
        if candidate.is_file():
            return candidate
    return None


def _relation_files(folder: Path) -> list[tuple[str, Path]]:
    found = [(label, _existing(folder, name)) for name, label in FIRST_LABEL.items()]
    return [(label, file) for label, file in found if file is not None]


def _first_label(file: Path) -> str:
    """Return what the first string of a row is; a file with a name of its own has effects."""
    return "Dosage" if "dos" in file.name.lower() else "ADE"


def _is_negatives(file: Path) -> bool:
    return _begins_with(_NEGATIVE, head(file) or "")


def _begins_with(pattern: re.Pattern[str], text: str) -> bool:
    """Say whether one of the first lines has the form of a row: the very first may be damaged."""
    beginning = [line.rstrip() for line in text.split("\n") if line.strip()][:_PROBES]
    return any(pattern.fullmatch(line) for line in beginning)


def _rows(file: Path, label: str, log: ProblemLog) -> Iterator[tuple[str, str, Row]]:
    """Yield PubMed id, sentence and the two claims of every valid row; report the others."""
    for number, line in lines(file, log):
        if not line.strip():
            continue
        columns = line.split("|")
        if len(columns) != NUM_COLUMNS:
            found, expected = f"{len(columns)} fields between |", str(NUM_COLUMNS)
            log.report(_bad_row("wrong column count", file, number, found, expected))
            continue
        pubmed_id, sentence, first, *first_range, drug, drug_begin, drug_end = columns
        # Python strips separators such as U+001D that its `int` would refuse.
        numbers = [value.strip() for value in (*first_range, drug_begin, drug_end)]
        wrong = [value for value in (pubmed_id, *numbers) if not _NUMBER.fullmatch(value.strip())]
        if wrong:
            problem = _bad_row("malformed line", file, number, repr(wrong[0]), "a whole number")
            # One problem for the row, both of its mentions counted.
            log.skip_mention(problem, pubmed_id, label)
            log.skipped_mentions.append((pubmed_id, "Drug", ()))
            continue
        begin, end, other_begin, other_end = map(int, numbers)
        effect = Claim(label, first, begin, end, str(file), number)
        by_drug = Claim("Drug", drug, other_begin, other_end, str(file), number)
        yield pubmed_id.strip(), sentence, (effect, by_drug)


def _bad_row(kind: Kind, file: Path, number: int, found: str, expected: str) -> Problem:
    return Problem(kind, str(file), number, found, expected, "Fix or remove the row.")


def _origins(claim: Claim, sentence: str) -> set[int]:
    """Return where the sentence may begin in the document, judged by one mention."""
    if not claim.string:
        return set()
    origins, position = set(), sentence.find(claim.string)
    while position >= 0:
        origins.add(claim.begin - position)
        position = sentence.find(claim.string, position + 1)
    return origins


def _row_origins(row: Row, sentence: str) -> set[int]:
    """Return where the sentence may begin by a row: both mentions must agree, if both are found."""
    first, second = (_origins(claim, sentence) for claim in row)
    return first & second if first and second else first | second


def _agreed_origins(candidates: Iterable[set[int]]) -> list[int]:
    """Return the fewest beginnings (found greedily) that explain all rows: one, unless repeated.

    Every row has a vote; of equal ones the earliest wins.
    """
    open_rows = [origins for origins in candidates if origins]
    agreed = []
    while open_rows:
        votes = Counter(origin for origins in open_rows for origin in origins)
        winner = min(votes, key=lambda origin: (-votes[origin], origin))
        agreed.append(winner)
        open_rows = [origins for origins in open_rows if winner not in origins]
    return agreed


def _place_sentence(
    pubmed_id: str, sentence: str, rows: list[Row], log: ProblemLog
) -> Iterator[Placed]:
    """Yield the places of one sentence (more than one only if the document repeats it)."""
    by_row = [_row_origins(row, sentence) for row in rows]
    agreed = _agreed_origins(by_row)
    spans: dict[int, dict[Span, None]] = {origin: {} for origin in agreed}
    for row, origins in zip(rows, by_row, strict=True):
        preferred = [origin for origin in agreed if origin in origins] or agreed
        for claim in row:
            possible = _origins(claim, sentence)
            origin = next((origin for origin in preferred if origin in possible), None)
            if origin is None:
                _skip_unplaced(claim, sentence, pubmed_id, log)
            elif span := _span(claim, origin, sentence, pubmed_id, log):
                spans[origin].setdefault(span)
    # Where no mention has a place, the sentence is still there, about where its offsets say.
    unplaced = {min(claim.begin for row in rows for claim in row): dict[Span, None]()}
    for origin, found in (spans or unplaced).items():
        yield Placed(origin, sentence, tuple(sorted(found)))


def _span(claim: Claim, origin: int, sentence: str, pubmed_id: str, log: ProblemLog) -> Span | None:
    """Return a claim in characters of the sentence; the offsets win over the string's length."""
    start, end = claim.begin - origin, claim.end - origin
    if end - start == len(claim.string):
        return Span.of(start, end, claim.label)
    found = f"{claim.label} {claim.begin} {claim.end} for {claim.string!r}"
    expected = f"an end of {claim.begin + len(claim.string)}"
    if not start < end <= len(sentence):
        kind: Kind = "zero-length span" if start == end else "offset outside the text"
        problem = Problem(kind, claim.file, claim.line, found, expected, "Fix the end offset.")
        log.skip_mention(problem, pubmed_id, claim.label)
        return None
    kind = "offset and quote differ"
    problem = Problem(kind, claim.file, claim.line, found, expected, "Fix the end offset.", True)
    log.report(problem)
    return Span.of(start, end, claim.label)


def _skip_unplaced(claim: Claim, sentence: str, pubmed_id: str, log: ProblemLog) -> None:
    if claim.string and claim.string in sentence:
        problem = Problem(
            "offset and quote differ", claim.file, claim.line,
            f"{claim.label} {claim.string!r} at {claim.begin}",
            "a distance between the two mentions of the row that occurs in the sentence, the same "
            "for all rows of the sentence",
            "Fix the offsets of the row.",
        )  # fmt: skip
    else:
        problem = Problem(
            "mention not found", claim.file, claim.line, f"{claim.label} {claim.string!r}",
            "a string that occurs in the sentence of its row", "Fix the string or the sentence.",
        )  # fmt: skip
    log.skip_mention(problem, pubmed_id, claim.label)


def _document(
    pubmed_id: str, placed: list[Placed], source: str, known: set[str], log: ProblemLog
) -> Document:
    """Join sentences, one per line; only a sentence that is not `known` yet gets a segment."""
    segments, spans, position = [], [], 0
    for place in placed:
        end = position + len(place.sentence)
        if place.sentence in known:
            log.remark(REMARK_REPEATED)
        else:
            known.add(place.sentence)
            segments.append(Segment(position, end))
        spans += [Span.of(position + s.start, position + s.end, s.label) for s in place.spans]
        position = end + 1
    text = "\n".join(place.sentence for place in placed)
    return Document(pubmed_id, text, tuple(spans), tuple(segments), source=source)


def _stream_negatives(file: Path, log: ProblemLog) -> Iterator[Document]:
    documents: dict[str, list[Placed]] = {}
    for number, line in lines(file, log):
        if not line.strip():
            continue
        match = _NEGATIVE.fullmatch(line)
        if match is None:
            problem = Problem(
                "malformed line", str(file), number, line[:80], "PubMed id, NEG and a sentence",
                "Fix or remove the line.",
            )  # fmt: skip
            log.report(problem)
        else:
            documents.setdefault(match[1], []).append(Placed(number, match[2], ()))
    known: set[str] = set()
    for pubmed_id, placed in documents.items():
        yield _document(pubmed_id, placed, stem(file), known, log)


READER = Reader(
    name="ade",
    description="ADE Corpus V2: DRUG-AE.rel and DRUG-DOSE.rel",
    recognise=recognise,
    stream=stream,
    sentences="as given",
    options=NoOptions,
    declared_labels=declared_labels,
)
