"""Train and test: random splits by sentence, document or patient, folds, samples, and leakage.

Every function is seeded, knows of the sentences only which of them must stay together (`Grouping`)
and returns their positions, ascending; callers select. A document or a patient never falls on both
sides of a split that goes by it. Splitting by sentence is what the FedNER paper
does (80/20); it puts sentences of one document on both sides, which `leakage` shows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Literal

from fedner.corpus.groups import (
    Group,
    Grouping,
    Indices,
    check_share,
    deal_evenly,
    gather,
    nearest_subset,
    take,
)
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.seeds import PathPart, seeded

NUM_EXAMPLES = 5
# A shuffle hits a given number of sentences about once in as many tries as groups have on average.
NUM_SHUFFLES = 200


@dataclass(frozen=True, slots=True)
class Split:
    """The two sides of a corpus, as positions of its sentences.

    Attributes:
        train: What a tagger learns from.
        test: What it is scored on; of `holdout`, what decides when to stop.
    """

    train: Indices
    test: Indices

    def select(
        self, sentences: Sequence[Sentence]
    ) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
        """Return the training and the test sentences of the corpus that was split."""
        return take(sentences, self.train), take(sentences, self.test)


@dataclass(frozen=True, slots=True)
class Leakage:
    """What the two sides of a split have in common; `dataclasses.asdict` makes it JSON.

    Texts are compared as `normalised` gives them. The examples are texts of the corpus: they are
    for the platform's own eyes.

    Attributes:
        texts: Distinct texts that occur on both sides.
        train_sentences: Training sentences with such a text.
        test_sentences: Test sentences with such a text.
        share_of_test: The latter as a share of all test sentences.
        examples: The first few of those texts, in the order of the test side.
        documents: Ids of the documents with sentences on both sides, sorted.
        patients: Ids of the patients with sentences on both sides, sorted.
    """

    texts: int
    train_sentences: int
    test_sentences: int
    share_of_test: float
    examples: tuple[str, ...]
    documents: tuple[str, ...]
    patients: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether the sides have nothing in common."""
        return not (self.texts or self.documents or self.patients)


def split(grouping: Grouping, *, test: float = 0.2, seed: int) -> Split:
    """Split at random.

    By sentence, the test side has `test` times their number, rounded. By document or patient, its
    size is the nearest to that which whole groups can give with neither side empty.

    Args:
        grouping: What is to be split, and what must stay together.
        test: The share of the sentences that goes to the test side, between 0 and 1.
        seed: Where the randomness comes from.
    """
    return _cut(grouping, test, seed, "split", "test")


def holdout(grouping: Grouping, *, share: float = 0.1, seed: int) -> Split:
    """Hold out a share of training sentences that decides when to stop: the `test` side.

    Args:
        grouping: The training sentences, and what must stay together.
        share: The share of them to hold out, between 0 and 1.
        seed: Where the randomness comes from; other than in `split` with the same seed.
    """
    return _cut(grouping, share, seed, "holdout", "dev")


def fixed(num_train: int, num_test: int) -> Split:
    """Return the split that a corpus came with: the training file, and after it the test file."""
    sizes = {"train": num_train, "test": num_test}
    empty = [name for name, size in sizes.items() if not size]
    if empty:
        raise FednerError(
            f"Fixed split: no sentences in {' and '.join(empty)}; expected at least one in each.",
            "Check the files that were given for it.",
        )
    return Split(tuple(range(num_train)), tuple(range(num_train, num_train + num_test)))


def k_folds(grouping: Grouping, k: int, seed: int) -> tuple[Split, ...]:
    """Return `k` splits in which every sentence is tested exactly once.

    By sentence, the sizes of the folds differ by at most one; otherwise whole groups are balanced,
    the largest first.
    """
    by, num_groups = grouping.by, len(grouping.groups)
    if not 2 <= k <= num_groups:
        raise FednerError(
            f"k-fold split by {by}: found k = {k} with {_counted(num_groups, by)}; expected k of "
            f"at least 2 and at most the number of {by}s.",
            "Take fewer folds or a finer unit.",
        )
    folds = deal_evenly(grouping.shuffled(seed, "folds", by, k), k)
    return tuple(_one_against_rest(folds, tested) for tested in range(k))


def _one_against_rest(folds: Sequence[Sequence[Group]], tested: int) -> Split:
    rest = [group for at, fold in enumerate(folds) if at != tested for group in fold]
    return Split(gather(rest), gather(folds[tested]))


def subsample(grouping: Grouping, share: float, seed: int) -> Indices:
    """Return a random share of the sentences, for studies of the size of the training data.

    With one seed, a smaller sample is always part of a larger one. By document or patient, the
    size is the nearest that the first so many groups of the random order can give, at least one.

    Args:
        grouping: What to take from, and what must stay together.
        share: How much to take, above 0 and at most 1.
        seed: Where the randomness comes from.
    """
    check_share("The share of a sample", share, whole=True)
    target = round(share * grouping.size)
    if target == 0:
        raise FednerError(
            f"Sample of {share:g} of {_counted(grouping.size, 'sentence')}: it would be empty.",
            "Take a greater share, or more sentences.",
        )
    order = grouping.shuffled(seed, "subsample", grouping.by)
    sums = accumulate(map(len, order))
    length = min(enumerate(sums, start=1), key=lambda head: (abs(head[1] - target), head[0]))[0]
    return gather(order[:length])


def _cut(grouping: Grouping, share: float, seed: int, stream: str, side: str) -> Split:
    """Return what stays and what is cut off, the latter as near to `share` as groups allow."""
    check_share(f"The share of the {side} side", share)
    groups = grouping.groups
    target = _target_size(grouping, share, side)
    chosen = set(_choose([len(group) for group in groups], target, seed, stream, grouping.by))
    kept = [group for at, group in enumerate(groups) if at not in chosen]
    return Split(gather(kept), gather([groups[at] for at in chosen]))


def _target_size(grouping: Grouping, share: float, side: str) -> int:
    """Return how many sentences to cut off; refuse where a side would stay empty."""
    by, num_groups, size = grouping.by, len(grouping.groups), grouping.size
    if num_groups < 2:
        raise FednerError(
            f"Split by {by}: found {_counted(num_groups, by)}; expected at least 2.",
            "Read more data" + ("." if by == "sentence" else ", or split by a finer unit."),
        )
    target = round(share * size)
    if not 0 < target < size:
        empty = side if target == 0 else "train"
        raise FednerError(
            f"Split by {by}: {share:g} of {_counted(size, 'sentence')} leaves the {empty} side "
            "empty.",
            "Take another share, or more sentences.",
        )
    return target


def _choose(sizes: Sequence[int], target: int, seed: int, *path: PathPart) -> Sequence[int]:
    """Return a random choice of groups whose sizes add up as near to `target` as possible."""
    head = _random_head(sizes, target, seed, *path)
    if head is not None:
        return head
    order = seeded(seed, *path, "subset").permutation(len(sizes)).tolist()
    subset = [order[at] for at in nearest_subset([sizes[at] for at in order], target)]
    reached = sum(sizes[at] for at in subset)
    head = None if reached == target else _random_head(sizes, reached, seed, *path)
    # With few and large groups no shuffle may hit: the subset is as near, if less evenly drawn.
    return subset if head is None else head


def _random_head(
    sizes: Sequence[int], total: int, seed: int, *path: PathPart
) -> Sequence[int] | None:
    """Shuffle until the first so many groups hold `total` sentences; return those groups.

    Waiting for such a shuffle, rather than filling up with whatever fits, favours neither small
    nor large groups. By sentence, the first shuffle will do.
    """
    import numpy as np

    numbers = np.asarray(sizes)
    generator = seeded(seed, *path)
    for _ in range(NUM_SHUFFLES):
        order = generator.permutation(len(numbers))
        sums = numbers[order].cumsum()
        last = int(np.searchsorted(sums, total))
        if sums[last] == total:
            head: list[int] = order[: last + 1].tolist()
            return head
    return None


def normalised(tokens: Sequence[str]) -> str:
    """Return tokens as one text for comparing: lower case, single blanks."""
    return " ".join(" ".join(tokens).lower().split())


def leakage(
    train: Sequence[Sentence], test: Sequence[Sentence], *, num_examples: int = NUM_EXAMPLES
) -> Leakage:
    """Report what `train` and `test` have in common: texts, documents and patients.

    Sentences without tokens, document ids or patient ids are not compared in that respect.
    """
    train_texts = [normalised(sentence.tokens) for sentence in train]
    test_texts = [normalised(sentence.tokens) for sentence in test]
    common = (set(train_texts) & set(test_texts)) - {""}
    num_test = sum(text in common for text in test_texts)
    in_test_order = dict.fromkeys(text for text in test_texts if text in common)
    return Leakage(
        texts=len(common),
        train_sentences=sum(text in common for text in train_texts),
        test_sentences=num_test,
        share_of_test=num_test / len(test_texts) if test_texts else 0.0,
        examples=tuple(in_test_order)[:num_examples],
        documents=on_both(train, test, "document"),
        patients=on_both(train, test, "patient"),
    )


def on_both(
    train: Iterable[Sentence], test: Iterable[Sentence], unit: Literal["document", "patient"]
) -> tuple[str, ...]:
    """Return the documents or patients with sentences on both sides, sorted."""
    owners = attrgetter(unit)
    return tuple(sorted(each for each in set(map(owners, train)) & set(map(owners, test)) if each))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
