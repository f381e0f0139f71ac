"""What smaller numbers and fewer rounds cost on slow links: F1 and bytes, one table.

    python -m fedner.experiments.slow_links --out FOLDER
    python -m fedner.experiments.slow_links --out FOLDER --federation medical --data DATA \
        [--words FILE] [--context FOLDER] [--device cuda] [--jobs 6]

A federation in float32, bfloat16 and int8 with error feedback, with K = 1, 2, 4 and 8 local steps.
The algorithm is the same for every K: FedAvg with Adam at the platforms, unless another is named.
Every row takes the same number of local steps, so that rounds and bytes fall with K. The learning
rate is chosen for each K from the same three, in float32, by the F1 of a seed that is in no row.

`demo` is the federation of `fedner demo`, small and short; `medical` are ADE Corpus V2, PsyTAR and
TwiMed with the model of examples/medical.toml. Strict F1 on their own test parts.

What is finished stands in FOLDER/points.json and is not run again.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Literal, get_args

from fedner.errors import FednerError
from fedner.experiments.jobs import add_seeds, as_they_end, seeds_of, store
from fedner.runs.checks import read_settings
from fedner.runs.folder import FEDERATED, RunFolder
from fedner.runs.simulation import train_run
from fedner.scoring import paired_means
from fedner.settings.sections import Encoding

Federation = Literal["demo", "medical"]
AlgorithmName = Literal["fedavg", "fedner"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
LOCAL_STEPS = (1, 2, 4, 8)
PROBED_SEED = 1000
STEPS = {"demo": 240, "medical": 800}
RATES = (0.001, 0.003, 0.009)  # of each platform's Adam in FedAvg, of the server's in FedNER
POINTS = "points.json"
_SECONDS = 8e-6  # for a byte at 1 Mbit/s


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """One way to train: what a row of the table is about.

    Attributes:
        federation: Which one.
        algorithm: Which algorithm.
        local_steps: K.
        encoding: In which numbers updates travel.
    """

    federation: str
    algorithm: str
    local_steps: int
    encoding: str


@dataclass(frozen=True, slots=True)
class LinkJob:
    """One training.

    Attributes:
        way: What is compared.
        learning_rate: The algorithm's.
        seed: The seed.
        steps: How many local steps there are in all.
        folder: Where the run is while it runs.
        assignments: What else is set: where files are, the device.
    """

    way: Way
    learning_rate: float
    seed: int
    steps: int
    folder: Path
    assignments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """What one training came to.

    Attributes:
        federation: Which federation.
        algorithm: Which algorithm.
        local_steps: K.
        encoding: In which numbers updates travelled.
        learning_rate: The algorithm's.
        seed: The seed.
        steps: How many local steps there were in all.
        rounds: How many rounds there were.
        strict: Mean strict F1 over the platforms, in percent.
        up: Bytes of one platform's updates, all rounds together.
        down: Bytes of the orders to work that it got.
        seconds: Of the whole run on this machine.
    """

    federation: str
    algorithm: str
    local_steps: int
    encoding: str
    learning_rate: float
    seed: int
    steps: int
    rounds: int
    strict: float
    up: int
    down: int
    seconds: float

    @property
    def way(self) -> Way:
        """What it is a point of."""
        return Way(self.federation, self.algorithm, self.local_steps, self.encoding)

    @property
    def is_probe(self) -> bool:
        """Whether it only helps to choose a learning rate."""
        return self.seed == PROBED_SEED


def run(job: LinkJob) -> Point:
    """Train one federation; a run that was stopped is taken up again."""
    began = time.perf_counter()
    way = job.way
    path, own = _federation(way.federation)
    changes = (
        f"seed={job.seed}",
        f"transport.encoding={way.encoding!r}",
        f"algorithm={_algorithm(way, job.learning_rate)}",
        f"training.rounds={max(1, job.steps // way.local_steps)}",
        "training.evaluate_every=0",
        "training.finetune_epochs=0",
        "training.baselines=[]",
    )
    settings = read_settings(path, (*own, *changes, *job.assignments))
    scores = train_run(settings, job.folder, resume=job.folder.exists())
    rounds = RunFolder(job.folder).rounds()
    first = min(scores.platforms)
    point = Point(
        way.federation,
        way.algorithm,
        way.local_steps,
        way.encoding,
        job.learning_rate,
        job.seed,
        job.steps,
        len(rounds),
        fmean(100 * each.methods[FEDERATED].strict_micro.f1 for each in scores.platforms.values()),
        sum(each.bytes_up.get(first, 0) for each in rounds),
        sum(each.bytes_down.get(first, 0) for each in rounds),
        time.perf_counter() - began,
    )
    shutil.rmtree(job.folder)
    print(f"{job.folder.name}: F1 {point.strict:.1f}, {point.seconds:.0f} s", flush=True)
    return point


def _federation(name: str) -> tuple[Path, tuple[str, ...]]:
    """Return the file of a federation, and what makes it small enough."""
    if name == "medical":
        medical = Path(__file__).resolve().parents[3] / "examples" / "medical.toml"
        return medical, ("training.checkpoint_every=0",)
    sizes = [f"platforms.{number}.num_sentences=600" for number in range(2)]
    return Path(str(files("fedner.runs").joinpath("demo.toml"))), (
        *sizes,
        "embeddings.dimension=32",
        "embeddings.buckets=2048",
        "model.hidden=24",
        "model.character_filters=24",
        "training.batch_size=16",
        "training.checkpoint_every=0",
    )


def _algorithm(way: Way, learning_rate: float) -> str:
    """Return the table of the algorithm, the same for every K but for K itself."""
    adam = f"name='adam',learning_rate={learning_rate}"
    steps, own = way.local_steps, f"name='{way.algorithm}'"
    tables = {
        "fedavg": f"local={{steps={steps},optimizer={{{adam}}}}}",
        "fedner": f"batching='each',local_steps={steps},"
        f"server_optimizer={{{adam},schedule='linear'}}",
    }
    return f"{{{own},{tables[way.algorithm]}}}"


def medical_files(data: Path, words: Path | None, context: Path | None) -> tuple[str, ...]:
    """Return where the medical federation finds its files.

    Args:
        data: The folder of the development corpora.
        words: A file of word vectors; None for GloVe in `data`.
        context: The folder of the encoder; None trains without context.
    """
    corpora = ("ade-corpus-v2", "psytar/all.full.txt.xz", "twimed/twimed.tar.xz!/gold/pubmed")
    words = data / "glove-6b" / "glove.6B.50d.subset.txt.xz" if words is None else words
    without = ("embeddings.context=none", "model.recipe=CNN-CLSTM-CRF")
    return (
        *(f"platforms.{number}.data={str(data / each)!r}" for number, each in enumerate(corpora)),
        f"embeddings.words={str(words)!r}",
        *((f"embeddings.context={str(context)!r}",) if context is not None else without),
    )


def table(points: Iterable[Point]) -> str:
    """Return a Markdown table: a row for every way, means over seeds and paired differences."""
    head = (
        "| federation | algorithm | K | encoding | rounds | strict F1 | against float32, K = 1 | "
        "up, MB | down, MB | bytes | minutes at 1 Mbit/s |"
    )
    shown = [each for each in points if not each.is_probe]
    return "\n".join([head, "|---" * 11 + "|", *_rows(shown), "", *_rates(shown)])


def _rows(points: Sequence[Point]) -> Iterator[str]:
    for way in sorted({each.way for each in points}, key=_place):
        own = {each.seed: each for each in points if each.way == way}
        whole = Way(way.federation, way.algorithm, LOCAL_STEPS[0], ENCODINGS[0])
        against = {each.seed: each for each in points if each.way == whole}
        up, down = (fmean(getattr(e, part) for e in own.values()) for part in ("up", "down"))
        carried = fmean(_bytes(each) for each in own.values())
        all_of_it = fmean(_bytes(each) for each in (against or own).values())
        yield (
            f"| {way.federation} | {way.algorithm} | {way.local_steps} | {way.encoding} | "
            f"{next(iter(own.values())).rounds:,} | "
            f"{fmean(each.strict for each in own.values()):.1f} | {_difference(against, own)} | "
            f"{up / 1e6:.1f} | {down / 1e6:.1f} | {carried / all_of_it:.1%} | "
            f"{carried * _SECONDS / 60:.1f} |"
        )


def _place(way: Way) -> tuple[str, str, int, int]:
    """Return where a row stands: encodings from the largest to the smallest."""
    return way.federation, way.algorithm, way.local_steps, ENCODINGS.index(way.encoding)


def _difference(before: dict[int, Point], after: dict[int, Point]) -> str:
    seeds = sorted(set(before) & set(after))
    if not seeds or before == after:
        return ""
    one, other = ([held[seed].strict for seed in seeds] for held in (before, after))
    if len(seeds) == 1:
        return f"{other[0] - one[0]:+.1f}"
    found = paired_means(one, other).difference
    return f"{found.value:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def _rates(points: Sequence[Point]) -> Iterator[str]:
    """Yield which learning rates were chosen."""
    for federation, algorithm in sorted({(each.federation, each.algorithm) for each in points}):
        held = {
            each.local_steps: each.learning_rate
            for each in points
            if (each.federation, each.algorithm) == (federation, algorithm)
        }
        chosen = ", ".join(f"{rate:g} at K = {steps}" for steps, rate in sorted(held.items()))
        yield f"{federation}, {algorithm}: learning rate {chosen}."


def _bytes(point: Point) -> int:
    return point.up + point.down


def probes(options: argparse.Namespace) -> list[LinkJob]:
    """Return the jobs that choose a learning rate for each K, in float32."""
    return [
        _job(options, algorithm, local_steps, "float32", rate, PROBED_SEED)
        for algorithm in options.algorithms
        for local_steps in options.local_steps
        for rate in RATES
    ]


def best_rate(points: Iterable[Point], way: Way) -> float:
    """Return the learning rate that came to the highest F1 among the probes; of equals the lowest.

    Raises:
        FednerError: Nothing was probed.
    """
    held = [each for each in points if each.is_probe and each.way == way]
    if not held:
        raise FednerError(
            f"no learning rate was tried for {way.algorithm} with K = {way.local_steps}"
        )
    return max(held, key=lambda each: (each.strict, -each.learning_rate)).learning_rate


def trainings(options: argparse.Namespace, points: Sequence[Point]) -> list[LinkJob]:
    """Return the jobs of all rows, whole seeds one after the other."""
    return [
        _job(options, algorithm, local_steps, encoding, rate, seed)
        for seed in seeds_of(options)
        for algorithm in options.algorithms
        for local_steps in options.local_steps
        for rate in [best_rate(points, Way(options.federation, algorithm, local_steps, "float32"))]
        for encoding in options.encodings
    ]


def _job(
    options: argparse.Namespace,
    algorithm: str,
    local_steps: int,
    encoding: str,
    rate: float,
    seed: int,
) -> LinkJob:
    way = Way(options.federation, algorithm, local_steps, encoding)
    name = f"{options.federation}-{algorithm}-{local_steps}-{encoding}-{rate:g}-seed-{seed}"
    given = (f"engine.device={options.device}", *options.set)
    if options.federation == "medical":
        if options.data is None:
            raise FednerError("the medical federation without its corpora", "Give --data FOLDER.")
        given = (*medical_files(options.data, options.words, options.context), *given)
    steps = STEPS[options.federation] if options.steps is None else options.steps
    work = options.out / "runs" if options.work is None else options.work
    return LinkJob(way, rate, seed, steps, work / name, given)


def finished(path: Path) -> list[Point]:
    """Return the points that a file holds; none where there is no file."""
    if not path.is_file():
        return []
    return [Point(**each) for each in json.loads(path.read_text(encoding="utf-8"))["points"]]


def _run_all(jobs: Sequence[LinkJob], points: list[Point], options: argparse.Namespace) -> None:
    """Run what is not among the points yet, and store each point when it is there."""
    known = {_key(each.way, each) for each in points}
    missing = [each for each in jobs if _key(each.way, each) not in known]
    for _, point in as_they_end(run, missing, options.jobs):
        points.append(point)
        store(options.out / POINTS, points, vars(options))


def _key(way: Way, one: LinkJob | Point) -> tuple[Way, float, int, int]:
    return way, one.learning_rate, one.seed, one.steps


def main(arguments: Sequence[str] | None = None) -> int:
    """Choose learning rates, run all jobs, several at a time where asked, and print the table."""
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    points = finished(options.out / POINTS)
    _run_all(probes(options), points, options)
    _run_all(trainings(options, points), points, options)
    print(table(points))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="What do smaller numbers and fewer rounds cost?")
    parser.add_argument("--out", type=Path, default=Path("runs/slow-links"))
    parser.add_argument(
        "--work", type=Path, default=None, help="unfinished runs; in --out if left out"
    )
    parser.add_argument("--federation", choices=get_args(Federation), default="demo")
    names = get_args(AlgorithmName)
    parser.add_argument("--algorithms", nargs="+", choices=names, default=["fedavg"])
    parser.add_argument("--local-steps", nargs="+", type=int, default=list(LOCAL_STEPS))
    parser.add_argument("--encodings", nargs="+", choices=ENCODINGS, default=list(ENCODINGS))
    parser.add_argument("--data", type=Path, default=None, help="the development corpora")
    parser.add_argument("--words", type=Path, default=None, help="word vectors, if not in --data")
    parser.add_argument("--context", type=Path, default=None, help="a frozen encoder's folder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=None, help="local steps of a training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--jobs", type=int, default=1)
    add_seeds(parser, 5)
    return parser


if __name__ == "__main__":
    sys.exit(main())
