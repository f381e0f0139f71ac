"""A site as the algorithms see it: a `Platform` with its learner, its batches and its ledger."""

from dataclasses import replace

from fedner.federated.algorithms import Algorithm
from fedner.federated.annotation import marginalised_losses
from fedner.federated.dp_steps import DPSteps, sliced_units
from fedner.federated.learner import Losses, TaggerLearner, gold_losses
from fedner.federated.platform import LocalSettings, Platform
from fedner.federated.platform import platform as new_platform
from fedner.federated.sampling import slice_indices
from fedner.models.features import select
from fedner.models.graphed import recorded_steps
from fedner.optimizers import OptimizerSettings
from fedner.privacy.entropy import SeededSimulation
from fedner.privacy.ledger import Ledger
from fedner.privacy.ledger_owner import unit_key
from fedner.privacy.mechanisms import PlatformPrivacy
from fedner.privacy.sampling import Units, units_of
from fedner.runs.blueprint import local_optimizer, shares_tags
from fedner.runs.budgets import spending_limits
from fedner.runs.privacy import platform_privacy
from fedner.runs.schedule import num_rounds, public_plan
from fedner.runs.site import Site
from fedner.runs.site_ledger import ledger_folder, simulated_budget


def build_platform(site: Site, algorithm: Algorithm, *, is_trial: bool = False) -> Platform:
    """Return a platform at its beginning, its ledger open where the study is protected.

    Engines call this, in this process or in a worker.

    Args:
        site: The platform.
        algorithm: The federation's.
        is_trial: Whether its work is thrown away: no ledger is opened, and noise is a simulation's.
    """
    steps = _trial_steps(site, algorithm) if is_trial else dp_steps(site, algorithm)
    pools = None
    slice_ = site.study.training.slice
    if slice_ is not None and (steps is None or not steps.samples_units):
        by = site.own.split.by
        pools = slice_indices(site.data.train_sentences, slice_, site.study.seed, by=by)
    return new_platform(
        site.name,
        learner(site),
        site.blueprint.partition,
        site.study.seed,
        _local_settings(site, algorithm),
        pools=pools,
        privacy=steps,
        plan=public_plan(site.study, algorithm),
    )


def learner(site: Site) -> TaggerLearner:
    """Return the platform's tagger and data as an algorithm sees them."""
    corpus, data = site.encoded(), site.data
    losses: Losses = gold_losses
    if shares_tags(site.study) and site.study.partition.unannotated == "marginal":
        losses = marginalised_losses(site.space, data.labels)
    tagger, training_part = site.tagger(), select(corpus, data.train)
    return TaggerLearner(
        tagger,
        training_part,
        losses,
        site.evaluation_part(corpus),
        data.labels,
        recorded=recorded_steps(tagger, training_part, site.own.recorded_graphs or "auto"),
    )


def _local_settings(site: Site, algorithm: Algorithm) -> LocalSettings:
    study, training = site.study, site.study.training
    return LocalSettings(
        _decaying(site, algorithm),
        study.local_optimizer.max_grad_norm or None,
        reports_loss=site.own.policy.sends_loss,
        rounds_per_slice=training.rounds_per_slice,
        ema_decay=training.ema_decay,
        names_types=site.declares_types,
        encoding=study.transport.encoding,
    )


def _decaying(site: Site, algorithm: Algorithm) -> OptimizerSettings:
    """Return how private weights are stepped over the whole run."""
    study = site.study
    first, held = local_optimizer(study), study.local_optimizer
    if held.schedule != "linear":
        return first
    size = float(study.platform(site.name).public_size)
    steps = num_rounds(study, algorithm) * algorithm.steps(study.training.batch_size, size)
    return replace(first, schedule="linear", decay_steps=steps, warmup_ratio=held.warmup_ratio)


def dp_steps(site: Site, algorithm: Algorithm) -> DPSteps | None:
    """Return the platform's DP steps with its ledger and units; None without protection."""
    privacy = platform_privacy(site.blueprint, algorithm, site.name)
    if privacy is None:
        return None
    where = ledger_folder(site.study, site.own, site.folder.path)
    ledger, key = None, b""
    if where is not None and privacy.source.is_simulation:
        ledger = Ledger.open(where, simulated_budget(site.study, privacy), is_simulation=True)
    elif where is not None:
        ledger, key = Ledger.open(where), unit_key(where)
        ledger.limit(spending_limits(site.study, site.own, ledger.budget))
    return DPSteps(privacy, _pools(site, privacy, key), ledger, tested=_tested(site, privacy))


def _trial_steps(site: Site, algorithm: Algorithm) -> DPSteps | None:
    """Return DP steps whose results nobody gets: nothing is released, and nothing is charged."""
    privacy = platform_privacy(site.blueprint, algorithm, site.name)
    if privacy is None:
        return None
    seeded = replace(privacy, source=SeededSimulation(site.study.seed))
    return DPSteps(seeded, _pools(site, seeded, b""))


def _pools(site: Site, privacy: PlatformPrivacy, key: bytes) -> tuple[Units, ...]:
    if not privacy.mechanism.samples_units:
        return ()
    return sliced_units(site.data.train_sentences, privacy.unit, privacy, key)


def _tested(site: Site, privacy: PlatformPrivacy) -> Units | None:
    if privacy.scores is None or not privacy.mechanism.samples_units:
        return None
    return units_of(site.data.test_sentences, privacy.unit)
