"""Bad networks: every platform in a network namespace of its own, behind a relay of ours.

Training goes on or stops with a clear word, and resumes; always to the tensors of the same study
in one process.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from live import (
    NAMES,
    SERVER,
    Live,
    assert_same_tensors,
    live,
    quick_keys,
    reference,
    tiny_settings,
    until,
)
from relay import Namespace, Relay

from fedner.engines.flare.session import AdminSession
from fedner.runs.deployment.kits import Place, write_platform_kit
from fedner.runs.deployment.taking_part import installed

pytestmark = pytest.mark.deployment
ROUNDS = 30
VICTIM = NAMES[1]
MEGABIT = 1_000_000 / 8


class Networked:
    """A live federation whose platforms live in namespaces, each behind a relay."""

    def __init__(self, federation: Live) -> None:
        self.live = federation
        place = installed(federation.homes.server).place
        self.spaces = {name: Namespace() for name in NAMES}
        self.relays = {name: Relay(place.port, self.spaces[name]) for name in NAMES}
        for name, relay in self.relays.items():
            through = Place(place.federation, place.host, relay.port)
            write_platform_kit(federation.homes.platforms[name], through, name)

    def start(self) -> None:
        self.live.start(SERVER)
        for name in NAMES:
            self.spaces[name].call(self.live.start, name)
        self.live.wait_connected()
        self.live.watch()

    def all(self, **network: float | None) -> None:
        for relay in self.relays.values():
            for key, value in network.items():
                setattr(relay.network, key, value)

    def close(self) -> None:
        for relay in self.relays.values():
            relay.close()
        for space in self.spaces.values():
            space.close()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networked]:
    settings = tiny_settings(training={"rounds": ROUNDS, "batch_size": 8, "checkpoint_every": 5})
    with quick_keys(), live(tmp_path_factory.mktemp("networks"), settings) as federation:
        made = Networked(federation)
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def expected(network: Networked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference(network.live, tmp_path_factory.mktemp("reference"))


@pytest.fixture(autouse=True)
def healed(network: Networked) -> Iterator[None]:
    yield
    network.all(delay=0.0, rate=None)
    for relay in network.relays.values():
        relay.heal()


def seconds_per_round(network: Networked, run: str) -> float:
    import json

    path = network.live.homes.server.runs / run / "rounds.jsonl"
    seconds = [json.loads(line)["seconds"] for line in path.read_text().splitlines()]
    return sorted(seconds)[len(seconds) // 2]


def test_platforms_reach_nothing_but_their_relay(network: Networked) -> None:
    """Otherwise the other tests would show nothing."""
    if not network.spaces[VICTIM].is_apart:
        pytest.skip("this process may not make network namespaces")
    place = installed(network.live.homes.server).place
    import socket

    with pytest.raises(ConnectionRefusedError):
        network.spaces[VICTIM].call(socket.create_connection, ("127.0.0.1", place.port))


@pytest.mark.parametrize(
    ("run", "bad"),
    [
        ("near", {"delay": 0.01}),
        ("far", {"delay": 0.05}),
        ("narrow", {"rate": 10 * MEGABIT}),
    ],
)  # a way and back: 20 and 100 ms; 10 Mbit/s
def test_far_and_narrow(
    network: Networked, expected: Path, run: str, bad: dict[str, float]
) -> None:
    network.all(**bad)
    network.live.submit(run)
    (job,) = network.live.wait_done(run)
    assert job.is_done
    assert_same_tensors(network.live, expected, run)
    print(f"{run}: {seconds_per_round(network, run):.3f} s in a round")
    assert seconds_per_round(network, run) < 2.0


def test_a_cut_that_heals(network: Networked, expected: Path) -> None:
    network.all(delay=0.02)  # or the run is over before the cut
    network.live.submit("cut")
    network.live.wait_round(7, "cut")
    network.relays[VICTIM].cut()
    until(lambda: _is_named(network, "cut"), 30, "the platform is named")
    network.relays[VICTIM].heal()
    jobs = network.live.wait_done("cut", 180)
    assert len(jobs) > 1, "another job went on"
    assert_same_tensors(network.live, expected, "cut")


def test_a_half_open_connection(network: Networked, expected: Path) -> None:
    """Somebody between forgot the connections: what is sent is lost, and nobody is told."""
    network.all(delay=0.02)
    network.live.submit("half-open")
    network.live.wait_round(7, "half-open")
    assert network.relays[VICTIM].forget() >= 1
    until(lambda: _is_named(network, "half-open"), 30, "the platform is named")
    until(lambda: VICTIM in _connected(network), 60, "it connects anew")
    network.live.wait_done("half-open", 180)
    assert_same_tensors(network.live, expected, "half-open")


def _is_named(network: Networked, run: str) -> bool:
    """Whether the end of a job names the platform that was lost."""
    path = network.live.homes.server.runs / run / "jobs.jsonl"
    return path.exists() and VICTIM in path.read_text()


def _connected(network: Networked) -> list[str]:
    return network.live._told(lambda session: AdminSession.connected(session, 5.0), [])
