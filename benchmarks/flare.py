"""Rounds over FLARE against rounds in one process: the same study, real processes on loopback.

`python benchmarks/flare.py` measures all three studies and prints a table, `python
benchmarks/flare.py 1MB` one. Seconds are those of the round records, without the start and the end
of jobs. Bounds: a round of 1 MB adds at most 0.06 s, one of 10 MB at most 0.5 s, and the demo
federation takes at most 1.5 times as long, on a quiet machine.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "deployment"))

from live import RUN, live, reference, tiny_settings

from fedner.settings import Settings, parse_as, read_toml

MOST_ADDED = {"1MB": 0.06, "10MB": 0.5}
MOST_TIMES = {"demo": 1.5}
BUCKETS = {"1MB": 1440, "10MB": 36600}


def settings_of(name: str) -> Settings:
    if name == "demo":
        with as_file(files("fedner.runs").joinpath("demo.toml")) as path:
            return parse_as(Settings, read_toml(path, ""), "demo.toml")
    words = {"words": "hashed", "dimension": 64, "buckets": BUCKETS[name], "trainable": True}
    training = {"rounds": 40, "batch_size": 16, "checkpoint_every": 40}
    shared = {"shared": "everything"}
    model = {"recipe": "CNN-LSTM-CRF", "hidden": 16, "head": "described"}
    return tiny_settings(model=model, embeddings=words, training=training, partition=shared)


def seconds(folder: Path) -> list[float]:
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    return [json.loads(line)["seconds"] for line in lines]


def measured(name: str) -> dict[str, float]:
    """Return the seconds of rounds here and over FLARE, and those of start and end."""
    with tempfile.TemporaryDirectory() as place, live(Path(place), settings_of(name)) as run:
        run.start()
        run.wait_connected()
        began = time.monotonic()
        run.submit()
        run.wait_round(1, seconds=120)
        first = time.monotonic() - began
        run.wait_done(seconds=1200)
        whole = time.monotonic() - began
        there = seconds(run.homes.server.runs / RUN)
        here = seconds(reference(run, Path(place) / "reference"))
        megabytes = _megabytes(run.homes.server.runs / RUN)
    return {
        "megabytes": megabytes,
        "here": statistics.median(here),
        "flare": statistics.median(there),
        "adds": statistics.median(there) - statistics.median(here),
        "ratio": sum(there) / sum(here),
        "first_round": first,
        "whole": whole,
    }


def _megabytes(folder: Path) -> float:
    line = json.loads((folder / "rounds.jsonl").read_text().splitlines()[0])
    return float(max(line["bytes_down"].values())) / 1e6


def main() -> list[tuple[str, float, str]]:
    """Return the seconds of rounds here and over FLARE, for every study."""
    rows = []
    for name in (*BUCKETS, "demo"):
        found = measured(name)
        bound = f"at most {MOST_ADDED[name]} s" if name in MOST_ADDED else ""
        what = f"{name} ({found['megabytes']:.1f} MB shared)"
        rows += [
            (f"a round in this process, {what}", found["here"], "s"),
            (f"a round over FLARE, {what}", found["flare"], "s"),
            (f"what FLARE adds to a round, {what} {bound}", found["adds"], "s"),
            (f"all rounds over FLARE to those here, {what}", found["ratio"], "times"),
            (f"submitted to first round, {what}", found["first_round"], "s"),
            (f"submitted to end, {what}", found["whole"], "s"),
        ]
    return rows


def table(names: Sequence[str]) -> str:
    """Measure studies one after the other; return what they came to against the bounds."""
    lines = [
        "| study | shared, MB | in process, s | over FLARE, s | adds, s | all rounds | bound |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for name in names:
        found = measured(name)
        lines.append(
            f"| {name} | {found['megabytes']:.1f} | {found['here']:.3f} | {found['flare']:.3f} "
            f"| {found['adds']:.3f} | {found['ratio']:.2f} | {_verdict(name, found)} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


def _verdict(name: str, found: dict[str, float]) -> str:
    if name in MOST_ADDED:
        is_met = found["adds"] <= MOST_ADDED[name]
        return f"adds at most {MOST_ADDED[name]} s: {'met' if is_met else 'missed'}"
    is_met = found["ratio"] <= MOST_TIMES[name]
    return f"at most {MOST_TIMES[name]} times: {'met' if is_met else 'missed'}"


if __name__ == "__main__":
    print("\n" + table(sys.argv[1:] or [*BUCKETS, "demo"]))
