"""The study of the collapse: every variant is a training of its own, and all of them run."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.privacy.noise import clip
from fedner.reproduce.bench import Bench, merged
from fedner.reproduce.catalogue import CATALOGUE
from fedner.reproduce.estimates import chosen
from fedner.reproduce.inputs import stored
from fedner.reproduce.reproduction import Inputs, PlatformInput
from fedner.reproduce.running import Run, run_study
from fedner.reproduce.tagging_2021 import collapse, studies
from fedner.reproduce.tagging_2021.plans import as_in_2021, in_micro_batches, in_slices
from fedner.reproduce.tagging_2021.runs import ALL
from fedner.reproduce.tagging_2021.shards import micro_batches, parts_of, platform_entries

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

TOKENS = st.lists(st.text("abÄ😀.", min_size=1, max_size=4), min_size=1, max_size=5)


def opened(out: Path) -> Inputs:
    platform = PlatformInput("case-reports", "synthetic:case-reports")
    return stored(Inputs((platform,), "hashed", "none", out, is_rehearsal=True))


def test_every_variant_runs_and_has_its_line(tmp_path: Path) -> None:
    inputs = opened(tmp_path)
    study = CATALOGUE["tagging-collapse"]
    rows = run_study(Run(study, inputs))
    shown = study.show(rows, inputs)
    once, in_slices_ = shown.tables
    assert [row[0] for row in once.rows] == [*collapse.ONCE, "always O"]
    assert len(in_slices_.rows) == 5 * len(collapse.IN_SLICES) + 1
    assert all(entry is not None for each in shown.tables for row in each.rows for entry in row)
    (figure,) = shown.figures
    assert [len(panel.series) for panel in figure.panels] == [6, 7]
    assert not any("Missing" in note for note in shown.notes)
    (plain,) = chosen(rows, way="no DP", platform=ALL)
    assert plain.measures["epsilon"] is None
    assert once.rows[0][-2:] == ("no DP", "no DP")
    (fix,) = chosen(rows, way="n = 5, fix, epsilon 3", platform=ALL)
    assert 2.9 < (fix.measures["epsilon_rdp"] or 0) <= 3.0


def test_trainings_of_the_tables_are_not_run_again(tmp_path: Path) -> None:
    inputs = opened(tmp_path)
    works = {cell.work: cell.key for cell in collapse.cells(inputs, [])}
    assert len(works) == 31
    tables = [layout.design.first(inputs, []) for layout in studies.LAYOUTS]
    shared = {
        works[cell.work]: cell.key for cells in tables for cell in cells if cell.work in works
    }
    assert shared["as in 2021/repeat-1"] == "BI-LSTM-TDDL/noise_multiplier-1.0/repeat-1"
    assert shared["n = 20/repeat-1"] == "BI-LSTM-TDDL/n-20/repeat-1"
    assert shared["n = 5, no DP/repeat-1"] == "BI-LSTM-TDDL/n-5/repeat-1"
    assert shared["10 passes/repeat-1"] == "BI-LSTM-TDDL, 10 passes a slice/repeat-1"
    assert len(shared) == 14
    later = collapse.cells(replace(inputs, first_seed=2), [])
    assert not works.keys() & {cell.work for cell in later}


def test_every_variant_is_a_federation_of_its_own(tmp_path: Path) -> None:
    bench = Bench(replace(opened(tmp_path), is_rehearsal=False))
    entries = {
        (number, size): platform_entries(bench, 1, number, size)
        for number, size in ((1, 1), (1, 8), (1, 32), (5, 1), (5, 32))
    }
    plans = {**collapse.ONCE, **{f"slices, {k}": v for k, v in collapse.IN_SLICES.items()}}
    # Twenty platforms of sixty sentences would have no test part.
    held = {
        label: bench.settings(1, plan.tables, entries[min(5, plan.num_platforms), plan.micro_batch])
        for label, plan in plans.items()
    }
    distinct = {
        (each.model_dump_json(), plans[label].num_platforms) for label, each in held.items()
    }
    assert len(distinct) == len(plans) == 31
    assert plans["n = 20"].num_platforms == 20
    assert held["micro-batches of 8"].training.batch_size == 4
    assert held["micro-batches of 8"].privacy.max_grad_norm == 12.0
    assert held["micro-batches of 8"].privacy.unit == "document"
    assert held["slices, one pass"].training.rounds == 10
    assert held["slices, one pass"].training.evaluate_every == 2


def test_the_settings_of_micro_batches_clip_means() -> None:
    plan = in_micro_batches(as_in_2021(5, in_slices(1)), 4)
    assert plan.tables["privacy"]["max_grad_norm"] == 6.0
    assert plan.tables["training"]["batch_size"] == 8
    assert plan.tables["algorithm"]["local"]["optimizer"]["learning_rate"] == 0.0375
    assert (plan.num_platforms, plan.micro_batch) == (5, 4)
    with pytest.raises(FednerError, match="whole ones"):
        in_micro_batches(as_in_2021(), 5)


@given(st.integers(1, 6), st.floats(0.01, 10), st.integers(0, 2**32))
def test_clipping_sums_at_m_c_is_m_times_clipping_means_at_c(
    size: int, bound: float, seed: int
) -> None:
    gradients = torch.randn(size, 5, generator=torch.Generator().manual_seed(seed)).double()
    of_sum = clip({"w": gradients.sum(0)}, size * bound).value["w"]
    of_mean = clip({"w": gradients.mean(0)}, bound).value["w"]
    torch.testing.assert_close(of_sum, size * of_mean)


@given(st.lists(TOKENS, max_size=9), st.integers(1, 4))
def test_sentences_come_back_token_for_token(texts: list[list[str]], size: int) -> None:
    given_ = [Sentence.of(tokens, (Entity(0, len(tokens), "X"),)) for tokens in texts]
    back = prepare(list(micro_batches(given_, size))).sentences
    assert [(each.tokens, each.entities) for each in back] == [
        (each.tokens, each.entities) for each in given_
    ]
    sizes = [sum(each.document == name for each in back) for name in {b.document for b in back}]
    assert len(sizes) == -(-len(texts) // size)
    assert sum(each < size for each in sizes) <= 1


def test_micro_batches_hold_the_training_part_mixed(tmp_path: Path) -> None:
    bench = Bench(opened(tmp_path))
    train, _ = parts_of(bench, bench.inputs.platforms[0], seed=1)
    (entry,) = platform_entries(bench, 1, 1, 8)
    assert entry["split"]["by"] == "document"
    corpus = read(Path(entry["data"]), "jsonl")
    back = prepare(corpus, sentences="auto").sentences
    assert len(corpus.documents) == -(-len(train) // 8)
    assert sorted(each.tokens for each in back) == sorted(each.tokens for each in train)
    assert [each.tokens for each in back] != [each.tokens for each in train]
    with pytest.raises(FednerError, match="at least 1"):
        list(micro_batches(train, 0))


def test_tables_are_merged_and_not_changed() -> None:
    base = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merged(base, {"a": {"b": 5}}, {"a": {"e": 6}, "d": {"f": 7}}) == {
        "a": {"b": 5, "c": 2, "e": 6},
        "d": {"f": 7},
    }
    assert base == {"a": {"b": 1, "c": 2}, "d": 3}
