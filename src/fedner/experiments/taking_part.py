"""Does joining help? A federation file, run for several seeds and shares of the training data.

    python -m fedner.experiments.taking_part FEDERATION.toml --seeds 5 --shares 1.0,0.2 --out FOLDER

Every run has the fair baseline of the same file: each platform by itself, the better of two batch
sizes chosen on a tenth of its training part, at least as many optimizer steps as in the federation,
trained until it stops improving. Gains are paired by seed: same split, same test sentences.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fedner.experiments.jobs import FederationJob, add_options, add_seeds, gathered, seeds_of
from fedner.runs.simulation import train_run
from fedner.scoring import mean_interval, paired_means


@dataclass(frozen=True, slots=True)
class Point:
    """The strict and relaxed F1 of one method on one platform in one run, in percent."""

    share: float
    seed: int
    platform: str
    method: str
    strict: float
    relaxed: float


def run(job: FederationJob) -> list[Point]:
    """Train the federation and its baseline; a run that is already there is taken up again."""
    began = time.perf_counter()
    settings = job.settings("training.baselines=['local-only']")
    scores = train_run(settings, job.folder, resume=job.folder.exists())
    print(f"{job.folder.name}: {time.perf_counter() - began:.0f} s", flush=True)
    return [
        Point(
            job.share,
            job.seed,
            platform,
            method,
            100 * held.strict_micro.f1,
            100 * held.relaxed_micro.f1,
        )
        for platform, record in scores.platforms.items()
        for method, held in record.methods.items()
    ]


def table(points: Sequence[Point]) -> str:
    """Return a Markdown table: each platform and their mean, local-only, federated and the gain."""
    lines = []
    for share in sorted({point.share for point in points}, reverse=True):
        lines += [f"Training share {share:.0%}:", "", _HEAD, "|---" * 5 + "|"]
        chosen = [point for point in points if point.share == share]
        for platform in (*sorted({point.platform for point in chosen}), "mean"):
            rows = _by_seed(chosen, platform)
            local_only = [rows[seed]["local-only"] for seed in sorted(rows)]
            federated = [rows[seed]["federated"] for seed in sorted(rows)]
            lines.append(_row(platform, local_only, federated))
        lines.append("")
    return "\n".join(lines)


_HEAD = "| platform | local-only | federated | gain (95 % interval) | by seed |"


def _by_seed(points: Sequence[Point], platform: str) -> dict[int, dict[str, float]]:
    """Return the strict F1 by seed and method, of one platform or the mean over all."""
    gathered: dict[int, dict[str, list[float]]] = {}
    for point in points:
        if platform in (point.platform, "mean"):
            gathered.setdefault(point.seed, {}).setdefault(point.method, []).append(point.strict)
    return {
        seed: {method: sum(values) / len(values) for method, values in methods.items()}
        for seed, methods in gathered.items()
    }


def _row(platform: str, local_only: Sequence[float], federated: Sequence[float]) -> str:
    by_seed = ", ".join(f"{b - a:+.2f}" for a, b in zip(local_only, federated, strict=True))
    if len(local_only) < 2:
        return f"| {platform} | {local_only[0]:.2f} | {federated[0]:.2f} | {by_seed} | |"
    gain = paired_means(local_only, federated).difference
    before, after = (mean_interval(each).value for each in (local_only, federated))
    return (
        f"| {platform} | {before:.2f} | {after:.2f} | "
        f"{gain.value:+.2f} ({gain.low:+.2f} to {gain.high:+.2f}) | {by_seed} |"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all jobs, several at a time where asked, and print the table."""
    parser = argparse.ArgumentParser(description="Does joining help, and whom?")
    add_options(parser, "runs/joining")
    add_seeds(parser, 5)
    parser.add_argument("--shares", default="1.0,0.2")
    options = parser.parse_args(arguments)
    jobs = [
        FederationJob(
            options.federation,
            seed,
            share,
            options.out / f"share-{share:g}-seed-{seed}",
            tuple(options.set),
        )
        for share in (float(each) for each in options.shares.split(","))
        for seed in seeds_of(options)
    ]
    points = gathered(run, jobs, options)
    if any(
        point.method == "local-only" for point in points
    ):  # --set training.baselines=[] has none
        print(table(points))
    return 0


if __name__ == "__main__":
    sys.exit(main())
