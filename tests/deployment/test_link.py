"""The link to the server is measured, and tells how long a study's messages are on their way."""

from pathlib import Path
from typing import Any

import pytest
from live import tiny_settings

from fedner.runs.deployment import link
from fedner.runs.deployment.link import (
    LinkEstimate,
    MeasuredLink,
    ask_nothing,
    estimate,
    measure_link,
)
from fedner.runs.deployment.serving import CHUNK_BYTES, Caller, Desk
from fedner.runs.link_time import link_traffic
from fedner.runs.study_defaults import with_defaults
from fedner.runs.study_files import halves_of

STUDY = with_defaults(halves_of(tiny_settings(50)).study)


class SlowSession:
    """Answers as a link of 20 ms, 4 MB/s down and 1 MB/s up would, by a clock of its own."""

    def __init__(self) -> None:
        self.now, self.asked = 1_000.0, [(0, 0)][:0]

    def ask(self, verb: str, size: str, *filling: str) -> dict[str, Any]:
        assert verb == "link"
        up = sum(map(len, filling))
        self.asked.append((int(size), up))
        self.now += 0.02 + int(size) / 4e6 + up / 1e6
        return {"data": ""}


def test_latency_and_both_directions_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    session = SlowSession()
    monkeypatch.setattr(link.time, "perf_counter", lambda: session.now)
    found = measure_link(session)  # type: ignore[arg-type]
    assert found.latency == pytest.approx(0.02)
    assert found.down == pytest.approx(4e6, rel=0.01)
    assert found.up == pytest.approx(1e6, rel=0.01)
    assert found.slower == found.up
    each = ((0, 0), (CHUNK_BYTES, 0), (0, 2**18))
    assert session.asked == [size for size in each for _ in range(5)]


def test_an_empty_question_carries_nothing() -> None:
    session = SlowSession()
    ask_nothing(session)  # type: ignore[arg-type]
    assert session.asked == [(0, 0)]


def test_an_estimate_is_bytes_over_speed() -> None:
    found = estimate(STUDY, MeasuredLink(0.1, 5e6, 1e6))
    traffic = link_traffic(STUDY)
    assert found.rounds == 50
    assert found.megabytes == (traffic.down + traffic.up) / 1e6
    assert found.seconds == traffic.num_bytes / 1e6 + traffic.num_exchanges * 0.1
    assert found.seconds_per_round == pytest.approx(found.megabytes + 0.1)
    assert "50 rounds" in found.words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (12, "about 12 s"),
        (90, "about 2 minutes"),
        (600, "about 10 minutes"),
        (5400, "about 1.5 hours"),
        (9000, "about 2.5 hours"),
    ],
)
def test_spans(seconds: float, words: str) -> None:
    assert link._span(seconds) == words


@pytest.mark.parametrize(
    ("each", "words"), [(0.1234, "each 0.12 s"), (1.0, "each 1.0 s"), (12.34, "each 12.3 s")]
)
def test_seconds_of_a_round_have_the_digits_that_matter(each: float, words: str) -> None:
    assert words in LinkEstimate(10, 1.0, each, 10 * each).words


def test_the_server_gives_as_much_as_is_asked_and_no_more(tmp_path: Path) -> None:
    desk, caller = Desk(tmp_path, tmp_path / "removed.json"), Caller("north", "")
    assert len(desk.answer(caller, ["link", "1000"])["data"]) == 1000
    assert len(desk.answer(caller, ["link", "0", "x" * 1000])["data"]) == 0
    for size in (-2, CHUNK_BYTES + 2):
        assert "error" in desk.answer(caller, ["link", str(size)])
    one, other = (desk.answer(caller, ["link", "64"])["data"] for _ in range(2))
    assert one != other, "what repeats itself could be compressed on the way"
