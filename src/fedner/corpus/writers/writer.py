"""What a writer is: a record of functions, one per format."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedner.corpus.document import Corpus
from fedner.corpus.flatten import FlattenPolicy
from fedner.corpus.prepare import SentenceChoice

Losses = dict[str, int]
"""What a format could not carry, counted; empty where all of the corpus comes back."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a writer wrote.

    Attributes:
        documents: How many documents stand in the output.
        mentions: How many mentions stand there.
        losses: What the format could not carry.
    """

    documents: int
    mentions: int
    losses: Losses

    @classmethod
    def whole(cls, corpus: Corpus) -> "Written":
        """Return the record of a corpus that was written without any loss."""
        return cls(len(corpus), sum(len(document.spans) for document in corpus), {})


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a user may say about an output; a format ignores what is not its own.

    Attributes:
        scheme: The tag scheme of token columns.
        sentences: Where the sentences of token columns come from.
        flatten: How mentions become flat in token columns.
    """

    scheme: str = "BIO"
    sentences: SentenceChoice = "auto"
    flatten: FlattenPolicy = "longest"


@dataclass(frozen=True, slots=True)
class Writer:
    """One format that fedner writes.

    Attributes:
        name: What users call the format.
        description: One line for people.
        write: Writes a corpus, wholly or not at all, and returns what was written and lost. It
            raises where the format cannot carry the corpus and leaving something out would mislead.
        makes_folder: Whether the output is a folder rather than a file.
    """

    name: str
    description: str
    write: Callable[[Path, Corpus, WriteOptions], Written]
    makes_folder: bool = False
