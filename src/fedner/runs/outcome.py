"""What one method came to on one platform, and the records that are made of it.

Counts are kept unit by unit (the sentences, documents or patients that the split kept together),
so that runs can be compared pair by pair without their data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedner.corpus.groups import Unit
from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.runs.folder import COUNTS, FEDERATED, LOCAL_ONLY, RunFolder
from fedner.runs.platform_data import PlatformData
from fedner.runs.records import (
    BothIntervals,
    Gain,
    MethodCounts,
    PlatformScores,
    UnitCounts,
    verdict,
)
from fedner.scoring import (
    Counts,
    RelaxedCounts,
    Scores,
    bootstrap_interval,
    count_mistakes,
    paired_test,
    relaxed_by_sentence,
    score,
    strict_by_sentence,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One method on one platform.

    Attributes:
        scores: All scores on the test part.
        strict: The strict counts of each unit.
        relaxed: The relaxed counts of each unit.
        mistakes: How many mistakes of each kind there are, by type.
    """

    scores: Scores
    strict: tuple[Counts, ...]
    relaxed: tuple[RelaxedCounts, ...]
    mistakes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def outcome_of(data: PlatformData, predictions: Sequence[Sequence[Entity]], unit: Unit) -> Outcome:
    """Score predictions for the test part of a platform, over the types that it annotates."""
    sentences = data.test_sentences
    gold = [sentence.entities for sentence in sentences]
    lengths = [len(sentence.tokens) for sentence in sentences]
    groups = unit_numbers(sentences, unit)
    strict = strict_by_sentence(gold, predictions, data.labels)
    relaxed = relaxed_by_sentence(gold, predictions, data.labels)
    by_unit = [Counts()] * (max(groups, default=-1) + 1)
    relaxed_by_unit = [RelaxedCounts()] * len(by_unit)
    for group, one, other in zip(groups, strict, relaxed, strict=True):
        by_unit[group] += one
        relaxed_by_unit[group] += other
    return Outcome(
        score(gold, predictions, data.labels, lengths=lengths),
        tuple(by_unit),
        tuple(relaxed_by_unit),
        count_mistakes(gold, predictions, data.labels),
    )


def unit_numbers(sentences: Sequence[Sentence], unit: Unit) -> list[int]:
    """Return for each sentence which unit of the bootstrap it belongs to."""
    seen: dict[tuple[str, str], int] = {}
    numbers = []
    for position, sentence in enumerate(sentences):
        key = ("sentence", str(position))
        if unit == "patient" and sentence.patient is not None:
            key = ("patient", sentence.patient)
        elif unit in ("document", "patient"):
            key = ("document", sentence.document)
        numbers.append(seen.setdefault(key, len(seen)))
    return numbers


def unit_counts(data: PlatformData, unit: Unit, outcomes: Mapping[str, Outcome]) -> UnitCounts:
    """Return the counts of every unit, as the platform's folder keeps them."""
    return UnitCounts(unit, data.test_digest, {name: _counts(o) for name, o in outcomes.items()})


def _counts(outcome: Outcome) -> MethodCounts:
    return MethodCounts(
        tuple((each.tp, each.fp, each.fn) for each in outcome.strict),
        tuple(
            (each.predicted, each.predicted_touching, each.gold, each.gold_touched)
            for each in outcome.relaxed
        ),
    )


def read_counts(
    folder: RunFolder, platform: str, method: str
) -> tuple[list[Counts], list[RelaxedCounts], str]:
    """Return the strict and relaxed counts of every unit, and the digest of the test part.

    Raises:
        FednerError: The run has no such platform or method, or the counts are damaged.
    """
    record = folder.site(platform).read_as(UnitCounts, COUNTS)
    if method not in record.methods:
        raise FednerError(
            f"{folder.path}: no method {method!r} on {platform}",
            f"There are {', '.join(record.methods)}.",
        )
    held = record.methods[method]
    strict = [Counts(*each) for each in held.strict]
    return strict, [RelaxedCounts(*each) for each in held.relaxed], record.test_digest


def platform_scores(outcomes: Mapping[str, Outcome], unit: Unit, seed: int) -> PlatformScores:
    """Return scores, intervals and gain of one platform.

    Args:
        outcomes: By method.
        unit: What is drawn again in the bootstrap.
        seed: Of the resampling.
    """
    return PlatformScores(
        unit=unit,
        num_units=len(next(iter(outcomes.values())).strict) if outcomes else 0,
        methods={method: each.scores for method, each in outcomes.items()},
        intervals={method: intervals_of(each, seed) for method, each in outcomes.items()},
        gain=_gain(outcomes, seed),
        mistakes={method: each.mistakes for method, each in outcomes.items()},
    )


def intervals_of(outcome: Outcome, seed: int) -> BothIntervals:
    """Return strict and relaxed F1 with their bootstrap intervals."""
    return BothIntervals(
        bootstrap_interval(outcome.strict, seed=seed),
        bootstrap_interval(outcome.relaxed, seed=seed),
    )


def _gain(methods: Mapping[str, Outcome], seed: int) -> Gain | None:
    """Return what joining brought a platform: federated against local-only, pair by pair."""
    if LOCAL_ONLY not in methods or FEDERATED not in methods:
        return None
    local, federated = methods[LOCAL_ONLY], methods[FEDERATED]
    strict = paired_test(local.strict, federated.strict, seed=seed)
    relaxed = paired_test(local.relaxed, federated.relaxed, seed=seed)
    return Gain(LOCAL_ONLY, verdict(strict), strict, relaxed)
