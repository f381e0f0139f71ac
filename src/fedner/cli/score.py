"""`fedner score`: predicted mentions against gold ones, with intervals."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedner.cli import label_maps
from fedner.cli.arguments import AsJson
from fedner.cli.inputs import Loaded
from fedner.cli.label_maps import LabelMap
from fedner.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from fedner.scoring import Counts, Scores


@takes_reading(patients=False)
def score(
    gold: Annotated[
        Path, typer.Argument(metavar="GOLD", help="The gold annotations: a file or a folder.")
    ],
    predicted: Annotated[
        Path, typer.Argument(metavar="PREDICTED", help="The predicted ones for the same texts.")
    ],
    reading: Reading,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Another tagger's predictions: adds a paired test."),
    ] = None,
    label_map: LabelMap = None,
    type_blind: Annotated[
        bool,
        typer.Option(
            "--type-blind",
            help="Relaxed scores do not ask for the same type, nor for one that GOLD annotates.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the bootstrap.")] = 1,
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
    result: dict[str, Any] = {
        **scores.as_dict(),
        "interval": _as_dict(bootstrap_interval(units, seed=seed)),
    }
    if against is not None:
        _, others = _compare(truth, taggers[1])
        result["against"] = _as_dict(paired_test(others, units, seed=seed))
    show_json(result) if json else _show(scores, result, type_blind=type_blind)


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


def _as_dict(record: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(record)


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
    from fedner.errors import FednerError
    from fedner.scoring import score as score_entities
    from fedner.scoring import strict_by_sentence

    truth = gold.prepared(None, "longest").sentences
    found = predicted.prepared(None, "longest").sentences
    if len(truth) != len(found):
        raise FednerError(
            f"the gold file has {len(truth):,} sentences, the predicted one {len(found):,}",
            "Score files with the same sentences in the same order.",
        )
    for number, (one, other) in enumerate(zip(truth, found, strict=True), start=1):
        if one.tokens != other.tokens:
            raise FednerError(
                f"sentence {number:,} has other tokens in the two files: "
                f"{' '.join(one.tokens)[:80]!r} and {' '.join(other.tokens)[:80]!r}",
                "Score files with the same sentences in the same order.",
            )
    entities = [sentence.entities for sentence in truth]
    guesses = [sentence.entities for sentence in found]
    lengths = [len(sentence.tokens) for sentence in truth]
    scores = score_entities(entities, guesses, labels, lengths=lengths)
    return scores, strict_by_sentence(entities, guesses, labels)


def _show(scores: "Scores", result: dict[str, Any], *, type_blind: bool) -> None:
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
    interval = result["interval"]
    console.print(
        f"strict F1 {100 * interval['value']:.2f}, {interval['confidence']:.0%} interval "
        f"{100 * interval['low']:.2f} to {100 * interval['high']:.2f} (bootstrap)"
    )
    if scores.tokens.num_tokens:
        weighted, always_o = scores.tokens.weighted, scores.tokens.always_o
        console.print(
            f"token-level weighted F {100 * weighted.f1:.2f} with O included; a tagger that "
            f"always says O has {100 * always_o.f1:.2f}"
        )
    ignored = sum(scores.ignored_predicted.values())
    if ignored:
        where = "in the type-blind scores alone" if type_blind else "in no score"
        console.print(
            f"{ignored:,} predictions of types that the gold corpus does not annotate, {where}: "
            f"{', '.join(scores.ignored_predicted)}"
        )
    if "against" in result:
        test = result["against"]["difference"]
        console.print(
            f"against the other tagger: {100 * test['value']:+.2f} F1, interval "
            f"{100 * test['low']:+.2f} to {100 * test['high']:+.2f}, "
            f"p = {result['against']['p_value']:.4f}"
        )


def _cells(strict: Any, relaxed: Any) -> tuple[object, ...]:
    numbers = (*strict.measures, *relaxed.measures)
    return (relaxed.gold, relaxed.predicted, *(f"{100 * number:.1f}" for number in numbers))
