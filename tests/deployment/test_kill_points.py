"""Fifty random kill points: `make test-faults`. What earlier calls passed is not done again.

A run meets four of them, one in each state of a job; a third of the runs is under differential
privacy. One federation of real processes stays up for all runs of a kind.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from dp_live import assert_charged_once, dp_settings
from kill_points import (
    STATES,
    Outcome,
    Point,
    Scene,
    draw_points,
    is_done,
    keep_outcome,
    known_outcomes,
    show,
    table,
    take_point,
)
from live import Live, assert_same_tensors, live, quick_keys, reference, tiny_settings, until

pytestmark = [pytest.mark.deployment, pytest.mark.slow]
COUNT, ROUNDS = 50, 60
POINTS = draw_points(COUNT)
RUNS = [POINTS[start : start + len(STATES)] for start in range(0, COUNT, len(STATES))]
NUM_PLAIN = round(len(RUNS) * 2 / 3)


class Theatre:
    """The federation of one kind of runs, and what they must come to."""

    def __init__(self, folder: Path, *, is_dp: bool) -> None:
        self.folder, self.is_dp = folder, is_dp
        self._open = ExitStack()
        self.federation: Live | None = None
        self._expected: Path | None = None

    def scene(self) -> Scene:
        if self.federation is None:
            self._open.enter_context(quick_keys())
            settings = dp_settings(self.folder, ROUNDS) if self.is_dp else tiny_settings(ROUNDS)
            self.federation = self._open.enter_context(live(self.folder, settings))
            for path in self.federation.settings.values():
                path.write_text(path.read_text() + "\n[policy]\nmax_updates = 1000000\n")
            self.federation.start()
            self.federation.watch_apart()
            self.federation.wait_connected()
        return Scene(self.federation, "")

    def check(self, run: str) -> str:
        """Compare a run that is over with the undisturbed one; return what was compared."""
        assert self.federation is not None
        # A job that was killed after its last word is over, but not done in FLARE's eyes.
        self.federation.wait_jobs(lambda jobs: jobs[-1].is_over, run)
        folder = self.federation.homes.server.runs / run
        until(lambda: is_done(folder), 120, f"the end of {run}")
        if self.is_dp:
            num_resent = assert_charged_once(self.federation, self.folder, run, ROUNDS)
            return f"each round charged once, {num_resent} answers sent again"
        if self._expected is None:
            self._expected = reference(self.federation, self.folder / "reference")
        assert_same_tensors(self.federation, self._expected, run)
        return "same tensors"

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="module")
def theatres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Theatre]]:
    found = {
        is_dp: Theatre(tmp_path_factory.mktemp("kills"), is_dp=is_dp) for is_dp in (False, True)
    }
    yield found
    for each in found.values():
        each.close()
    show()


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_killed_at_random_moments(number: int, theatres: dict[bool, Theatre]) -> None:
    known = known_outcomes()
    if all(point.number in known for point in RUNS[number]):
        return
    is_dp = number >= NUM_PLAIN
    if is_dp:
        theatres[False].close()
    theatre = theatres[is_dp]
    scene = theatre.scene()
    try:
        scene.begin(number + 1)
        outcomes = [_taken(scene, point) for point in RUNS[number]]
        assert [each for each in outcomes if each.result == "STUCK"] == []
        checked = theatre.check(scene.run)
    finally:
        scene.leave()
    for each in outcomes:
        keep_outcome(replace(each, checked=checked))


def _taken(scene: Scene, point: Point) -> Outcome:
    outcome = take_point(scene, point)
    print("\n" + table([outcome]).splitlines()[-1], flush=True)
    return outcome
