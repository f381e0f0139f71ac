"""What differential privacy costs: F1 at epsilon 1, 3 and 8 against training without it.

The settings are those of examples/btc-dp.toml where all platforms have the same types, and of
examples/medical-dp.toml where they have types of their own. A repeat is another seed of sample and
noise on one split and the same first weights; training without DP has no noise and is run once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedner.reproduce.bench import Bench, Ran, Tables, merged, score_measures
from fedner.reproduce.beyond.plans import cost_of, has_same_types
from fedner.reproduce.estimates import estimate, estimated, values_of
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Factor,
    Figure,
    Inputs,
    Panel,
    Reproduction,
    Row,
    Rows,
    Series,
    Shown,
    Table,
)
from fedner.reproduce.tagging_2021.runs import ALL, largest
from fedner.runs.folder import FEDERATED
from fedner.runs.records import PlatformSpent
from fedner.scoring import Scores
from fedner.settings import Settings

NAME = "dp-cost"
SEED = 1  # of split, first weights and batches, in every run
EPSILONS = (1, 3, 8)
EPOCHS, PLAIN_EPOCHS, PRIVATE_EPOCHS = 60, 15, 20
NOT_APPLICABLE = "–"
_ADAM = {"name": "adam", "learning_rate": 0.01, "schedule": "linear"}
# What both example files say; each arm changes some of it.
BASE: Tables = {
    "model": {"recipe": "DP-BI-LSTM-CRF"},
    "algorithm": {"name": "fedner", "server_optimizer": _ADAM},
    "privacy": {
        "mechanism": "unit-central",
        "unit": "sentence",
        "max_grad_norm": 1.0,
        "epsilon": 3.0,
        "delta": 1e-5,
        "simulation": True,
        "tuned_on": "protected",
        "uncharged": ["the settings were chosen on another split of BTC"],
    },
    "training": {"epochs": EPOCHS, "batch_size": 2048, "evaluate_every": 0},
}
SAME_TYPES: Tables = {"partition": {"shared": "everything"}}
OWN_TYPES: Tables = {
    "partition": {"shared": "encoder"},
    "local_optimizer": {"learning_rate": 0.01, "schedule": "linear"},
}
# Without noise small batches at a small rate are better, and dropout helps.
PLAIN_TABLES: Tables = {
    "model": {"dropout": 0.2},
    "algorithm": {"server_optimizer": {"learning_rate": 0.001}},
    "local_optimizer": {"learning_rate": 0.001},
    "privacy": {"mechanism": "none"},
    "training": {"epochs": PLAIN_EPOCHS, "batch_size": 64},
}
NOISE_AT_PLATFORMS: Tables = {"privacy": {"mechanism": "unit-local"}}
SOFTMAX: Tables = {"model": {"decoder": "softmax"}}
FROZEN: Tables = {
    "privacy": {"private_part": "frozen", "private_epochs": PRIVATE_EPOCHS},
    "local_optimizer": {"learning_rate": 0.001},
}
# Two rounds of tiny batches; noise and epsilon are computed as in the study.
REHEARSED: Tables = {
    "privacy": {"private_epochs": 1},
    "training": {"rounds": 2, "batch_size": 16},
}
SETTINGS = (
    (
        "DP-BI-LSTM-CRF: frozen word vectors, fixed word shapes and a frozen encoder, BiLSTM "
        "2x200, CRF. Where all platforms have the same types, everything is shared "
        "(examples/btc-dp.toml); else emissions and CRF are private, clipped together with the "
        "shared part and noised by their platform (examples/medical-dp.toml)."
    ),
    (
        "DP: every sentence is protected (add or remove one), delta 1e-5 by PLD, max_grad_norm 1, "
        f"joint Poisson batches of 2,048, {EPOCHS} epochs, Adam 0.01 with linear decay; a trusted "
        "server adds the noise to the sum (unit-central) unless the row says otherwise. It is "
        "simulated: sample and noise come from a seed. The settings were chosen on another split "
        "of BTC, which epsilon does not cover."
    ),
    (
        f"No DP is trained as one would without it: batches of 64, {PLAIN_EPOCHS} epochs, Adam "
        "0.001, dropout 0.2."
    ),
    (
        "A repeat is a seed of sample and noise. Split and first weights are the same in all runs "
        f"(seed {SEED}), and no DP, which has no noise, is run once: deviations and intervals are "
        "over noise alone and say nothing of other splits."
    ),
)
FROZEN_WORDS = (
    "Private part frozen: it keeps its first weights while updates are transmitted, and each "
    f"platform then trains it for {PRIVATE_EPOCHS} epochs at 0.001 without noise. Such taggers "
    "must stay at home."
)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to train.

    Attributes:
        label: What tables call it.
        tables: What it changes.
        keep: The share of every platform's training part that is used.
        is_noised: Whether there is noise, so that its seeds are repeats.
    """

    label: str
    tables: Tables
    keep: float = 1.0
    is_noised: bool = True


def _epsilon_label(epsilon: float, how: str = "") -> str:
    return f"epsilon {epsilon:g}" + (f", {how}" if how else "")


def _at(epsilon: float, how: str = "", changes: Tables | None = None, keep: float = 1.0) -> Arm:
    asked = {"privacy": {"epsilon": float(epsilon)}}
    return Arm(_epsilon_label(epsilon, how), merged(asked, changes or {}), keep)


PLAIN = Arm("no DP", PLAIN_TABLES, is_noised=False)
AT_PLATFORMS, WITH_SOFTMAX = "noise at every platform", "softmax"
FROZEN_ARM = _at(3, "private part frozen, then trained at home without noise", FROZEN)
ARMS = (
    PLAIN,
    *(_at(epsilon) for epsilon in EPSILONS),
    _at(8, AT_PLATFORMS, NOISE_AT_PLATFORMS),
    _at(3, WITH_SOFTMAX, SOFTMAX),
    _at(8, WITH_SOFTMAX, SOFTMAX),
    _at(3, "25 % of the data", keep=0.25),
    _at(3, "50 % of the data", keep=0.5),
)


def arms(inputs: Inputs) -> tuple[Arm, ...]:
    """Return all ways to train; a private part is there only where types differ."""
    return ARMS if has_same_types(inputs) else (*ARMS, FROZEN_ARM)


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a run for every arm and seed of noise; one without noise."""
    return [
        Cell(
            f"{arm.label}/repeat-{seed}",
            {"arm": arm.label, "repeat": seed},
            cost_of(inputs, EPOCHS * arm.keep if arm.is_noised else PLAIN_EPOCHS),
        )
        for seed in inputs.seeds
        for arm in arms(inputs)
        if arm.is_noised or seed == inputs.first_seed
    ]


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train one federation."""
    arm = next(each for each in arms(bench.inputs) if each.label == cell.factors["arm"])
    settings = settings_of(bench, arm, int(cell.factors["repeat"]))
    return rows_of(bench.federated(cell.key, settings), cell.factors)


def settings_of(bench: Bench, arm: Arm, noise_seed: int) -> Settings:
    """Return the settings of a run.

    Args:
        bench: Where it is run.
        arm: How it is trained.
        noise_seed: Names sample and noise; split and first weights stay.
    """
    inputs = bench.inputs
    partition = SAME_TYPES if has_same_types(inputs) else OWN_TYPES
    seed = {"privacy": {"noise_seed": noise_seed}}
    tables = merged(BASE, partition, arm.tables, seed)
    entries = [bench.entry(each, split={"keep": arm.keep}) for each in inputs.platforms]
    return bench.settings(SEED, _rehearsed(tables) if inputs.is_rehearsal else tables, entries)


def _rehearsed(tables: Tables) -> Tables:
    training = {key: value for key, value in tables["training"].items() if key != "epochs"}
    return merged({**tables, "training": training}, REHEARSED)


def rows_of(ran: Ran, factors: Mapping[str, Factor]) -> list[Row]:
    """Return a row for every platform of a run, and one over all their test parts.

    That one has the F1 of all counts together, token-level F as the mean of the parts weighted by
    their tokens, and the epsilon of the worst-off platform.
    """
    found = {name: each.methods[FEDERATED] for name, each in ran.scores.platforms.items()}
    apart = [
        Row(
            {**factors, "platform": name},
            {**_measures([scores]), **_spent([ran.spent[name]] if name in ran.spent else [])},
        )
        for name, scores in sorted(found.items())
    ]
    whole = {**_measures(list(found.values())), **_spent(list(ran.spent.values()))}
    return [*apart, Row({**factors, "platform": ALL}, whole)]


def _measures(parts: Sequence[Scores]) -> dict[str, float | None]:
    """Return the measures of some test parts together."""
    merged_counts = score_measures(sum(parts, Scores()))
    spans = {key: each for key, each in merged_counts.items() if key.startswith("strict_")}
    return {
        **spans,
        "token_f1": _by_tokens([(each.tokens.weighted.f1, each) for each in parts]),
        "always_o_f1": _by_tokens([(each.tokens.always_o.f1, each) for each in parts]),
    }


def _by_tokens(measured: Sequence[tuple[float, Scores]]) -> float:
    """Return the mean over test parts in percent, each weighing as many tokens as it has."""
    total = sum(scores.tokens.num_tokens for _, scores in measured)
    return 100 * sum(f1 * scores.tokens.num_tokens for f1, scores in measured) / max(1, total)


def _spent(spends: Sequence[PlatformSpent]) -> dict[str, float | None]:
    return {
        "epsilon": largest([each.pld for each in spends]),
        "epsilon_rdp": largest([each.rdp for each in spends]),
    }


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return F1 by arm and platform, token-level F and both epsilons, and F1 against epsilon."""
    return Shown((_costs(rows, inputs), _tokens(rows, inputs)), (_figure(rows),))


def _score(rows: Rows, label: str, measure: str = "strict_f1", platform: str = ALL) -> Entry:
    return estimated(rows, measure, arm=label, platform=platform)


def _epsilon(rows: Rows, arm: Arm, measure: str = "epsilon") -> Entry:
    """Return what an arm spent: the same with every seed of noise."""
    if not arm.is_noised:
        return NOT_APPLICABLE
    found = values_of(rows, measure, arm=arm.label, platform=ALL)
    return f"{max(found):.2f}" if found else None


def _share(rows: Rows, arm: Arm) -> Entry:
    """Return the F1 of each repeat as a share of the one run without DP."""
    plain = values_of(rows, "strict_f1", arm=PLAIN.label, platform=ALL)
    found = values_of(rows, "strict_f1", arm=arm.label, platform=ALL)
    if not plain:
        return None
    return estimate([100 * each / plain[0] for each in found]) if plain[0] else NOT_APPLICABLE


def _costs(rows: Rows, inputs: Inputs) -> Table:
    lines = [
        (
            arm.label,
            _epsilon(rows, arm),
            *(_score(rows, arm.label, platform=each) for each in (*inputs.names, ALL)),
            _share(rows, arm),
        )
        for arm in arms(inputs)
    ]
    columns = ("run", "epsilon (PLD)", *inputs.names, ALL, f"share of {PLAIN.label}, %")
    notes = (
        (
            "all: over the counts of all test parts together. Epsilon is that of the worst-off "
            "platform, from the steps and sampling probabilities that were executed."
        ),
        "Repeats are seeds of noise on one split; no DP is one run.",
        *(() if has_same_types(inputs) else (FROZEN_WORDS,)),
    )
    return Table(NAME, "Strict F1 with and without DP", columns, tuple(lines), notes)


def _tokens(rows: Rows, inputs: Inputs) -> Table:
    lines = [
        (
            arm.label,
            _epsilon(rows, arm),
            _epsilon(rows, arm, "epsilon_rdp"),
            _score(rows, arm.label, "token_f1"),
            _score(rows, arm.label, "always_o_f1"),
        )
        for arm in arms(inputs)
    ]
    columns = ("run", "epsilon (PLD)", "epsilon (RDP)", "token F, O included", "always O")
    note = (
        "Token-level F weighted by tag, O included, over all test parts, each weighing as many "
        "tokens as it has. always O: what a tagger that finds nothing has."
    )
    title = "Token-level F, and epsilon by two accountants"
    return Table(f"{NAME}-tokens", title, columns, tuple(lines), (note,))


def _figure(rows: Rows) -> Figure:
    plain = estimated(rows, "strict_f1", arm=PLAIN.label, platform=ALL)
    curves = (("CRF", ""), (WITH_SOFTMAX, WITH_SOFTMAX))
    series = [
        Series(
            name,
            tuple(
                estimated(rows, "strict_f1", arm=_epsilon_label(epsilon, how), platform=ALL)
                for epsilon in EPSILONS
            ),
        )
        for name, how in curves
    ]
    series.append(Series(PLAIN.label, (plain,) * len(EPSILONS)))
    panel = Panel(
        "noise at the server",
        tuple(map(str, EPSILONS)),
        tuple(series),
        "epsilon",
        places=tuple(map(float, EPSILONS)),
    )
    return Figure(NAME, "Strict F1 of all test parts against epsilon", (panel,))


DP_COST = Reproduction(
    name=NAME,
    source="beyond both papers",
    title="what differential privacy costs: F1 at epsilon 1, 3 and 8 against none",
    layout="federation",
    corpora=(tuple(f"btc-{part}" for part in "abefgh"), ("ade", "psytar", "twimed")),
    stages=(cells,),
    run=run,
    show=show,
    needs=frozenset({"words", "context"}),
    settings=SETTINGS,
    repeats=5,
)
