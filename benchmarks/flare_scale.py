"""Seconds of a round over FLARE against megabytes, platforms and latency, with pictures.

    python -m benchmarks.flare_scale docs/images/flare-scale.svg

Real processes on loopback, mutual TLS, a tagger so small that messages are nearly all there is to
a round. Latency comes from the relay of `tests/deployment/relay.py`. From the constants that it
finds, it says on paper what 100 platforms and an encoder of 400 MB would need.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "deployment"))

from live import RUN, SERVER, Live, live, quick_keys, tiny_settings, until
from relay import Namespace, Relay

from fedner.runs.deployment.kits import Place, write_platform_kit
from fedner.runs.deployment.taking_part import installed

MEGABYTES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
PLATFORMS = (3, 10, 20)
DELAYS = (0.0, 0.02, 0.1)
FEW = 3
ROUNDS = 12
LARGE_ROUNDS = 6
DIMENSION = 64
_BYTES_PER_BUCKET = 4 * DIMENSION
_REST = 0.46  # megabytes of all weights but the word table


@dataclass(frozen=True, slots=True)
class Measured:
    """What one federation came to.

    Attributes:
        megabytes: What an order carries; an update carries as much.
        platforms: How many.
        delay: Seconds that a byte travels, each way.
        seconds: Of a round, the median.
        server: Megabytes of the server's job, at most.
    """

    megabytes: float
    platforms: int
    delay: float
    seconds: float
    server: float


def _settings(megabytes: float, platforms: int) -> object:
    words = {
        "words": "hashed",
        "dimension": DIMENSION,
        "buckets": max(64, int((megabytes - _REST) * 1e6 / _BYTES_PER_BUCKET)),
        "trainable": True,
    }
    rounds = ROUNDS if megabytes < 10 else LARGE_ROUNDS
    return tiny_settings(
        model={"recipe": "CNN-LSTM-CRF", "hidden": 8, "head": "described", "rank": 8},
        embeddings=words,
        training={"rounds": rounds, "batch_size": 8 * platforms, "checkpoint_every": 0},
        partition={"shared": "everything"},
        platforms=[
            {
                "name": f"platform-{number:02}",
                "data": "synthetic:case-reports",
                "num_sentences": 20,
                "policy": {"max_updates": 100_000},
            }
            for number in range(platforms)
        ],
    )


@contextmanager
def _federation(megabytes: float, platforms: int) -> Iterator[Live]:
    with (
        quick_keys(),
        tempfile.TemporaryDirectory() as folder,
        live(Path(folder), _settings(megabytes, platforms)) as found,
    ):
        yield found


def _run(federation: Live, name: str, platforms: int, delay: float) -> Measured:
    """Train, and look at the server's job meanwhile."""
    largest = [0.0]

    def is_done() -> bool:
        for pid in federation.job_pids(SERVER):
            try:
                largest[0] = max(largest[0], psutil.Process(pid).memory_info().rss / 1e6)
            except psutil.NoSuchProcess:
                continue
        jobs = federation._told(lambda session: session.jobs(name), [])
        return bool(jobs) and jobs[-1].is_done

    federation.submit(name)
    until(is_done, 900, name)
    lines = (federation.homes.server.runs / name / "rounds.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    megabytes = max(records[0]["bytes_down"].values()) / 1e6
    seconds = statistics.median(each["seconds"] for each in records[1:])
    found = Measured(megabytes, platforms, delay, seconds, largest[0])
    print(
        f"{megabytes:7.2f} MB {platforms:3} platforms {1e3 * delay:4.0f} ms "
        f"{seconds:8.3f} s a round {found.server:6.0f} MB server's job",
        flush=True,
    )
    return found


def by_size() -> list[Measured]:
    """Measure a round of 0.5 to 40 MB."""
    return [_started(megabytes, FEW) for megabytes in MEGABYTES]


def by_platforms() -> list[Measured]:
    """Measure a round of 1 MB with more and more platforms."""
    return [_started(1.0, count) for count in PLATFORMS]


def _started(megabytes: float, platforms: int) -> Measured:
    with _federation(megabytes, platforms) as federation:
        federation.start()
        federation.wait_connected(seconds=300)
        return _run(federation, RUN, platforms, 0.0)


def by_latency() -> list[Measured]:
    """Measure a round of 1 MB over longer and longer ways."""
    with _federation(1.0, FEW) as federation:
        place = installed(federation.homes.server).place
        here, relays = Namespace(), []
        for name in federation.study.names:
            relays.append(Relay(place.port, here))
            through = Place(place.federation, place.host, relays[-1].port)
            write_platform_kit(federation.homes.platforms[name], through, name)
        try:
            federation.start(SERVER)
            here.call(federation.start, *federation.study.names)
            federation.wait_connected(seconds=300)
            found = []
            for number, delay in enumerate(DELAYS):
                for relay in relays:
                    relay.network.delay = delay
                found.append(_run(federation, f"latency-{number}", FEW, delay))
            return found
        finally:
            for relay in relays:
                relay.close()
            here.close()


def constants(sizes: Sequence[Measured], counts: Sequence[Measured]) -> dict[str, float]:
    """Return what a round costs, a megabyte of one platform, and a platform, by least squares."""
    measured = [*sizes, *counts]
    table = np.asarray(
        [[1.0, each.platforms, each.platforms * each.megabytes] for each in measured]
    )
    seconds = np.asarray([each.seconds for each in measured])
    # Relative errors count alike: a round of 40 MB would decide everything otherwise.
    found, *_ = np.linalg.lstsq(table / seconds[:, None], np.ones(len(seconds)), rcond=None)
    memory = np.polyfit([each.megabytes for each in sizes], [each.server for each in sizes], 1)
    return {
        "round": float(found[0]),
        "platform": float(found[1]),
        "megabyte": float(found[2]),
        "server": float(memory[1]),
        "server_per_megabyte": float(memory[0]),
    }


WIDTH, HEIGHT, PANEL, TALL, TOP, LEFT, GAP = 940, 300, 220, 190, 50, 60, 90
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.t{font-weight:600;font-size:13px}"
    ".a{stroke:#bbb}.g{stroke:#eee}.l{fill:none;stroke:#1f6feb;stroke-width:2}.d{fill:#1f6feb}"
)


def _panel(
    left: float, title: str, unit: str, places: Sequence[tuple[float, float]]
) -> Iterator[str]:
    """Yield one curve: seconds of a round above something that grows."""
    right, top = max(x for x, _ in places), max(y for _, y in places) * 1.1
    bottom = TOP + TALL

    def across(value: float) -> float:
        return left + PANEL * value / right

    def down(value: float) -> float:
        return bottom - TALL * value / top

    yield f'<text class="t" x="{left}" y="{TOP - 18}">{title}</text>'
    for part in range(5):
        y = down(top * part / 4)
        yield f'<line class="g" x1="{left}" y1="{y:.1f}" x2="{left + PANEL}" y2="{y:.1f}"/>'
        yield f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{top * part / 4:.2f}</text>'
    yield f'<line class="a" x1="{left}" y1="{bottom}" x2="{left + PANEL}" y2="{bottom}"/>'
    shown = [x for x, _ in places if x in (0.0, places[0][0], right) or x >= right / 5]
    for x in shown:
        yield f'<text x="{across(x):.1f}" y="{bottom + 18}" text-anchor="middle">{x:.3g}</text>'
    yield f'<text x="{left + PANEL / 2}" y="{bottom + 38}" text-anchor="middle">{unit}</text>'
    joined = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in places)
    yield f'<polyline class="l" points="{joined}"/>'
    for x, y in places:
        yield f'<circle class="d" cx="{across(x):.1f}" cy="{down(y):.1f}" r="3"/>'


def picture(
    sizes: Sequence[Measured], counts: Sequence[Measured], delays: Sequence[Measured]
) -> str:
    """Return three panels as SVG."""
    panels: list[tuple[str, str, Sequence[Measured], Callable[[Measured], float]]] = [
        ("seconds of a round, 3 platforms", "MB, each way", sizes, lambda each: each.megabytes),
        ("seconds of a round of 1 MB", "platforms", counts, lambda each: each.platforms),
        ("seconds of a round of 1 MB", "ms, each way", delays, lambda each: 1e3 * each.delay),
    ]
    body = [
        line
        for number, (title, unit, held, place) in enumerate(panels)
        for line in _panel(
            LEFT + number * (PANEL + GAP), title, unit, [(place(e), e.seconds) for e in held]
        )
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>Seconds of a round over FLARE against size, platforms and latency</title>",
            f'<style>{_STYLE}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            *body,
            "</svg>\n",
        ]
    )


def main(path: Path | None = None) -> list[tuple[str, float, str]]:
    """Measure everything; draw it where a path is given."""
    sizes, counts, delays = by_size(), by_platforms(), by_latency()
    found = constants(sizes, counts)
    if path is not None:
        path.write_text(picture(sizes, counts, delays), encoding="utf-8")
    paper = found["round"] + 100 * (found["platform"] + 400 * found["megabyte"])
    return [
        ("a round by itself", found["round"], "s"),
        ("a platform more", found["platform"], "s"),
        ("a megabyte each way, of one platform", found["megabyte"], "s"),
        ("the server's job, without weights", found["server"], "MB"),
        ("the server's job, for a megabyte of weights", found["server_per_megabyte"], "MB"),
        ("on paper: 100 platforms, 400 MB, a round", paper, "s"),
        (
            "on paper: 400 MB, the server's job",
            found["server"] + 400 * found["server_per_megabyte"],
            "MB",
        ),
    ]


if __name__ == "__main__":
    for what, value, unit in main(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(f"{what:<60} {value:>12,.4f} {unit}")
