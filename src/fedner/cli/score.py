"""`fedner score`: predicted mentions against gold ones, with intervals."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedner.cli.arguments import AsJson
from fedner.cli.inputs import Loaded

if TYPE_CHECKING:
    from fedner.scoring import Counts, Scores


def score(
    gold: Annotated[Path, typer.Argument(help="The gold annotations: a file or a folder.")],
    predicted: Annotated[Path, typer.Argument(help="The predicted ones for the same texts.")],
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Another tagger's predictions: adds a paired test."),
    ] = None,
    format: Annotated[str, typer.Option("--format", help="The format of the inputs.")] = "auto",
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Skip and count what cannot be placed.")
    ] = False,
    type_blind: Annotated[
        bool, typer.Option("--type-blind", help="Relaxed scores do not ask for the same type.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the bootstrap.")] = 1,
    json: AsJson = False,
) -> None:
    """Score PREDICTED against GOLD: strict, relaxed and token-level, with a bootstrap interval.

    Column files are compared sentence by sentence, other formats document by document (by id).
    """
    from fedner.cli.inputs import load
    from fedner.cli.output import show_json
    from fedner.scoring import bootstrap_interval, paired_test

    truth = load(gold, format, lenient=lenient)
    scores, units = _compare(truth, load(predicted, format, lenient=lenient))
    result: dict[str, Any] = {
        **scores.as_dict(),
        "interval": _as_dict(bootstrap_interval(units, seed=seed)),
    }
    if against is not None:
        _, others = _compare(truth, load(against, format, lenient=lenient))
        result["against"] = _as_dict(paired_test(others, units, seed=seed))
    show_json(result) if json else _show(scores, result, type_blind=type_blind)


def _as_dict(record: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(record)


def _compare(gold: Loaded, predicted: Loaded) -> "tuple[Scores, list[Counts]]":
    """Return all scores and the strict counts of each unit of the bootstrap."""
    from fedner.scoring import Scores, scores_by_document

    if gold.format == predicted.format == "columns":
        return _compare_columns(gold, predicted)
    by_document = scores_by_document(gold.corpus, predicted.corpus)
    return sum(by_document, Scores()), [scores.strict_micro for scores in by_document]


def _compare_columns(gold: Loaded, predicted: Loaded) -> "tuple[Scores, list[Counts]]":
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
    labels = gold.corpus.labels
    lengths = [len(sentence.tokens) for sentence in truth]
    scores = score_entities(entities, guesses, labels, lengths=lengths)
    return scores, strict_by_sentence(entities, guesses, labels)


def _show(scores: "Scores", result: dict[str, Any], *, type_blind: bool) -> None:
    from fedner.cli.output import console, table

    relaxed = scores.relaxed_any_type if type_blind else scores.relaxed
    relaxed_micro = scores.relaxed_any_type_micro if type_blind else scores.relaxed_micro
    rows = [(label, *_cells(scores.strict[label], relaxed[label])) for label in scores.labels]
    rows.append(("all (micro)", *_cells(scores.strict_micro, relaxed_micro)))
    columns = ("type", "gold", "found", "P", "R", "F1", "relaxed P", "relaxed R", "relaxed F1")
    console.print(table("Strict and relaxed scores, %", columns, rows))
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
        console.print(f"{ignored:,} predictions of types that the gold corpus does not annotate")
    if "against" in result:
        test = result["against"]["difference"]
        console.print(
            f"against the other tagger: {100 * test['value']:+.2f} F1, interval "
            f"{100 * test['low']:+.2f} to {100 * test['high']:+.2f}, "
            f"p = {result['against']['p_value']:.4f}"
        )


def _cells(strict: Any, relaxed: Any) -> tuple[object, ...]:
    numbers = (*strict.measures, *relaxed.measures)
    return (strict.gold, strict.predicted, *(f"{100 * number:.2f}" for number in numbers))
