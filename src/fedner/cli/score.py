"""`fedner score`: predicted mentions against gold ones, with intervals."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedner.cli import label_maps
from fedner.cli.arguments import AsJson
from fedner.cli.inputs import Loaded
from fedner.cli.label_maps import LabelMap
from fedner.cli.reading import Reading, takes_reading
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.corpus.sentence import Sentence
    from fedner.scoring import Counts, Interval, PairedTest, RelaxedCounts, Scores

GoldPath = Annotated[
    Path, typer.Argument(metavar="GOLD", help="The gold annotations: a file or a folder.")
]
PredictedPath = Annotated[
    Path, typer.Argument(metavar="PREDICTED", help="The predicted ones for the same texts.")
]
AgainstOption = Annotated[
    Path | None,
    typer.Option("--against", help="Another tagger's predictions: adds a paired test."),
]
TypeBlindOption = Annotated[
    bool,
    typer.Option(
        "--type-blind",
        help="Relaxed scores ignore types, and count types that GOLD does not annotate.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", help="The seed of the bootstrap.")]


@dataclass(frozen=True, slots=True)
class Compared:
    """What `fedner score` shows.

    Attributes:
        scores: All scores of the predictions.
        interval: The strict micro F1 with its bootstrap interval.
        against: The paired test against another tagger, or None.
        is_type_blind: Whether relaxed scores take any type.
    """

    scores: "Scores"
    interval: "Interval"
    against: "PairedTest | None"
    is_type_blind: bool

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form: that of the scores, with interval and test beside them."""
        tested = {} if self.against is None else {"against": self.against}
        return {**self.scores.as_dict(), "interval": self.interval, **tested}


@takes_reading(patients=False)
def score(
    gold: GoldPath,
    predicted: PredictedPath,
    reading: Reading,
    against: AgainstOption = None,
    label_map: LabelMap = None,
    type_blind: TypeBlindOption = False,
    seed: SeedOption = 1,
    json: AsJson = False,
) -> None:
    """Score PREDICTED against GOLD: strict, relaxed and token-level, with a bootstrap interval.

    Column files are compared sentence by sentence, other formats document by document (by id).
    """
    from fedner.cli.output import show_json
    from fedner.scoring import bootstrap_interval, paired_test

    paths = [gold, predicted, *([] if against is None else [against])]
    truth, *taggers = _load(paths, reading, label_maps.parse(label_map))
    scores, units = _compare(truth, taggers[0])
    if type_blind:
        scores = _type_blind(scores, truth, taggers[0])
    test = None
    if against is not None:
        _, others = _compare(truth, taggers[1])
        test = paired_test(others, units, seed=seed)
    found = Compared(scores, bootstrap_interval(units, seed=seed), test, type_blind)
    show_json(found.as_json()) if json else _show(found)


def _load(paths: list[Path], reading: Reading, label_map: dict[str, str]) -> list[Loaded]:
    """Read all corpora; the label map is applied to each of them."""
    from fedner.corpus.label_map import relabel

    loaded = [reading.load(path) for path in paths]
    label_maps.check(label_map, [each.corpus for each in loaded])
    return [replace(each, corpus=relabel(each.corpus, label_map).corpus) for each in loaded]


def _type_blind(scores: "Scores", gold: Loaded, predicted: Loaded) -> "Scores":
    """Return the scores with relaxed ones of any type: predictions of every type count."""
    every = sorted({*gold.corpus.labels, *predicted.corpus.labels})
    blind, _ = _compare(gold, predicted, every)
    return replace(scores, relaxed_any_type=blind.relaxed_any_type)


def _compare(
    gold: Loaded, predicted: Loaded, labels: Collection[str] | None = None
) -> "tuple[Scores, list[Counts]]":
    """Return all scores and the strict counts of each unit of the bootstrap.

    Args:
        gold: The gold corpus.
        predicted: The same texts with predicted mentions.
        labels: What to score; None for what the gold corpus annotates.
    """
    from fedner.scoring import Scores, scores_by_document

    chosen = gold.corpus.labels if labels is None else labels
    if gold.format == predicted.format == "columns":
        return _compare_columns(gold, predicted, chosen)
    by_document = scores_by_document(gold.corpus, predicted.corpus, chosen)
    return sum(by_document, Scores()), [scores.strict_micro for scores in by_document]


def _compare_columns(
    gold: Loaded, predicted: Loaded, labels: Collection[str]
) -> "tuple[Scores, list[Counts]]":
    from fedner.scoring import score as score_entities
    from fedner.scoring import strict_by_sentence

    truth = gold.prepared(None, "longest").sentences
    found = predicted.prepared(None, "longest").sentences
    _check_same_sentences(truth, found)
    entities = [sentence.entities for sentence in truth]
    guesses = [sentence.entities for sentence in found]
    lengths = [len(sentence.tokens) for sentence in truth]
    scores = score_entities(entities, guesses, labels, lengths=lengths)
    return scores, strict_by_sentence(entities, guesses, labels)


def _check_same_sentences(truth: "Sequence[Sentence]", found: "Sequence[Sentence]") -> None:
    hint = "Score files with the same sentences in the same order."
    if len(truth) != len(found):
        raise FednerError(
            f"the gold file has {len(truth):,} sentences, the predicted one {len(found):,}", hint
        )
    for number, (one, other) in enumerate(zip(truth, found, strict=True), start=1):
        if one.tokens != other.tokens:
            raise FednerError(
                f"sentence {number:,} has other tokens in the two files: "
                f"{' '.join(one.tokens)[:80]!r} and {' '.join(other.tokens)[:80]!r}",
                hint,
            )


def _show(found: Compared) -> None:
    """Print the scores, the interval and what else there is to say."""
    from fedner.cli.output import console

    _show_table(found.scores, type_blind=found.is_type_blind)
    interval, scores = found.interval, found.scores
    console.print(
        f"strict F1 {100 * interval.value:.2f}, {interval.confidence:.0%} interval "
        f"{100 * interval.low:.2f} to {100 * interval.high:.2f} (bootstrap)"
    )
    if scores.tokens.num_tokens:
        weighted, always_o = scores.tokens.weighted, scores.tokens.always_o
        console.print(
            f"token-level weighted F {100 * weighted.f1:.2f} with O included; a tagger that "
            f"always says O has {100 * always_o.f1:.2f}"
        )
    if ignored := sum(scores.ignored_predicted.values()):
        where = "only in the type-blind scores" if found.is_type_blind else "in no score"
        console.print(
            f"{ignored:,} predictions of types that the gold corpus does not annotate, {where}: "
            f"{', '.join(scores.ignored_predicted)}"
        )
    if found.against is not None:
        test = found.against.difference
        console.print(
            f"against the other tagger: {100 * test.value:+.2f} F1, interval "
            f"{100 * test.low:+.2f} to {100 * test.high:+.2f}, p = {found.against.p_value:.4f}"
        )


def _show_table(scores: "Scores", *, type_blind: bool) -> None:
    """Print strict and relaxed scores by type."""
    from fedner.cli.output import console, table
    from fedner.scoring import Counts

    relaxed = scores.relaxed_any_type if type_blind else scores.relaxed
    relaxed_micro = scores.relaxed_any_type_micro if type_blind else scores.relaxed_micro
    # Type-blind scores have rows for predicted types too that the gold corpus does not annotate.
    rows = [
        (label, *_cells(scores.strict.get(label, Counts()), relaxed[label])) for label in relaxed
    ]
    rows.append(("all (micro)", *_cells(scores.strict_micro, relaxed_micro)))
    columns = ("type", "gold", "found", "P", "R", "F1", "rel. P", "rel. R", "rel. F1")
    title = "Strict and relaxed scores of any type, %" if type_blind else "Strict and relaxed, %"
    console.print(table(title, columns, rows))


def _cells(strict: "Counts", relaxed: "RelaxedCounts") -> tuple[object, ...]:
    numbers = (*strict.measures, *relaxed.measures)
    return (relaxed.gold, relaxed.predicted, *(f"{100 * number:.1f}" for number in numbers))
