"""Jobs of studies: side by side, as they end."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from fedner.experiments import jobs
from fedner.experiments.jobs import as_they_end, side_by_side


def test_jobs_come_as_they_end_here_or_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    is_taken = Event()

    def twice(number: int) -> int:
        assert number != 3 or is_taken.wait(120)
        return 2 * number

    monkeypatch.setattr(jobs, "_pool", ThreadPoolExecutor)
    ended = as_they_end(twice, [3, 1], 2)
    assert next(ended) == (1, 2)
    is_taken.set()  # 3 ends when 1 has come, and not sooner
    assert list(ended) == [(3, 6)]
    assert list(as_they_end(twice, [3, 1], 1)) == [(3, 6), (1, 2)]
    assert list(side_by_side(twice, [3, 1], 2)) == [6, 2]
