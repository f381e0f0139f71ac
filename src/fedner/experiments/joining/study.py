"""The study: what is trained for which newcomer, size and seed, and in which order.

First the partners train together (`partner_tasks`), then every newcomer tries to do without them
and with them (`cell_tasks`, which `cells.run_cells` runs). A task is a minute or less of one GPU;
what it finds is stored at once, and a study that was stopped goes on with what is missing.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedner.experiments.joining.arms import Member, Together, partners_of, train_together
from fedner.experiments.joining.corpora import BTC
from fedner.experiments.joining.kinds import DESCRIBED, FREE
from fedner.experiments.joining.training import Indices
from fedner.experiments.joining.world import PLACEBO, World
from fedner.tensor_files import read_tensors, write_tensors

NEWCOMERS = ("ade", "psytar", "twimed", "bc5cdr", "btc-e")
SIZES = (25, 50, 100, 200, 400)
ALL = -1  # the size that stands for every own sentence
MIDDLE = 100  # the size at which all arms are compared
SEEDS = tuple(range(1, 6))
MORE_SEEDS = tuple(range(6, 11))  # at the middle size
FEW_SEEDS = SEEDS[:3]  # for weightings
NUM_FOLDS = 3

# Chosen on other newcomers (NCBI-disease, Ex-PTM) and other seeds (101 to 103): docs/results.md.
PARTNER_STEPS, REHEARSED_STEPS = 1_000, 1
PARTNER_BATCH = 32
PARTNER_RATE = 2e-3
PARTNER_DROPOUT = 0.3
WEIGHTING = "sqrt-size"
KIND, VERSION = "joining study", 1


@dataclass(frozen=True, slots=True)
class Setting:
    """How a newcomer trains: a learning rate, and how strongly it is held to what it received."""

    learning_rate: float
    pull: float = 0.0


JOINED_GRID = tuple(
    Setting(rate, pull)
    for rate, pull in ((2e-3, 100), (2e-3, 30), (2e-3, 10), (4e-3, 3), (4e-3, 1), (2e-3, 0))
)
# Where the head is fresh nothing holds it: higher learning rates, weaker pulls.
FRESH_GRID = tuple(
    Setting(rate, pull)
    for rate, pull in ((1e-3, 0), (2e-3, 0), (4e-3, 0), (8e-3, 0), (4e-3, 1), (4e-3, 3))
)
DESCRIBED_GRID = tuple(Setting(rate) for rate in (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2))
PUBLISHED_GRID = tuple(Setting(rate) for rate in (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2))


def schedule(size: int) -> tuple[int, int]:
    """Return epochs and batch size for so many own sentences."""
    if size <= 50:
        return 40, 8
    if size <= 1000:
        return 20, 16 if size < 400 else 32
    return 15, 64


@dataclass(frozen=True, slots=True)
class Point:
    """One tagger on one newcomer's untouched test part.

    Attributes:
        newcomer: Whose test part.
        size: Own sentences; ALL for all of them.
        seed: Of split, order of sentences and weights.
        arm: How it was trained.
        f1: Strict F1 in percent.
        selection: The cross-validated F1 that chose its setting; None where nothing was chosen.
        setting: The setting in words.
        sentences: How many own sentences there were.
    """

    newcomer: str
    size: int
    seed: int
    arm: str
    f1: float
    selection: float | None = None
    setting: str = ""
    sentences: int = 0


@dataclass(frozen=True, slots=True)
class PartnerTask:
    """Joint trainings that run as one stack."""

    arm: str
    is_btc: bool
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """A name for its files."""
        domain = "btc" if self.is_btc else "medical"
        return f"{self.arm}-{domain}-{self.seeds[0]}-{self.seeds[-1]}"

    @property
    def newcomers(self) -> tuple[str, ...]:
        """Whose partners train."""
        return tuple(each for each in NEWCOMERS if (each in BTC) == self.is_btc)


# What a joint training is like, by the arm that needs it; "own" ones train with the newcomer.
_TOGETHER: dict[str, dict[str, Any]] = {
    "received": {},
    "placebo": {"variant": PLACEBO},
    "random vectors": {"vectors": "random"},
    "private heads": {"head": "private"},
    "taking part": {},
    "centralized": {"weighting": "size"},
    "weighting size": {"weighting": "size"},
    "weighting equal": {"weighting": "equal"},
    "taking part size": {"weighting": "size"},
    "taking part equal": {"weighting": "equal"},
}
_WITH_OWN = ("taking part", "centralized", "taking part size", "taking part equal")


def partner_tasks() -> list[PartnerTask]:
    """Return all joint trainings, the most important first."""
    return [
        PartnerTask(arm, is_btc, seeds)
        for arm in _TOGETHER
        for seeds in _seed_groups(arm)
        for is_btc in (False, True)
    ]


def _seed_groups(arm: str) -> tuple[tuple[int, ...], ...]:
    """Return the seeds of an arm's joint trainings; each group runs as one stack."""
    if arm in ("received", "placebo"):
        return SEEDS, MORE_SEEDS
    is_weighting = arm.startswith("weighting") or arm in ("taking part size", "taking part equal")
    return (FEW_SEEDS,) if is_weighting else (SEEDS,)


def run_partners(world: World, task: PartnerTask, folder: Path) -> None:
    """Train the partners of a task and store what they share."""
    jobs = [
        _together(world, task.arm, newcomer, seed)
        for newcomer in task.newcomers
        for seed in task.seeds
    ]
    members = train_together(
        world,
        FREE if task.arm == "private heads" else DESCRIBED,
        jobs,
        steps=REHEARSED_STEPS if world.is_rehearsal else PARTNER_STEPS,
        batch_size=PARTNER_BATCH,
        learning_rate=PARTNER_RATE,
        dropout=PARTNER_DROPOUT,
    )
    for job, member in zip(jobs, members, strict=True):
        kept = {name: each.cpu() for name, each in member.items() if "/" not in name}
        path = member_path(folder, task.arm, job.newcomer, job.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path, kept, KIND, VERSION)


def _together(world: World, arm: str, newcomer: str, seed: int) -> Together:
    """Return the joint training that an arm needs for a newcomer."""
    own = own_and_test(world, newcomer, seed)[0][:MIDDLE] if arm in _WITH_OWN else None
    return Together(newcomer, seed, own=own, **({"weighting": WEIGHTING} | _TOGETHER[arm]))


def member_path(folder: Path, arm: str, newcomer: str, seed: int) -> Path:
    """Return where what the partners share is stored."""
    return folder / "partners" / f"{arm.replace(' ', '-')}-{newcomer}-{seed}.safetensors"


def received(world: World, folder: Path, arm: str, newcomer: str, seed: int) -> Member:
    """Return what a newcomer receives."""
    tensors, _ = read_tensors(member_path(folder, arm, newcomer, seed), KIND, VERSION)
    return {name: each.to(world.device) for name, each in tensors.items()}


def own_and_test(world: World, newcomer: str, seed: int) -> tuple[Indices, Indices]:
    """Return own sentences in their order and the test part, by global number."""
    own, test = world.corpora[newcomer].parts(seed)
    return world.numbers(newcomer, own), world.numbers(newcomer, test)


@dataclass(frozen=True, slots=True)
class CellTask:
    """Newcomers of one size and seed: alone, joined, and at the middle size all other arms."""

    newcomers: tuple[str, ...]
    size: int
    seed: int

    @property
    def name(self) -> str:
        """A name for its files."""
        size = "all" if self.size == ALL else str(self.size)
        return f"{'+'.join(self.newcomers)}-{size}-{self.seed}"


def cell_tasks() -> list[CellTask]:
    """Return all cells, the most important first."""
    found = [CellTask(NEWCOMERS, MIDDLE, seed) for seed in (*SEEDS, *MORE_SEEDS)]
    found += [CellTask(NEWCOMERS, size, seed) for size in (25, 0) for seed in SEEDS]
    found += [CellTask(NEWCOMERS, size, seed) for size in (400, 50, 200) for seed in SEEDS]
    # The longest last: BC5CDR takes five minutes and more.
    by_cost = ("psytar", "ade", "twimed", "btc-e", "bc5cdr")
    found += [CellTask((newcomer,), ALL, seed) for newcomer in by_cost for seed in SEEDS]
    return [replace(task, newcomers=_large_enough(task)) for task in found]


def _large_enough(task: CellTask) -> tuple[str, ...]:
    """Return the newcomers that have so many sentences: BTC-e has 160."""
    return tuple(each for each in task.newcomers if each != "btc-e" or task.size <= MIDDLE)


def platforms() -> tuple[str, ...]:
    """Return all platforms of the study."""
    found: dict[str, None] = {}
    for newcomer in NEWCOMERS:
        found |= dict.fromkeys((newcomer, *partners_of(newcomer)))
    return tuple(found)
