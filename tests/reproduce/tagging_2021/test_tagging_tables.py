"""The tables of Jana and Biemann 2021: rehearsed whole, and every number that is computed."""

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.errors import FednerError
from fedner.privacy.accountant import pld_epsilon, rdp_epsilon
from fedner.reproduce.bench import Bench, merged
from fedner.reproduce.catalogue import CATALOGUE
from fedner.reproduce.estimates import chosen, values_of
from fedner.reproduce.inputs import stored
from fedner.reproduce.reproduction import Cell, Estimate, Inputs, PlatformInput, Row, Table
from fedner.reproduce.running import Run, run_study
from fedner.reproduce.tagging_2021 import published, studies
from fedner.reproduce.tagging_2021.claims import Claim, verdict
from fedner.reproduce.tagging_2021.plans import (
    AS_IN_2021,
    NO_DP,
    SHARES,
    TDDL,
    as_in_2021,
    in_slices,
    rehearsed,
)
from fedner.reproduce.tagging_2021.runs import ALL, largest, run_plan
from fedner.reproduce.tagging_2021.shards import parts_of, platform_entries
from fedner.runs.folder import FEDERATED
from fedner.scoring import TokenCounts

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

NAMES = [f"tagging-table{number}" for number in range(1, 7)]
REPOSITORY = Path(__file__).resolve().parents[3]
DELTA = 1e-5

Rehearse = Callable[[str], tuple[Inputs, list[Row]]]


def opened(out: Path, name: str = "case-reports") -> Inputs:
    platform = PlatformInput(name, "synthetic:case-reports")
    return stored(Inputs((platform,), "hashed", "none", out, is_rehearsal=True))


@pytest.fixture(scope="module")
def rehearse(tmp_path_factory: pytest.TempPathFactory) -> Rehearse:
    """Every cell of a study, run once for all tests of this file."""
    found: dict[str, tuple[Inputs, list[Row]]] = {}

    def rehearsal(name: str) -> tuple[Inputs, list[Row]]:
        if name not in found:
            inputs = opened(tmp_path_factory.mktemp(name))
            found[name] = inputs, run_study(Run(CATALOGUE[name], inputs))
        return found[name]

    return rehearsal


@pytest.mark.parametrize("name", NAMES)
def test_every_row_and_every_curve_is_there(name: str, rehearse: Rehearse) -> None:
    inputs, rows = rehearse(name)
    shown = CATALOGUE[name].show(rows, inputs)
    design = studies.LAYOUTS[NAMES.index(name)].design
    num_values = 1 if design.axis is None else len(design.axis.values)
    assert len(shown.tables[0].rows) == num_values * len(design.ways) + 1
    for table in shown.tables:
        assert len({row[0] for row in table.rows}) == len(table.rows)
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert all(entry is not None for row in table.rows for entry in row)
    assert shown.tables[0].columns[1] == "entity F1, strict"
    assert shown.tables[0].rows[-1][0] == "always O"
    for figure in shown.figures:
        entity, token = figure.panels
        assert [len(panel.series) for panel in (entity, token)] == [
            len(design.ways),
            len(design.ways) + 1,
        ]
        assert all(
            each is not None for panel in figure.panels for s in panel.series for each in s.points
        )
    assert bool(shown.figures) == (name != NAMES[0])
    assert not any("Missing" in note for note in shown.notes)


@pytest.mark.parametrize("name", NAMES)
def test_without_rows_everything_is_missing(name: str, tmp_path: Path) -> None:
    shown = CATALOGUE[name].show([], opened(tmp_path))
    table = shown.tables[0]
    assert all(entry is None for row in table.rows[:-1] for entry in row[1:])
    assert all("not run" in note for note in shown.notes)


def test_one_test_part_serves_all_numbers_of_platforms(tmp_path: Path) -> None:
    bench = Bench(opened(tmp_path))
    (platform,) = bench.inputs.platforms
    train, test = parts_of(bench, platform, seed=3)
    assert len(test) == round(0.2 * (len(train) + len(test)))
    for number in (1, 4):
        for part, whole in (("data", train), ("test", test)):
            entries = platform_entries(bench, 3, number)
            paths = [
                Path(each["data"] if part == "data" else each["split"]["test_data"])
                for each in entries
            ]
            held = [sentence for path in paths for sentence in sentences_in(path)]
            sizes = [len(sentences_in(path)) for path in paths]
            assert sorted(held) == sorted((each.tokens, each.entities) for each in whole)
            assert max(sizes) - min(sizes) <= 1
    other = parts_of(bench, platform, seed=4)[1]
    assert [each.tokens for each in other] != [each.tokens for each in test]


def sentences_in(path: Path) -> list[tuple[object, object]]:
    found = prepare(read(path, "jsonl"), sentences="auto").sentences
    return [(each.tokens, each.entities) for each in found]


def test_a_test_part_of_its_own_is_taken(tmp_path: Path) -> None:
    bench = Bench(opened(tmp_path))
    (platform,) = bench.inputs.platforms
    other = stored(
        Inputs((PlatformInput("other", "synthetic:forum-posts"),), "hashed", "none", tmp_path / "b")
    ).platforms[0]
    train, test = parts_of(bench, replace(platform, test_data=other.data), seed=1)
    assert len(train) == platform.num_sentences
    assert sentences_in(Path(other.data)) == [(each.tokens, each.entities) for each in test]


def test_always_o_is_what_a_tagger_that_finds_nothing_has(rehearse: Rehearse) -> None:
    inputs, rows = rehearse("tagging-table1")
    bench = Bench(inputs)
    _, test = parts_of(bench, inputs.platforms[0], seed=1)
    tokens = sum(len(each.tokens) for each in test)
    inside = sum(b - a for each in test for a, b, _ in each.entities)
    outside = (tokens - inside) / tokens
    line = CATALOGUE["tagging-table1"].show(rows, inputs).tables[0].rows[-1]
    means = [entry.mean for entry in line[1:] if isinstance(entry, Estimate)]
    expected = [0, outside**2, outside, outside * 2 * outside / (1 + outside)]
    assert means == pytest.approx([100 * each for each in expected])


def test_epsilon_is_that_of_each_platforms_steps(rehearse: Rehearse) -> None:
    inputs, rows = rehearse("tagging-table5")
    own = [row for row in chosen(rows, way=TDDL, n=2) if row.factors["platform"] != ALL]
    assert [row.factors["platform"] for row in own] == ["p01", "p02"]
    for row in own:
        units, steps = row.measures["units"], row.measures["steps"]
        assert units is not None
        assert steps is not None
        probability = min(1.0, 32 / units)
        assert row.measures["sampling_probability"] == probability
        executed = {(1.0, probability): int(steps)}
        assert row.measures["epsilon"] == pytest.approx(pld_epsilon(executed, DELTA))
        assert row.measures["epsilon_rdp"] == pytest.approx(rdp_epsilon(executed, DELTA))
    (whole,) = chosen(rows, way=TDDL, n=2, platform=ALL)
    assert whole.measures["epsilon"] == max(row.measures["epsilon"] or 0 for row in own)
    table = CATALOGUE["tagging-table5"].show(rows, inputs).tables[1]
    assert table.rows[0][4] == f"{whole.measures['epsilon']:.3f}"


def test_epsilon_over_all_is_that_of_the_worst_off() -> None:
    assert largest([1.0, 3.0, 2.0]) == 3.0
    assert largest([1.0, None]) is None, "a platform without noise spends everything"
    assert largest([]) is None


def test_ours_is_trained_at_the_epsilon_that_theirs_spent(rehearse: Rehearse) -> None:
    inputs, rows = rehearse("tagging-table2")
    design = studies.TABLE_2.design
    cells = design.second(inputs, rows)
    assert [cell.factors["noise_multiplier"] for cell in cells] == list(published.NOISES)
    for cell in cells:
        place = {"noise_multiplier": cell.factors["noise_multiplier"], "platform": ALL}
        target = values_of(rows, "epsilon", way=TDDL, **place)
        assert cell.factors["target_epsilon"] == target[0]
        (spent,) = values_of(rows, "epsilon_rdp", way=studies.FIX, **place)
        assert 0.98 * target[0] <= spent <= target[0], "a rehearsal's noise is found by RDP"
    assert design.second(inputs, []) == []


def test_a_share_of_slices_is_what_a_run_that_ends_there_has(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    _, rows = rehearse("tagging-table6")
    plan = rehearsed(as_in_2021(5, in_slices(1)))
    shorter = replace(plan, tables=merged(plan.tables, {"training": {"rounds": 2}}))
    bench = Bench(opened(tmp_path))
    settings = bench.settings(1, shorter.tables, platform_entries(bench, 1, 2))
    ran = bench.federated("shorter", settings)
    held = [each.methods[FEDERATED].tokens for each in ran.scores.platforms.values()]
    (found,) = values_of(rows, "token_f1", way=studies.ONE_PASS, share=40, platform=ALL)
    assert found == 100 * sum(held, TokenCounts()).weighted.f1
    epsilons = [
        values_of(rows, "epsilon", way=studies.ONE_PASS, share=s, platform=ALL) for s in SHARES
    ]
    assert len({round(each[0], 6) for each in epsilons}) == 1, "slices are disjoint"


def test_the_same_seed_gives_the_same_rows(tmp_path: Path) -> None:
    cell = Cell("one", {"way": TDDL, "repeat": 2})
    first, again = (
        run_plan(Bench(opened(tmp_path / name)), cell, as_in_2021(1)) for name in ("a", "b")
    )
    assert first == again
    other = run_plan(
        Bench(opened(tmp_path / "c")), replace(cell, factors={"repeat": 3}), as_in_2021(1, NO_DP)
    )
    assert other[0].measures["always_o_f1"] != first[0].measures["always_o_f1"]


def test_the_settings_are_those_of_the_example() -> None:
    held = tomllib.loads((REPOSITORY / "examples" / "tagging-2021.toml").read_text("utf-8"))
    assert {name: held[name] for name in AS_IN_2021 if name != "embeddings"} == {
        name: value for name, value in AS_IN_2021.items() if name != "embeddings"
    }


def test_published_numbers_stand_beside_ours_on_the_papers_corpus_alone(
    rehearse: Rehearse,
) -> None:
    for name in NAMES:
        inputs, rows = rehearse(name)
        assert beside(CATALOGUE[name].show(rows, inputs).tables[0]) == []
        own = replace(inputs, platforms=(replace(inputs.platforms[0], name="conll2003"),))
        found = beside(CATALOGUE[name].show(rows, own).tables[0])
        models = {"tagging-table1": 6, "tagging-table2": 2 * 20, "tagging-table3": 15}
        models |= {"tagging-table4": 30, "tagging-table5": 20, "tagging-table6": 40}
        assert len(found) == models[name], name
    assert published.TABLE_6[TDDL, 60] == {
        "token_precision": 70.7,
        "token_recall": 12.3,
        "token_f1": 17.1,
        "epsilon": 0.688,
    }


def beside(table: Table) -> list[float]:
    found = (entry for row in table.rows for entry in row if isinstance(entry, Estimate))
    return [each.published for each in found if each.published is not None]


@pytest.mark.parametrize(
    ("low", "high", "rises", "falls", "stays"),
    [
        (0.5, 1.0, "it stands", "it does not stand", "it stands"),
        (-9.0, -3.0, "it does not stand", "it stands", "it does not stand"),
        (-1.0, 5.0, "not clear", "not clear", "not clear"),
    ],
)
def test_a_claim_stands_where_the_whole_interval_says_so(
    low: float, high: float, rises: str, falls: str, stays: str
) -> None:
    difference = Estimate((low + high) / 2, 1.0, low, high, 5)
    assert verdict(difference, "rises") == rises
    assert verdict(difference, "falls") == falls
    assert verdict(difference, "stays") == stays
    single = Estimate(1.0, None, None, None, 1)
    assert verdict(single, "rises") == "not clear from one repeat"


def test_a_claim_is_told_with_the_paired_difference() -> None:
    def row(way: str, repeat: int, f1: float) -> Row:
        return Row({"way": way, "repeat": repeat, "platform": ALL}, {"strict_f1": f1})

    rows = [row("a", 1, 50.0), row("a", 2, 60.0), row("b", 1, 40.0), row("b", 2, 50.5)]
    told = Claim("b is worse.", {"way": "a"}, {"way": "b"}, "falls").told(rows)
    assert told.startswith("The paper: b is worse. Here strict F1 changes by -9.8 (-12.9 to -6.6")
    assert told.endswith("2 repeats): it stands.")


def test_an_error_of_a_cell_names_it(tmp_path: Path) -> None:
    bench = Bench(opened(tmp_path))
    broken = merged(AS_IN_2021, {"privacy": {"max_grad_norm": -1.0}})
    with pytest.raises(FednerError, match="max_grad_norm"):
        run_plan(bench, Cell("x", {"repeat": 1}), replace(as_in_2021(1), tables=broken))
