"""Which words a batch had, read from the gradient of a trained word table.

The gradient of a table row is zero unless its word stands in the batch (SCIENCE: point 9). With
noise of deviation s in D numbers a row's squared norm over s^2 is about D; rows are named that
stand `_DEVIATIONS` deviations above that. Rows are public (`models.embeddings.words`): whoever has
the published vectors reads words from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedner.audit.finding import DEFENCES, Defence, Finding, absent, encrypted, in_order
from fedner.audit.observation import (
    WORD_TABLE,
    Observation,
    Protection,
    Target,
    drawn_batches,
    observe,
)
from fedner.audit.statistics import share_interval
from fedner.models.embeddings.words import PADDING_ROW
from fedner.models.features import EncodedCorpus
from fedner.seeds import derive

ATTACK = "words of a batch"
MEASURE = "F1 of the rows named, against the rows of the platform's batch"
_DEVIATIONS = 5.0
_FROZEN = "no gradient of a word table is transmitted: it is frozen or stays private"


@dataclass(frozen=True, slots=True)
class WordsBudget:
    """How much the attack may try.

    Attributes:
        batch_size: Sentences in a batch.
        trials: How many batches.
    """

    batch_size: int = 8
    trials: int = 10


def named_rows(seen: Observation) -> set[int]:
    """Return the rows that the attacker names."""
    gradient_VD = seen.gradient[WORD_TABLE].double()
    squares_V = gradient_VD.square().sum(1)
    threshold = 0.0
    if seen.deviation:
        dimension = gradient_VD.shape[1]
        usual = dimension + _DEVIATIONS * (2.0 * dimension) ** 0.5
        threshold = seen.deviation**2 * usual
    rows = torch.nonzero(squares_V > threshold).squeeze(1).tolist()
    return set(rows) - {PADDING_ROW}


def audit_words(
    target: Target, protection: Protection, seed: int, budget: WordsBudget | None = None
) -> list[Finding]:
    """Return the row of the table for the words of batches."""
    chosen = WordsBudget() if budget is None else budget
    if WORD_TABLE not in target.shared:
        return absent(ATTACK, MEASURE, _FROZEN)
    power = _planted_power(target, protection, chosen, seed)
    cells = [encrypted(ATTACK, MEASURE)]
    tried = [each for each in DEFENCES if each != "encryption"]
    cells += [_cell(target, protection, chosen, seed, each, power) for each in tried]
    return in_order(cells)


def _cell(
    target: Target,
    protection: Protection,
    budget: WordsBudget,
    seed: int,
    defence: Defence,
    power: float,
) -> Finding:
    found, guessed = [], []
    for trial in range(budget.trials):
        own = derive(seed, "words", trial)
        batches = drawn_batches(target, protection.num_platforms, budget.batch_size, own)
        true = rows_of(target.corpus, batches[0])
        seen = observe(target, batches, defence, protection, own)
        found.append(f1(named_rows(seen), true))
        guessed.append(f1(_usual_rows(target.corpus, batches, len(true)), true))
    result, lower, upper = share_interval(found)
    return Finding(
        ATTACK, defence, MEASURE, "run", result, lower, upper,
        share_interval(guessed)[0], power, note=_note(defence),
    )  # fmt: skip


def _note(defence: Defence) -> str:
    if defence == "secure-sum":
        return "the words of all platforms together are read, not whose they are"
    return "the server sees clipped sums without noise" if defence == "central" else ""


def _planted_power(target: Target, protection: Protection, budget: WordsBudget, seed: int) -> float:
    """Return the share of planted words that the attack names in an unprotected batch."""
    shares = []
    for trial in range(budget.trials):
        own = derive(seed, "planted words", trial)
        batches = drawn_batches(target, protection.num_platforms, budget.batch_size, own)
        free = _free_rows(target, own, len(batches[0]))
        corpus = _planted(target.corpus, batches[0], free)
        seen = observe(replace(target, corpus=corpus), batches, "none", protection, own)
        shares.append(len(named_rows(seen) & set(free)) / len(free))
    return float(np.mean(shares))


def _free_rows(target: Target, seed: int, count: int) -> list[int]:
    """Return rows of the table that no word of the platform has; -1 where there are too few."""
    used = set(target.corpus.rows_V.tolist()) | {PADDING_ROW}
    free = [row for row in range(target.words.num_rows) if row not in used]
    if len(free) < count:
        return [-1]
    order = np.random.default_rng(seed).permutation(len(free))[:count]
    return [free[int(at)] for at in order]


def _planted(corpus: EncodedCorpus, batch: Sequence[int], rows: Sequence[int]) -> EncodedCorpus:
    """Return the corpus with a word of its own in front of each sentence of the batch."""
    if rows[0] < 0:
        return corpus  # no row is free: nothing is planted, and nothing will be found
    word_T = corpus.word_T.copy()
    first = len(corpus.rows_V)
    for place, sentence in enumerate(batch):
        word_T[corpus.starts[sentence]] = first + place
    added = torch.tensor(rows, dtype=corpus.rows_V.dtype, device=corpus.device)
    last = corpus.characters_VC[-1:].expand(len(rows), -1)
    return replace(
        corpus,
        word_T=word_T,
        rows_V=torch.cat((corpus.rows_V, added)),
        characters_VC=torch.cat((corpus.characters_VC, last)),
        num_characters_V=np.append(
            corpus.num_characters_V, np.repeat(corpus.num_characters_V[-1], len(rows))
        ),
    )


def rows_of(corpus: EncodedCorpus, batch: Sequence[int]) -> set[int]:
    """Return the rows of the words of some sentences."""
    words = [
        corpus.word_T[corpus.starts[each] : corpus.starts[each] + corpus.lengths[each]]
        for each in batch
    ]
    return set(corpus.rows_V[torch.from_numpy(np.concatenate(words))].tolist())


def _usual_rows(corpus: EncodedCorpus, batches: Sequence[Sequence[int]], count: int) -> set[int]:
    """Return as many rows as the batch has, the commonest of all other sentences: no update."""
    taken = set(batches[0])
    others = [each for each in range(len(corpus)) if each not in taken and corpus.lengths[each]]
    words = [
        corpus.word_T[corpus.starts[each] : corpus.starts[each] + corpus.lengths[each]]
        for each in others
    ]
    rows, counts = np.unique(
        corpus.rows_V[torch.from_numpy(np.concatenate(words))].numpy(), return_counts=True
    )
    return set(rows[np.argsort(-counts, kind="stable")][:count].tolist())


def f1(named: set[int], true: set[int]) -> float:
    """Return the F1 of what was named against what is true."""
    return 2.0 * len(named & true) / max(1, len(named) + len(true))
