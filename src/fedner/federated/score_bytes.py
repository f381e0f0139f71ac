"""Scores as JSON for a message: the counts alone, row by row, so that nothing can hide in them.

Rows keep the order of the labels: means over labels come to the same bits on both sides.
"""

from collections.abc import Mapping
from typing import Any

from fedner.federated.tensor_bytes import refused
from fedner.scoring import Counts, RelaxedCounts, Scores, TokenCounts

_MOST_COUNT = 10**15
_WIDTHS = {
    "strict": 3,
    "relaxed": 4,
    "relaxed_any_type": 4,
    "tokens_gold": 1,
    "tokens_predicted": 1,
    "tokens_both": 1,
    "ignored_predicted": 1,
    "ignored_gold": 1,
}
Table = dict[str, tuple[int, ...]]


def scores_to_json(scores: Scores) -> dict[str, list[list[Any]]]:
    """Return the counts of scores, as lists of a label and its numbers."""
    strict = {label: (each.tp, each.fp, each.fn) for label, each in scores.strict.items()}
    tokens = scores.tokens
    tables: tuple[Mapping[str, tuple[int, ...]], ...] = (
        strict,
        _relaxed(scores.relaxed),
        _relaxed(scores.relaxed_any_type),
        *(_single(each) for each in (tokens.gold, tokens.predicted, tokens.both)),
        _single(scores.ignored_predicted),
        _single(scores.ignored_gold),
    )
    return {
        name: [[label, *numbers] for label, numbers in table.items()]
        for name, table in zip(_WIDTHS, tables, strict=True)
    }


def _relaxed(counts: Mapping[str, RelaxedCounts]) -> Table:
    return {
        label: (each.predicted, each.predicted_touching, each.gold, each.gold_touched)
        for label, each in counts.items()
    }


def _single(counts: Mapping[str, int]) -> Table:
    return {label: (count,) for label, count in counts.items()}


def scores_from_json(stated: object) -> Scores:
    """Return the scores of which `scores_to_json` made something.

    Raises:
        FednerError: If it is of another form.
    """
    if not isinstance(stated, dict) or set(stated) != set(_WIDTHS):
        raise refused("scores of another form")
    tables = {name: _table(stated[name], width) for name, width in _WIDTHS.items()}
    singles = {
        name: {label: numbers[0] for label, numbers in tables[name].items()}
        for name, width in _WIDTHS.items()
        if width == 1
    }
    return Scores(
        {label: Counts(*numbers) for label, numbers in tables["strict"].items()},
        {label: RelaxedCounts(*numbers) for label, numbers in tables["relaxed"].items()},
        {label: RelaxedCounts(*numbers) for label, numbers in tables["relaxed_any_type"].items()},
        TokenCounts(singles["tokens_gold"], singles["tokens_predicted"], singles["tokens_both"]),
        singles["ignored_predicted"],
        singles["ignored_gold"],
    )


def _table(rows: object, width: int) -> Table:
    """Return rows of a label and `width` counts by label."""
    found: Table = {}
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, list) or len(row) != 1 + width or not isinstance(row[0], str):
            raise refused("scores with a row that is not a label and its counts")
        label, *numbers = row
        are_counts = all(type(each) is int and 0 <= each <= _MOST_COUNT for each in numbers)
        if not are_counts or label in found:
            raise refused("scores with a count that is none, or a label twice")
        found[label] = tuple(numbers)
    return found
