"""The studies of Ge et al. 2020: rehearsed whole, and what they choose, mask and share."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.reproduce.bench import Bench
from fedner.reproduce.catalogue import CATALOGUE
from fedner.reproduce.estimates import chosen
from fedner.reproduce.fedner_2020 import (
    baselines,
    corpora,
    decomposition,
    generalization,
    overlapped_entities,
    published,
    training_size,
)
from fedner.reproduce.fedner_2020.protocol import FEDNER, RECIPE, kept, paper_tables, strong_tables
from fedner.reproduce.inputs import rehearsal_context, stored
from fedner.reproduce.locating import BUILT_IN
from fedner.reproduce.reproduction import Cell, Inputs, PlatformInput, Row, Shown
from fedner.reproduce.running import Run, run_study
from fedner.reproduce.store import read_cells

NAMES = [name for name in CATALOGUE if name.startswith("fedner-")]
Rehearsed = Callable[[str], tuple[Inputs, list[Row], Shown]]


def inputs_at(out: Path) -> Inputs:
    platforms = tuple(PlatformInput(name, f"synthetic:{name}") for name in BUILT_IN)
    context = rehearsal_context(out / "cache")
    return stored(Inputs(platforms, "hashed", context, out, is_rehearsal=True))


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    """Every study, run once for all tests of this file; equal trainings are taken over."""
    found: dict[str, tuple[Inputs, list[Row], Shown]] = {}

    def rehearse(name: str) -> tuple[Inputs, list[Row], Shown]:
        if name not in found:
            inputs = inputs_at(tmp_path_factory.mktemp(name))
            done = [read_cells(each.out).values() for each, _, _ in found.values()]
            works = {cell.work: cell for cells in done for cell in cells if cell.work}
            study = CATALOGUE[name]
            rows = run_study(Run(study, inputs, works=works))
            found[name] = inputs, rows, study.show(rows, inputs)
        return found[name]

    return rehearse


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(inputs_at(tmp_path_factory.mktemp("bench")))


def test_all_results_of_the_paper_are_there() -> None:
    wanted = [
        f"fedner-{each}" for each in ("table1", "table2", *(f"figure{n}" for n in (3, 4, 5, 6)))
    ]
    assert sorted(NAMES) == sorted(wanted)


@pytest.mark.parametrize("name", NAMES)
def test_a_rehearsal_has_every_row_and_every_curve(name: str, rehearsed: Rehearsed) -> None:
    _, _, shown = rehearsed(name)
    assert shown.tables
    for table in shown.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
        missing = [(table.name, row[0]) for row in table.rows if None in row]
        assert not missing
    assert bool(shown.figures) == ("figure" in name)
    for figure in shown.figures:
        assert [panel.title for panel in figure.panels] == list(BUILT_IN)
        for panel in figure.panels:
            assert all(len(series.points) == len(panel.marks) for series in panel.series)


def test_table_2_has_all_models_and_both_baselines(rehearsed: Rehearsed) -> None:
    _, _, shown = rehearsed("fedner-table2")
    assert tuple(row[0] for row in shown.tables[0].rows) == baselines.MODELS
    assert set(baselines.MODELS) >= set(published.TABLE2["ade"])
    assert len(baselines.MODELS) == 10


def test_curves_and_bars_have_all_marks(rehearsed: Rehearsed) -> None:
    figures = {name: rehearsed(name)[2].figures[0] for name in NAMES if "figure" in name}
    assert figures["fedner-figure3"].panels[0].marks == ("20%", "40%", "60%", "80%", "100%")
    assert len(figures["fedner-figure3"].panels[0].series) == 4
    assert figures["fedner-figure4"].panels[0].marks[0] == "nothing"
    assert figures["fedner-figure4"].panels[0].marks[-1] == "everything"
    assert figures["fedner-figure5"].panels[0].marks[-1] == "100%"
    assert len(figures["fedner-figure5"].panels[0].marks) == 6
    assert figures["fedner-figure6"].panels[0].marks == baselines.BASELINES


def test_published_numbers_stand_beside_the_papers_own_corpora_only(rehearsed: Rehearsed) -> None:
    inputs, rows, _ = rehearsed("fedner-table2")
    named = replace(inputs, platforms=(replace(inputs.platforms[0], name="ade"),))
    renamed = [Row({**row.factors, "platform": "ade"}, row.measures) for row in rows]
    ours = baselines.show(rows, inputs).tables[0].rows
    theirs = baselines.show(renamed, named).tables[0].rows
    assert all(entry.published is None for row in ours for entry in row[1:])  # type: ignore[union-attr]
    by_model = {row[0]: row for row in theirs}
    assert by_model["ELMoNER"][1].published == 81.62  # type: ignore[union-attr]
    assert by_model[FEDNER][2].published == 88.90  # type: ignore[union-attr]


def test_table_1_counts_the_source_before_flattening(rehearsed: Rehearsed) -> None:
    inputs, rows, _ = rehearsed("fedner-table1")
    for each in inputs.platforms:
        found = chosen(rows, platform=each.name)[0].measures
        corpus = read(Path(each.data), "jsonl")
        assert found["sentences"] == len(prepare(corpus).sentences)
        assert found["strings"] is not None
        assert found["mentions"] is not None
        assert found["strings"] <= found["mentions"]
        assert found["kept_mentions"] == sum(len(s.entities) for s in prepare(corpus).sentences)
    assert corpora.PUBLISHED["ade"] == (4484, 4785)


def test_masking_reaches_both_the_baseline_and_the_federation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody trains on a masked word, nor on a test sentence: each run reads what was written."""
    seen: list[tuple[set[str], int]] = []
    whole = {name: len(prepare(bench.corpus(name)).sentences) for name in BUILT_IN}

    def watched(run: Callable[..., Any]) -> Callable[..., Any]:
        def call(settings: Any, *rest: Any, **named: Any) -> Any:
            for each in settings.platforms:
                held = (named.get("corpora") or {}).get(each.name)
                corpus = read(Path(each.data), "jsonl") if held is None else held
                sentences = prepare(corpus).sentences
                words = {token for sentence in sentences for token in sentence.tokens}
                seen.append((words, len(sentences) / whole[each.name]))  # type: ignore[arg-type]
            return run(settings, *rest, **named)

        return call

    monkeypatch.setattr("fedner.reproduce.bench.open_sites", watched(_original("open_sites")))
    monkeypatch.setattr("fedner.reproduce.bench.train_run", watched(_original("train_run")))
    cell = Cell("masked-1/repeat-1", {"ratio": 1.0, "repeat": 1})
    rows = overlapped_entities.run(cell, bench)
    assert {row.factors["model"] for row in rows} == {RECIPE, FEDNER}
    assert len(seen) == 2 * len(BUILT_IN)
    assert all(share < 0.9 for _, share in seen)  # the training part alone
    assert any("<unk>" in words for words, _ in seen[: len(BUILT_IN)])
    assert any("<unk>" in words for words, _ in seen[len(BUILT_IN) :])
    assert all((row.measures["masked_mentions"] or 0) >= 0 for row in rows)
    assert sum(row.measures["masked_mentions"] or 0 for row in rows) > 0
    assert not (bench.inputs.out / "under-way" / "data-masked-1-repeat-1").exists()


def _original(name: str) -> Callable[..., Any]:
    import fedner.runs.simulation as simulation

    return getattr(simulation, name)  # type: ignore[no-any-return]


def test_a_share_keeps_that_much_of_every_training_part(bench: Bench) -> None:
    entries = kept(bench, 0.4)
    assert [entry["split"] for entry in entries] == [
        {"by": "sentence", "test": 0.2, "keep": 0.4} for _ in BUILT_IN
    ]


def test_partitions_of_a_model_differ(bench: Bench) -> None:
    assert generalization.partitions_of("CNN-CRF") == ("fedner",)
    assert generalization.partitions_of("LSTM-CRF") == ("encoder",)
    assert generalization.partitions_of("CNN-LSTM-CRF") == ("embeddings", "encoder")
    assert generalization.partitions_of("ELMoNER") == ("embeddings", "fedner", "encoder")


def test_the_best_partition_is_chosen_by_probes_alone() -> None:
    def probe(shared: str, f1: float, way: str = generalization.PROBE) -> Row:
        factors = {"way": way, "model": "ELMoNER", "shared": shared, "platform": "a"}
        return Row(factors, {"strict_f1": f1})

    rows = [probe("embeddings", 70.0), probe("fedner", 75.0), probe("encoder", 71.0)]
    rows.append(probe("encoder", 99.0, generalization.UNDER))  # a row of the figure decides nothing
    assert generalization.best_partition(rows, "ELMoNER") == "fedner"


def test_the_probed_seed_is_in_no_row(bench: Bench) -> None:
    inputs = replace(bench.inputs, repeats=10)
    probes = generalization.probes(inputs, [])
    assert {cell.factors["repeat"] for cell in probes} == {generalization.PROBED_SEED}
    assert generalization.PROBED_SEED not in inputs.seeds
    assert {cell.factors["repeat"] for cell in generalization.cells(inputs, [])} == {*inputs.seeds}


def test_settings_are_those_of_the_paper_and_of_the_example(bench: Bench) -> None:
    real = replace(bench.inputs, is_rehearsal=False)
    paper, strong = paper_tables(real), strong_tables(real)
    assert paper["algorithm"]["batching"] == "joint"
    assert paper["partition"] == {"shared": "fedner"}
    assert paper["training"]["epochs"] == 15
    assert "baselines" not in paper["training"]
    example = _example("medical.toml")
    assert strong["algorithm"] == example["algorithm"]
    assert strong["partition"] == example["partition"]
    assert strong["local_optimizer"] == example["local_optimizer"]
    for key, value in example["training"].items():
        assert strong["training"][key] == value


def _example(name: str) -> dict[str, Any]:
    import tomllib

    path = Path(__file__).resolve().parents[2] / "examples" / name
    return tomllib.loads(path.read_text("utf-8"))


def test_decompositions_go_from_nothing_to_everything() -> None:
    assert list(decomposition.PARTITIONS) == [
        "nothing",
        "embeddings",
        "fedner",
        "encoder",
        "everything",
    ]


def test_equal_trainings_have_one_name(bench: Bench) -> None:
    inputs = replace(bench.inputs, repeats=2)
    table2 = {cell.work for cell in baselines.cells(inputs, [])}
    alone = [cell for cell in generalization.cells(inputs, []) if cell.factors["way"] == "alone"]
    assert {cell.work for cell in alone} <= table2
    whole = [cell for cell in training_size.cells(inputs, []) if cell.factors["share"] == 1]
    assert {cell.work for cell in whole} <= table2
    less = [cell for cell in training_size.cells(inputs, []) if cell.factors["share"] != 1]
    assert {cell.work for cell in less} == {""}


def test_a_platform_with_another_file_is_not_given_the_whole_input(bench: Bench) -> None:
    name, other = BUILT_IN[0], bench.inputs.platform(BUILT_IN[1]).data
    same = bench.settings(1, paper_tables(bench.inputs), [bench.entry(name)])
    changed = bench.settings(1, paper_tables(bench.inputs), [bench.entry(name, data=other)])
    assert list(bench.corpora_of(same)) == [name]
    assert bench.corpora_of(changed) == {}
