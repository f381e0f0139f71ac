"""A federation over FLARE is watched while it runs: by server, platform and coordinator.

A platform's process is killed on the way: the server's view waits for it by name.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live import RUN, Live, live, tiny_settings

from fedner.federated.record import read_rounds
from fedner.runs.watch.opening import open_source
from fedner.runs.watch.snapshot import Snapshot
from fedner.runs.watch.source import Source
from fedner.runs.watch.watcher import read_all

pytestmark = [pytest.mark.deployment, pytest.mark.slow]
PLATFORM = "forum-posts"


def seen(source: Source, holds: Callable[[Snapshot], bool], seconds: float = 120) -> Snapshot:
    """Return the first snapshot that fits."""
    end = time.monotonic() + seconds
    while not holds(shown := read_all(source)):
        assert time.monotonic() < end, f"not seen: {shown.standing}, round {shown.round}"
        time.sleep(0.2)
    return shown


def test_server_platform_and_coordinator_watch_a_live_run(tmp_path: Path) -> None:
    training = {"rounds": 12, "batch_size": 16, "baselines": [], "evaluate_every": 2}
    with live(tmp_path, tiny_settings(training=training)) as federation:
        server = open_source(federation.homes.server.path)
        platform = open_source(federation.homes.platforms[PLATFORM].path)
        assert (read_all(server).run, read_all(platform).run) == ("", "")
        federation.start()
        federation.watch()
        federation.wait_connected()
        federation.submit()
        running = seen(server, lambda shown: shown.round >= 2)
        assert running.standing.phase == "running"
        federation.kill_all(PLATFORM)
        waiting = seen(server, lambda shown: shown.standing.phase == "waiting")
        assert PLATFORM in waiting.standing.waiting_for
        federation.start(PLATFORM)
        coordinator = open_source(federation.homes.federation.path)
        views = [
            seen(each, lambda shown: shown.standing.phase == "done")
            for each in (server, platform, coordinator)
        ]
        coordinator.close()
    _same_rounds(federation, *views)


def _same_rounds(
    federation: Live, server: Snapshot, platform: Snapshot, coordinator: Snapshot
) -> None:
    """All three tell of the same run, each what its owner has."""
    records = read_rounds(federation.homes.server.runs / RUN / "rounds.jsonl")
    assert [each.run for each in (server, platform, coordinator)] == [RUN] * 3
    assert [each.round for each in (server, platform, coordinator)] == [12] * 3
    assert [point.mean for point in server.loss[0].points] == [each.loss for each in records]
    assert coordinator.loss == server.loss
    assert coordinator.f1 == server.f1
    assert [each.view for each in (server, platform, coordinator)] == [
        "coordinator", "platform", "coordinator",
    ]  # fmt: skip
    assert [each.name for each in platform.platforms] == [PLATFORM]
    of_platform = [each for each in (*server.loss, *server.f1) if each.name == PLATFORM]
    assert [*platform.loss, *platform.f1] == of_platform, "its own notes say what it sent"
    assert platform.platforms[0].bytes_up > 0
    assert server.verdict == ("3 of 3 platforms reported scores.",)
    assert platform.verdict[0].startswith("Strict F1 is")
