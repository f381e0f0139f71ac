"""Scoring a million tokens: fedner beside seqeval and nervaluate, on the same tags in the same run.

All start from what the others take, lists of tag strings. fedner computes every score it has
(strict, relaxed, type-blind and token-level, by label), seqeval's f1_score a single number.
"""

import gc
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

from fedner.scoring import Scores, score_tags

NUM_TOKENS = 1_000_000
NUM_REPEATS = 3
LABELS = ("ADE", "Disease", "Dosage", "Drug", "Symptom")
Tags = list[list[str]]
Row = tuple[str, float, str]


def random_tags(num_tokens: int, seed: int) -> tuple[Tags, Tags]:
    """Return gold tags of sentences of 5 to 40 tokens, and predictions with a few errors."""
    rng = random.Random(seed)
    gold: Tags = []
    predicted: Tags = []
    while num_tokens > 0:
        tags = _sentence(rng, min(num_tokens, rng.randint(5, 40)))
        num_tokens -= len(tags)
        gold.append(tags)
        predicted.append([_perhaps_wrong(tag, rng) for tag in tags])
    return gold, predicted


def _sentence(rng: random.Random, length: int) -> list[str]:
    tags: list[str] = []
    while len(tags) < length:
        tags += ["O"] * rng.randint(1, 12)
        label = rng.choice(LABELS)
        tags += [f"B-{label}"] + [f"I-{label}"] * rng.choice((0, 0, 1, 1, 2, 4))
    return tags[:length]


def _perhaps_wrong(tag: str, rng: random.Random) -> str:
    if rng.random() > 0.05:
        return tag
    return rng.choice(("O", f"B-{rng.choice(LABELS)}", f"I-{rng.choice(LABELS)}"))


def main() -> list[Row]:
    """Check that all agree and time each; return (name, value, unit) rows."""
    import nervaluate
    from seqeval.metrics import classification_report, f1_score

    gold, predicted = random_tags(NUM_TOKENS, seed=7)
    tags = list(LABELS)
    programs: dict[str, Callable[[], Any]] = {
        "fedner, all scores": lambda: score_tags(gold, predicted),
        "seqeval f1_score": lambda: f1_score(gold, predicted),
        "seqeval classification_report": lambda: classification_report(
            gold, predicted, output_dict=True
        ),
        "nervaluate": lambda: nervaluate.Evaluator(
            gold, predicted, tags=tags, loader="list"
        ).evaluate(),
    }
    results, seconds = _timed(programs)
    _check_agreement(*results)
    ours, *others = programs
    return [
        *((f"scoring, 1 M tokens: {name}", seconds[name], "CPU s") for name in programs),
        *(
            (f"scoring: faster than {name} by", seconds[name] / seconds[ours], "x")
            for name in others
        ),
    ]


def _timed(programs: dict[str, Callable[[], Any]]) -> tuple[list[Any], dict[str, float]]:
    """Return the results, and the least CPU seconds of as many runs of each program.

    All of them compute on one thread, so that CPU seconds are what a quiet machine takes; they
    suffer less than the clock from whatever else runs. Taking turns spreads what remains.
    """
    results: dict[str, Any] = {}
    seconds = dict.fromkeys(programs, float("inf"))
    for _ in range(NUM_REPEATS):
        for name, program in programs.items():
            gc.collect()
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scikit-learn's remarks on numpy are none of ours
                results[name] = program()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return [results[name] for name in programs], seconds


def _check_agreement(
    scores: Scores, f1: float, report: dict[str, Any], evaluated: dict[str, Any]
) -> None:
    """Refuse to compare the speed of programs that disagree."""
    strict = scores.strict_micro
    assert abs(strict.f1 - f1) < 1e-12, (strict.f1, f1)
    for label, counts in scores.strict.items():
        assert abs(counts.f1 - report[label]["f1-score"]) < 1e-12, label
        assert counts.gold == report[label]["support"], label
    theirs = evaluated["overall"]["strict"]
    found = (theirs.correct, theirs.actual, theirs.possible)
    assert found == (strict.tp, strict.predicted, strict.gold), found


if __name__ == "__main__":
    for name, value, unit in main():
        print(f"{name:60} {value:10.3f} {unit}")
