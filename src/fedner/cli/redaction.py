"""`fedner redaction`: the key of pseudonyms, and a threshold for a wanted recall."""

from dataclasses import replace
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.cli import label_maps
from fedner.cli.arguments import AsJson, MovedContext, MovedVectors, OfPlatform, TaggerFolder
from fedner.cli.label_maps import LabelMap
from fedner.cli.reading import Reading, takes_reading
from fedner.cli.redact_arguments import KeepOption, RemoveOption
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.corpus.document import Corpus
    from fedner.inference.predict import Predictor
    from fedner.inference.removal_scores import ScoredDocument
    from fedner.inference.threshold_file import ChosenThreshold
    from fedner.scoring import Interval

app = typer.Typer(
    help="What `fedner redact` needs: a key, and a threshold for the recall you want.",
    no_args_is_help=True,
)

DataPath = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="Annotated documents that the tagger was not trained on."),
]
RecallOption = Annotated[
    float, typer.Option("--recall", help="The share of mentions to remove, e.g. 0.99.")
]
EachTypeOption = Annotated[
    bool, typer.Option("--each-type", help="Every type by itself has to reach the recall.")
]
MostLostOption = Annotated[
    float, typer.Option("--most-lost", help="The share of other words that may be lost.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Where to write the threshold; by default into the tagger's folder."
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", help="The seed that decides which documents choose the threshold.")
]


@app.command("key")
def key(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")],
    json: AsJson = False,
) -> None:
    """Make a key for pseudonyms and shifted dates. Keep it secret: with it they can be undone."""
    from fedner.cli.output import console, show_json, show_place
    from fedner.inference.home_key import make_key

    made = make_key(path)
    if json:
        show_json({"key": path, "fingerprint": made.fingerprint})
        return
    show_place("new key:", path, f" (fingerprint {made.fingerprint})")
    console.print("Keep it secret, and keep a copy: without it pseudonyms change.", style="dim")


@app.command("calibrate")
@takes_reading()
def calibrate(
    model: TaggerFolder,
    data: DataPath,
    recall: RecallOption,
    reading: Reading,
    platform: OfPlatform = None,
    label_map: LabelMap = None,
    remove: RemoveOption = None,
    keep: KeepOption = None,
    each_type: EachTypeOption = False,
    most_lost: MostLostOption = 0.2,
    out: OutOption = None,
    seed: SeedOption = 1,
    vectors: MovedVectors = None,
    context: MovedContext = None,
    json: AsJson = False,
) -> None:
    """Choose the threshold of `fedner redact` for the recall you want, and say what remains.

    Half of the documents choose it, the other half measures; a patient's documents stay together.
    """
    from fedner.cli.output import show_json
    from fedner.inference.calibration import HALF, Wish
    from fedner.inference.calibration import calibrate as choose
    from fedner.inference.predict import Predictor
    from fedner.inference.redact import removed_types
    from fedner.inference.threshold_file import NAME, ChosenThreshold, write_threshold
    from fedner.runs.folder import tagger_folder

    wish = Wish(recall, each_type, most_lost, highest=HALF)
    folder = tagger_folder(model, platform)
    corpus = _corpus(data, reading, label_map)
    predictor = Predictor.load(folder, vectors=vectors, context=context)
    types = removed_types(predictor.model.space.labels, remove or (), keep or ())
    unknown = _check_types(corpus, predictor, types)
    found = choose(_scored(corpus, predictor, types), wish, seed=seed)
    chosen = ChosenThreshold(predictor.model.digest, types, found)
    place = folder / NAME if out is None else out
    write_threshold(place, chosen)
    if json:
        show_json({"written": place, "not_known_to_the_tagger": unknown, **_as_json(chosen)})
    else:
        _show(chosen, place, unknown)


def _corpus(data: Path, reading: Reading, assignments: list[str] | None) -> "Corpus":
    from fedner.corpus.label_map import relabel

    corpus = reading.load(data).corpus
    label_map = label_maps.parse(assignments)
    label_maps.check(label_map, [corpus])
    return relabel(corpus, label_map).corpus


def _check_types(
    corpus: "Corpus", predictor: "Predictor", types: tuple[str, ...]
) -> dict[str, int]:
    """Return how many mentions have types that the tagger does not know.

    Raises:
        FednerError: The data have none of the types that are removed.
    """
    from collections import Counter

    counts = Counter(span.label for document in corpus for span in document.spans)
    if not any(counts[label] for label in types):
        raise FednerError(
            f"the data have no mention of {', '.join(types)}; found "
            f"{', '.join(sorted(counts)) or 'no mentions at all'}",
            "Rename the types of the data with --label-map OLD=NEW.",
        )
    known = set(predictor.model.space.labels)
    return {label: count for label, count in sorted(counts.items()) if label not in known}


def _scored(
    corpus: "Corpus", predictor: "Predictor", types: tuple[str, ...]
) -> "list[ScoredDocument]":
    """Return how far each mention is removed, in texts that are read as `redact` reads them."""
    from fedner.inference.reading import read_documents
    from fedner.inference.removal import token_finder
    from fedner.inference.removal_scores import score_tokens

    texts = (replace(document, segments=None) for document in corpus)
    tokens = read_documents(token_finder(predictor, types), texts)
    return list(score_tokens(tokens, corpus, types))


def _as_json(chosen: "ChosenThreshold") -> dict[str, object]:
    found = chosen.calibration
    return {
        "types": chosen.types,
        "threshold": found.threshold,
        "recall": 1 - found.measured.overall.share.value,
        "wanted": found.wish,
        "chosen_on": found.chosen_on,
        "measured": found.measured,
    }


def _show(chosen: "ChosenThreshold", place: Path, unknown: dict[str, int]) -> None:
    from fedner.cli.output import console, show_place, table
    from fedner.inference.calibration import remain_words

    found = chosen.calibration
    measured = found.measured
    rows = [
        (label, each.mentions, each.missed, _thousand(each.share.value), _range(each.share))
        for label, each in (*measured.by_type.items(), ("all", measured.overall))
    ]
    columns = ("type", "mentions", "remain", "of 1,000", "95 % interval")
    title = (
        f"What remains: {measured.groups:,} patients or documents that played no part in the choice"
    )
    console.print(table(title, columns, rows))
    console.print(f"{remain_words('mentions', measured).capitalize()}.")
    lost = measured.lost
    console.print(
        f"Of 1,000 other words about {_thousand(lost.value)} are removed as well: {_range(lost)}."
    )
    wanted, reached = found.wish.recall, 1 - measured.overall.share.value
    console.print(
        f"Threshold {found.threshold:g}, chosen on {found.chosen_on:,} mentions for a recall of "
        f"{100 * wanted:g} %; measured on others: {100 * reached:.1f} %."
    )
    if 1 - measured.overall.share.low < wanted:
        console.print("That is clearly less than you asked for: ask for more.", style="yellow")
    for label, count in unknown.items():
        said = f"not counted: {count:,} mentions of {label}, a type that the tagger does not know"
        console.print(said, style="yellow")
    show_place("written to", place)


def _thousand(share: float) -> str:
    return f"{1000 * share:.0f}" if share >= 0.0095 else f"{1000 * share:.1f}".removesuffix(".0")


def _range(share: "Interval") -> str:
    return f"{floor(1000 * share.low):,} to {ceil(1000 * share.high):,}"
