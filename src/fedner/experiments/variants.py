"""One federation file in several variants and seeds of noise: what each comes to, as tables.

A run that is already in its folder is taken up again, so that a study can be stopped and resumed.
"""

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from fedner.durable import write_text
from fedner.experiments.jobs import add_options, as_they_end
from fedner.runs.checks import read_settings
from fedner.runs.folder import FEDERATED, RunFolder
from fedner.runs.privacy_record import run_spent
from fedner.runs.simulation import train_run
from fedner.scoring import Counts, Scores


@dataclass(frozen=True, slots=True)
class Variant:
    """What is set beyond the federation file, under a name."""

    name: str
    assignments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a variant came to.

    Attributes:
        variant: Its name.
        noise_seed: Names sample and noise of the simulation; split and first weights stay.
        platforms: The strict F1 on each platform's test part.
        micro: The strict F1 over all test parts together.
        tokens: The token-level weighted F of the 2021 paper, "O" included, over all test parts.
        always_o: What a tagger that finds nothing has on that measure.
        epsilon: The largest epsilon of a platform, by PLD; None without privacy.
        epsilon_rdp: The same by RDP.
    """

    variant: str
    noise_seed: int
    platforms: Mapping[str, float]
    micro: float
    tokens: float
    always_o: float
    epsilon: float | None
    epsilon_rdp: float | None


@dataclass(frozen=True, slots=True)
class _Job:
    federation: Path
    variant: Variant
    noise_seed: int
    folder: Path


def run_variants(
    federation: Path, variants: Sequence[Variant], noise_seeds: range, out: Path, jobs: int
) -> list[Outcome]:
    """Run every variant with every seed of noise, several at a time; outcomes are stored at once.

    A variant without noise is run once.
    """
    out.mkdir(parents=True, exist_ok=True)
    todo = list(_jobs(federation, variants, noise_seeds, out))
    found: dict[_Job, Outcome] = {}
    for job, outcome in as_they_end(_run, todo, jobs):
        found[job] = outcome
        ordered = [found[each] for each in todo if each in found]
        write_text(out / "outcomes.json", json.dumps([asdict(each) for each in ordered]))
    return [found[job] for job in todo]


def _jobs(
    federation: Path, variants: Sequence[Variant], noise_seeds: range, out: Path
) -> Iterator[_Job]:
    for variant in variants:
        settings = read_settings(federation, variant.assignments)
        is_noised = settings.privacy.enabled and settings.privacy.noise_multiplier != 0
        for seed in noise_seeds if is_noised else noise_seeds[:1]:
            yield _Job(federation, variant, seed, out / f"{variant.name}-{seed}".replace("/", "_"))


def _run(job: _Job) -> Outcome:
    began = time.perf_counter()
    settings = read_settings(
        job.federation, (*job.variant.assignments, f"privacy.noise_seed={job.noise_seed}")
    )
    scores = train_run(settings, job.folder, resume=job.folder.exists())
    print(f"{job.folder.name}: {time.perf_counter() - began:.0f} s", flush=True)
    found = {name: each.methods[FEDERATED] for name, each in scores.platforms.items()}
    spent = run_spent(RunFolder(job.folder))
    spends = [] if spent is None else list(spent.platforms.values())
    return Outcome(
        job.variant.name,
        job.noise_seed,
        {name: each.strict_micro.f1 for name, each in found.items()},
        sum((each.strict_micro for each in found.values()), Counts()).f1,
        _by_tokens(found.values(), "weighted"),
        _by_tokens(found.values(), "always_o"),
        _largest([each.pld for each in spends]),
        _largest([each.rdp for each in spends]),
    )


def _largest(epsilons: Sequence[float | None]) -> float | None:
    """Return what the worst-off platform spent; None without privacy, or without any noise."""
    finite = [each for each in epsilons if each is not None]
    return max(finite) if finite and len(finite) == len(epsilons) else None


def _by_tokens(found: Iterable[Scores], measure: Literal["weighted", "always_o"]) -> float:
    """Return a token-level F over several test parts, each weighing as many tokens as it has."""
    parts = [each.tokens for each in found]
    total = sum(part.num_tokens for part in parts)
    measured = ((getattr(part, measure).f1, part.num_tokens) for part in parts)
    return float(sum(f1 * number for f1, number in measured) / max(1, total))


def by_variant(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of each variant, in the order of the study."""
    grouped: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault(outcome.variant, []).append(outcome)
    return grouped


def mean_and_deviation(values: Sequence[float]) -> str:
    """Return "0.712" or, of several, "0.712 ± 0.004": the standard deviation, not an interval."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    return f"{fmean(values):.3f} ± {stdev(values):.3f}"


def study_options(parser: ArgumentParser, out: str) -> None:
    """Add what every study of noise asks for."""
    add_options(parser, out)
    parser.add_argument("--noise-seeds", type=int, default=5)
    parser.add_argument("--first-noise-seed", type=int, default=1)


def noise_seeds_of(options: Namespace) -> range:
    """Return the seeds of noise that the options ask for."""
    return range(options.first_noise_seed, options.first_noise_seed + options.noise_seeds)
