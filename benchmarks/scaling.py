"""Cost of a round and memory of the server from 3 to 1,000 small platforms, as a picture.

    python -m benchmarks.scaling docs/images/scaling.svg

The federation is that of `benchmarks.rounds`, its third part: Algorithm 1 with a private layer, the
serial engine, one platform live, all other states spilled to disk. One process does all the work,
so that its processor time is the cost of a round, whoever else uses the machine. Without a path it
prints the numbers and draws nothing.
"""

import math
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

COUNTS = (3, 10, 30, 100, 300, 1000)
ROUNDS = 3
WIDTH, HEIGHT, LEFT, TOP, PANEL, TALL = 760, 300, 66, 44, 280, 196
GAP = 100
STYLE = (
    "text{font:12px sans-serif;fill:#333}.t{font-weight:600;font-size:13px}"
    ".a{stroke:#bbb}.g{stroke:#eee}.l{fill:none;stroke:#1f6feb;stroke-width:2}"
    ".r{fill:none;stroke:#999;stroke-dasharray:4 4}.d{fill:#1f6feb}"
)


class Point(NamedTuple):
    """What was measured for one number of platforms.

    Attributes:
        platforms: How many.
        milliseconds: Processor time of a round, the median of a few.
        megabytes: Proportional set size of the server's process afterwards.
    """

    platforms: int
    milliseconds: float
    megabytes: float


def measure(counts: Sequence[int] = COUNTS) -> list[Point]:
    """Run a few rounds for each number of platforms."""
    import torch

    torch.set_num_threads(1)
    return [_point(count) for count in counts]


def _point(count: int) -> Point:
    from benchmarks import rounds
    from fedner.engines.in_process import InProcess
    from fedner.federated.algorithms import fedner
    from fedner.federated.answering import answers
    from fedner.federated.run import RunSettings, run

    algorithm, names = fedner(), rounds.small_names(count)
    first = rounds.tiny_platform(names[0])
    weights = {name: each.detach().clone() for name, each in first.learner.weights().items()}
    engine = InProcess(answers(rounds.tiny_platform, algorithm), names, max_live=1)
    settings = RunSettings("scaling", ROUNDS + 1, 4 * count, dict.fromkeys(names, rounds.EXAMPLES))
    ends = [time.process_time()]
    shared = first.partition.shared_state(weights)
    run(
        algorithm,
        engine,
        shared,
        settings,
        rounds.SEED,
        on_round=lambda _: ends.append(time.process_time()),
    )
    engine.close()
    spent = [after - before for before, after in pairwise(ends[1:])]  # the first one builds
    return Point(count, 1e3 * median(spent), rounds._pss("self"))


def slope(points: Sequence[Point]) -> float:
    """Return the exponent of the cost's growth (1 is linear), by least squares on logarithms."""
    x = [math.log(each.platforms) for each in points]
    y = [math.log(each.milliseconds) for each in points]
    middle, level = sum(x) / len(x), sum(y) / len(y)
    rise = sum((a - middle) * (b - level) for a, b in zip(x, y, strict=True))
    return rise / sum((a - middle) ** 2 for a in x)


def _across(count: float, left: float) -> float:
    span = math.log10(COUNTS[-1] / COUNTS[0])
    return left + PANEL * math.log10(count / COUNTS[0]) / span


def _frame(left: float, title: str) -> list[str]:
    bottom = TOP + TALL
    lines = [
        f'<text class="t" x="{left}" y="{TOP - 16}">{title}</text>',
        f'<line class="a" x1="{left}" y1="{bottom}" x2="{left + PANEL}" y2="{bottom}"/>',
        f'<text x="{left + PANEL / 2}" y="{bottom + 40}" text-anchor="middle">platforms</text>',
    ]
    for count in COUNTS:
        x = _across(count, left)
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{count:,}</text>')
    return lines


def _curve(places: Sequence[tuple[float, float]]) -> list[str]:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle class="d" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
    return [f'<polyline class="l" points="{joined}"/>', *dots]


def _mark(left: float, y: float, label: str) -> list[str]:
    return [
        f'<line class="g" x1="{left}" y1="{y:.1f}" x2="{left + PANEL}" y2="{y:.1f}"/>',
        f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>',
    ]


def _cost(points: Sequence[Point], left: float) -> list[str]:
    low = math.floor(math.log10(min(each.milliseconds for each in points)))
    high = math.ceil(math.log10(max(each.milliseconds for each in points)))

    def down(milliseconds: float) -> float:
        return TOP + TALL * (high - math.log10(milliseconds)) / (high - low)

    lines = _frame(left, f"A round, processor ms (grows as platforms^{slope(points):.2f})")
    for power in range(low, high + 1):
        lines += _mark(left, down(10**power), f"{10**power:,}")
    each = points[-1].milliseconds / points[-1].platforms
    ends = " ".join(
        f"{_across(count, left):.1f},{down(each * count):.1f}" for count in (COUNTS[0], COUNTS[-1])
    )
    lines.append(f'<polyline class="r" points="{ends}"><title>linear</title></polyline>')
    return lines + _curve([(_across(p.platforms, left), down(p.milliseconds)) for p in points])


def _memory(points: Sequence[Point], left: float) -> list[str]:
    top = 100 * math.ceil(max(each.megabytes for each in points) / 100)

    def down(megabytes: float) -> float:
        return TOP + TALL * (1 - megabytes / top)

    lines = _frame(left, "Memory of the server's process, MB")
    for megabytes in range(0, top + 1, 100):
        lines += _mark(left, down(megabytes), str(megabytes))
    return lines + _curve([(_across(p.platforms, left), down(p.megabytes)) for p in points])


def picture(points: Sequence[Point]) -> str:
    """Return the two panels as SVG; the dashed line is exactly linear."""
    body = [*_cost(points, LEFT), *_memory(points, LEFT + PANEL + GAP)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>Cost of a round and memory of the server, 3 to 1,000 platforms</title>",
            f'<style>{STYLE}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            *body,
            "</svg>\n",
        ]
    )


def main(path: Path | None = None) -> list[tuple[str, float, str]]:
    points = measure()
    for point in points:
        print(
            f"{point.platforms:>5} platforms {point.milliseconds:>10,.1f} processor ms a round "
            f"{point.milliseconds / point.platforms:>7.2f} ms each {point.megabytes:>7,.0f} MB"
        )
    print(f"grows as platforms^{slope(points):.2f}")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(picture(points), encoding="utf-8")
    return [("cost of a round grows as platforms to the power of", slope(points), "")]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
