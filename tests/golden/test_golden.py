"""Golden runs: losses, scores, weights and epsilon of two rounds are those that are recorded."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from golden_curve import curves
from golden_runs import FOLDER, RUNS, TOLERANCES, computed, differences, recorded

HINT = "Where the change is meant: python tests/golden/regenerate.py, and say why in the commit."


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.usefixtures("_threads")
def test_a_run_comes_to_the_recorded_numbers(name: str, tmp_path: Path) -> None:
    record = recorded(name)
    assert record["settings"] == list(RUNS[name])
    assert record["tolerances"] == TOLERANCES
    found = list(differences(computed(name, tmp_path / "run"), record))
    assert not found, "\n".join([*found[:20], HINT])


def test_every_record_is_of_a_run_and_holds_something_of_each_kind() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(RUNS)
    records = [recorded(name) for name in RUNS]
    for kind in TOLERANCES:
        assert any(any(record["values"][kind].values()) for record in records), kind
    for name, record in zip(RUNS, records, strict=True):
        assert bool(record["values"]["losses"]) == (name != "fedner-dp"), "DP runs tell no loss"
        assert all(norm > 0 for norm in record["values"]["norms"].values())


@pytest.mark.parametrize("kind", TOLERANCES)
def test_a_number_beyond_its_tolerance_is_reported(kind: str) -> None:
    name = "fedner-dp" if kind == "epsilons" else "fedner-crf"
    record = recorded(name)
    assert not list(differences(record["values"], record))
    key = max(record["values"][kind], key=lambda key: abs(record["values"][kind][key]))
    for factor, num_reported in ((0.9, 0), (1.1, 1)):
        found = copy.deepcopy(record["values"])
        scale = record["values"]["norms" if kind == "checksums" else kind][key]
        tolerance = TOLERANCES[kind]
        allowed = tolerance["absolute"] + tolerance["relative"] * abs(scale)
        found[kind][key] += factor * allowed
        assert len(list(differences(found, record))) == num_reported
    for missing in (record["values"], found):
        changed = copy.deepcopy(record["values"])
        del changed[kind][key]
        pair = (changed, record) if missing is found else (found, {**record, "values": changed})
        assert any("None" in line for line in differences(*pair))
    found[kind][key] = float("nan")
    assert list(differences(found, record))


@pytest.mark.parametrize("file", curves())
def test_the_curve_of_a_plan_is_drawn_as_recorded(file: str) -> None:
    assert curves()[file] == (FOLDER / file).read_text(), HINT
