"""Rounds over FLARE against rounds in one process: the same study, real processes on loopback.

    .venv/bin/python benchmarks/flare.py            # rounds of 1 MB and of 10 MB, and the demo
    .venv/bin/python benchmarks/flare.py --only 1MB

Seconds are those of the round records, without the start and the end of jobs. Bounds: a round of 1
MB adds at most 0.06 s, one of 10 MB at most 0.5 s, and the demo federation takes at most 1.5 times
as long, on a quiet machine.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "deployment"))

from live import RUN, live, reference, tiny_settings

from fedner.settings import Settings, parse_as, read_toml

MOST_ADDED = {"1MB": 0.06, "10MB": 0.5}
BUCKETS = {"1MB": 4096, "10MB": 40960}
MOST_RATIO = 1.5


def settings_of(name: str) -> Settings:
    if name == "demo":
        with files("fedner.runs").joinpath("demo.toml") as path:
            return parse_as(Settings, read_toml(Path(str(path)), ""), "demo.toml")
    words = {"words": "hashed", "dimension": 64, "buckets": BUCKETS[name], "trainable": True}
    training = {"rounds": 40, "batch_size": 16, "checkpoint_every": 40}
    shared = {"shared": "everything"}
    model = {"recipe": "CNN-LSTM-CRF", "hidden": 16, "head": "described"}
    return tiny_settings(model=model, embeddings=words, training=training, partition=shared)


def seconds(folder: Path) -> list[float]:
    return [json.loads(line)["seconds"] for line in (folder / "rounds.jsonl").open()]


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
    line = json.loads((folder / "rounds.jsonl").open().readline())
    return max(line["bytes_down"].values()) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[*BUCKETS, "demo"])
    only = parser.parse_args().only
    slow = []
    for name in [only] if only else [*BUCKETS, "demo"]:
        found = measured(name)
        print(name, " ".join(f"{key}={value:.3f}" for key, value in found.items()), flush=True)
        is_slow = (
            found["ratio"] > MOST_RATIO if name == "demo" else found["adds"] > MOST_ADDED[name]
        )
        if is_slow:
            slow.append(name)
    print(f"slower than the bound: {', '.join(slow)}" if slow else "within the bounds")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
