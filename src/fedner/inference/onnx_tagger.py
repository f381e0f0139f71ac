"""An exported tagger at work: onnxruntime and NumPy alone, with the predictions of the original.

Made for machines that shall not, or cannot, carry torch. `onnx_export.py` writes the folder,
`onnx_graph.py` says what the graph takes, `onnx_words.py` how words become numbers. Loading
executes no code, and files that were altered are refused.

Shapes: U distinct words, B sentences, L tokens, D context features, K tags.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedner.corpus.document import Document
from fedner.corpus.readers.extras import required
from fedner.corpus.schemes import decode
from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.inference.onnx_decoding import Flags, Steps, best_tags, confidences, doubts
from fedner.inference.onnx_words import CharacterRules, WordRules
from fedner.inference.reading import (
    Found,
    Judged,
    Mention,
    Predicted,
    TokenMention,
    joins,
    judge_documents,
    read_documents,
    read_texts,
    read_tokens,
)
from fedner.sealed import file_digest, read_sealed

GRAPH, TABLE, VOCABULARY, CARD = "model.onnx", "words.bin", "vocabulary.json", "tagger.json"
KIND, VERSION = "fedner ONNX tagger", 1
# Cells of a padded batch: enough to keep the processor busy, few enough to fit into its caches.
BATCH_CELLS = 2_048
_UNHARMED = "Use an undamaged copy of the folder, or export the tagger again."

Emissions = NDArray[np.float32]
Indices = NDArray[np.int64]


class TokenFeatures(Protocol):
    """What computes the context features of words: any of fedner's encoders, or one's own."""

    def encode(self, sentences: Sequence[Sequence[str]]) -> Sequence[NDArray[np.float32]]:
        """Return the features of each sentence, one row for each word."""


@dataclass(frozen=True, slots=True)
class OnnxTagger:
    """An exported tagger, ready to read; its methods are those of `predict.Predictor`.

    Attributes:
        labels: The entity types that it finds.
        tags: Its tags, in the order of the emissions.
        scheme: The tag scheme.
        words: How words become rows.
        characters: How words become codes, or None where it reads no characters.
        steps: The scores of the decoder.
        context_dimension: Context features of each token; 0 for none.
        encoder: What computes them.
        session: The open graph.
        facts: What was noted when the tagger was saved.
        digest: The name of this very export: the digests of the tagger and of its graph.
    """

    labels: tuple[str, ...]
    tags: tuple[str, ...]
    scheme: str
    words: WordRules
    characters: CharacterRules | None
    steps: Steps = field(repr=False)
    context_dimension: int
    encoder: TokenFeatures | None
    session: Any = field(repr=False)
    facts: Mapping[str, Any]
    digest: str
    _joins_KK: Flags = field(repr=False)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        context: TokenFeatures | None = None,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        num_threads: int = 0,
    ) -> "OnnxTagger":
        """Open an export.

        Args:
            folder: The folder that `fedner export` wrote.
            context: What computes the context features, where the tagger reads them.
            providers: Where onnxruntime shall run the graph, in order of preference.
            num_threads: Threads within an operator; 0 leaves the choice to onnxruntime.

        Raises:
            FednerError: A file is missing, altered or of another version, the encoder is missing
                or another than the tagger was trained with, or onnxruntime is not installed.
        """
        runtime = required("onnxruntime", "onnx", "exported taggers")
        folder = Path(folder)
        card = _read_card(folder)
        _check_encoder(card["context"], context)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = num_threads
        # A plan of the memory for every shape of a batch costs more than it saves: few come again.
        options.enable_mem_pattern = False
        session = runtime.InferenceSession(
            str(folder / GRAPH), sess_options=options, providers=list(providers)
        )
        tags, scheme = tuple(card["tags"]), str(card["scheme"])
        characters = card["characters"]
        return cls(
            labels=tuple(card["labels"]),
            tags=tags,
            scheme=scheme,
            words=_word_rules(folder, card["words"]),
            characters=None if characters is None else CharacterRules.of(**characters),
            steps=_steps(card["decoder"]),
            context_dimension=0 if card["context"] is None else card["context"]["dimension"],
            encoder=context,
            session=session,
            facts=card["facts"],
            digest=f"{card['model']} {card['files'][GRAPH]}",
            _joins_KK=np.asarray(joins(tags, scheme)),
        )

    def predict(self, text: str) -> tuple[Mention, ...]:
        """Return the mentions of one text, split into sentences by rule."""
        return self.predict_texts([text])[0]

    def predict_texts(self, texts: Iterable[str]) -> list[tuple[Mention, ...]]:
        """Return the mentions of each text."""
        return read_texts(self.predict_sentences, texts)

    def predict_tokens(self, sentences: Sequence[Sequence[str]]) -> list[tuple[TokenMention, ...]]:
        """Return the mentions of sentences that are tokenised already."""
        return read_tokens(self.predict_sentences, sentences)

    def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions; only a chunk of them is held in memory."""
        return read_documents(self.predict_sentences, documents)

    def judge_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions and how unsure the tagger is of it."""
        return judge_documents(self.judge_sentences, documents)

    def predict_sentences(self, sentences: Sequence[Sentence]) -> Found:
        """Return the entities of each sentence with their confidences."""
        found: Found = [[] for _ in sentences]
        for chosen, lengths_B, emissions_BLK in self._batches(sentences):
            tags_BL = best_tags(self.steps, emissions_BLK, lengths_B)
            self._note(chosen, emissions_BLK, tags_BL, lengths_B, found)
        return found

    def judge_sentences(self, sentences: Sequence[Sentence]) -> Judged:
        """Return the entities of each sentence, and the doubt about its best path.

        The doubt is the negative log-likelihood of that path; 0 of a sentence without tokens.
        """
        found: Found = [[] for _ in sentences]
        doubted = [0.0] * len(sentences)
        for chosen, lengths_B, emissions_BLK in self._batches(sentences):
            tags_BL = best_tags(self.steps, emissions_BLK, lengths_B)
            self._note(chosen, emissions_BLK, tags_BL, lengths_B, found)
            of_batch = doubts(self.steps, emissions_BLK, tags_BL, lengths_B)
            for number, doubt in zip(chosen, of_batch, strict=True):
                doubted[number] = doubt
        return list(zip(found, doubted, strict=True))

    def _note(
        self,
        chosen: Sequence[int],
        emissions_BLK: Emissions,
        tags_BL: Indices,
        lengths_B: Indices,
        found: Found,
    ) -> None:
        """Add the entities of a batch to those of their sentences."""
        entities = self._entities(tags_BL, lengths_B)
        sure = confidences(self.steps, emissions_BLK, tags_BL, lengths_B, entities, self._joins_KK)
        for (row, entity), confidence in zip(entities, sure, strict=True):
            found[chosen[row]].append((entity, confidence))

    def emissions(self, sentences: Sequence[Sentence]) -> list[Emissions]:
        """Return the score of each tag at each token (L, K) of each sentence."""
        found: list[Emissions] = [np.zeros((0, len(self.tags)), np.float32) for _ in sentences]
        for chosen, lengths_B, emissions_BLK in self._batches(sentences):
            for row, sentence in enumerate(chosen):
                found[sentence] = emissions_BLK[row, : lengths_B[row]]
        return found

    def _batches(
        self, sentences: Sequence[Sentence]
    ) -> Iterator[tuple[list[int], Indices, Emissions]]:
        """Yield indices, lengths and emissions of batches of sentences, longest first."""
        lengths = [len(sentence.tokens) for sentence in sentences]
        order = sorted((n for n in range(len(lengths)) if lengths[n]), key=lambda n: -lengths[n])
        features = self._context(sentences)
        while order:
            size = max(1, BATCH_CELLS // lengths[order[0]])
            chosen, order = order[:size], order[size:]
            lengths_B = np.asarray([lengths[number] for number in chosen], np.int64)
            inputs = self._inputs([sentences[number].tokens for number in chosen], lengths_B)
            if features is not None:
                context_BLD = np.zeros(
                    (*inputs["places"].shape, self.context_dimension), np.float32
                )
                for row, number in enumerate(chosen):
                    context_BLD[row, : lengths_B[row]] = features[number]
                inputs["context"] = context_BLD
            yield chosen, lengths_B, self.session.run(None, inputs)[0]

    def _inputs(
        self, sentences: Sequence[Sequence[str]], lengths_B: Indices
    ) -> dict[str, NDArray[Any]]:
        """Return the inputs of the graph, context aside."""
        distinct: dict[str, int] = {}
        places_BL = np.zeros((len(sentences), lengths_B[0]), np.int64)
        for row, tokens in enumerate(sentences):
            places_BL[row, : len(tokens)] = [
                distinct.setdefault(token, len(distinct)) for token in tokens
            ]
        words = list(distinct)
        inputs = {"rows": self.words.rows(words), "places": places_BL, "lengths": lengths_B}
        if self.characters is not None:
            inputs["characters"] = self.characters.encode(words)
        return inputs

    def _context(self, sentences: Sequence[Sentence]) -> Sequence[NDArray[np.float16]] | None:
        if self.encoder is None:
            return None
        features = self.encoder.encode([sentence.tokens for sentence in sentences])
        # Half precision, as the cache of training has it.
        halves = [np.asarray(each).astype(np.float16) for each in features]
        for sentence, rows in zip(sentences, halves, strict=True):
            if rows.shape != (len(sentence.tokens), self.context_dimension):
                raise FednerError(
                    f"the context encoder gave features of shape {rows.shape} for "
                    f"{len(sentence.tokens)} words; expected {self.context_dimension} for each",
                    "Give the encoder that the tagger was trained with.",
                )
        return halves

    def _entities(self, tags_BL: Indices, lengths_B: Indices) -> list[tuple[int, Entity]]:
        """Return the entities of a batch with their rows."""
        entities = []
        # Most sentences hold nothing, and need no decoding.
        for row in np.flatnonzero(tags_BL.any(axis=1)).tolist():
            tags = [self.tags[number] for number in tags_BL[row, : lengths_B[row]]]
            entities += [(row, entity) for entity in decode(tags, self.scheme)]
        return entities


def is_export(folder: Path) -> bool:
    """Whether a folder is one that `fedner export` wrote."""
    return (folder / CARD).is_file()


def _read_card(folder: Path) -> dict[str, Any]:
    """Return what an export says about itself, after a look at all of its files."""
    path = folder / CARD
    if not path.is_file():
        raise FednerError(
            f"{folder} holds no exported tagger: {CARD} is missing",
            "Name a folder that `fedner export` wrote.",
        )
    card = read_sealed(path, KIND, VERSION, _UNHARMED)
    for name, digest in card["files"].items():
        if file_digest(folder / name, _UNHARMED) != digest:
            raise FednerError(f"{folder / name} was altered since fedner wrote it", _UNHARMED)
    return card


def _check_encoder(origin: Mapping[str, Any] | None, encoder: TokenFeatures | None) -> None:
    """Refuse an encoder where none is read, none where one is, and another than the right one."""
    if origin is None:
        if encoder is not None:
            raise FednerError("the tagger reads no context features", "Leave out `context`.")
        return
    wanted = f"{origin['kind']} {origin['name']!r} (sha256 {origin['sha256'][:16]}...)"
    if encoder is None:
        raise FednerError(
            f"the tagger reads context features of {wanted}, which are not part of the export",
            "Pass what computes them as `context=`, such as FlairEncoder.load(path).",
        )
    found = getattr(encoder, "origin", None)
    if found is None:  # somebody's own implementation: they answer for it
        return
    if {**found.to_json(), "name": ""} != {**origin, "name": ""}:
        raise FednerError(
            f"the context encoder is {found.kind} {found.name!r} (sha256 {found.sha256[:16]}...); "
            f"the tagger was trained with {wanted}",
            "Give the encoder that it was trained with.",
        )


def _word_rules(folder: Path, record: Mapping[str, Any]) -> WordRules:
    vocabulary: dict[str, int] = {}
    if record["has_vocabulary"]:
        vocabulary = json.loads((folder / VOCABULARY).read_bytes())
    return WordRules(record["lowercase"], record["unknown"], record["buckets"], vocabulary)


def _steps(record: Mapping[str, Any]) -> Steps:
    """Return the scores of the decoder; null is a step that the tag scheme forbids."""

    def scores(values: Any) -> NDArray[np.float64]:
        given = np.asarray(values, np.float64)  # null becomes NaN
        return np.where(np.isnan(given), -np.inf, given)

    return Steps(*(scores(record[key]) for key in ("start", "end", "transitions")))
