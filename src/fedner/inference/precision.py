"""An export in 8 bits only where it costs next to nothing, measured on held-out documents."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fedner.corpus.document import Corpus, Document, Span
from fedner.corpus.reading import read
from fedner.errors import FednerError
from fedner.inference.onnx_export import Precision, export_onnx
from fedner.inference.onnx_tagger import OnnxTagger, TokenFeatures
from fedner.models.checkpoint import LoadedTagger
from fedner.scoring import score_documents

MOST_LOST: Final = 0.2
"""How many points of strict F1 an export in 8 bits may cost."""


@dataclass(frozen=True, slots=True)
class PrecisionCheck:
    """What 8 bits cost a tagger.

    Attributes:
        documents: How many documents were compared.
        float32_f1: Strict F1 in 32 bits, in points.
        int8_f1: Strict F1 in 8 bits.
        same_mentions: The share of mentions that both find, among those that either does.
    """

    documents: int
    float32_f1: float
    int8_f1: float
    same_mentions: float


def checked_export(
    model: LoadedTagger, folder: Path, precision: Precision, corpus: Path | None
) -> PrecisionCheck | None:
    """Export a tagger; in 8 bits only after a comparison.

    Args:
        model: The tagger.
        folder: Where the export shall be.
        precision: In which numbers it computes.
        corpus: Annotated documents that it was not trained on.

    Returns:
        The comparison; None for an export in 32 bits.

    Raises:
        FednerError: 8 bits cost too much, the corpus is missing or has no mention of the tagger's
            types, or the tagger cannot be exported.
    """
    if precision == "float32":
        if corpus is not None:
            raise FednerError("--check is for --precision int8", "Leave it out.")
        export_onnx(model, folder)
        return None
    if corpus is None:
        raise FednerError(
            "--precision int8 without --check",
            "Name annotated documents that the tagger was not trained on: --check CORPUS.",
        )
    found = compare(model, read(corpus))
    if found.float32_f1 - found.int8_f1 > MOST_LOST:
        raise FednerError(
            f"8 bits cost {found.float32_f1 - found.int8_f1:.2f} points of strict F1 "
            f"({found.float32_f1:.2f} to {found.int8_f1:.2f}); expected at most {MOST_LOST}",
            "Export it without --precision int8.",
        )
    export_onnx(model, folder, "int8")
    return found


def compare(model: LoadedTagger, gold: Corpus) -> PrecisionCheck:
    """Return strict F1 of a tagger's export in 32 and in 8 bits.

    Raises:
        FednerError: The documents have no mention of the tagger's types.
    """
    labels = set(model.space.labels)
    kept = tuple(
        Document(each.id, each.text, tuple(s for s in each.spans if s.label in labels))
        for each in gold
    )
    if not any(each.spans for each in kept):
        raise FednerError(
            f"{gold.name} has no mention of the tagger's types: {', '.join(sorted(labels))}",
            "Name documents that are annotated with them.",
        )
    corpus = Corpus(gold.name, tuple(sorted(labels)), kept)
    wide, narrow = (_found(model, corpus, each) for each in ("float32", "int8"))
    f1 = [100 * score_documents(corpus, each).strict_micro.f1 for each in (wide, narrow)]
    both, either = _spans(wide) & _spans(narrow), _spans(wide) | _spans(narrow)
    same = len(both) / len(either) if either else 1.0
    return PrecisionCheck(len(kept), f1[0], f1[1], same)


def _found(model: LoadedTagger, corpus: Corpus, precision: Precision) -> Corpus:
    """Return what an export of the tagger finds."""
    encoder: TokenFeatures | None = model.encoder
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(model, Path(folder) / precision, precision)
        tagger = OnnxTagger.load(Path(folder) / precision, context=encoder)
        documents = tuple(
            Document(
                each.document.id,
                each.document.text,
                tuple(Span.of(one.start, one.end, one.label) for one in each.mentions),
            )
            for each in tagger.predict_documents(corpus)
        )
    return Corpus(corpus.name, corpus.labels, documents)


def _spans(corpus: Corpus) -> set[tuple[str, Span]]:
    return {(document.id, span) for document in corpus for span in document.spans}
