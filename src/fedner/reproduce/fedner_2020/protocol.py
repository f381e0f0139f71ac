"""How Ge et al. 2020 train, the weak baseline that they compare with, and a strong one.

The paper's protocol: 80/20 by sentence, Adam 1e-3, batch 64, no development set; the number of
epochs is not stated (15 here). Algorithm 1: a joint batch of 64, shared gradients summed by the
server. *Weak* baseline: each platform alone, the same model, batch size and number of epochs.
*Strong*: everything that the federation gets, a platform gets by itself: the better of two batch
sizes chosen on a tenth of its training part, at least as many optimizer steps, trained until it
stops improving, linear decay, local fine-tuning; the federation is trained longer as well.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fedner.reproduce.bench import Bench, Ran, Tables, merged, score_measures
from fedner.reproduce.reproduction import Cell, Inputs, Reproduction, Row, Rows, Shown, Stage
from fedner.runs.folder import FEDERATED, LOCAL_ONLY

PAPERS_OWN = ("cadec", "ade", "smm4h")
OPEN = ("ade", "psytar", "twimed")
CORPORA = (PAPERS_OWN, OPEN)
RECIPE = "ELMoNER"
FEDNER = "FedNER"
STRONG_ALONE, STRONG_FEDNER = "ELMoNER (strong baseline)", "FedNER (as the strong baseline)"
EPOCHS, BATCH_SIZE = 15, 64
STRONG_EPOCHS, FINETUNE_EPOCHS = 40, 20
# How much longer a strong pair takes than the sentences of its rounds: three trainings at home.
STRONG_COST = 3.0
PROTOCOL = (
    f"80/20 by sentence, a new split for every seed; BIO tags; batch {BATCH_SIZE}, Adam 1e-3, "
    f"{EPOCHS} epochs (not stated in the paper), dropout 0.2; word vectors frozen"
)
# What the paper leaves open, or where this differs from it: on the page of every study.
READINGS = (
    (
        "sizes as in section 4.1: characters 100, 200 filters of width 3 over characters and over "
        "words, BiLSTM 2x200; the word dimension is that of the vectors (300 in the paper)"
    ),
    (
        "readings of ours: the context encoder and the word vectors are frozen (the paper speaks "
        "of tuning embeddings and does not say which: here characters are tuned); the weights "
        "after the last epoch are scored; the norm of a step's gradient is bounded by 5; the "
        "server and every platform have an Adam of their own (Algorithm 1 is written with plain "
        "steps); shares of a joint batch are rounded by largest remainder"
    ),
    (
        "strict: position and type are those of the gold mention; relaxed: any overlap with a gold "
        "mention of the same type (the paper says nothing of the type; rows.csv has overlap "
        "without regard to type as relaxed_any_type)"
    ),
    (
        "ADR of CADEC and SMM4H is called ADE, as in the paper; a discontinuous mention is widened "
        "to its hull, and of overlapping mentions the longest stays (not stated in the paper)"
    ),
)
ALGORITHM_1 = (
    "FedNER: Algorithm 1, joint batches; shared: embeddings and word CNN; private: BiLSTM and CRF"
)
WEAK = "weak baseline: the same model alone, same batch size and epochs"
STRONG = (
    "strong baseline: the better of two batch sizes, at least the federation's optimizer steps, "
    f"until it stops improving, linear decay, {FINETUNE_EPOCHS} epochs of fine-tuning; FedNER "
    f"beside it: {STRONG_EPOCHS} epochs, {BATCH_SIZE} sentences of every platform a step, private: "
    "emissions and CRF, the same decay and fine-tuning (examples/medical.toml)"
)


def paper_tables(inputs: Inputs, recipe: str = RECIPE, shared: str = "fedner") -> dict[str, Any]:
    """Return the settings of Algorithm 1 as published."""
    adam = {"name": "adam", "learning_rate": 0.001}
    return {
        "model": {"recipe": recipe},
        "partition": {"shared": shared},
        "algorithm": {"name": "fedner", "batching": "joint", "server_optimizer": adam},
        "local_optimizer": {"learning_rate": 0.001},
        "training": _length(inputs, EPOCHS),
    }


def strong_tables(inputs: Inputs) -> dict[str, Any]:
    """Return the settings of examples/medical.toml, the strong baseline beside them."""
    adam = {"name": "adam", "learning_rate": 0.001, "schedule": "linear"}
    training: dict[str, Any] = {
        "baselines": [LOCAL_ONLY],
        "finetune_epochs": 1 if inputs.is_rehearsal else FINETUNE_EPOCHS,
    }
    if inputs.is_rehearsal:
        training |= {"baseline_epochs": 1, "patience": 1}
    return {
        "model": {"recipe": RECIPE},
        "partition": {"shared": "encoder"},
        "algorithm": {"name": "fedner", "batching": "each", "server_optimizer": adam},
        "local_optimizer": {"learning_rate": 0.001, "schedule": "linear"},
        "training": merged(_length(inputs, STRONG_EPOCHS), training),
    }


def _length(inputs: Inputs, epochs: int) -> dict[str, Any]:
    how_long = {"rounds": 2} if inputs.is_rehearsal else {"epochs": epochs}
    return {"batch_size": BATCH_SIZE, "evaluate_every": 0, "checkpoint_every": 0, **how_long}


def alone_rows(
    bench: Bench,
    model: str,
    platform: str,
    seed: int,
    tables: Tables,
    platforms: Sequence[dict[str, Any]] | None = None,
) -> list[Row]:
    """Train the weak baseline of a platform; return its row."""
    settings = bench.settings(seed, tables, platforms)
    epochs = 1 if bench.inputs.is_rehearsal else EPOCHS
    scores = bench.local(settings, platform, epochs=epochs, batch_size=BATCH_SIZE)
    return [Row({"model": model, "platform": platform}, score_measures(scores))]


def federated_rows(ran: Ran, models: dict[str, str]) -> list[Row]:
    """Return a row for every platform and method of a federation.

    Args:
        ran: The federation.
        models: What tables call each method.
    """
    return [
        Row({"model": models[method], "platform": platform}, score_measures(scores))
        for platform, held in ran.scores.platforms.items()
        for method, scores in held.methods.items()
    ]


def fedner_rows(
    bench: Bench,
    cell: Cell,
    tables: Tables,
    platforms: Sequence[dict[str, Any]] | None = None,
    model: str = FEDNER,
) -> list[Row]:
    """Train a federation; return a row for every platform."""
    settings = bench.settings(int(cell.factors["repeat"]), tables, platforms)
    return federated_rows(bench.federated(cell.key, settings), {FEDERATED: model})


def strong_rows(
    bench: Bench, cell: Cell, platforms: Sequence[dict[str, Any]] | None = None
) -> list[Row]:
    """Train the strong baseline and the federation beside it; two rows for every platform."""
    settings = bench.settings(int(cell.factors["repeat"]), strong_tables(bench.inputs), platforms)
    ran = bench.federated(cell.key, settings)
    return federated_rows(ran, {LOCAL_ONLY: STRONG_ALONE, FEDERATED: STRONG_FEDNER})


def kept(bench: Bench, share: float) -> list[dict[str, Any]]:
    """Return the platforms with a share of their training parts."""
    return [bench.entry(each, split={"keep": share}) for each in bench.inputs.platforms]


def thousands(inputs: Inputs, platform: str | None = None, epochs: int = EPOCHS) -> float:
    """Return how many thousand sentences a training sees, of one platform or of all."""
    names = inputs.names if platform is None else (platform,)
    total = sum(inputs.platform(name).num_sentences for name in names)
    return max(0.001, (1 if inputs.is_rehearsal else epochs) * 0.8 * total / 1000)


def alone_work(model: str, platform: str, seed: int) -> str:
    """Return the name of a weak baseline's training on the whole training part."""
    return f"alone/{model}/{platform}/{seed}"


def fedner_work(model: str, shared: str, seed: int) -> str:
    """Return the name of a federation's training on the whole training parts."""
    return f"fedner/{model}/{shared}/{seed}"


def strong_work(seed: int) -> str:
    """Return the name of the strong pair's training on the whole training parts."""
    return f"strong/{seed}"


def strong_cost(inputs: Inputs) -> float:
    """Return the cost of a strong pair."""
    return STRONG_COST * thousands(inputs, epochs=STRONG_EPOCHS)


def trained_study(
    name: str,
    title: str,
    stages: tuple[Stage, ...],
    run: Callable[[Cell, Any], Sequence[Row]],
    show: Callable[[Rows, Inputs], Shown],
    *settings: str,
) -> Reproduction:
    """Return a study of this paper that trains taggers; its page states protocol and readings."""
    return Reproduction(
        name=name,
        source="Ge et al. 2020",
        title=title,
        layout="federation",
        corpora=CORPORA,
        stages=stages,
        run=run,
        show=show,
        needs=frozenset({"words", "context"}),
        settings=(PROTOCOL, *READINGS, ALGORITHM_1, *settings),
        least_platforms=2,
    )
