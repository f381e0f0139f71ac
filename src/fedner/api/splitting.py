"""A corpus cut in two: what a tagger learns from, and what it is scored on."""

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from fedner.corpus.document import Corpus
from fedner.corpus.groups import Grouping
from fedner.corpus.prepare import prepare
from fedner.corpus.splits import split as split_sentences


def split(
    corpus: Corpus,
    *,
    test: float = 0.2,
    by: Literal["document", "patient"] = "document",
    seed: int = 1,
) -> tuple[Corpus, Corpus]:
    """Split a corpus at random; no document, or no patient, is on both sides.

    The test side has as close to `test` of the sentences as whole documents or patients allow.
    Both sides keep the types of the whole corpus. `fedner.corpus.splits` has folds, samples and
    splits by sentence, as positions.

    >>> import fedner
    >>> corpus = fedner.synthetic_corpus("case-reports", 40, seed=1)
    >>> train, test = fedner.split(corpus, test=0.25)
    >>> len(train) + len(test) == len(corpus)
    True

    Args:
        corpus: What to split; it is not changed.
        test: The share of the sentences that goes to the test side, between 0 and 1.
        by: What must stay together.
        seed: The seed of the random choice.

    Returns:
        The training side and the test side.

    Raises:
        FednerError: There are fewer than two documents or patients, a document does not say whose
            text it is, or a side would be empty.
    """
    sentences = prepare(corpus).sentences
    chosen = split_sentences(Grouping.of(sentences, by), test=test, seed=seed).test
    tested = {sentences[position].document for position in chosen}
    return _without(corpus, tested), _only(corpus, tested)


def _only(corpus: Corpus, ids: Collection[str]) -> Corpus:
    return replace(corpus, documents=tuple(each for each in corpus if each.id in ids))


def _without(corpus: Corpus, ids: Collection[str]) -> Corpus:
    return replace(corpus, documents=tuple(each for each in corpus if each.id not in ids))
