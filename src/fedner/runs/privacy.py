"""Differential privacy of a study: noise for a target, planned releases, ledgers; public facts.

Everything here follows from the study and the algorithm, so that coordinator and platforms come to
the same numbers without asking each other.
"""

import math
import secrets
from dataclasses import replace
from functools import lru_cache

from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.federated.dp_steps import padding_rows
from fedner.federated.screening import PlannedReleases
from fedner.federated.server_noise import ServerNoise
from fedner.federated.server_noise import server_noise as noise_of
from fedner.federated.sizes import batch_sizes
from fedner.privacy.accountant import AccountantName, Steps, noise_for
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.events import GaussianRelease
from fedner.privacy.mechanisms import Mechanism, PlatformPrivacy, ScoreNoise
from fedner.privacy.noise_shares import JointSum
from fedner.runs.blueprint import Blueprint
from fedner.runs.folder import LEDGER_NAME, RunFolder
from fedner.runs.privacy_checks import delta_problems
from fedner.runs.schedule import num_rounds
from fedner.runs.sums import sum_terms
from fedner.settings import SettingsError, Study


def platform_privacy(plan: Blueprint, algorithm: Algorithm, name: str) -> PlatformPrivacy | None:
    """Return how a platform's releases are protected, with the noise that its target takes.

    Args:
        plan: The model and the mechanism, whose study says what is asked for.
        algorithm: The federation's.
        name: The platform.

    Returns:
        The protection; None without differential privacy.

    Raises:
        SettingsError: A delta that promises nothing for the size of a platform.
        FednerError: No noise reaches the target, or the accountant is not installed.
    """
    study, mechanism = plan.study, plan.mechanism
    if mechanism is None:
        return None
    if worthless := delta_problems(study, study.public_sizes, mechanism.facts):
        raise SettingsError("the study", worthless)
    draft = _unnoised(plan, mechanism, name)
    if not draft.mechanism.releases_sum:
        return replace(draft, noise_multiplier=_noise(study, algorithm, name, draft))
    # One noise is added to the sum of all: the platform that needs most decides.
    drafts = {each: _unnoised(plan, mechanism, each) for each in study.names}
    most = max(_noise(study, algorithm, each, own) for each, own in drafts.items())
    return replace(draft, noise_multiplier=most)


def server_noise(plan: Blueprint, algorithm: Algorithm) -> ServerNoise | None:
    """Return the noise that the coordinator adds to the sum; None where it adds none."""
    first = platform_privacy(plan, algorithm, plan.study.names[0])
    return None if first is None else noise_of(first)


def releases_of(plan: Blueprint, algorithm: Algorithm) -> PlannedReleases | None:
    """Return what platforms release by the study, without its noise; None without DP.

    It is computed as the platforms do: `Platform.run_round` and `DPSteps.begin`.
    """
    study, mechanism = plan.study, plan.mechanism
    if mechanism is None:
        return None
    first = _unnoised(plan, mechanism, study.names[0])

    @lru_cache(maxsize=4096)
    def own(name: str) -> PlatformPrivacy:
        return replace(first, public_units=study.platform(name).public_size)

    def update(name: str, round_: int, batch: int) -> GaussianRelease:
        privacy = own(name)
        steps = algorithm.steps(batch, privacy.units_in_slice) if mechanism.samples_units else 1
        turn = min((round_ - 1) // study.training.rounds_per_slice, privacy.num_slices - 1)
        return privacy.event(batch, steps, turn)

    return PlannedReleases(update, lambda name: own(name).score_event())


def _unnoised(plan: Blueprint, mechanism: Mechanism, name: str) -> PlatformPrivacy:
    study = plan.study
    held = study.privacy
    slices = 1
    if study.training.slice is not None and mechanism.samples_units:
        slices = int(min(1 / study.training.slice * (1 + 1e-12), 1e12))
    return PlatformPrivacy(
        mechanism,
        max_grad_norm=held.max_grad_norm,
        noise_multiplier=0.0,
        public_units=study.platform(name).public_size,
        unit=held.unit,
        private_part=held.private_part,
        loss=held.loss,
        max_sentences=held.max_sentences,
        num_slices=slices,
        source=source_of(study),
        padding_rows=padding_rows(plan.skeleton()),
        scores=None
        if held.scores is None
        else ScoreNoise(held.scores.max_norm, held.scores.noise_multiplier),
        joint=joint_sum(plan) if mechanism.shares_noise else None,
    )


def joint_sum(plan: Blueprint) -> JointSum:
    """Return the facts of the sum that the platforms of a study make together."""
    shared = plan.initial_shared().values()
    return JointSum(sum_terms(plan.study), sum(each.numel() for each in shared))


def source_of(study: Study) -> Source:
    """Return where sample and noise come from."""
    held = study.privacy
    if not held.simulation:
        return SystemEntropy()
    return SeededSimulation(study.seed if held.noise_seed is None else held.noise_seed)


def _noise(study: Study, algorithm: Algorithm, name: str, draft: PlatformPrivacy) -> float:
    """Return the noise of a platform: as given, or what its target takes over the whole run."""
    held = study.privacy
    if held.epsilon is None:
        return held.noise_multiplier or 0.0
    batch = largest_batch(study, algorithm, name)
    event = replace(draft, noise_multiplier=1.0).event(batch, 1)
    if not event.effective_multiplier:
        raise FednerError(
            f"mechanism {draft.mechanism.name!r} reaches no epsilon: its event has no noise",
            "Give privacy.noise_multiplier in place of privacy.epsilon.",
        )
    effective = _calibrated(
        held.epsilon,
        event.sampling_probability,
        steps_in_slice(study, algorithm, draft),
        held.delta,
        held.accountant,
        tuple(_score_steps(study, algorithm, draft).items()),
    )
    multiplier = effective / event.effective_multiplier
    reached = replace(draft, noise_multiplier=multiplier).event(batch, 1).effective_multiplier
    if not math.isclose(reached, effective, rel_tol=1e-9):
        raise FednerError(
            f"mechanism {draft.mechanism.name!r}: the multiplier of its event is {reached:g} with "
            f"noise_multiplier {multiplier:g}; expected {effective:g}, in proportion",
            "Give privacy.noise_multiplier in place of privacy.epsilon.",
        )
    return multiplier


@lru_cache(maxsize=256)
def _calibrated(
    epsilon: float,
    probability: float,
    steps: int,
    delta: float,
    accountant: AccountantName,
    besides: tuple[tuple[tuple[float, float], int], ...],
) -> float:
    """Return the noise for a target; everybody asks for the same few, and each takes a while."""
    return noise_for(
        epsilon,
        sampling_probability=probability,
        steps=steps,
        delta=delta,
        accountant=accountant,
        besides=dict(besides),
    )


def _score_steps(study: Study, algorithm: Algorithm, draft: PlatformPrivacy) -> Steps:
    """Return the releases of scores over the whole run, as the accountant counts them."""
    event = draft.score_event()
    if event is None:
        return {}
    num_releases = _score_releases(study, algorithm)
    return {(event.effective_multiplier, event.sampling_probability): num_releases}


def _score_releases(study: Study, algorithm: Algorithm) -> int:
    """Return how often scores leave a platform over the whole run."""
    held = study.privacy.scores
    return 0 if held is None else -(-num_rounds(study, algorithm) // held.every)


def planned_releases(
    study: Study, algorithm: Algorithm, name: str, privacy: PlatformPrivacy
) -> list[GaussianRelease]:
    """Return all that a platform may release over the whole run, at most."""
    batch, steps = largest_batch(study, algorithm, name), steps_per_round(study, algorithm, privacy)
    left, each = num_rounds(study, algorithm), study.training.rounds_per_slice
    releases = []
    for turn in range(privacy.num_slices):
        is_last = turn == privacy.num_slices - 1
        rounds = left if is_last else min(each, left)
        left -= rounds
        if not rounds:
            break  # a hostile study may have more slices than anybody can count
        releases.append(replace(privacy.event(batch, 1, turn), steps=rounds * steps))
    event = privacy.score_event()
    if event is not None:
        releases.append(replace(event, steps=_score_releases(study, algorithm)))
    return releases


def largest_batch(study: Study, algorithm: Algorithm, name: str) -> int:
    """Return the largest batch that a platform may be asked for in a step."""
    sizes, total = study.public_sizes, study.training.batch_size
    if algorithm.batching == "each":
        return total
    drawn = study.participation.sample
    if drawn is None or drawn >= len(sizes):
        return batch_sizes(sizes, total)[name]
    # Its share is largest beside the smallest of the others.
    others = sorted(size for other, size in sizes.items() if other != name)[: drawn - 1]
    worst = {name: sizes[name], **{f"{name}+{at}": size for at, size in enumerate(others)}}
    return batch_sizes(worst, total)[name]


def steps_in_slice(study: Study, algorithm: Algorithm, privacy: PlatformPrivacy) -> int:
    """Return how many noised steps a unit may take part in, at most, over the whole run."""
    rounds = num_rounds(study, algorithm)
    if privacy.num_slices > 1:
        each = study.training.rounds_per_slice
        rounds = max(min(each, rounds), rounds - (privacy.num_slices - 1) * each)
    return rounds * steps_per_round(study, algorithm, privacy)


def steps_per_round(study: Study, algorithm: Algorithm, privacy: PlatformPrivacy) -> int:
    """Return how many releases a round has, from public facts alone."""
    batch = study.training.batch_size
    return privacy.event(batch, algorithm.steps(batch, privacy.units_in_slice)).steps


def ledger_name(folder: RunFolder, study: Study) -> str:
    """Return the name of a run in the platforms' ledgers: where there are any, unlike any other's.

    A run that is resumed keeps its name; one that is begun anew under the same title must not be
    answered with the releases of the first.
    """
    held = study.privacy
    if not held.enabled or (held.simulation and held.budget is None):
        return study.title
    if not (folder.path / LEDGER_NAME).is_file():
        folder.write(LEDGER_NAME, {"name": f"{study.title} ({secrets.token_hex(8)})"})
    return str(folder.read(LEDGER_NAME)["name"])
