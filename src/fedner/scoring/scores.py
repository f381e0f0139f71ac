"""All scores of a tagger on some texts: counts by label that merge, and their JSON form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fedner.errors import FednerError
from fedner.scoring.counts import (
    Counts,
    Measures,
    RelaxedCounts,
    TokenCounts,
    macro,
    merge_totals,
    micro,
    micro_relaxed,
)

_STRICT_FIELDS = ("tp", "fp", "fn")
_RELAXED_FIELDS = ("predicted", "predicted_touching", "gold", "gold_touched")
_MOST_COUNT = 10**15
_TOKEN_FIELDS = ("gold", "predicted", "both")

_Merged = TypeVar("_Merged", Counts, RelaxedCounts)


ANY_LABEL = "*"  # in place of names that must not be disclosed


@dataclass(frozen=True, slots=True)
class Scores:
    """What a tagger got right, by label. They add up with `+`; `sum(parts, Scores())` merges many.

    >>> import fedner
    >>> text, drug = "Nausea after aspirin.", fedner.Span.of(13, 20, "Drug")
    >>> gold = fedner.Corpus("gold", ("Drug",), (fedner.Document("1", text, (drug,)),))
    >>> scores = fedner.score(gold, gold)
    >>> scores
    Scores(strict_f1=1.000, types=1)
    >>> (scores + scores).strict["Drug"].tp
    2

    Attributes:
        strict: Span and type are right.
        relaxed: The span overlaps a mention of the same type.
        relaxed_any_type: The span overlaps a mention of any type; by the mention's own label.
        tokens: Token-level totals; empty if the texts were scored without tokens.
        ignored_predicted: Predictions of labels that the gold corpus does not annotate, by label:
            nobody knows whether they are right, so no count above includes them.
        ignored_gold: Gold mentions of labels that were not asked for, by label.
    """

    strict: Mapping[str, Counts] = field(default_factory=dict)
    relaxed: Mapping[str, RelaxedCounts] = field(default_factory=dict)
    relaxed_any_type: Mapping[str, RelaxedCounts] = field(default_factory=dict)
    tokens: TokenCounts = field(default_factory=TokenCounts)
    ignored_predicted: Mapping[str, int] = field(default_factory=dict)
    ignored_gold: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Scores(strict_f1={self.strict_micro.f1:.3f}, types={len(self.strict)})"

    def __add__(self, other: "Scores") -> "Scores":
        return Scores(
            _merge(self.strict, other.strict, Counts()),
            _merge(self.relaxed, other.relaxed, RelaxedCounts()),
            _merge(self.relaxed_any_type, other.relaxed_any_type, RelaxedCounts()),
            self.tokens + other.tokens,
            merge_totals(self.ignored_predicted, other.ignored_predicted),
            merge_totals(self.ignored_gold, other.ignored_gold),
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that were scored, whether or not they occur."""
        return tuple(self.strict)

    def without_names(self) -> "Scores":
        """Return the counts of all labels together under `ANY_LABEL`, and no counts by tag."""
        return Scores(
            {ANY_LABEL: self.strict_micro},
            {ANY_LABEL: self.relaxed_micro},
            {ANY_LABEL: self.relaxed_any_type_micro},
        )

    @property
    def strict_micro(self) -> Counts:
        """The strict counts of all labels together; its `f1` is the figure to report first."""
        return micro(self.strict)

    @property
    def relaxed_micro(self) -> RelaxedCounts:
        """The relaxed counts (same type) of all labels together."""
        return micro_relaxed(self.relaxed)

    @property
    def relaxed_any_type_micro(self) -> RelaxedCounts:
        """The relaxed counts (any type) of all labels together."""
        return micro_relaxed(self.relaxed_any_type)

    def as_dict(self) -> dict[str, Any]:
        """Return counts and measures in a form that JSON can carry; `from_dict` reads it back."""
        return {
            "strict": {
                "micro": _strict_dict(self.strict_micro),
                "macro": macro(self.strict.values())._asdict(),
                "labels": {label: _strict_dict(each) for label, each in self.strict.items()},
            },
            "relaxed": _relaxed_section(self.relaxed),
            "relaxed_any_type": _relaxed_section(self.relaxed_any_type),
            "tokens": _tokens_dict(self.tokens),
            "ignored": {
                "predicted": dict(self.ignored_predicted),
                "gold": dict(self.ignored_gold),
            },
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Scores":
        """Return the scores from a record that `as_dict` made; measures are computed anew.

        Raises:
            FednerError: A count is missing or is not a whole number of at least 0.
        """
        try:
            strict = record["strict"]["labels"]
            relaxed = record["relaxed"]["labels"]
            any_type = record["relaxed_any_type"]["labels"]
            return cls(
                {label: Counts(*_whole(each, _STRICT_FIELDS)) for label, each in strict.items()},
                _relaxed_counts(relaxed),
                _relaxed_counts(any_type),
                TokenCounts(*(_totals(record["tokens"][name]) for name in _TOKEN_FIELDS)),
                _totals(record["ignored"]["predicted"]),
                _totals(record["ignored"]["gold"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise FednerError(
                f"not a record of scores: {type(error).__name__}: {error}",
                "Pass what Scores.as_dict() returned, unchanged.",
            ) from error


def _merge(
    one: Mapping[str, _Merged], other: Mapping[str, _Merged], zero: _Merged
) -> dict[str, _Merged]:
    labels = sorted({*one, *other})
    return {label: one.get(label, zero) + other.get(label, zero) for label in labels}


def _with_measures(counts: dict[str, int], measures: Measures) -> dict[str, Any]:
    return {**measures._asdict(), **counts}


def _strict_dict(counts: Counts) -> dict[str, Any]:
    return _with_measures({name: getattr(counts, name) for name in _STRICT_FIELDS}, counts.measures)


def _relaxed_dict(counts: RelaxedCounts) -> dict[str, Any]:
    numbers = {name: getattr(counts, name) for name in _RELAXED_FIELDS}
    return _with_measures(numbers, counts.measures)


def _relaxed_section(counts: Mapping[str, RelaxedCounts]) -> dict[str, Any]:
    return {
        "micro": _relaxed_dict(micro_relaxed(counts)),
        "macro": macro(counts.values())._asdict(),
        "labels": {label: _relaxed_dict(each) for label, each in counts.items()},
    }


def _tokens_dict(tokens: TokenCounts) -> dict[str, Any]:
    totals = {name: dict(getattr(tokens, name)) for name in _TOKEN_FIELDS}
    return {
        "num_tokens": tokens.num_tokens,
        "weighted": tokens.weighted._asdict(),
        "always_o": tokens.always_o._asdict(),
        **totals,
    }


def _relaxed_counts(section: Mapping[str, Mapping[str, Any]]) -> dict[str, RelaxedCounts]:
    return {label: RelaxedCounts(*_whole(each, _RELAXED_FIELDS)) for label, each in section.items()}


def _whole(record: Mapping[str, Any], names: tuple[str, ...]) -> list[int]:
    return [_count(name, record[name]) for name in names]


def _totals(record: Mapping[str, Any]) -> dict[str, int]:
    return {name: _count(name, value) for name, value in record.items()}


def _count(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_COUNT:
        shown = str(value) if type(value) in (float, str, bool) else f"a {type(value).__name__}"
        raise FednerError(
            f"record of scores: {name:.40} is {shown:.40}; expected a whole number from 0 to "
            f"{_MOST_COUNT}",
            "Pass what Scores.as_dict() returned, unchanged.",
        )
    return value
