"""The example federations, shortened, come to the recorded weights: norm and checksum of each."""

from pathlib import Path

import pytest
from example_runs import ENCODER, FOLDER, RUNS, TOLERANCES, computed, encoder, laid_out
from golden_runs import differences, recorded

from fedner.federated.answering import one_thread

HINT = "Where the change is meant: python tests/golden/regenerate.py, and say why in the commit."


@pytest.fixture(scope="module")
def examples(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example files beside their data."""
    found = encoder()
    if found is None:
        pytest.skip(f"needs the package {ENCODER}")
    return laid_out(data, found, tmp_path_factory.mktemp("examples"))


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_an_example_comes_to_the_recorded_weights(
    name: str, examples: Path, tmp_path: Path
) -> None:
    with one_thread():
        values = computed(name, examples, tmp_path / "run")
    found = list(differences(values, recorded(name, FOLDER)))
    assert not found, "\n".join([*found[:20], HINT])


@pytest.mark.parametrize("name", RUNS)
def test_a_record_is_of_these_settings_and_holds_numbers_alone(name: str) -> None:
    record = recorded(name, FOLDER)
    assert record["settings"] == list(RUNS[name])
    assert record["tolerances"] == TOLERANCES
    assert record["values"].keys() == TOLERANCES.keys()
    for values in record["values"].values():
        assert values
        assert all(isinstance(each, float) for each in values.values())
    assert all(norm > 0 for norm in record["values"]["norms"].values())
