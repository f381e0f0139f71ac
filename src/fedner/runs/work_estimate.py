"""How long a federation will take on this machine and how much memory: by a trial round.

Each platform works through two rounds as it would in training, on a copy that is thrown away, and
is scored once. No ledger is opened, nothing is released and nothing is kept.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from fedner.federated.algorithms import Algorithm, baseline_batches
from fedner.federated.answering import one_thread
from fedner.federated.messages import Order, nothing_shared
from fedner.federated.sizes import planned_batches
from fedner.runs.folder import CENTRALIZED, LOCAL_ONLY
from fedner.runs.privacy import server_noise
from fedner.runs.schedule import num_rounds, run_settings
from fedner.runs.site import Site
from fedner.runs.site_platform import build_platform
from fedner.settings import Settings, Study

_TRIAL_ROUNDS = 2  # the first one also warms up


@dataclass(frozen=True, slots=True)
class Work:
    """What a federation costs on the machine that measured it.

    Attributes:
        rounds: How many rounds there are.
        round_seconds: The work of one platform in a round that asks it, by platform.
        score_seconds: What it takes to score its test part once, by platform.
        seconds_of_rounds: All rounds.
        seconds_of_scores: All scoring on the way, and after the last round.
        seconds_of_rest: Baselines and local fine-tuning, at least: how long a baseline is depends
            on its scores.
        peak_bytes: The most memory of this process so far, with all platforms in it.
        peak_gpu_bytes: The most memory on the GPU; None without one.
        processor_share: How much of the time of the trial this process was at work; on a machine
            that others use, less than nearly all.
    """

    rounds: int
    round_seconds: Mapping[str, float]
    score_seconds: Mapping[str, float]
    seconds_of_rounds: float
    seconds_of_scores: float
    seconds_of_rest: float
    peak_bytes: int
    peak_gpu_bytes: int | None
    processor_share: float = 1.0

    @property
    def seconds(self) -> float:
        """The whole run, at least where there are baselines."""
        return self.seconds_of_rounds + self.seconds_of_scores + self.seconds_of_rest


def estimate_work(settings: Settings, sites: Sequence[Site], algorithm: Algorithm) -> Work:
    """Measure trial rounds of all platforms and return what the run will take.

    Args:
        settings: The federation file: its engine says how many platforms work side by side.
        sites: The platforms, with context features where the model reads them.
        algorithm: The federation's.

    Raises:
        FednerError: A round cannot be computed: training would stop for the same reason.
    """
    study, plan = sites[0].study, sites[0].blueprint
    ran = run_settings(study, algorithm, server_noise(plan, algorithm))
    rounds, in_parallel = num_rounds(study, algorithm), _side_by_side(settings, sites)
    order = _trial_order(sites[0], algorithm)
    with one_thread(), ExitStack() as live:
        # As in training all platforms stay in memory, unless each is stored after its turn.
        keep = None if settings.engine.spill else live
        began, worked = time.perf_counter(), time.process_time()
        measured = {site.name: _measured(site, algorithm, order, keep) for site in sites}
        took, worked = time.perf_counter() - began, time.process_time() - worked
    work = {name: each[0] for name, each in measured.items()}
    scored = {name: each[1] for name, each in measured.items()}
    share = (study.participation.sample or len(sites)) / len(sites)
    num_scored = 1 + (rounds // ran.evaluate_every if ran.evaluate_every else 0)
    return Work(
        rounds=rounds,
        round_seconds=work,
        score_seconds=scored,
        seconds_of_rounds=rounds * min(1.0, share) * sum(work.values()) / in_parallel,
        seconds_of_scores=num_scored * sum(scored.values()) / in_parallel,
        seconds_of_rest=_rest(sites, algorithm, work, order.batches) / in_parallel,
        peak_bytes=peak_memory(),
        peak_gpu_bytes=_gpu_peak(plan.device),
        processor_share=min(1.0, worked / took) if plan.device == "cpu" and took > 0 else 1.0,
    )


def _side_by_side(settings: Settings, sites: Sequence[Site]) -> int:
    """Return how many platforms work at once."""
    if sites[0].blueprint.device != "cpu":
        return 1
    return max(1, min(settings.engine.workers, len(sites)))


def _trial_order(site: Site, algorithm: Algorithm) -> Order:
    """Return an order that asks every platform for a round."""
    study, shared = site.study, site.blueprint.initial_shared()
    batches = planned_batches(study.public_sizes, study.training.batch_size, algorithm.batching)
    extra = shared if algorithm.has_extra else nothing_shared()
    return Order("trial", 1, shared, extra, batches, study=study.digest)


def _measured(
    site: Site, algorithm: Algorithm, order: Order, keep: ExitStack | None
) -> tuple[float, float]:
    """Return the seconds of a platform's round, and of scoring its test part.

    Args:
        site: The platform.
        algorithm: The federation's.
        order: What it is asked for.
        keep: What closes the platform later; None closes it here.
    """
    device = site.blueprint.device
    with ExitStack() as own:
        platform = build_platform(site, algorithm, is_trial=True)
        (own if keep is None else keep).callback(platform.close)
        turns = [
            _seconds(lambda: platform.run_round(algorithm, order), device)
            for _ in range(_TRIAL_ROUNDS)
        ]
        return min(turns), _seconds(platform.learner.scores, device)


def _seconds(work: Callable[[], object], device: str) -> float:
    """Return how long some work takes; a GPU is waited for."""
    began = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _rest(
    sites: Sequence[Site],
    algorithm: Algorithm,
    work: Mapping[str, float],
    batches: Mapping[str, int],
) -> float:
    """Return the seconds of baselines and of local fine-tuning, at least."""
    study, total = sites[0].study, 0.0
    for site in sites:
        steps = algorithm.steps(batches[site.name], float(len(site.data.train)))
        a_sentence = work[site.name] / (steps * batches[site.name])
        total += a_sentence * _sentences_at_home(site, algorithm)
    if CENTRALIZED in study.training.baselines:
        total += num_rounds(study, algorithm) * sum(work.values())
    return total


def _sentences_at_home(site: Site, algorithm: Algorithm) -> int:
    """Return how many sentences a platform steps along by itself, each pass counted, at least."""
    study = site.study
    batch, num_train = study.training.batch_size, len(site.data.train)
    epochs = _epochs_at_home(study)
    if LOCAL_ONLY not in study.training.baselines:
        return epochs * num_train
    steps = num_rounds(study, algorithm) * algorithm.steps(batch, float(num_train))
    tried = baseline_batches(algorithm, study.public_sizes, batch, site.name)
    # Each batch size is tried for as many steps as the federation takes; the best is trained anew.
    baseline = sum(steps * min(each, num_train) for each in (*tried, min(tried)))
    return baseline + 2 * epochs * num_train


def _epochs_at_home(study: Study) -> int:
    """Return how many epochs a platform trains after the last round."""
    held = study.privacy
    frozen = held.private_epochs if held.enabled and held.private_part == "frozen" else 0
    return study.training.finetune_epochs + frozen


def peak_memory() -> int:
    """Return the most memory that this process had so far, in bytes; 0 where nobody knows."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _gpu_peak(device: str) -> int | None:
    return None if device == "cpu" else math.ceil(torch.cuda.max_memory_allocated())
