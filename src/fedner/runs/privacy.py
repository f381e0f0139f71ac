"""Differential privacy of a run: noise for a target, DP steps, the server's noise, ledgers."""

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fedner.errors import FednerError
from fedner.federated.algorithms import FednerSettings, LocalTraining
from fedner.federated.dp_steps import (
    DPSteps,
    PlatformPrivacy,
    ScoreNoise,
    padding_rows,
    sliced_units,
)
from fedner.federated.orders import PublicPlan
from fedner.federated.platform import Platform
from fedner.federated.server_noise import ServerNoise
from fedner.federated.sizes import batch_sizes
from fedner.models.features import select
from fedner.models.tagger import Tagger
from fedner.privacy.accountant import Steps, noise_for
from fedner.privacy.budget import Budget
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger
from fedner.privacy.ledger_owner import unit_key
from fedner.privacy.sampling import Units, units_of
from fedner.runs.assembly import (
    Federation,
    build_platform,
    encoded,
    local_optimizer,
    new_tagger,
    num_rounds,
)
from fedner.runs.checks import algorithm_of, parameters_of
from fedner.runs.finetuning import MOST_SENTENCES
from fedner.runs.folder import LEDGER_NAME, RunFolder
from fedner.runs.platform_data import ledger_of
from fedner.runs.privacy_checks import delta_problems
from fedner.seeds import derive
from fedner.settings import SettingProblem, Settings, SettingsError
from fedner.training import TrainingSettings, train

LEDGERS = "ledgers"


@dataclass(frozen=True, slots=True)
class Protection:
    """How a run is protected.

    Attributes:
        platforms: The DP steps of each platform.
        server: The server's noise; None where platforms add their own.
    """

    platforms: Mapping[str, PlatformPrivacy]
    server: ServerNoise | None = None


def protect(federation: Federation) -> Protection | None:
    """Return how the run is protected, with the noise that its target takes; None if it is not.

    Raises:
        SettingsError: Sentences that do not say to which document or patient they belong, or a
            delta that promises nothing for the size of a platform.
        FednerError: No noise reaches the target, or the accountant is not installed.
    """
    held = federation.settings.privacy
    if not held.enabled:
        return None
    _require_units(federation)
    worthless = delta_problems(federation.settings, federation.public_sizes)
    if worthless:
        raise SettingsError("the platforms' data", worthless)
    drafts = {name: _unnoised(federation, name) for name in federation.names}
    noises = {name: _noise(federation, name, draft) for name, draft in drafts.items()}
    if held.where == "central":
        # One noise is added to the sum of all: the platform that needs most decides.
        noises = dict.fromkeys(noises, max(noises.values()))
    platforms = {
        name: replace(draft, noise_multiplier=noises[name]) for name, draft in drafts.items()
    }
    if held.where == "local":
        return Protection(platforms)
    first = platforms[federation.names[0]]
    server = ServerNoise(
        held.max_grad_norm,
        first.noise_multiplier,
        is_whole=held.unit == "platform",
        num_slices=first.num_slices,
        source=first.source,
        padding_rows=first.padding_rows,
    )
    return Protection(platforms, server)


def _require_units(federation: Federation) -> None:
    unit = federation.settings.privacy.unit
    problems = []
    for number, platform in enumerate(federation.settings.platforms):
        sentences = list(federation.data[platform.name].train_sentences)
        if federation.settings.privacy.scores is not None:
            sentences += federation.data[platform.name].test_sentences
        attribute = {"document": "document", "patient": "patient"}.get(unit)
        lost = sum(not getattr(each, attribute) for each in sentences) if attribute else 0
        if lost:
            problems.append(
                SettingProblem(
                    f"privacy.unit for platforms[{number}] ({platform.name})",
                    f"{lost:,} of {len(sentences):,} sentences without a {unit} id",
                    f"the {unit} of every sentence",
                    f"Add them to the data, or protect another unit than the {unit}.",
                )
            )
    if problems:
        raise SettingsError("the platforms' data", problems)


def _unnoised(federation: Federation, name: str) -> PlatformPrivacy:
    settings = federation.settings
    held = settings.privacy
    slices = 1
    if settings.training.slice is not None and held.unit != "platform":
        slices = int(min(1 / settings.training.slice * (1 + 1e-12), 1e12))
    return PlatformPrivacy(
        max_grad_norm=held.max_grad_norm,
        noise_multiplier=0.0,
        public_units=federation.public_sizes[name],
        unit=held.unit,
        where=held.where,
        private_part=held.private_part,
        loss=held.loss,
        max_sentences=held.max_sentences,
        num_slices=slices,
        source=source_of(settings),
        padding_rows=padding_rows(new_tagger(federation, name)),
        scores=None
        if held.scores is None
        else ScoreNoise(held.scores.max_norm, held.scores.noise_multiplier),
    )


def source_of(settings: Settings) -> Source:
    """Return where sample and noise come from."""
    held = settings.privacy
    if not held.simulation:
        return SystemEntropy()
    return SeededSimulation(settings.seed if held.noise_seed is None else held.noise_seed)


def _noise(federation: Federation, name: str, draft: PlatformPrivacy) -> float:
    """Return the noise of a platform: as given, or what its target takes over the whole run."""
    held = federation.settings.privacy
    if held.epsilon is None:
        return held.noise_multiplier or 0.0
    event = draft.event(_batch(federation, name), 1)
    multiplier = noise_for(
        held.epsilon,
        sampling_probability=event.sampling_probability,
        steps=steps_in_slice(federation, draft),
        delta=held.delta,
        accountant=held.accountant,
        besides=_score_steps(federation, draft),
    )
    return multiplier * (2.0 if event.adjacency == "replace_one" else 1.0)


def _score_steps(federation: Federation, draft: PlatformPrivacy) -> Steps:
    """Return the releases of scores over the whole run, as the accountant counts them."""
    event = draft.score_event()
    if event is None:
        return {}
    num_releases = _score_releases(federation)
    return {(event.effective_multiplier, event.sampling_probability): num_releases}


def _score_releases(federation: Federation) -> int:
    """Return how often a platform discloses scores over the whole run."""
    held = federation.settings.privacy.scores
    return 0 if held is None else -(-num_rounds(federation) // held.every)


def planned_releases(
    federation: Federation, name: str, privacy: PlatformPrivacy
) -> list[GaussianRelease]:
    """Return all that a platform may release over the whole run, at most."""
    batch, steps = _batch(federation, name), steps_per_round(federation, privacy)
    left, each = num_rounds(federation), federation.settings.training.rounds_per_slice
    releases = []
    for turn in range(privacy.num_slices):
        is_last = turn == privacy.num_slices - 1
        rounds = left if is_last else min(each, left)
        left -= rounds
        if rounds:
            releases.append(replace(privacy.event(batch, 1, turn), steps=rounds * steps))
    event = privacy.score_event()
    if event is not None:
        releases.append(replace(event, steps=_score_releases(federation)))
    return releases


def _batch(federation: Federation, name: str) -> int:
    """Return the largest batch that a platform may be asked for in a step."""
    settings, sizes = federation.settings, federation.public_sizes
    total = settings.training.batch_size
    if algorithm_of(settings).batching == "each":
        return total
    drawn = settings.participation.sample
    if drawn is None or drawn >= len(sizes):
        return batch_sizes(sizes, total)[name]
    # Its share is largest beside the smallest of the others.
    others = sorted(size for other, size in sizes.items() if other != name)[: drawn - 1]
    worst = {name: sizes[name], **{f"{name}+{at}": size for at, size in enumerate(others)}}
    return batch_sizes(worst, total)[name]


def steps_in_slice(federation: Federation, privacy: PlatformPrivacy) -> int:
    """Return how many noised steps a unit may take part in, at most, over the whole run."""
    rounds = num_rounds(federation)
    if privacy.num_slices > 1:
        each = federation.settings.training.rounds_per_slice
        rounds = max(min(each, rounds), rounds - (privacy.num_slices - 1) * each)
    return rounds * steps_per_round(federation, privacy)


def steps_per_round(federation: Federation, privacy: PlatformPrivacy) -> int:
    """Return how many releases a round has, from public facts alone."""
    if privacy.unit == "platform":
        return 1
    parameters = parameters_of(federation.settings)
    if isinstance(parameters, FednerSettings):
        return parameters.local_steps
    local = getattr(parameters, "local", None)
    if not isinstance(local, LocalTraining):
        raise FednerError(
            f"algorithm {federation.settings.algorithm.name!r} does not say how many steps a "
            "round has",
            "Give privacy.noise_multiplier instead of privacy.epsilon.",
        )
    if local.steps is not None:
        return local.steps
    batch = federation.settings.training.batch_size
    return local.epochs * max(1, math.ceil(privacy.units_in_slice / batch))


def ledger_folder(settings: Settings, folder: Path, name: str) -> Path | None:
    """Return where a platform's ledger stands; None where a simulation keeps none."""
    held = settings.privacy
    if settings.is_deployed:
        return ledger_of(settings.platform(name))
    if not held.enabled or held.budget is None:
        return None
    own = settings.platform(name).ledger
    return folder / LEDGERS / name if own is None else Path(own)


def ledger_name(folder: RunFolder, settings: Settings) -> str:
    """Return the name of a run in the platforms' ledgers: where there are any, unlike any other's.

    A run that is resumed keeps its name; one that is begun anew under the same title must not be
    answered with the releases of the first.
    """
    held = settings.privacy
    if not held.enabled or (held.simulation and held.budget is None):
        return settings.title
    if not (folder.path / LEDGER_NAME).is_file():
        folder.write(LEDGER_NAME, {"name": f"{settings.title} ({secrets.token_hex(8)})"})
    return str(folder.read(LEDGER_NAME)["name"])


def simulated_budget(settings: Settings, privacy: PlatformPrivacy) -> Budget:
    """Return the budget of a simulation's own ledgers; that of a deployed one is its owner's."""
    held = settings.privacy
    event = privacy.event(1, 1)
    epsilon = held.budget or held.epsilon
    if epsilon is None:
        raise FednerError("no budget for the ledger", "Add privacy.budget.")
    return Budget(epsilon, held.delta, event.unit, event.adjacency, held.accountant)


def build_protected(
    federation: Federation,
    protection: Protection | None,
    folder: Path,
    name: str,
    *,
    plan: PublicPlan | None = None,
) -> Platform:
    """Return a platform at its beginning, its steps private where the run is protected.

    Engines call this, in this process or in a worker.

    Args:
        federation: What it is built from.
        protection: How the run is protected; None if it is not.
        folder: The run folder.
        name: The platform.
        plan: The public plan of the run, which the platform holds orders against.
    """
    if protection is None:
        return build_platform(federation, name, plan=plan)
    privacy, settings = protection.platforms[name], federation.settings
    unit = privacy.unit
    where = ledger_folder(settings, folder, name)
    ledger, key = None, b""
    if where is not None and privacy.source.is_simulation:
        ledger = Ledger.open(where, simulated_budget(settings, privacy), is_simulation=True)
    elif where is not None:
        ledger, key = Ledger.open(where), unit_key(where)
    pools: tuple[Units, ...] = ()
    if unit != "platform":
        pools = sliced_units(federation.data[name].train_sentences, unit, privacy, key)
    tested = None
    if privacy.scores is not None and unit != "platform":
        tested = units_of(federation.data[name].test_sentences, unit)
    steps = DPSteps(privacy, pools, ledger, tested=tested)
    return build_platform(federation, name, steps, plan=plan)


def train_frozen(federation: Federation, name: str, tagger: Tagger) -> None:
    """Train the private part in the clear, after the last update; it is never transmitted."""
    settings = federation.settings
    held = [
        weight
        for key, weight in tagger.named_parameters()
        if key in federation.partition.shared and weight.requires_grad
    ]
    corpus = select(encoded(federation, name), federation.data[name].train)
    plan = TrainingSettings(
        epochs=settings.privacy.private_epochs,
        # Batches that bear noise are large; at home small ones take more steps.
        batch_size=min(MOST_SENTENCES, settings.training.batch_size),
        optimizer=local_optimizer(settings),
        max_grad_norm=settings.local_optimizer.max_grad_norm or None,
    )
    try:
        for weight in held:
            weight.requires_grad_(False)
        train(tagger, corpus, plan, derive(settings.seed, "frozen", "platform", name))
    finally:
        for weight in held:
            weight.requires_grad_(True)
