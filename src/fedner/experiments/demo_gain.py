"""What joining gains in `fedner demo`: the same demonstration for seeds that nobody chose.

    python -m fedner.experiments.demo_gain --seeds 10 --first-seed 21 --out FOLDER

The settings of the demo were chosen on seeds 101 to 105. Every seed has its own synthetic texts,
splits and first weights. What is finished stands in FOLDER/seed-N.json and is not run again.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fedner.durable import write_text
from fedner.experiments.jobs import add_seeds, seeds_of, side_by_side
from fedner.runs.demonstration import demonstration, let_join, train_together
from fedner.runs.joining.record import RECEIVED
from fedner.scoring import paired_means


@dataclass(frozen=True, slots=True)
class Gain:
    """Strict F1 of one seed on the newcomer's test part, in percent, and the processor time.

    Attributes:
        seed: The seed.
        received: The shared model as it came.
        alone: Local-only, the better of both heads by cross-validation.
        joined: The received weights, fine-tuned.
        kept: What the newcomer keeps, chosen by cross-validation.
        method: What that is.
        seconds: Processor time of all, both platforms and the newcomer.
    """

    seed: int
    received: float
    alone: float
    joined: float
    kept: float
    method: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GainJob:
    """One seed of the demonstration, and the shorter look of a test."""

    seed: int
    out: Path
    num_sentences: int | None = None
    rounds: int | None = None
    epochs: int | None = None


def run(job: GainJob) -> list[Gain]:
    """Run the demonstration of one seed, unless its result is there."""
    record = job.out / f"seed-{job.seed}.json"
    if record.is_file():
        return [Gain(**json.loads(record.read_text()))]
    began = time.process_time()
    shown = demonstration(
        job.out / f"seed-{job.seed}",
        job.seed,
        num_sentences=job.num_sentences,
        rounds=job.rounds,
        epochs=job.epochs,
    )
    train_together(shown)
    joined = let_join(shown)
    f1 = {name: 100 * each.intervals.strict.value for name, each in joined.results.items()}
    found = Gain(
        job.seed,
        f1[RECEIVED],
        f1["local-only"],
        f1["joined"],
        f1[joined.kept],
        joined.kept,
        time.process_time() - began,
    )
    write_text(record, json.dumps(asdict(found), indent=2) + "\n")
    print(f"seed {job.seed}: {found.alone:.1f} alone, {found.kept:.1f} kept", flush=True)
    return [found]


def table(gains: Sequence[Gain]) -> str:
    """Return a Markdown table, a row for every seed, and the mean gains with their intervals."""
    rows = [
        f"| {each.seed} | {each.received:.1f} | {each.alone:.1f} | {each.joined:.1f} | "
        f"{each.kept:.1f} ({each.method}) | {each.kept - each.alone:+.1f} |"
        for each in gains
    ]
    head = "| seed | as received | alone | joined | kept | gain of what is kept |"
    lines = [head, "|---" * 6 + "|", *rows, ""]
    for name in ("kept", "joined"):
        after = [getattr(each, name) for each in gains]
        lines.append(f"{name} against alone: {_summary([each.alone for each in gains], after)}")
    lines.append(f"processor time: at most {max(each.seconds for each in gains):.0f} s")
    return "\n".join(lines)


def _summary(before: Sequence[float], after: Sequence[float]) -> str:
    differences = [b - a for a, b in zip(before, after, strict=True)]
    if len(differences) < 2:
        return f"{differences[0]:+.1f}"
    mean = paired_means(before, after).difference
    return (
        f"{mean.value:+.1f} (95 % interval {mean.low:+.1f} to {mean.high:+.1f}), "
        f"worst seed {min(differences):+.1f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all seeds, several at a time where asked, and print the table."""
    parser = argparse.ArgumentParser(description="What does joining gain in the demo?")
    parser.add_argument("--out", type=Path, default=Path("runs/demo-gain"))
    parser.add_argument("--jobs", type=int, default=1)
    for name in ("--num-sentences", "--rounds", "--epochs"):
        parser.add_argument(name, type=int, default=None)
    add_seeds(parser, 10)
    parser.set_defaults(first_seed=21)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = [
        GainJob(seed, options.out, options.num_sentences, options.rounds, options.epochs)
        for seed in seeds_of(options)
    ]
    print(table([gain for found in side_by_side(run, jobs, options.jobs) for gain in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
