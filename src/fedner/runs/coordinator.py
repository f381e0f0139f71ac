"""The coordinator's half: built from the public study and an engine, and from nothing else.

It sends orders, aggregates what comes back, and keeps record and shared weights in its own folder.
What it learns of a platform are the fields of `federated.messages`.
"""

from dataclasses import replace
from pathlib import Path

from fedner.federated.algorithms import Algorithm
from fedner.federated.engine import Engine
from fedner.federated.run import OnRound, RunRecord, run
from fedner.federated.summation import PLAIN, Summation
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.blueprint import blueprint
from fedner.runs.folder import RunFolder
from fedner.runs.parts import require_charged
from fedner.runs.privacy import server_noise
from fedner.runs.privacy_checks import require_provable
from fedner.runs.public_files import PublicFiles, declared_files
from fedner.runs.schedule import algorithm_for, run_settings
from fedner.settings import Study


def coordinate(
    study: Study,
    engine: Engine,
    folder: Path | None = None,
    *,
    algorithm: Algorithm | None = None,
    mechanism: Mechanism | None = None,
    summation: Summation = PLAIN,
    resume: bool = False,
    on_round: OnRound | None = None,
    files: PublicFiles | None = None,
    device: str = "cpu",
    run_name: str | None = None,
    timeout: float | None = None,
) -> RunRecord:
    """Run a study to its last round, then let every platform finish by itself.

    Args:
        study: The public study.
        engine: Carries orders and replies; the caller closes it.
        folder: Where study, record and shared weights go; None keeps nothing.
        algorithm: An algorithm of one's own in place of the one that the study names.
        mechanism: A mechanism of one's own in place of the one that the study names.
        summation: How updates become one sum; the platforms must have the same.
        resume: Go on from the newest round that coordinator and platforms have stored.
        on_round: Called with the record of each round.
        files: The study's embeddings, opened: needed only where the study trains them.
        device: Where the sums are computed.
        run_name: Names the run to the platforms; None takes the study's title.
        timeout: Seconds that all replies to an order may take; None waits for ever.

    Raises:
        FednerError: Too few platforms answered, the folder holds another run or study, or
            mechanism and summation do not fit the study.
    """
    chosen = algorithm_for(study, algorithm)
    plan = blueprint(study, declared_files(study) if files is None else files, device, mechanism)
    require_provable(study, chosen, plan.mechanism)
    require_charged(study, summation)
    settings = run_settings(study, chosen, server_noise(plan, chosen), run_name)
    settings = replace(settings, timeout=timeout, summation=summation)
    if folder is None:
        settings = replace(settings, checkpoint_every=0)
    else:
        RunFolder(folder).keep_study(study)
    return run(
        chosen,
        engine,
        plan.initial_shared(),
        settings,
        study.seed,
        folder,
        resume=resume,
        on_round=on_round,
    )
