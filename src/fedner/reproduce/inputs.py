"""From options to inputs: corpora by name, what is missing and where to get it, read once for all.

`--data DIR` is a folder in which corpora lie under the names that `KNOWN` has; `--platform
name=path[:format]` names any other. Without both a study can rehearse on built-in platforms.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.prepare import SentenceChoice, prepare
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import READERS
from fedner.corpus.reading import read_recognised
from fedner.corpus.sentence import Sentence
from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_documents
from fedner.durable import write_text
from fedner.errors import FednerError
from fedner.reproduce.reproduction import Inputs, PlatformInput, Reproduction
from fedner.seeds import seeded

SYNTHETIC = "synthetic:"
REHEARSED_SENTENCES = 60
WORDS = (
    "glove-6b/glove.6B.300d.txt",
    "glove.6B.300d.txt",
    "glove-6b/glove.6B.100d.txt",
    "glove-6b/glove.6B.50d.subset.txt.xz",
)
CONTEXTS = ("elmo", "minilm", "flair-news-fast/flair-news-fast.npz.xz")


@dataclass(frozen=True, slots=True)
class Known:
    """A corpus that fedner knows by name.

    Attributes:
        where: Its places within the folder of corpora, tried in turn.
        source: Where people get it.
        test: The file of its own test part within the place, where it has one.
        train: The file of its training part, where the place is a folder of several.
        options: Those of its format.
    """

    where: tuple[str, ...]
    source: str
    test: str | None = None
    train: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


KNOWN: dict[str, Known] = {
    "ade": Known(("ade-corpus-v2", "ade"), "ADE Corpus V2, Gurulingappa et al. 2012"),
    "cadec": Known(("cadec",), "CADEC v2 (CSIRO data portal, on request)"),
    "smm4h": Known(("smm4h",), "SMM4H ADR extraction, task 3 (on request)"),
    "psytar": Known(("psytar/all.full.txt.xz", "psytar/all.full.txt"), "PsyTAR, CC BY 4.0"),
    "twimed": Known(
        ("twimed/twimed.tar.xz!/gold/pubmed", "twimed/gold/pubmed"), "TwiMed, PubMed part"
    ),
    "conll2003": Known(
        ("conll2003", "conll-2003"),
        "CoNLL 2003 English: eng.train, eng.testb (Reuters RCV1 licence)",
        test="eng.testb",
        train="eng.train",
        options={"scheme": "IOB1"},
    ),
    "btc": Known(("btc",), "Broad Twitter Corpus, CC BY 4.0"),
    **{
        f"btc-{part}": Known(
            (f"btc/{part}.conll.xz", f"btc/{part}.conll"),
            f"Broad Twitter Corpus, part {part}, CC BY 4.0",
        )
        for part in "abefgh"
    },
    "sec-fin": Known(
        ("sec-fin",),
        "SEC filings, Salinas Alvarado et al. 2015, CC BY 3.0: FIN5, FIN3",
        test="FIN3.txt.xz",
        train="FIN5.txt.xz",
    ),
    "presidio-synth": Known(
        ("presidio-synth",),
        "microsoft/presidio-research, MIT",
        options={"patient_column": "template_id"},  # texts of one template resemble each other
    ),
    "synthetic-phi-queries": Known(("synthetic-phi-queries",), "synthetic-phi-query-framework"),
}
BUILT_IN = ("case-reports", "forum-posts", "social-posts")


def located(root: Path | None, name: str) -> PlatformInput | None:
    """Return a known corpus where the folder of corpora has it, else None."""
    known = KNOWN.get(name)
    if known is None or root is None:
        return None
    for where in known.where:
        if not (root / where.partition("!")[0]).exists():
            continue
        place = root / where
        if known.train is None:
            return PlatformInput(name, str(place), options=dict(known.options))
        if (place / known.train).exists() and (place / str(known.test)).exists():
            data, test = str(place / known.train), str(place / str(known.test))
            return PlatformInput(name, data, test_data=test, options=dict(known.options))
    return None


def named_platform(text: str, root: Path | None) -> PlatformInput:
    """Return what `--platform` names: NAME of --data, or NAME=PATH[:FORMAT].

    Raises:
        FednerError: It is neither, or nothing lies there.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        found = located(root, name)
        if found is not None:
            return found
        raise FednerError(
            f"--platform {text}: --data has no corpus of that name",
            f"Give its path (--platform {name}=PATH), or one of {', '.join(KNOWN)} in --data.",
        )
    path, colon, format_ = rest.rpartition(":")
    if not colon or format_ not in READERS:
        path, format_ = rest, "auto"
    if not Path(path.partition("!")[0]).exists():
        raise FednerError(
            f"--platform {text}: {path} is not there", "Write --platform NAME=PATH[:FORMAT]."
        )
    known = KNOWN.get(name)
    if known is not None and known.train and (Path(path) / known.train).exists():
        data, test = str(Path(path) / known.train), str(Path(path) / str(known.test))
        return PlatformInput(name, data, format_, test, dict(known.options))
    return PlatformInput(name, path, format_)


def platforms_for(
    study: Reproduction, root: Path | None, named: Sequence[str], *, is_rehearsal: bool
) -> tuple[PlatformInput, ...]:
    """Return the platforms of a study.

    Args:
        study: The study.
        root: --data.
        named: Every --platform.
        is_rehearsal: Whether the built-in platforms stand in.

    Raises:
        FednerError: Nothing fits; says what to get.
    """
    if is_rehearsal:
        chosen = BUILT_IN if study.layout != "one corpus" else BUILT_IN[:1]
        return tuple(PlatformInput(name, f"{SYNTHETIC}{name}") for name in chosen)
    if named:
        return tuple(named_platform(each, root) for each in named)
    for names in study.corpora:
        found = [located(root, name) for name in names]
        if all(each is not None for each in found):
            return tuple(each for each in found if each is not None)
    raise FednerError(f"{study.name} has no corpora to run on", what_to_get(study, root))


def what_to_get(study: Reproduction, root: Path | None) -> str:
    """Return which corpora a study takes, and where each comes from."""
    sets = []
    for names in study.corpora:
        parts = [
            f"{name} ({KNOWN[name].source}; {KNOWN[name].where[0]})"
            for name in names
            if name in KNOWN and located(root, name) is None
        ]
        if parts:
            sets.append(" + ".join(parts))
    wanted = "; or ".join(sets)
    return (
        f"Put into --data DIR: {wanted}. Or name your own: --platform NAME=PATH[:FORMAT] ... "
        "Or look how it runs on built-in platforms: --built-in."
    )


def embeddings_for(
    study: Reproduction, root: Path | None, words: str | None, context: str | None
) -> tuple[str, str]:
    """Return word vectors and context encoder: those named, or those found in --data.

    Raises:
        FednerError: The study needs one that is nowhere.
    """
    found_words = words or _first(root, WORDS)
    found_context = context or _first(root, CONTEXTS)
    missing = [
        option
        for option, path in (("words", found_words), ("context", found_context))
        if path is None and option in study.needs
    ]
    if missing:
        places = {"words": ", ".join(WORDS), "context": ", ".join(CONTEXTS)}
        raise FednerError(
            f"{study.name} needs {' and '.join(f'--{each}' for each in missing)}",
            "; ".join(f"--{each} PATH, or in --data one of {places[each]}" for each in missing),
        )
    for path in (found_words, found_context):
        is_file = path is not None and path != "none" and not path.startswith("hub:")
        if is_file and not Path(str(path)).exists():
            raise FednerError(f"{path} is not there", "Name word vectors and encoder by path.")
    return found_words or "hashed", found_context or "none"


def _first(root: Path | None, places: Sequence[str]) -> str | None:
    if root is None:
        return None
    return next((str(root / each) for each in places if (root / each).exists()), None)


def stored(inputs: Inputs) -> Inputs:
    """Read every corpus once into the study's folder; return the inputs that point there.

    What is there already is taken as it is.
    """
    folder = inputs.out / "cache" / "corpora"
    folder.mkdir(parents=True, exist_ok=True)
    return replace(
        inputs, platforms=tuple(_stored(each, inputs, folder) for each in inputs.platforms)
    )


def _stored(platform: PlatformInput, inputs: Inputs, folder: Path) -> PlatformInput:
    about = folder / f"{platform.name}.json"
    if about.is_file():
        held = json.loads(about.read_text("utf-8"))
        if held["source"] == json.loads(json.dumps(asdict(platform))):
            return PlatformInput(**{**held["stored"], "labels": tuple(held["stored"]["labels"])})
    folder.mkdir(parents=True, exist_ok=True)
    training = _read(platform, platform.data, inputs)
    data = _write(folder / f"{platform.name}.jsonl", platform.name, training)
    test, test_data = None, None
    if platform.test_data is not None:
        test = _read(platform, platform.test_data, inputs)
        test_data = _write(folder / f"{platform.name}-test.jsonl", platform.name, test)
    whole = [training] if test is None else [training, test]
    found = replace(
        platform,
        data=str(data),
        test_data=None if test_data is None else str(test_data),
        format="jsonl",
        options={},
        labels=tuple(sorted({label for each in whole for label in each.labels})),
        num_sentences=len(training.sentences),
        counts=_counts(whole),
        digest=_digest([data] if test_data is None else [data, test_data]),
    )
    write_text(about, json.dumps({"source": asdict(platform), "stored": asdict(found)}))
    return found


@dataclass(frozen=True, slots=True)
class _Read:
    """A corpus as its source has it, and its sentences, flattened longest first."""

    labels: tuple[str, ...]
    documents: tuple[Document, ...]
    sentences: tuple[Sentence, ...]


def _read(platform: PlatformInput, source: str, inputs: Inputs) -> _Read:
    choice: SentenceChoice = "as given"
    if source.startswith(SYNTHETIC):
        name = source.removeprefix(SYNTHETIC)
        corpus = generate(name, REHEARSED_SENTENCES, inputs.first_seed)
    else:
        options = ReadOptions(own=platform.options)
        recognition, corpus = read_recognised(
            Path(source), platform.format, lenient=True, options=options
        )
        choice = recognition.sentence_choice
    sentences = prepare(corpus, sentences=choice).sentences
    return _Read(
        corpus.labels, tuple(corpus.documents), tuple(each for each in sentences if each.tokens)
    )


def _write(path: Path, name: str, held: _Read) -> Path:
    write_documents(path, as_documents(held.sentences), name=name, labels=held.labels)
    return path


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
