"""Seconds of a round over FLARE against megabytes, platforms and latency, with pictures.

    python -m benchmarks.flare_scale docs/images/flare-scale.svg build/flare-scale.json

Real processes on loopback, mutual TLS, a tagger so small that messages are nearly all there is to
a round. Latency comes from the relay of `tests/deployment/relay.py`. What was measured goes to the
JSON file; where that is there already, nothing is measured and the picture is drawn from it. From
the constants that it finds, it says on paper what 100 platforms and an encoder of 400 MB would
need.
"""

import json
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "deployment"))

from live import RUN, SERVER, Live, live, quick_keys, tiny_settings, until
from relay import Namespace, Relay

from fedner.runs.deployment.kits import Place, write_platform_kit
from fedner.runs.deployment.taking_part import installed
from fedner.settings import Settings

MEGABYTES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
PLATFORMS = (3, 10, 20)
BOTH = ((20.0, 6), (10.0, 10))  # megabytes and platforms: do they multiply?
SECURE = (3, 6, 10)  # platforms of a secure sum
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


def _settings(megabytes: float, platforms: int, is_secure: bool = False) -> Settings:
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
        transport={"secure_sum": is_secure},
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
def _federation(megabytes: float, platforms: int, is_secure: bool = False) -> Iterator[Live]:
    with (
        quick_keys(),
        tempfile.TemporaryDirectory() as folder,
        live(Path(folder), _settings(megabytes, platforms, is_secure)) as found,
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


def by_secure() -> list[Measured]:
    """Measure a round of 1 MB with a secure sum."""
    return [_started(1.0, count, is_secure=True) for count in SECURE]


def by_both() -> list[Measured]:
    """Measure rounds that are large and have many platforms."""
    return [_started(megabytes, count) for megabytes, count in BOTH]


def _started(megabytes: float, platforms: int, *, is_secure: bool = False) -> Measured:
    with _federation(megabytes, platforms, is_secure) as federation:
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


def constants(quiet: Sequence[Measured], both: Sequence[Measured]) -> dict[str, float]:
    """Return what a round costs by least squares: seconds, and megabytes of the server's job.

    Seconds are those of a round by itself, of each platform, and of each megabyte of each platform.
    Megabytes are those of a job by itself, of each platform, of each megabyte, and of each megabyte
    of each platform.

    Args:
        quiet: What seconds are taken from.
        both: Further points for the memory: their many processes have two cores here, and wait.
    """
    seconds = _solved(
        [[1.0, each.platforms, each.platforms * each.megabytes] for each in quiet],
        [each.seconds for each in quiet],
    )
    whole = [*quiet, *both]
    memory = _solved(
        [[1.0, e.platforms, e.megabytes, e.platforms * e.megabytes] for e in whole],
        [each.server for each in whole],
    )
    time = ("round", "platform", "megabyte")
    room = ("server", "server_platform", "server_megabyte", "server_both")
    return dict(zip((*time, *room), (*seconds, *memory), strict=True))


def _solved(table: list[list[float]], values: list[float]) -> list[float]:
    """Return the coefficients; relative errors count alike, or the largest decide everything."""
    scaled = np.asarray(table) / np.asarray(values)[:, None]
    found, *_ = np.linalg.lstsq(scaled, np.ones(len(values)), rcond=None)
    return [float(each) for each in found]


Dot = tuple[float, float]
CURVES = (("l", "d"), ("m", "e"))  # the classes of lines and dots
PANEL, TALL, TOP, LEFT, GAP, BELOW = 340, 190, 60, 70, 110, 110
WIDTH, HEIGHT = LEFT + 2 * PANEL + GAP + 30, 2 * (TOP + TALL) + BELOW
_STYLE = (
    "text{font:14px sans-serif;fill:#333}.t{font-weight:600;font-size:15px}"
    ".a{stroke:#999}.g{stroke:#e5e5e5}.l{fill:none;stroke:#1f6feb;stroke-width:2}.d{fill:#1f6feb}"
    ".m{fill:none;stroke:#c2410c;stroke-width:2;stroke-dasharray:6 3}.e{fill:#c2410c}"
)


def ticks(most: float) -> list[float]:
    """Return round numbers from 0 to above the most, about five of them.

    >>> ticks(1.815)
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= most / 5)
    return [round(number * step, 9) for number in range(math.ceil(most / step) + 1)]


def _panel(
    left: float, above: float, title: str, unit: str, curves: Mapping[str, list[Dot]]
) -> Iterator[str]:
    """Yield curves, by their names: something above something that grows."""
    places = [place for curve in curves.values() for place in curve]
    right, marks = max(x for x, _ in places), ticks(max(y for _, y in places))
    bottom = above + TALL

    def across(value: float) -> float:
        return left + PANEL * value / right

    def down(value: float) -> float:
        return bottom - TALL * value / marks[-1]

    yield f'<text class="t" x="{left}" y="{above - 18}">{title}</text>'
    for mark in marks:
        y = down(mark)
        yield f'<line class="g" x1="{left}" y1="{y:.1f}" x2="{left + PANEL}" y2="{y:.1f}"/>'
        yield f'<text x="{left - 8}" y="{y + 5:.1f}" text-anchor="end">{mark:,g}</text>'
    yield f'<line class="a" x1="{left}" y1="{bottom}" x2="{left + PANEL}" y2="{bottom}"/>'
    for x in _apart(sorted({x for x, _ in places}), right):
        shown = float(f"{x:.2g}")
        yield f'<text x="{across(x):.1f}" y="{bottom + 20}" text-anchor="middle">{shown:g}</text>'
    yield f'<text x="{left + PANEL / 2}" y="{bottom + 42}" text-anchor="middle">{unit}</text>'
    for (line, dot), (name, curve) in zip(CURVES, curves.items(), strict=False):
        joined = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in curve)
        yield f'<polyline class="{line}" points="{joined}"/>'
        for x, y in curve:
            yield f'<circle class="{dot}" cx="{across(x):.1f}" cy="{down(y):.1f}" r="3.5"/>'
        x, y = curve[-1]
        yield f'<text x="{across(x) - 8:.1f}" y="{down(y) - 8:.1f}" text-anchor="end">{name}</text>'


def _apart(places: list[float], right: float) -> list[float]:
    """Return those that have room for a number below them, from the right."""
    kept: list[float] = []
    for each in sorted(places, reverse=True):
        if not kept or kept[-1] - each > right / 10:
            kept.append(each)
    return kept


def picture(held: Mapping[str, Sequence[Measured]]) -> str:
    """Return four panels as SVG, of what was measured by kind."""
    sizes, delays = held["sizes"], held["delays"]
    counts = {"in the clear": held["counts"], "secure sum": held["secure"]}
    seconds, of_one = "seconds of a round", "seconds of a round of 1 MB"
    panels = [
        (f"{seconds}, 3 platforms", "MB, each way",
         {"": [(e.megabytes, e.seconds) for e in sizes]}),
        (of_one, "platforms", {name: [(float(e.platforms), e.seconds) for e in points]
                               for name, points in counts.items()}),
        (f"{of_one}, 3 platforms", "ms, each way",
         {"": [(1e3 * e.delay, e.seconds) for e in delays]}),
        ("MB of the server's job, 3 platforms", "MB, each way",
         {"": [(e.megabytes, e.server) for e in sizes]}),
    ]  # fmt: skip
    body = []
    for number, (title, unit, curves) in enumerate(panels):
        left = LEFT + number % 2 * (PANEL + GAP)
        above = TOP + number // 2 * (TOP + TALL + BELOW / 2)
        body += _panel(left, above, title, unit, curves)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>A round over FLARE against size, platforms and latency</title>",
            f'<style>{_STYLE}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            *body,
            "</svg>\n",
        ]
    )


KINDS: dict[str, Callable[[], list[Measured]]] = {
    "sizes": by_size,
    "counts": by_platforms,
    "secure": by_secure,
    "both": by_both,
    "delays": by_latency,
}


def measured(path: Path | None) -> dict[str, list[Measured]]:
    """Return what was measured: from a file, and into it what is not there yet."""
    known = {}
    if path is not None and path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
    found = {
        kind: [Measured(**each) for each in known[kind]] if kind in known else measure()
        for kind, measure in KINDS.items()
    }
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {kind: [asdict(each) for each in points] for kind, points in found.items()}
        path.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return found


def main(path: Path | None = None, points: Path | None = None) -> list[tuple[str, float, str]]:
    """Measure everything, or read it; draw it where a path is given."""
    held = measured(points)
    found = constants([*held["sizes"], *held["counts"]], held["both"])
    if path is not None:
        path.write_text(picture(held), encoding="utf-8")
    paper = found["round"] + 100 * (found["platform"] + 400 * found["megabyte"])
    alone = found["server"] + 100 * found["server_platform"]
    room = alone + 400 * (found["server_megabyte"] + 100 * found["server_both"])
    return [
        ("a round by itself", found["round"], "s"),
        ("a platform more", found["platform"], "s"),
        ("a megabyte each way, of one platform", found["megabyte"], "s"),
        ("the server's job by itself", found["server"], "MB"),
        ("the server's job, a platform more", found["server_platform"], "MB"),
        ("the server's job, a megabyte of weights", found["server_megabyte"], "MB"),
        ("the server's job, a megabyte of one platform", found["server_both"], "MB"),
        ("on paper: 100 platforms, 400 MB, a round", paper, "s"),
        ("on paper: 100 platforms, 400 MB, the server's job", room, "MB"),
    ]


if __name__ == "__main__":
    for what, value, unit in main(*map(Path, sys.argv[1:3])):
        print(f"{what:<60} {value:>12,.4f} {unit}")
