"""Bad networks: every platform in a network namespace of its own, behind a relay of ours.

Training goes on or stops with a clear word, and resumes; always to the tensors of the same study
in one process.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

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
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.engines.flare.session import AdminSession
from fedner.runs.deployment.kits import Place, write_platform_kit
from fedner.runs.deployment.taking_part import installed

pytestmark = pytest.mark.deployment
ROUNDS = 30
VICTIM = NAMES[1]
HOOKS = Path(__file__).parent / "intruder_hooks"
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


def round_seconds(network: Networked, run: str) -> list[float]:
    path = network.live.homes.server.runs / run / "rounds.jsonl"
    return [float(json.loads(line)["seconds"]) for line in path.read_text().splitlines()]


def test_platforms_reach_nothing_but_their_relay(network: Networked) -> None:
    """Otherwise the other tests would show nothing."""
    if not network.spaces[VICTIM].is_apart:
        pytest.skip("this process may not make network namespaces")
    place = installed(network.live.homes.server).place
    with pytest.raises(ConnectionRefusedError):
        network.spaces[VICTIM].call(socket.create_connection, ("127.0.0.1", place.port))


def test_far_and_narrow(network: Networked, expected: Path) -> None:
    """20 and 100 ms there and back, then 10 Mbit/s: a round takes longer, and nothing else."""
    network.all(delay=0.01)
    network.live.submit("far")
    for after, bad in ((10, {"delay": 0.05}), (20, {"delay": 0.0, "rate": 10 * MEGABIT})):
        network.live.wait_round(after, "far", 90)
        network.all(**bad)
    jobs = network.live.wait_done("far")
    assert len(jobs) == 1
    assert_same_tensors(network.live, expected, "far")
    kinds = {"20 ms": slice(2, 9), "100 ms": slice(12, 19), "10 Mbit/s": slice(22, 29)}
    for kind, part in kinds.items():
        print(f"{kind}: {median(round_seconds(network, 'far')[part]):.3f} s in a round")
    assert max(round_seconds(network, "far")) < 10


@pytest.mark.slow  # a minute
def test_a_cut_that_heals(network: Networked, expected: Path) -> None:
    """The platform is named, its job ends, and another one goes on when it is back."""
    network.all(delay=0.02)  # or the run is over before the cut
    network.live.submit("cut")
    network.live.wait_round(7, "cut", 90)
    network.relays[VICTIM].cut()
    until(lambda: _is_named(network, "cut"), 30, "the platform is named")
    network.relays[VICTIM].heal()
    jobs = network.live.wait_done("cut", 180)
    assert len(jobs) > 1
    assert_same_tensors(network.live, expected, "cut")


@pytest.mark.slow  # a minute
def test_a_half_open_connection(network: Networked, expected: Path) -> None:
    """Somebody between forgot the connections: what is sent is lost, and nobody is told."""
    network.all(delay=0.02)
    network.live.submit("half-open")
    network.live.wait_round(7, "half-open", 90)
    assert network.relays[VICTIM].forget() >= 1
    until(lambda: _is_named(network, "half-open"), 30, "the platform is named")
    until(lambda: VICTIM in _connected(network), 90, "it connects anew")
    network.live.wait_done("half-open", 240)
    assert_same_tensors(network.live, expected, "half-open")


@pytest.mark.slow  # CI has 20 minutes in all; one clock below is for it
@pytest.mark.parametrize("hours", [1, -1])
def test_clocks_that_are_off_by_an_hour(
    network: Networked, expected: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """A platform's and the coordinator's: the run ends as ever, and `status` tells the truth."""
    with monkeypatch.context() as patch:
        patch.setenv("CLOCK_OFF", str(3600 * hours))
        patch.setenv("PYTHONPATH", f"{HOOKS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        network.live.kill_all(VICTIM)
        network.spaces[VICTIM].call(network.live.start, VICTIM)
    network.live.wait_connected()
    run = f"clock-{'ahead' if hours > 0 else 'behind'}"
    network.live.submit(run)
    network.live.wait_done(run)
    assert_same_tensors(network.live, expected, run)
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() - 3600 * hours)
    told = json.loads(_status(network))
    assert {each["name"] for each in told["members"] if each["connected"]} == set(NAMES)
    assert (told["run"]["run"], told["run"]["phase"]) == (run, "done")


def test_a_platform_that_is_gone_is_gone_by_any_clock(
    network: Networked, monkeypatch: pytest.MonkeyPatch
) -> None:
    network.live.kill_all(VICTIM)
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() - 3600)

    def connected() -> set[str]:
        members = json.loads(_status(network))["members"]
        return {each["name"] for each in members if each["connected"]}

    try:
        until(lambda: connected() == {NAMES[0], NAMES[2]}, 40, "status tells that it is gone")
    finally:
        network.spaces[VICTIM].call(network.live.start, VICTIM)
        monkeypatch.undo()
        network.live.wait_connected()


def _status(network: Networked) -> str:
    home = network.live.homes.federation.path
    result = CliRunner().invoke(app, ["federation", "status", "--home", str(home), "--json"])
    assert result.exit_code == 0, result.output
    return result.output


def _is_named(network: Networked, run: str) -> bool:
    """Whether the end of a job names the platform that was lost."""
    path = network.live.homes.server.runs / run / "jobs.jsonl"
    return path.exists() and VICTIM in path.read_text()


def _connected(network: Networked) -> list[str]:
    return network.live._told(lambda session: AdminSession.connected(session, 5.0), [])
