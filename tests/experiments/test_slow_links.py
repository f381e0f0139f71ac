"""The table of slow links: a run each way, small, and the rows that come of it."""

from argparse import Namespace
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.experiments.slow_links import (
    DEMO,
    ENCODINGS,
    LOCAL_STEPS,
    MEDICAL,
    LinkJob,
    Point,
    jobs_of,
    run,
    table,
)

TINY = ("platforms.0.num_sentences=40", "platforms.1.num_sentences=40", "model.hidden=4")


def test_a_run_each_way_says_what_crossed(tmp_path: Path) -> None:
    plain, small = (
        run(LinkJob(DEMO, encoding, steps, 1, 4, tmp_path / encoding, None, TINY))[0]
        for encoding, steps in (("float32", 1), ("int8", 2))
    )
    assert (plain.rounds, small.rounds) == (4, 2)
    assert plain.up == plain.down
    assert plain.down == 4 * small.down, "half as many rounds of half as many bytes"
    assert 6 < plain.up / small.up < 8
    lines = table([plain, small]).splitlines()
    assert lines[2].startswith("| demo | 1 | float32 | 4 |")
    assert "| 100.0% |" in lines[2]
    assert lines[3].startswith("| demo | 2 | int8 | 2 |")


def test_rows_are_means_over_seeds() -> None:
    points = [Point(DEMO, "int8", 5, seed, 10, 50.0 + seed, 10**6, 10**6, 1.0) for seed in (1, 3)]
    assert "| demo | 5 | int8 | 10 | 52.0 | 1.0 | 1.0 | 100.0% | 0.3 |" in table(points)


def test_medical_platforms_only_where_their_folder_is(tmp_path: Path) -> None:
    options = {"out": tmp_path, "set": [], "demo_steps": 4, "medical_steps": 4}
    options |= {"seeds": 1, "first_seed": 1}
    ways = len(ENCODINGS) * len(LOCAL_STEPS)
    assert len(jobs_of(Namespace(data=None, **options))) == ways
    assert len(jobs_of(Namespace(data=tmp_path / "none", **options))) == ways
    assert len(jobs_of(Namespace(data=tmp_path, **options))) == 2 * ways
    with pytest.raises(FednerError, match="without its corpora"):
        run(LinkJob(MEDICAL, "int8", 1, 1, 4, tmp_path / "run"))
