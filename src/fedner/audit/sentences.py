"""Sentences and entities of a small batch, by matching its gradient (`gradient_matching`).

The attacker knows the lengths, the weights and a list of words that has those of the platform; what
is private of the model is counted as known. That is more than a server has: results are bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedner.audit import reference
from fedner.audit.finding import DEFENCES, Defence, Finding, encrypted, in_order
from fedner.audit.gradient_matching import Recovered, SentenceBudget, matched_names, recover
from fedner.audit.observation import Protection, Target, drawn_batches, observe
from fedner.audit.statistics import share_interval
from fedner.corpus.schemes import decode
from fedner.models.features import EncodedCorpus, TagSpace
from fedner.seeds import derive

ATTACK = "sentences of a batch"
MEASURE = "share of tokens recovered in their place"
_UNREADABLE = "the model has layers or features that this attack cannot follow: no attack was made"


def audit_sentences(
    target: Target,
    space: TagSpace,
    protection: Protection,
    seed: int,
    budget: SentenceBudget | None = None,
) -> list[Finding]:
    """Return the row of the table for sentences."""
    chosen = SentenceBudget() if budget is None else budget
    tried = [each for each in DEFENCES if each != "encryption"]
    if not (reference.can_read(target.tagger) and matched_names(target)):
        return [Finding(ATTACK, each, MEASURE, note=_UNREADABLE) for each in DEFENCES]
    held = _short(target, chosen, protection.num_platforms)
    alone, summed = (
        _planted_power(held, protection, chosen, seed, each) for each in ("none", "secure-sum")
    )
    cells = [encrypted(ATTACK, MEASURE)]
    for each in tried:
        power = summed if each == "secure-sum" else alone
        cells.append(_cell(held, space, protection, chosen, seed, each, power))
    return in_order(cells)


def _short(target: Target, budget: SentenceBudget, num_platforms: int) -> Target:
    """Return the target without long sentences, but with enough of the shortest for all trials."""
    lengths = target.corpus.lengths
    wanted = num_platforms * budget.batch_size * budget.trials
    shortest = np.sort(lengths[lengths > 0])[:wanted]
    most = max(budget.longest, int(shortest[-1]) if len(shortest) else 0)
    kept = np.where(lengths <= most, lengths, 0)
    return replace(target, corpus=replace(target.corpus, lengths=kept))


@dataclass(frozen=True, slots=True)
class _Score:
    """How much of a batch was recovered.

    Attributes:
        in_place: The share of tokens in their place.
        blind: The same for the platform's commonest word everywhere.
        entities: The share of entities whose words, place and type are right; None without any.
    """

    in_place: float
    blind: float
    entities: float | None


def _attacked(
    target: Target,
    space: TagSpace | None,
    batches: Sequence[Sequence[int]],
    defence: Defence,
    protection: Protection,
    budget: SentenceBudget,
    seed: int,
) -> _Score:
    """Attack one batch, and compare what came out with what was there."""
    corpus = target.corpus
    seen = observe(target, batches, defence, protection, seed)
    # Of a sum all sentences are tried: whose they are, nobody can tell.
    summed = [each for batch in batches[: seen.num_batches] for each in batch]
    lengths = [int(corpus.lengths[each]) for each in summed]
    is_scaled = defence in ("local", "central", "distributed")
    found = recover(target, seen, lengths, budget, seed, is_scaled=is_scaled)
    return _scored(corpus, space, batches[0], found)


def _scored(
    corpus: EncodedCorpus, space: TagSpace | None, order: Sequence[int], found: Sequence[Recovered]
) -> _Score:
    """Pair sentences with those of the same length that fit best, and count.

    Words count as the same that have the same row of the word table: but for case, they are.
    """
    rows = corpus.rows_V.numpy()
    left, hits, entities, right, tokens, blind = list(found), 0, 0, 0, 0, 0
    numbers, counts = np.unique(rows[corpus.word_T], return_counts=True)
    commonest = int(numbers[counts.argmax()])
    for sentence in order:
        start, length = int(corpus.starts[sentence]), int(corpus.lengths[sentence])
        true = rows[corpus.word_T[start : start + length]].tolist()
        fits = [
            (sum(a == b for a, b in zip(rows[list(each.words)], true, strict=True)), place)
            for place, each in enumerate(left)
            if len(each.words) == length
        ]
        right_words, place = max(fits)
        best = left.pop(place)
        hits += int(right_words)
        blind += true.count(commonest)
        tokens += length
        if space is not None and corpus.tags_T is not None:
            gold = _mentions(space, corpus.tags_T[start : start + length].tolist(), true)
            entities += len(gold)
            right += len(gold & _mentions(space, best.tags, rows[list(best.words)].tolist()))
    return _Score(hits / tokens, blind / tokens, right / entities if entities else None)


def _mentions(
    space: TagSpace, tags: Sequence[int], words: Sequence[int]
) -> set[tuple[object, ...]]:
    return {
        (*each, *words[each.start : each.end])
        for each in decode([space.tags[tag] for tag in tags], space.scheme)
    }


def _cell(
    target: Target,
    space: TagSpace,
    protection: Protection,
    budget: SentenceBudget,
    seed: int,
    defence: Defence,
    power: float,
) -> Finding:
    scores = []
    for trial in range(budget.trials):
        path = derive(seed, "sentences", trial)
        batches = drawn_batches(target, protection.num_platforms, budget.batch_size, path)
        scores.append(_attacked(target, space, batches, defence, protection, budget, path))
    result, lower, upper = share_interval([each.in_place for each in scores])
    held = [each.entities for each in scores if each.entities is not None]
    note = (
        f"{np.mean(held):.0%} of entities recovered whole" if held else "no entity in the batches"
    )
    chance = max(each.blind for each in scores)
    return Finding(
        ATTACK, defence, MEASURE, "run", result, lower, upper, chance, power, note=note
    )  # fmt: skip


def _planted_power(
    target: Target, protection: Protection, budget: SentenceBudget, seed: int, defence: Defence
) -> float:
    """Return the share of tokens recovered of short sentences of distinct words, without noise.

    Of a sum all sentences are planted: what finds one platform's may be lost in a sum.
    """
    scores = []
    for trial in range(budget.trials):
        path = derive(seed, "planted sentences", trial)
        batches = drawn_batches(target, protection.num_platforms, budget.batch_size, path)
        planted = _planted(target, [each for batch in batches for each in batch], path)
        scores.append(_attacked(planted, None, batches, defence, protection, budget, path).in_place)
    return float(np.mean(scores))


def _planted(target: Target, batch: Sequence[int], seed: int) -> Target:
    """Return the target with four distinct words in each sentence of the batch, or fewer."""
    corpus = target.corpus
    draw, used = np.random.default_rng(seed), np.unique(corpus.word_T)
    word_T, lengths = corpus.word_T.copy(), corpus.lengths.copy()
    for sentence in batch:
        lengths[sentence] = min(4, int(lengths[sentence]))
        start = corpus.starts[sentence]
        word_T[start : start + lengths[sentence]] = draw.choice(
            used, lengths[sentence], replace=False
        )
    tags_T = None if corpus.tags_T is None else corpus.tags_T.clone()
    if tags_T is not None:
        for sentence in batch:
            start = int(corpus.starts[sentence])
            tags_T[start : start + int(lengths[sentence])] = 0  # a cut may have broken an entity
    return replace(target, corpus=replace(corpus, word_T=word_T, lengths=lengths, tags_T=tags_T))
