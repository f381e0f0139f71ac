"""What a study's encoding sends and refuses, and how long that takes over a measured link."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.runs.folder import RunFolder
from fedner.runs.link_time import estimated_seconds, link_traffic
from fedner.runs.simulation import train_run
from fedner.settings import Settings, SettingsError, Study, study_of, study_toml

Make = Callable[..., Settings]
HEADERS = 6_000  # names, shapes and facts of a message beside its numbers


def study(settings: Settings) -> Study:
    return study_of(settings, {each.name: 28 for each in settings.platforms})


@pytest.mark.parametrize("encoding", ["float32", "bfloat16", "int8"])
def test_the_bytes_are_those_of_the_run(tiny: Make, tmp_path: Path, encoding: str) -> None:
    train_run(tiny(f"transport.encoding={encoding}", "training.rounds=3"), tmp_path / "run")
    made = RunFolder(tmp_path / "run").study()
    rounds = RunFolder(tmp_path / "run").rounds()
    traffic = link_traffic(made)
    (up,), (down,) = ({*each.values()} for each in (rounds[0].bytes_up, rounds[0].bytes_down))
    assert 0 < traffic.up - up < HEADERS
    assert 0 < traffic.down - down < HEADERS
    assert (traffic.rounds, traffic.num_scored, traffic.num_stored) == (3, 1, 2)
    assert traffic.num_exchanges == 1 + 3 + 1 + 2 + 1
    assert traffic.weights_down >= traffic.down


def test_seconds_are_bytes_answers_and_work(tiny: Make) -> None:
    made = study(tiny("training.rounds=3"))
    traffic = link_traffic(made)
    assert estimated_seconds(made, 1e12, 0.0, 2.0) == pytest.approx(6.0, abs=1e-3)
    assert estimated_seconds(made, 1e12, 0.5, 0.0) == pytest.approx(0.5 * 8, abs=1e-3)
    both = 3 * (traffic.down + traffic.up) + 2 * traffic.weights_down
    assert estimated_seconds(made, 1_000.0, 0.0, 0.0) == pytest.approx(both / 1_000)
    changes = {"encoding": "int8"}
    small = made.model_copy(update={"transport": made.transport.model_copy(update=changes)})
    assert estimated_seconds(small, 1_000.0, 0.0, 0.0) < 0.75 * both / 1_000


def test_a_secure_sum_has_five_orders_a_round_and_eight_bytes_a_number(tiny: Make) -> None:
    made = study(tiny("training.rounds=3"))
    masked = study(tiny("training.rounds=3", "transport.secure_sum=true"))
    plain, found = link_traffic(made), link_traffic(masked)
    assert found.num_exchanges - plain.num_exchanges == 3 * 4
    assert 1.8 < found.up / plain.up < 2.1
    assert found.down == plain.down


@pytest.mark.parametrize(
    "link", [(0.0, 0.1, 1.0), (-1.0, 0.1, 1.0), (9.0, -0.1, 1.0), (9.0, 0.1, float("nan"))]
)
def test_links_that_nobody_measured_are_refused(
    tiny: Make, link: tuple[float, float, float]
) -> None:
    made = study(tiny("training.rounds=1"))
    with pytest.raises(FednerError, match="expected a finite number"):
        estimated_seconds(made, *link)


def test_the_encoding_is_part_of_the_study_and_its_digest(tiny: Make) -> None:
    made = study(tiny("training.rounds=1", "transport.encoding=int8"))
    assert made.transport.encoding == "int8"
    assert "[transport]" in study_toml(made)
    plain = made.model_copy(update={"transport": type(made.transport)()})
    assert plain.digest != made.digest


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (("transport.encoding=int4",), '"int4"'),
        (("algorithm={name='fedavg',sends='weights'}",), "whole weights"),
        (
            ("privacy={mechanism='unit-central',noise_multiplier=1.0,simulation=true}",),
            "unit-central",
        ),
    ],
)
def test_what_cannot_be_encoded_is_refused_with_the_file(
    tiny: Make, changes: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        tiny("transport.encoding=int8", *changes)
    problems = [each for each in caught.value.problems if each.key == "transport.encoding"]
    assert len(problems) == 1
    assert expected in str(problems[0])


@pytest.mark.parametrize("mechanism", ["unit-local", "platform", "platform-central"])
def test_a_dp_simulation_in_int8_costs_what_it_costs_in_float32(
    tiny: Make, tmp_path: Path, mechanism: str
) -> None:
    costs = []
    for encoding in ("float32", "int8"):
        folder = tmp_path / encoding
        privacy = (
            f"privacy={{mechanism='{mechanism}',noise_multiplier=1.0,simulation=true,delta=0.01}}"
        )
        train_run(tiny(privacy, f"transport.encoding={encoding}", "training.rounds=2"), folder)
        rounds = RunFolder(folder).rounds()
        assert not any(each.refusals or each.failures for each in rounds)
        costs.append([each.events for each in rounds])
    assert costs[0] == costs[1]
