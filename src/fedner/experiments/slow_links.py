"""What smaller numbers and fewer rounds cost on slow links: F1 and bytes, one table.

    python -m fedner.experiments.slow_links --out FOLDER [--data DATA] [--set KEY=VALUE]

The federation of `fedner demo`, small and short, in float32, bfloat16 and int8, with K = 1, 5 and
20 local steps. Every way takes the same number of local steps, so that rounds and bytes fall with
K: K = 1 is Algorithm 1 of FedNER, larger K are FedAvg of K local Adam steps, which moves the shared
weights as far in a round. With the folder of the development corpora, also three medical platforms
(ADE Corpus V2, PsyTAR, TwiMed) with GloVe and without context. Strict F1 on their own test parts.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import get_args

from fedner.errors import FednerError
from fedner.experiments.jobs import add_seeds, gathered, seeds_of
from fedner.runs.checks import read_settings
from fedner.runs.folder import FEDERATED, RunFolder
from fedner.runs.simulation import train_run
from fedner.settings.sections import Encoding

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
LOCAL_STEPS = (1, 5, 20)
DEMO, MEDICAL = "demo", "medical"
_SECONDS = 8e-6  # for a byte at 1 Mbit/s
_SMALL = (
    "model.hidden=24",
    "model.character_filters=24",
    "training.batch_size=16",
    "training.checkpoint_every=0",
)


@dataclass(frozen=True, slots=True)
class LinkJob:
    """One way to train one federation.

    Attributes:
        federation: Which one: `DEMO` or `MEDICAL`.
        encoding: In which numbers updates travel.
        local_steps: K.
        seed: The seed.
        steps: How many local steps there are in all.
        folder: Where the run goes.
        data: The folder of the development corpora; unused for `DEMO`.
        assignments: What else is set.
    """

    federation: str
    encoding: Encoding
    local_steps: int
    seed: int
    steps: int
    folder: Path
    data: Path | None = None
    assignments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """What one way came to.

    Attributes:
        federation: Which federation.
        encoding: In which numbers updates travelled.
        local_steps: K.
        seed: The seed.
        rounds: How many rounds there were.
        strict: Mean strict F1 over the platforms, in percent.
        up: Bytes of one platform's updates, all rounds together.
        down: Bytes of the orders to work that it got.
        seconds: Of the whole run on this machine.
    """

    federation: str
    encoding: str
    local_steps: int
    seed: int
    rounds: int
    strict: float
    up: int
    down: int
    seconds: float


def run(job: LinkJob) -> list[Point]:
    """Train one federation; a run that is already there is taken up again."""
    began = time.perf_counter()
    path, own = _federation(job)
    changes = (
        f"seed={job.seed}",
        f"transport.encoding={job.encoding!r}",
        f"algorithm={_algorithm(job.local_steps)}",
        f"training.rounds={max(1, job.steps // job.local_steps)}",
        "training.evaluate_every=0",
        "training.baselines=[]",
    )
    settings = read_settings(path, (*own, *changes, *job.assignments))
    scores = train_run(settings, job.folder, resume=job.folder.exists())
    rounds = RunFolder(job.folder).rounds()
    f1 = [100 * each.methods[FEDERATED].strict_micro.f1 for each in scores.platforms.values()]
    first = min(scores.platforms)
    point = Point(
        job.federation,
        job.encoding,
        job.local_steps,
        job.seed,
        len(rounds),
        sum(f1) / len(f1),
        sum(each.bytes_up.get(first, 0) for each in rounds),
        sum(each.bytes_down.get(first, 0) for each in rounds),
        time.perf_counter() - began,
    )
    print(f"{job.folder.name}: F1 {point.strict:.1f}, {point.seconds:.0f} s", flush=True)
    return [point]


def _federation(job: LinkJob) -> tuple[Path, tuple[str, ...]]:
    """Return the federation file of a job, and what makes it small enough for a few minutes."""
    if job.federation == DEMO:
        sizes = [f"platforms.{number}.num_sentences=600" for number in range(2)]
        words = ("embeddings.dimension=32", "embeddings.buckets=2048")
        return Path(str(files("fedner.runs").joinpath("demo.toml"))), (*sizes, *words, *_SMALL)
    if job.data is None:
        raise FednerError("the medical federation without its corpora", "Give --data FOLDER.")
    data = {
        0: "ade-corpus-v2",
        1: "psytar/all.full.txt.xz",
        2: "twimed/twimed.tar.xz!/gold/pubmed",
    }
    medical = Path(__file__).resolve().parents[3] / "examples" / "medical.toml"
    return medical, (
        *(f"platforms.{number}.data={str(job.data / each)!r}" for number, each in data.items()),
        f"embeddings.words={str(job.data / 'glove-6b' / 'glove.6B.50d.subset.txt.xz')!r}",
        "embeddings.context=none",
        "model.recipe=CNN-CLSTM-CRF",
        *(f"platforms.{number}.split.keep=0.2" for number in data),
        "training.finetune_epochs=0",
        "model.filters=24",
        *_SMALL,
    )


def _algorithm(local_steps: int) -> str:
    """Return the table of the algorithm: K steps of a round move the weights as far as K rounds."""
    stepped = "{name='adam',learning_rate=0.01}"
    if local_steps == 1:
        return f"{{name='fedner',batching='each',server_optimizer={stepped}}}"
    return f"{{name='fedavg',local={{steps={local_steps},optimizer={stepped}}}}}"


def table(points: Sequence[Point]) -> str:
    """Return a Markdown table: a row for every federation, K and encoding, means over seeds."""
    head = (
        "| federation | K | encoding | rounds | strict F1 | up, MB | down, MB | "
        "of float32, K = 1 | minutes at 1 Mbit/s |"
    )
    return "\n".join([head, "|---" * 9 + "|", *_rows(points)])


def _rows(points: Sequence[Point]) -> Iterator[str]:
    for federation in dict.fromkeys(point.federation for point in points):
        own = [point for point in points if point.federation == federation]
        whole = _bytes([each for each in own if _way(each) == _way(own[0])])
        for way in dict.fromkeys(_way(each) for each in own):
            alike = [each for each in own if _way(each) == way]
            first, number = alike[0], len(alike)
            f1 = sum(each.strict for each in alike) / number
            up, down = (sum(getattr(e, part) for e in alike) / number for part in ("up", "down"))
            yield (
                f"| {federation} | {first.local_steps} | {first.encoding} | {first.rounds:,} | "
                f"{f1:.1f} | {up / 1e6:.1f} | {down / 1e6:.1f} | {_bytes(alike) / whole:.1%} | "
                f"{_bytes(alike) * _SECONDS / 60:.1f} |"
            )


def _way(point: Point) -> tuple[int, str]:
    return point.local_steps, point.encoding


def _bytes(points: Sequence[Point]) -> float:
    return sum(each.up + each.down for each in points) / len(points)


def jobs_of(options: argparse.Namespace) -> list[LinkJob]:
    """Return all jobs that the options ask for: float32 with the fewest steps first."""
    federations = [(DEMO, options.demo_steps)]
    if options.data is not None and options.data.is_dir():
        federations.append((MEDICAL, options.medical_steps))
    return [
        LinkJob(
            federation,
            encoding,
            local_steps,
            seed,
            steps,
            options.out / f"{federation}-{encoding}-{local_steps}-seed-{seed}",
            options.data,
            tuple(options.set),
        )
        for federation, steps in federations
        for local_steps in LOCAL_STEPS
        for encoding in ENCODINGS
        for seed in seeds_of(options)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all jobs, several at a time where asked, and print the table."""
    parser = argparse.ArgumentParser(description="What do smaller numbers and fewer rounds cost?")
    parser.add_argument("--out", type=Path, default=Path("runs/slow-links"))
    parser.add_argument("--data", type=Path, default=None, help="the development corpora")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--demo-steps", type=int, default=240)
    parser.add_argument("--medical-steps", type=int, default=240)
    add_seeds(parser, 1)
    options = parser.parse_args(arguments)
    print(table(gathered(run, jobs_of(options), options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
