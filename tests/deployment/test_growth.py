"""Growth is told from a change of pace, and a new name from a larger file."""

from growth import LOGS, grown_at_one_pace, sizes_by_kind


def test_growth_is_told_from_pace() -> None:
    hours = [number / 12 for number in range(1, 25)]
    paces = [7.0] * 16 + [15.0] * 8
    pace_alone = [250e6 + 5e6 * pace for pace in paces]
    assert abs(grown_at_one_pace(hours, paces, pace_alone)) < 1e3
    leaking = [each + 30e6 * hour for each, hour in zip(pace_alone, hours, strict=True)]
    assert 29e6 < grown_at_one_pace(hours, paces, leaking) < 31e6


def test_a_checkpoint_that_takes_the_place_of_another_has_not_grown() -> None:
    before = {"a/round-000200.safetensors": 10, "a/other.json": 5}
    after = {"a/round-000400.safetensors": 10, "a/round-000600.safetensors": 12, "a/other.json": 9}
    assert sizes_by_kind(before) == {"a/round-N.safetensors": 10, "a/other.json": 5}
    assert sizes_by_kind(after) == {"a/round-N.safetensors": 12, "a/other.json": 9}
    assert LOGS.search("server/logs/server.log.1")
    assert LOGS.search("server/flare/6e/log.txt")
    assert not LOGS.search("server/runs/long/log.json")
