"""A platform that joins when the others of its domain have finished, as a part of other studies.

Its partners train a model that is released (`fedner train`), it receives that, fine-tunes at home
and sends nothing (`fedner join`). Fewer settings are cross-validated than `fedner join` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedner.corpus.document import Corpus
from fedner.federated.answering import one_thread
from fedner.reproduce.bench import (
    Bench,
    Tables,
    holds_run,
    merged,
    remove_run,
    score_measures,
)
from fedner.reproduce.beyond.plans import rehearsed
from fedner.reproduce.reproduction import Factor, Inputs, Row
from fedner.runs.joining.candidates import ARMS, Arm, Grid, Setting, schedule
from fedner.runs.joining.join import JoinOptions, join
from fedner.runs.joining.record import RECEIVED
from fedner.runs.simulation import train_run
from fedner.settings import PlatformEntry, Settings

KEPT = "kept"  # what cross-validation keeps of joined, local-only and their average
METHODS = (RECEIVED, "joined", "local-only", "average")
ROUNDS, BATCH_SIZE, LEARNING_RATE, DROPOUT = 1000, 32, 2e-3, 0.3
# Learning rate and pull of each arm: a part of those that `fedner join` tries.
_TRIED: Mapping[Arm, tuple[tuple[float, float], ...]] = {
    "joined": ((2e-3, 30), (4e-3, 3), (2e-3, 0)),
    "described": ((4e-3, 0),),
    "free": ((2e-3, 0), (4e-3, 0)),
}
JOINED_WORDS = (
    f"Joined: the other platforms of the domain train a model with a described head together "
    f"({ROUNDS} rounds of {BATCH_SIZE} sentences each, Adam {LEARNING_RATE:g} with linear decay, "
    f"dropout {DROPOUT}, weights by the root of the size, everything shared); the newcomer "
    "receives it, sends nothing, and keeps what is best by three folds of its own sentences: "
    "joined (three settings), local-only (one with a described head, two with a free one), or "
    "their average."
)
# Trainings of a newcomer over all its sentences: three folds of six settings, two learning curves.
TRAININGS = 3 * sum(map(len, _TRIED.values())) * 2 / 3 + 2 * 1.75


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Who joins.

    Attributes:
        entry: As a federation file has it.
        num_sentences: How many sentences it trains on, about.
        corpus: Its texts where they are not those of the inputs.
        own: How many of its training sentences are used; None takes all.
        types: Descriptions of its types; a type without one is described by its name.
    """

    entry: Mapping[str, Any]
    num_sentences: int
    corpus: Corpus | None = None
    own: int | None = None
    types: Mapping[str, str] | None = None


def partner_tables(inputs: Inputs, types: Mapping[str, str], changes: Tables | None = None) -> Any:
    """Return the settings of the partners, as examples/joining.toml has them.

    Args:
        inputs: What the study runs on.
        types: Public descriptions of types.
        changes: What the study sets otherwise.
    """
    adam = {"name": "adam", "learning_rate": LEARNING_RATE, "schedule": "linear"}
    recipe = "CNN-CLSTM-CRF" if inputs.context == "none" else "DP-BI-LSTM-CRF"
    tables = {
        "types": dict(types),
        "model": {"recipe": recipe, "head": "described", "dropout": DROPOUT},
        "partition": {"shared": "everything"},
        "algorithm": {
            "name": "fedner",
            "batching": "each",
            "weighting": "sqrt-size",
            "server_optimizer": adam,
        },
        "training": {
            "rounds": ROUNDS,
            "batch_size": BATCH_SIZE,
            "evaluate_every": 0,
            "checkpoint_every": 0,
        },
    }
    return rehearsed(merged(tables, changes or {}), inputs)


def grid_for(num_sentences: int, *, is_rehearsal: bool) -> Grid:
    """Return the settings that a newcomer of so many sentences tries."""
    if is_rehearsal:
        return {arm: (Setting(2e-3, 1),) for arm in ARMS}
    usual = schedule(num_sentences)
    return {
        arm: tuple(
            Setting(rate, usual.epochs, pull, usual.batch_size, is_scheduled=True)
            for rate, pull in rows
        )
        for arm, rows in _TRIED.items()
    }


def joined_rows(
    bench: Bench,
    key: str,
    factors: Mapping[str, Factor],
    partners: Settings,
    newcomer: Newcomer,
    corpora: Mapping[str, Corpus] | None = None,
) -> list[Row]:
    """Let a platform join; return a row for each method and one for what is kept.

    Args:
        bench: Where it runs.
        key: The cell's; what was stopped is taken up again.
        factors: The cell's.
        partners: Who trains before.
        newcomer: Who joins.
        corpora: The partners' texts in place of the inputs' own.
    """
    folder = bench.inputs.out / "under-way" / key.replace("/", "-")
    run, out = folder / "partners", folder / "joined"
    entry = PlatformEntry.model_validate(dict(newcomer.entry))
    corpus = newcomer.corpus
    if corpus is None and entry.split.test_data is None:
        corpus = bench.corpus(entry.name)
    held = bench.corpora_of(partners) if corpora is None else dict(corpora)
    with one_thread():
        train_run(partners, run, resume=holds_run(run), corpora=held)
        options = _options(bench.inputs, partners.seed, newcomer)
        joined, _ = join(run, entry, out, options, corpus=corpus)
    remove_run(folder)
    scores = {
        name: joined.results[name].outcome.scores for name in METHODS if name in joined.results
    }
    named = {**scores, KEPT: scores[joined.kept]}
    return [
        Row({**factors, "platform": entry.name, "method": name}, score_measures(each))
        for name, each in named.items()
    ]


def _options(inputs: Inputs, seed: int, newcomer: Newcomer) -> JoinOptions:
    size = newcomer.own or newcomer.num_sentences
    return JoinOptions(
        types=newcomer.types or {},
        own=newcomer.own,
        seed=seed,
        device=inputs.device,
        grid=grid_for(size, is_rehearsal=inputs.is_rehearsal),
    )
