"""From platforms to inputs: every corpus read once for all, with what reading made of it.

Reading is lenient: what cannot be placed is skipped. How often is counted and shown, never silent.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedner.corpus import archives
from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.prepare import Changes, SentenceChoice, prepare
from fedner.corpus.problems import ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.reading import read_recognised
from fedner.corpus.sentence import Sentence
from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_documents
from fedner.durable import write_text
from fedner.errors import FednerError
from fedner.reproduce.locating import SYNTHETIC
from fedner.reproduce.reproduction import Inputs, PlatformInput
from fedner.seeds import seeded

REHEARSED_SENTENCES = 60
LOST, PROBLEM = "mentions that nothing could place (skipped)", "problem: "


def stored(inputs: Inputs) -> Inputs:
    """Read every corpus once into the study's folder; return the inputs that point there.

    What was read before is taken as it is, unless a file has changed since.

    Raises:
        FednerError: A corpus is not what it is taken for, or has no mention.
    """
    folder = inputs.out / "cache" / "corpora"
    folder.mkdir(parents=True, exist_ok=True)
    return replace(
        inputs, platforms=tuple(_stored(each, inputs, folder) for each in inputs.platforms)
    )


def _stored(platform: PlatformInput, inputs: Inputs, folder: Path) -> PlatformInput:
    about = folder / f"{platform.name}.json"
    source = json.loads(
        json.dumps(
            {
                **asdict(platform),
                "files": _files_of(platform),
                "rehearsal": [inputs.is_rehearsal, inputs.first_seed],
            }
        )
    )
    if about.is_file():
        held = json.loads(about.read_text("utf-8"))
        if held["source"] == source:
            return PlatformInput(**{**held["stored"], "labels": tuple(held["stored"]["labels"])})
    parts = {"": _read(platform, platform.data, inputs)}
    if platform.test_data is not None:
        parts["-test"] = _read(platform, platform.test_data, inputs)
    whole = list(parts.values())
    names = {ending: folder / f"{platform.name}{ending}.jsonl" for ending in parts}
    kept = {ending: _kept(part.sentences, platform, inputs) for ending, part in parts.items()}
    for ending, path in names.items():
        documents = as_documents(kept[ending])
        write_documents(path, documents, name=platform.name, labels=parts[ending].labels)
    found = replace(
        platform,
        data=str(names[""]),
        test_data=str(names["-test"]) if "-test" in names else None,
        format="jsonl",
        options={},
        label_map={},
        labels=tuple(sorted({label for each in whole for label in each.labels})),
        num_sentences=len(kept[""]),
        counts=_counts(whole),
        reading=_reading(whole),
        digest=_digest(list(names.values())),
    )
    write_text(about, json.dumps({"source": source, "stored": asdict(found)}))
    return found


def _files_of(platform: PlatformInput) -> list[list[str | int]]:
    """Return size and time of every file of a corpus: changed files are read again."""
    found: list[list[str | int]] = []
    for source in filter(None, (platform.data, platform.test_data)):
        if source.startswith(SYNTHETIC):
            continue
        place = Path(source.partition(archives.MARK)[0])
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for each in files:
            if each.is_file():
                about = each.stat()
                found.append([str(each), about.st_size, about.st_mtime_ns])
    return found


@dataclass(frozen=True, slots=True)
class _Read:
    """A corpus as its source has it, its sentences, flattened longest first, and what that took."""

    labels: tuple[str, ...]
    documents: tuple[Document, ...]
    sentences: tuple[Sentence, ...]
    log: ProblemLog
    changes: Changes


def _read(platform: PlatformInput, source: str, inputs: Inputs) -> _Read:
    choice: SentenceChoice = "as given"
    log = ProblemLog()
    if source.startswith(SYNTHETIC):
        name = source.removeprefix(SYNTHETIC)
        corpus = generate(name, REHEARSED_SENTENCES, inputs.first_seed)
    else:
        options = ReadOptions(own=platform.options)
        recognition, corpus = read_recognised(
            Path(source), platform.format, lenient=True, options=options, log=log
        )
        choice = recognition.sentence_choice
    prepared = prepare(corpus, sentences=choice, label_map=platform.label_map)
    sentences = tuple(each for each in prepared.sentences if each.tokens)
    if not any(each.entities for each in sentences):
        faults = "; ".join(str(each) for each in log.problems[:3])
        raise FednerError(
            f"platform {platform.name}: {source} has {len(sentences):,} sentences and no mention",
            faults or f"Look at it with: fedner data inspect {source}",
        )
    labels = {platform.label_map.get(label, label) for label in corpus.labels}
    return _Read(tuple(sorted(labels)), tuple(corpus.documents), sentences, log, prepared.changes)


def _kept(
    sentences: Sequence[Sentence], platform: PlatformInput, inputs: Inputs
) -> Sequence[Sentence]:
    """Return the sentences; of a rehearsal on own data a few, those with mentions first."""
    if not inputs.is_rehearsal or platform.data.startswith(SYNTHETIC):
        return sentences
    order = seeded(inputs.first_seed, "rehearsal").permutation(len(sentences)).tolist()
    order.sort(key=lambda at: not sentences[at].entities)
    return [sentences[at] for at in sorted(order[:REHEARSED_SENTENCES])]


def _reading(parts: Sequence[_Read]) -> dict[str, int]:
    """Return what reading and flattening skipped, changed or found wrong, in words, counted."""
    found: dict[str, int] = {}
    for part in parts:
        log = part.log
        lines = [(f"{PROBLEM}{kind}", count) for kind, count in log.counts.items()]
        lines += [
            ("of these problems, what was kept all the same", log.kept),
            (LOST, len(log.skipped_mentions)),
            ("-DOCSTART- lines (counted as sentences by some)", log.document_markers.total()),
            *log.changes.items(),
            *log.remarks.items(),
            *part.changes.rows(),
        ]
        for what, count in lines:
            if count:
                found[what] = found.get(what, 0) + count
    return found


def losses(platform: PlatformInput) -> dict[str, int]:
    """Return what a corpus that was read has, and what of it is not trained on."""
    counts, reading = platform.counts, platform.reading
    skipped = reading.get(LOST, 0)
    return {
        "sentences": counts["sentences"],
        "mentions": counts["mentions"] + skipped,
        "skipped": skipped,
        "lost to flattening": counts["mentions"] - counts["kept_mentions"],
        "problems": sum(count for what, count in reading.items() if what.startswith(PROBLEM)),
    }


def _counts(parts: Sequence[_Read]) -> dict[str, int]:
    """Count what the source has, before anything was flattened."""
    documents = [document for part in parts for document in part.documents]
    sentences = [sentence for part in parts for sentence in part.sentences]
    spans = [(document, span) for document in documents for span in document.spans]
    strings = {
        " ".join(document.text[start:end] for start, end in span.fragments)
        for document, span in spans
    }
    return {
        "sentences": len(sentences),
        "documents": len(documents),
        "strings": len(strings),
        "mentions": len(spans),
        "kept_mentions": sum(len(each.entities) for each in sentences),
    }


def _digest(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def as_documents(sentences: Sequence[Sentence]) -> list[Document]:
    """Return sentences as documents again, tokens joined by blanks, mentions flattened."""
    grouped: dict[str, list[Sentence]] = {}
    for number, sentence in enumerate(sentences):
        grouped.setdefault(sentence.document or f"sentence {number + 1}", []).append(sentence)
    return [joined_document(name, held) for name, held in grouped.items()]


def joined_document(name: str, sentences: Sequence[Sentence]) -> Document:
    """Return sentences as one document: tokens joined by blanks, a sentence a line."""
    lines: list[str] = []
    spans: list[Span] = []
    segments: list[Segment] = []
    position = 0
    for sentence in sentences:
        starts: list[int] = []
        for token in sentence.tokens:
            starts.append(position)
            position += len(token) + 1
        ends = [start + len(token) for start, token in zip(starts, sentence.tokens, strict=True)]
        segments.append(Segment(starts[0], ends[-1], tuple(starts), tuple(ends)))
        spans += [Span.of(starts[a], ends[b - 1], label) for a, b, label in sentence.entities]
        lines.append(" ".join(sentence.tokens))
    patient = sentences[0].patient
    return Document(name, "\n".join(lines), tuple(spans), tuple(segments), patient)


def rehearsal_context(folder: Path) -> str:
    """Write a character language model of random weights, for rehearsals; return its path."""
    path = folder / "rehearsal-context.npz"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.savez(file, **_random_language_models())
    return str(path)


def _random_language_models(hidden: int = 8, dimension: int = 4) -> dict[str, Any]:
    characters = ["<unk>", "\n", " ", *"abcdefghijklmnopqrstuvwxyz0123456789.,-"]
    draw = seeded(1, "rehearsal context")
    shapes = {
        "encoder.weight": (len(characters), dimension),
        "rnn.weight_ih_l0": (4 * hidden, dimension),
        "rnn.weight_hh_l0": (4 * hidden, hidden),
        "rnn.bias_ih_l0": (4 * hidden,),
        "rnn.bias_hh_l0": (4 * hidden,),
        "decoder.weight": (len(characters), hidden),
        "decoder.bias": (len(characters),),
    }
    arrays: dict[str, Any] = {}
    for direction in ("forward", "backward"):
        for name, shape in shapes.items():
            arrays[f"{direction}/{name}"] = draw.standard_normal(shape).astype(np.float32)
        arrays[f"{direction}/chars"] = np.array(characters)
    return arrays
