"""Micro-batch averaging: a copy of a corpus in which every m sentences are one document.

    python -m fedner.experiments.microbatches data/btc runs/btc-by-4.jsonl --size 4

Many DP-SGD tools clip the mean gradient of a micro-batch of m sentences in place of each sentence's
own (McMahan et al. 2018). The signal of m sentences then has to pass through one clip,
and what is protected is the micro-batch. Here a micro-batch is a document and `privacy.unit` is
"document", so that no other step is needed than fedner's own.

fedner clips the *sum* over a unit's sentences. With C the clip, B the sentences of a step and r the
rate of plain SGD, clipping means at C is the same as clipping sums at m C, at rate r / m:

    m (sum_u clip(mean_u, C) + N(0, (s C)^2)) = sum_u clip(sum_u, m C) + N(0, (s m C)^2)

over B / m units u in both. `assignments` has these settings; m = 1 is DP-SGD itself, on the same
sentences.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedner.corpus.document import Document, Segment, Span
from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read_recognised
from fedner.corpus.sentence import Sentence
from fedner.corpus.writers.jsonl import write_documents
from fedner.errors import FednerError
from fedner.seeds import seeded


def write_microbatches(data: Path, target: Path, size: int, seed: int = 1) -> int:
    """Write a JSONL copy of a corpus in which `size` random sentences make a document.

    Sentences without a token are left out, mentions are flattened longest first, and patients are
    forgotten: a micro-batch is nobody's. The last document has what remains.

    Args:
        data: The corpus, in any format that fedner recognises.
        target: The file to write, wholly or not at all; `.gz` and `.xz` are compressed.
        size: m.
        seed: Of the order of the sentences, the same for every size.

    Returns:
        How many documents were written.

    Raises:
        FednerError: The size is below 1, or the corpus cannot be read.
    """
    if size < 1:
        raise FednerError(f"micro-batches of {size} sentences; expected at least 1")
    recognition, corpus = read_recognised(data, lenient=True)
    prepared = prepare(corpus, sentences=recognition.sentence_choice)
    sentences = [sentence for sentence in prepared.sentences if sentence.tokens]
    order = seeded(seed, "microbatches").permutation(len(sentences)).tolist()
    documents = microbatches([sentences[at] for at in order], size)
    return write_documents(target, documents, name=corpus.name, labels=corpus.labels)


def microbatches(sentences: Sequence[Sentence], size: int) -> Iterator[Document]:
    """Yield a document for every `size` sentences: tokens joined by blanks, a sentence a line."""
    for number, first in enumerate(range(0, len(sentences), size), start=1):
        yield _document(f"microbatch {number}", sentences[first : first + size])


def assignments(
    size: int, max_grad_norm: float, batch_size: int, learning_rate: float
) -> tuple[str, ...]:
    """Return the settings under which micro-batches of a copy are averaged, then clipped.

    Args:
        size: m, as the copy was written with.
        max_grad_norm: The bound on a micro-batch's mean gradient.
        batch_size: The sentences of a step.
        learning_rate: That of plain SGD.

    Raises:
        FednerError: A step's sentences do not make whole micro-batches.
    """
    if size < 1 or batch_size % size:
        raise FednerError(
            f"steps of {batch_size} sentences in micro-batches of {size}; expected whole ones",
            f"Take a size that divides {batch_size}.",
        )
    return (
        "privacy.unit=document",
        f"privacy.max_grad_norm={max_grad_norm * size}",
        f"training.batch_size={batch_size // size}",
        f"algorithm.local.optimizer.learning_rate={learning_rate / size}",
        "platforms.0.split.by=document",
    )


def _document(name: str, sentences: Sequence[Sentence]) -> Document:
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
    return Document(name, "\n".join(lines), tuple(spans), tuple(segments))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a copy and tell under which settings it is used."""
    parser = argparse.ArgumentParser(description="Every m sentences of a corpus as one document.")
    parser.add_argument("data", type=Path, help="a corpus")
    parser.add_argument("target", type=Path, help="the JSONL copy")
    parser.add_argument("--size", type=int, required=True, help="sentences of a micro-batch, m")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the sentences")
    parser.add_argument(
        "--max-grad-norm", type=float, default=1.5, help="on a micro-batch's mean gradient"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="sentences of a step")
    parser.add_argument("--learning-rate", type=float, default=0.15, help="of plain SGD")
    options = parser.parse_args(arguments)
    given = assignments(
        options.size, options.max_grad_norm, options.batch_size, options.learning_rate
    )
    number = write_microbatches(options.data, options.target, options.size, options.seed)
    print(f"{number:,} documents in {options.target}; train on them with")
    data = f"platforms.0.data={options.target.resolve()}"
    print(" ".join(f"--set {each}" for each in (data, *given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
