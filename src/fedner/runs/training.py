"""A whole run: the federation, its baselines, their scores, the disclosure, the report.

Everything is written into the run folder as soon as it is known; a run that was stopped at any
moment goes on from there.
"""

import platform as machine
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fedner import __version__
from fedner.engines.in_process import InProcess
from fedner.engines.protocol import Engine
from fedner.engines.roster import one_thread
from fedner.engines.workers import Workers
from fedner.federated.aggregate import RULES
from fedner.federated.algorithms import Algorithm
from fedner.federated.checkpoints import platform_folder, read_state
from fedner.federated.orders import PublicPlan
from fedner.federated.participation import Participation
from fedner.federated.record import RoundRecord
from fedner.federated.run import RunSettings, run
from fedner.federated.screening import NormRule
from fedner.models.checkpoint import CARD
from fedner.runs.assembly import (
    Federation,
    assemble,
    encoded,
    evaluation_part,
    initial_shared,
    new_tagger,
    num_rounds,
    rounds_in_epoch,
)
from fedner.runs.baselines import BaselinePoint, run_centralized, run_local_only
from fedner.runs.checks import algorithm_of
from fedner.runs.disclosure import describe_disclosure
from fedner.runs.finetuning import finetune
from fedner.runs.folder import (
    DISCLOSURE,
    FACTS,
    FEDERATED,
    PRIVACY,
    SCORES,
    RunFolder,
    begin,
    check_folder,
    discard_empty,
)
from fedner.runs.ledgers import require_ledgers, require_room
from fedner.runs.outcome import (
    CENTRALIZED,
    LOCAL_ONLY,
    METHODS,
    Outcome,
    outcome_of,
    summary,
    write_counts,
)
from fedner.runs.privacy import (
    Protection,
    build_protected,
    ledger_name,
    protect,
    train_frozen,
)
from fedner.runs.privacy_checks import delta_warnings
from fedner.runs.privacy_record import run_spent
from fedner.runs.report import write_report
from fedner.runs.taggers import keep_tagger, stored_tagger
from fedner.settings import Settings
from fedner.tensors import SharedState
from fedner.training import load


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Progress:
    """Who hears how far a run is; by default nobody.

    Attributes:
        say: A line on what is being done.
        data: All data are read and fit their settings.
        begin: The federation begins: how many rounds it has.
        round: A round is done.
        baseline: An epoch of a baseline is done.
        method: A method is scored on a platform: method, platform, outcome.
    """

    say: Callable[[str], None] = _nothing
    data: Callable[[Federation], None] = _nothing
    begin: Callable[[Federation, int], None] = _nothing
    round: Callable[[RoundRecord], None] = _nothing
    baseline: Callable[[BaselinePoint], None] = _nothing
    method: Callable[[str, str, Outcome], None] = _nothing


def train_run(
    settings: Settings,
    path: Path,
    *,
    resume: bool = False,
    algorithm: Algorithm | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train a federation and its baselines into a run folder; return the scores.

    Args:
        settings: Checked settings.
        path: The run folder.
        resume: Go on with the run that the folder holds.
        algorithm: An algorithm of one's own in place of the one that the settings name.
        progress: Who hears how far it is.

    Raises:
        FednerError: The folder, the data or the settings do not fit, or the run had to stop.
    """
    tell = progress or Progress()
    # Everything that can be wrong is found before the folder exists: a start that fails leaves
    # nothing behind that would ask for --resume.
    check_folder(path, settings, resume=resume)
    require_ledgers(settings)
    federation = assemble(settings, tell.say)
    protection = protect(federation)
    chosen = algorithm or algorithm_of(settings, num_rounds(federation))
    tell.data(federation)
    was_there = path.exists()
    folder = begin(path, settings, resume=resume)
    try:
        folder.write(FACTS, facts_of(federation))
        if LOCAL_ONLY in settings.training.baselines:
            run_local_only(federation, folder, tell.say, tell.baseline)
        _federate(federation, folder, chosen, protection, tell, resume=resume)
    except Exception:
        if not resume:
            discard_empty(folder, keeps_root=was_there)
        raise
    return _finish_run(federation, folder, tell)


def _finish_run(federation: Federation, folder: RunFolder, tell: Progress) -> dict[str, Any]:
    """Train what is left, score every method and write the report; return the scores."""
    if CENTRALIZED in federation.settings.training.baselines:
        run_centralized(federation, folder, tell.say, tell.baseline)
    tell.say("scoring on every platform's test part")
    scores = score_run(federation, folder, tell)
    folder.write(DISCLOSURE, describe_disclosure(federation, folder.rounds()))
    spent = run_spent(folder)
    if spent is not None:
        folder.write(PRIVACY, spent)
    write_report(folder)
    return scores


def facts_of(federation: Federation) -> dict[str, Any]:
    """Return what the folder keeps of a federation beside its settings."""
    return {
        "title": federation.settings.title,
        "synthetic": federation.settings.is_synthetic,
        "rounds": num_rounds(federation),
        "public_sizes": federation.public_sizes,
        "shared": list(federation.partition.shared),
        "private": list(federation.partition.private),
        "platforms": {name: federation.data[name].facts() for name in federation.names},
        "versions": {
            "fedner": __version__,
            "torch": str(torch.__version__),
            "python": machine.python_version(),
        },
    }


def run_settings(
    federation: Federation, protection: Protection | None = None, name: str | None = None
) -> RunSettings:
    """Return how the federation runs.

    Args:
        federation: The federation.
        protection: How it is protected; None if it is not.
        name: The name of the run in ledgers; None takes its title.
    """
    settings = federation.settings
    rounds = num_rounds(federation)
    epoch = max(1, round(rounds_in_epoch(federation)))
    asked = settings.participation
    training = settings.training
    evaluate = epoch if training.evaluate_every is None else training.evaluate_every
    if settings.privacy.enabled and settings.privacy.scores is not None:
        evaluate = settings.privacy.scores.every
    elif settings.privacy.enabled and not settings.privacy.simulation:
        evaluate = 0  # scores by round would be disclosed without noise
    noise = None if protection is None else protection.server
    checkpoint = epoch if training.checkpoint_every is None else training.checkpoint_every
    if noise is not None and not noise.source.is_simulation:
        checkpoint = 1  # a sum must not be noised twice, not even after a crash
    return RunSettings(
        run=settings.title if name is None else name,
        rounds=rounds,
        batch_size=training.batch_size,
        public_sizes=federation.public_sizes,
        participation=Participation(asked.sample, asked.quorum),
        rule=RULES[asked.aggregation],
        norms=NormRule(asked.norm_factor, asked.norm_bound),
        on_refusal=asked.on_refusal,
        evaluate_every=evaluate,
        checkpoint_every=checkpoint or rounds,  # the last round is always kept: it is the result
        noise=noise,
        ema_decay=training.ema_decay,
    )


def engine_for(
    federation: Federation,
    algorithm: Algorithm,
    initial: SharedState,
    folder: Path,
    protection: Protection | None = None,
) -> Engine:
    """Return what runs the platforms: this process, or workers on the CPU.

    On a GPU the rounds stay in this process, and workers train the baselines alone.
    """
    chosen = federation.settings.engine
    batch, rounds = federation.settings.training.batch_size, num_rounds(federation)
    plan = PublicPlan(federation.public_sizes, batch, algorithm.batching, rounds)
    build = partial(build_protected, federation, protection, folder, plan=plan)
    max_live = 1 if chosen.spill else None
    if not chosen.workers or federation.device != "cpu":
        return InProcess(build, federation.names, algorithm.local, folder=folder, max_live=max_live)
    return Workers(
        build,
        federation.names,
        algorithm.local,
        initial,
        workers=chosen.workers,
        folder=folder,
        max_live=max_live,
        loads=federation.public_sizes,
    )


def _federate(
    federation: Federation,
    folder: RunFolder,
    algorithm: Algorithm,
    protection: Protection | None,
    tell: Progress,
    *,
    resume: bool,
) -> None:
    """Run the federation to its last round and keep every platform's tagger."""
    plan = run_settings(federation, protection, ledger_name(folder, federation.settings))
    require_room(federation, protection, plan.run)
    for warning in delta_warnings(federation.settings, federation.public_sizes):
        tell.say(f"warning: {warning}")
    tell.begin(federation, plan.rounds)
    initial = initial_shared(federation)
    engine = engine_for(federation, algorithm, initial, folder.path, protection)
    with closing(engine):
        # A run that was stopped before its first round has nothing to go on from yet.
        done = run(
            algorithm,
            engine,
            initial,
            plan,
            federation.settings.seed,
            folder.path,
            resume=resume and bool(folder.rounds()),
            on_round=tell.round,
        )
    for name in federation.names:
        tagger = new_tagger(federation, name)
        load(tagger, done.shared)
        is_averaged = plan.ema_decay is not None
        load(tagger, private_weights(folder, name, plan.rounds, is_averaged=is_averaged))
        if protection is not None and federation.settings.privacy.private_part == "frozen":
            train_frozen(federation, name, tagger)
        if federation.settings.training.finetune_epochs:
            tell.say(f"local fine-tuning of {name}")
            finetune(federation, name, tagger)
        keep_tagger(federation, folder, name, FEDERATED, tagger)


def private_weights(
    folder: RunFolder, name: str, round_: int, *, is_averaged: bool = False
) -> dict[str, torch.Tensor]:
    """Return the private weights, or their EMA, that a platform stored under a round."""
    tensors, _ = read_state(platform_folder(folder.path, name), round_)
    # A platform that was never asked has no EMA yet: its weights are still the first.
    is_averaged = is_averaged and any(key.startswith("ema/") for key in tensors)
    prefix = "ema/" if is_averaged else "private/"
    return {
        key.removeprefix(prefix): tensor
        for key, tensor in tensors.items()
        if key.startswith(prefix)
    }


def score_run(
    federation: Federation, folder: RunFolder, tell: Progress | None = None
) -> dict[str, Any]:
    """Score every method that has taggers on every platform, and keep scores and counts."""
    progress = tell or Progress()
    settings = federation.settings
    outcomes: dict[str, dict[str, Outcome]] = {}
    for name in federation.names:
        outcomes[name] = {}
        for method in METHODS:
            if (folder.tagger(name, method) / CARD).is_file():
                outcome = _outcome(federation, folder, name, method)
                outcomes[name][method] = outcome
                progress.method(method, name, outcome)
        unit = settings.platform(name).split.by
        write_counts(folder, federation.data[name], unit, outcomes[name])
    units = {name: settings.platform(name).split.by for name in federation.names}
    record = {
        "title": settings.title,
        "seed": settings.seed,
        "synthetic": settings.is_synthetic,
        **summary(outcomes, units, settings.seed),
    }
    folder.write(SCORES, record)
    return record


def _outcome(federation: Federation, folder: RunFolder, name: str, method: str) -> Outcome:
    tagger, space = stored_tagger(federation, folder, name, method)
    part = evaluation_part(federation, name, encoded(federation, name, space), space)
    unit = federation.settings.platform(name).split.by
    with one_thread():
        return outcome_of(federation.data[name], part.predictions(tagger), unit)
