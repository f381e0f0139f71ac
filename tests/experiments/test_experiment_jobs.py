"""Jobs of studies: side by side, as they end."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedner.experiments import jobs
from fedner.experiments.jobs import as_they_end, side_by_side


def test_jobs_come_as_they_end_here_or_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(number: int) -> int:
        time.sleep(0.2 if number == 3 else 0)
        return 2 * number

    monkeypatch.setattr(jobs, "_pool", ThreadPoolExecutor)
    assert list(as_they_end(twice, [3, 1], 1)) == [(3, 6), (1, 2)]
    assert list(as_they_end(twice, [3, 1], 2)) == [(1, 2), (3, 6)]
    assert list(side_by_side(twice, [3, 1], 2)) == [6, 2]
