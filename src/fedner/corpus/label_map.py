"""New names for the entity types of a corpus: what `--label-map` of `score` and `convert` does."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fedner.corpus.document import Corpus, Document, Span


@dataclass(frozen=True, slots=True)
class Relabelled:
    """A corpus with new names for its types.

    Attributes:
        corpus: The corpus.
        renamed: How many mentions have another name than before.
        left_out: How many mentions are of a type that is left out.
    """

    corpus: Corpus
    renamed: int
    left_out: int


def relabel(corpus: Corpus, label_map: Mapping[str, str]) -> Relabelled:
    """Give the types of a corpus new names.

    Args:
        corpus: The corpus; it is not changed.
        label_map: The new name of each type; an empty one leaves the type out, and a type that is
            not in the map keeps its name.
    """
    labels = {label_map.get(label, label) for label in corpus.labels} - {""}
    documents = tuple(_relabelled(document, label_map) for document in corpus)
    spans = [span.label for document in corpus for span in document.spans]
    left_out = sum(label_map.get(label) == "" for label in spans)
    renamed = sum(label_map.get(label, label) not in (label, "") for label in spans)
    return Relabelled(Corpus(corpus.name, tuple(sorted(labels)), documents), renamed, left_out)


def unknown_types(label_map: Mapping[str, str], corpora: Iterable[Corpus]) -> list[str]:
    """Return the types of a map that none of the corpora has."""
    known = {label for corpus in corpora for label in corpus.labels}
    return [old for old in label_map if old not in known]


def _relabelled(document: Document, label_map: Mapping[str, str]) -> Document:
    spans = []
    for span in document.spans:
        label = label_map.get(span.label, span.label)
        if label:
            spans.append(span if label == span.label else Span(span.fragments, label))
    return replace(document, spans=tuple(spans))
