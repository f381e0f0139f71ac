"""Fifty random kill points: `make test-faults`. What earlier calls passed is not done again."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from dp_live import assert_charged_once, dp_settings
from kill_points import (
    Outcome,
    Point,
    Scene,
    draw_points,
    keep_outcome,
    known_outcomes,
    table,
    take_point,
)
from live import assert_same_tensors, live, reference, tiny_settings

from fedner.settings import Settings

pytestmark = [pytest.mark.deployment, pytest.mark.slow]
COUNT, BATCH, ROUNDS = 50, 5, 150
POINTS = draw_points(COUNT)
BATCHES = [POINTS[start : start + BATCH] for start in range(0, COUNT, BATCH)]


@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_killed_at_random_moments(number: int, tmp_path: Path) -> None:
    known = known_outcomes()
    batch = BATCHES[number]
    if all(point.number in known for point in batch):
        print("\n" + table([known[point.number] for point in batch]))
        return
    is_dp = number % 3 == 2
    settings = dp_settings(tmp_path, ROUNDS) if is_dp else tiny_settings(ROUNDS)
    outcomes = _killed(tmp_path, settings, batch, is_dp=is_dp)
    assert [each for each in outcomes if each.result == "STUCK"] == []
    for each in outcomes:
        keep_outcome(each)


def _killed(
    folder: Path, settings: Settings, batch: Sequence[Point], *, is_dp: bool
) -> list[Outcome]:
    """Take all points of a batch in one federation; every run must come to its very end."""
    outcomes, run = [], 1
    with live(folder, settings) as federation:
        federation.start()
        federation.watch_apart()
        federation.wait_connected()
        scene = Scene(federation, "")
        try:
            scene.begin(run)
            for point in batch:
                if scene.is_done:
                    run += 1
                    scene.begin(run)
                outcomes.append(take_point(scene, point))
                print("\n" + table(outcomes[-1:]).splitlines()[-1], flush=True)
            for each in range(1, run + 1):
                federation.wait_done(f"run-{each}", seconds=300)
        finally:
            scene.leave()
        expected = None if is_dp else reference(federation, folder / "reference")
        for each in range(1, run + 1):
            if expected is None:
                assert_charged_once(federation, folder, f"run-{each}", ROUNDS)
            else:
                assert_same_tensors(federation, expected, f"run-{each}")
    return outcomes
