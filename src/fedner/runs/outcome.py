"""What a run came to: scores of every method on every platform, gains with their intervals.

Counts are kept unit by unit (the sentences, documents or patients that the split kept together),
so that runs can be compared pair by pair without their data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedner.corpus.groups import Unit
from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.runs.folder import COUNTS, FEDERATED, LOCAL_ONLY, RunFolder
from fedner.runs.platform_data import PlatformData
from fedner.scoring import (
    Counts,
    PairedTest,
    RelaxedCounts,
    Scores,
    bootstrap_interval,
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
    """

    scores: Scores
    strict: tuple[Counts, ...]
    relaxed: tuple[RelaxedCounts, ...]


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


def counts_record(
    data: PlatformData, unit: Unit, outcomes: Mapping[str, Outcome]
) -> dict[str, Any]:
    """Return the counts of every unit, in a form that JSON can carry."""
    methods = {
        method: {
            "strict": [[each.tp, each.fp, each.fn] for each in outcome.strict],
            "relaxed": [
                [each.predicted, each.predicted_touching, each.gold, each.gold_touched]
                for each in outcome.relaxed
            ],
        }
        for method, outcome in outcomes.items()
    }
    return {"unit": unit, "test_digest": data.test_digest, "methods": methods}


def read_counts(
    folder: RunFolder, platform: str, method: str
) -> tuple[list[Counts], list[RelaxedCounts], str]:
    """Return the strict and relaxed counts of every unit, and the digest of the test part.

    Raises:
        FednerError: The run has no such platform or method.
    """
    record = folder.site(platform).read(COUNTS)
    if method not in record["methods"]:
        raise FednerError(
            f"{folder.path}: no method {method!r} on {platform}",
            f"There are {', '.join(record['methods'])}.",
        )
    held = record["methods"][method]
    strict = [Counts(*each) for each in held["strict"]]
    relaxed = [RelaxedCounts(*each) for each in held["relaxed"]]
    return strict, relaxed, record["test_digest"]


def platform_summary(outcomes: Mapping[str, Outcome], unit: Unit, seed: int) -> dict[str, Any]:
    """Return scores, intervals and gain of one platform, in a form that JSON can carry.

    Args:
        outcomes: By method.
        unit: What is drawn again in the bootstrap.
        seed: Of the resampling.
    """
    return {
        "unit": unit,
        "num_units": len(next(iter(outcomes.values())).strict) if outcomes else 0,
        "methods": {method: each.scores.as_dict() for method, each in outcomes.items()},
        "intervals": {
            method: {
                "strict": asdict(bootstrap_interval(each.strict, seed=seed)),
                "relaxed": asdict(bootstrap_interval(each.relaxed, seed=seed)),
            }
            for method, each in outcomes.items()
        },
        "gain": _gain(outcomes, seed),
    }


def joint_summary(platforms: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summaries of all platforms with their means."""
    return {"platforms": dict(platforms), "mean": _means(platforms)}


def _gain(methods: Mapping[str, Outcome], seed: int) -> dict[str, Any] | None:
    """Return what joining brought a platform: federated against local-only, pair by pair."""
    if LOCAL_ONLY not in methods or FEDERATED not in methods:
        return None
    local, federated = methods[LOCAL_ONLY], methods[FEDERATED]
    tests: dict[str, PairedTest] = {
        "strict": paired_test(local.strict, federated.strict, seed=seed),
        "relaxed": paired_test(local.relaxed, federated.relaxed, seed=seed),
    }
    return {
        "over": LOCAL_ONLY,
        "verdict": verdict(tests["strict"]),
        **{name: asdict(test) for name, test in tests.items()},
    }


def verdict(test: PairedTest) -> str:
    """Return in words whether the second tagger is better: "yes", "no" or "not clear"."""
    if test.difference.low > 0:
        return "yes"
    return "no" if test.difference.high < 0 else "not clear"


def _means(platforms: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    methods = next(iter(platforms.values()))["methods"] if platforms else {}
    return {
        method: {
            measure: sum(each["methods"][method][measure]["micro"]["f1"] for each in rows)
            / len(rows)
            for measure in ("strict", "relaxed")
        }
        for method in methods
        if (rows := [each for each in platforms.values() if method in each["methods"]])
    }
