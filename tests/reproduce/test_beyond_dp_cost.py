"""`dp-cost`: its arms are those of the example files; epsilon, sums and shares are right."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from beyond_rehearsal import (
    Rehearsed,
    assert_whole,
    figure_named,
    mean_of,
    rehearse,
    table_named,
)

from fedner.reproduce.bench import Bench, Ran
from fedner.reproduce.beyond.dp_cost import (
    ALL,
    ARMS,
    DP_COST,
    FROZEN_ARM,
    PLAIN,
    Arm,
    arms,
    rows_of,
    settings_of,
)
from fedner.reproduce.inputs import rehearsal_context, stored
from fedner.reproduce.reproduction import Inputs, PlatformInput, Row
from fedner.runs.checks import read_settings
from fedner.scoring import Counts, Scores, TokenCounts
from fedner.settings import Settings
from run_records import platform_of, platform_spent, run_scores

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BTC, MEDICAL = "btc-dp.toml", "medical-dp.toml"
# The assignments by which the tables of docs/results.md were measured, beyond the example files.
ASSIGNED = {
    "no DP": (
        "privacy.mechanism=none",
        "training.batch_size=64",
        "training.epochs=15",
        "model.dropout=0.2",
        "algorithm.server_optimizer.learning_rate=0.001",
        "local_optimizer.learning_rate=0.001",
    ),
    "epsilon 1": ("privacy.epsilon=1.0",),
    "epsilon 3": ("privacy.epsilon=3.0",),
    "epsilon 8": ("privacy.epsilon=8.0",),
    "epsilon 8, noise at every platform": (
        "privacy.mechanism=unit-local",
        "privacy.epsilon=8.0",
    ),
    "epsilon 3, softmax": ("model.decoder=softmax", "privacy.epsilon=3.0"),
    "epsilon 8, softmax": ("model.decoder=softmax", "privacy.epsilon=8.0"),
    "epsilon 3, 25 % of the data": ("privacy.epsilon=3.0", "KEEP=0.25"),
    "epsilon 3, 50 % of the data": ("privacy.epsilon=3.0", "KEEP=0.5"),
    "epsilon 3, private part frozen, then trained at home without noise": (
        "privacy.private_part=frozen",
        "privacy.private_epochs=20",
        "local_optimizer.learning_rate=0.001",
        "privacy.epsilon=3.0",
    ),
}
# Where corpora and embeddings lie and what they are called there, and words for people.
CANNOT_MATTER = {
    "": ("title",),
    "embeddings": ("words", "context", "cache"),
    "privacy": ("uncharged",),
    "platforms": ("data", "format", "lenient", "labels"),
}


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(DP_COST, tmp_path_factory.mktemp("dp-cost"))


def declared(name: str) -> list[dict[str, Any]]:
    platforms = tomllib.loads((EXAMPLES / name).read_text("utf-8"))["platforms"]
    assert len(platforms) == {BTC: 6, MEDICAL: 3}[name]
    return list(platforms)


def inputs_for(name: str, folder: Path) -> Inputs:
    """Platforms called as in an example file, without a text; other types where it names none."""
    platforms = []
    for each in declared(name):
        place = folder / f"{each['name']}.jsonl"
        place.touch()
        labels = tuple(each.get("labels", (f"Type-of-{each['name']}",)))
        platforms.append(PlatformInput(each["name"], str(place), labels=labels))
    words = folder / "words.txt"
    words.write_text("the 0.1 0.2\nof 0.3 0.4\n")
    return Inputs(tuple(platforms), str(words), rehearsal_context(folder), folder)


def as_the_example(name: str, inputs: Inputs, assignments: tuple[str, ...]) -> Settings:
    """Return the settings of an example file; what lies where is taken from the inputs."""
    kept = [each.removeprefix("KEEP=") for each in assignments if each.startswith("KEEP=")]
    return read_settings(
        EXAMPLES / name,
        (
            f"embeddings.words={inputs.words}",
            f"embeddings.context={inputs.context}",
            *(f"platforms.{each.name}.data={each.data}" for each in inputs.platforms),
            *(each for each in assignments if not each.startswith("KEEP=")),
            *(
                f"platforms.{each.name}.split.keep={share}"
                for share in kept
                for each in inputs.platforms
            ),
        ),
    )


def comparable(settings: Settings) -> dict[str, Any]:
    held = settings.model_dump()
    for section, keys in CANNOT_MATTER.items():
        tables = held if not section else held[section]
        for table in tables if isinstance(tables, list | tuple) else [tables]:
            for key in keys:
                del table[key]
    return held


def assigned_arms(name: str) -> list[Arm]:
    return [*ARMS] if name == BTC else [*ARMS, FROZEN_ARM]


@pytest.mark.parametrize("name", [BTC, MEDICAL])
def test_every_arm_has_the_settings_of_the_example(name: str, tmp_path: Path) -> None:
    inputs = inputs_for(name, tmp_path)
    assert list(arms(inputs)) == assigned_arms(name)
    assert {each.label for each in (*ARMS, FROZEN_ARM)} == set(ASSIGNED)
    for arm in arms(inputs):
        found = settings_of(Bench(inputs), arm, 4)
        wanted = (*ASSIGNED[arm.label], "privacy.noise_seed=4")
        expected = as_the_example(name, inputs, wanted)
        assert comparable(found) == comparable(expected), arm.label
    declared_types = [each.get("labels") for each in declared(name)]
    if all(declared_types):
        given = [list(each.labels or ()) for each in found.platforms]
        assert given == declared_types


def test_a_rehearsal_has_every_row_and_every_curve(rehearsed: Rehearsed) -> None:
    assert_whole(replace(rehearsed.shown, figures=()))
    table = table_named(rehearsed.shown, "dp-cost")
    assert [row[0] for row in table.rows] == list(ASSIGNED)
    assert table.columns[2:-1] == (*rehearsed.inputs.names, ALL)
    (panel,) = figure_named(rehearsed.shown, "dp-cost").panels
    crf, softmax, plain = panel.series
    assert [each.label for each in panel.series] == ["CRF", "softmax", "no DP"]
    assert panel.marks == ("1", "3", "8")
    assert all(each is not None for each in (*crf.points, *plain.points, *softmax.points[1:]))
    assert softmax.points[0] is None  # never run
    assert len(set(plain.points)) == 1


def test_only_noise_has_repeats(rehearsed: Rehearsed) -> None:
    cells = DP_COST.stages[0](replace(rehearsed.inputs, repeats=2), [])
    held = [(cell.factors["arm"], cell.factors["repeat"]) for cell in cells]
    noised = [each.label for each in arms(rehearsed.inputs) if each.is_noised]
    first = [(arm, 1) for arm in (PLAIN.label, *noised)]
    assert held == [*first, *((arm, 2) for arm in noised)]


def test_epsilon_is_that_of_the_steps_that_were_taken(rehearsed: Rehearsed) -> None:
    asked = {arm.label: arm.tables["privacy"].get("epsilon") for arm in arms(rehearsed.inputs)}
    for row in rehearsed.rows:
        spent, by_rdp = row.measures["epsilon"], row.measures["epsilon_rdp"]
        target = asked[str(row.factors["arm"])]
        if target is None:
            assert row.factors["arm"] == PLAIN.label
            assert (spent, by_rdp) == (None, None)
            continue
        assert spent is not None
        assert by_rdp is not None
        # The noise is that of the worst-off platform; others draw a smaller share of their own.
        least = 0.98 if row.factors["platform"] == ALL else 0.5
        assert least * target < spent <= target
        assert by_rdp >= spent


def test_a_seed_of_noise_changes_the_noise_and_nothing_else(rehearsed: Rehearsed) -> None:
    bench = Bench(rehearsed.inputs)
    first, second = (settings_of(bench, ARMS[1], seed) for seed in (1, 2))
    assert (first.privacy.noise_seed, second.privacy.noise_seed) == (1, 2)
    unseeded = first.privacy.model_copy(update={"noise_seed": 2})
    assert first.model_copy(update={"privacy": unseeded}) == second
    assert first.seed == 1


def test_platforms_of_the_same_types_train_one_tagger(tmp_path: Path) -> None:
    given = tuple(PlatformInput(name, "synthetic:case-reports") for name in ("a", "b"))
    context = rehearsal_context(tmp_path)
    inputs = stored(Inputs(given, "hashed", context, tmp_path, is_rehearsal=True))
    found = {cell.factors["arm"]: cell for cell in DP_COST.stages[0](inputs, [])}
    assert list(found) == [each.label for each in ARMS]
    assert settings_of(Bench(inputs), ARMS[1], 1).partition.shared == "everything"
    rows = DP_COST.run(found["epsilon 3, softmax"], Bench(inputs))
    assert [row.factors["platform"] for row in rows] == ["a", "b", ALL]
    table = table_named(DP_COST.show(rows, inputs), "dp-cost")
    assert not any("frozen" in str(each) for each in (*table.rows, *table.notes))


def scores_of(tp: int, fp: int, fn: int, tokens: TokenCounts) -> Scores:
    return Scores({"Drug": Counts(tp, fp, fn)}, tokens=tokens)


def test_all_counts_together_make_the_row_of_all() -> None:
    # Platform a has 10 tokens, all right; b has 30, none of its 10 mentions found.
    right = TokenCounts({"O": 8, "B-Drug": 2}, {"O": 8, "B-Drug": 2}, {"O": 8, "B-Drug": 2})
    silent = TokenCounts({"O": 20, "B-Drug": 10}, {"O": 30}, {"O": 20})
    scores = run_scores(
        a=platform_of(federated=scores_of(2, 0, 0, right)),
        b=platform_of(federated=scores_of(0, 1, 10, silent)),
    )
    spent = {"a": platform_spent(2.0, 2.5), "b": platform_spent(3.0, 3.5)}
    *_, whole = rows_of(Ran(scores, spent, 1, {}, {}), {"arm": "epsilon 3", "repeat": 1})
    assert whole.factors["platform"] == ALL
    assert whole.measures["strict_f1"] == pytest.approx(100 * 4 / 15)
    # Always O: a 0.8 * 2 * 0.8 / 1.8, b 2/3 * 2 * (2/3) / (5/3); b's tagger is that one.
    floor_a, floor_b = 0.8 * 1.6 / 1.8, 8 / 15
    assert whole.measures["token_f1"] == pytest.approx(100 * (10 + 30 * floor_b) / 40)
    assert whole.measures["always_o_f1"] == pytest.approx(100 * (10 * floor_a + 30 * floor_b) / 40)
    assert (whole.measures["epsilon"], whole.measures["epsilon_rdp"]) == (3.0, 3.5)
    unbounded = {**spent, "b": platform_spent(None, None)}  # a release without noise
    *_, whole = rows_of(Ran(scores, unbounded, 1, {}, {}), {})
    assert whole.measures["epsilon"] is None


def test_shares_are_of_the_one_run_without_dp(rehearsed: Rehearsed) -> None:
    def row(arm: str, repeat: int, f1: float, epsilon: float | None = None) -> Row:
        factors = {"arm": arm, "repeat": repeat, "platform": ALL}
        return Row(factors, {"strict_f1": f1, "epsilon": epsilon})

    rows = [row("no DP", 1, 80.0), row("epsilon 3", 1, 70.0, 3.0), row("epsilon 3", 2, 74.0, 3.0)]
    table = table_named(DP_COST.show(rows, rehearsed.inputs), "dp-cost")
    lines = {str(line[0]): line for line in table.rows}
    assert lines["no DP"][1] == "–"
    assert mean_of(lines["no DP"][-1]) == 100.0
    assert lines["epsilon 3"][1] == "3.00"
    assert mean_of(lines["epsilon 3"][-2]) == 72.0
    assert mean_of(lines["epsilon 3"][-1]) == pytest.approx(90.0)
    assert lines["epsilon 8"][1:] == (None,) * 6  # not run
