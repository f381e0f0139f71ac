"""The coordinator's half: built from the public study and an engine, and from nothing else.

It sends orders, aggregates what comes back, and keeps record and shared weights in its own folder.
What it learns of a platform are the fields of `federated.messages`.
"""

from dataclasses import replace
from pathlib import Path

from fedner.federated.algorithms import Algorithm
from fedner.federated.engine import Engine
from fedner.federated.run import OnRound, RunRecord, run
from fedner.federated.summation import Summation
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.blueprint import blueprint
from fedner.runs.folder import INITIAL, RunFolder
from fedner.runs.initial_model import (
    InitialModel,
    facts_of,
    first_weights,
    located_initial,
    require_named,
)
from fedner.runs.parts import require_charged, require_hidden
from fedner.runs.privacy import releases_of, server_noise
from fedner.runs.privacy_checks import require_provable
from fedner.runs.public_files import PublicFiles, declared_files
from fedner.runs.report.coordinator import write_coordinator_report
from fedner.runs.schedule import algorithm_for, run_settings
from fedner.runs.shared_model import model_facts, write_shared_model
from fedner.runs.sums import summation_of
from fedner.settings import Study


def coordinate(
    study: Study,
    engine: Engine,
    folder: Path | str | None = None,
    *,
    algorithm: Algorithm | None = None,
    mechanism: Mechanism | None = None,
    summation: Summation | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    files: PublicFiles | None = None,
    device: str = "cpu",
    run_name: str | None = None,
    initial: InitialModel | Path | str | None = None,
) -> RunRecord:
    """Run all rounds of a study, then let every platform finish by itself.

    >>> import fedner
    >>> names = ("case-reports", "forum-posts")
    >>> corpora = {name: fedner.synthetic_corpus(name, 40, seed=1) for name in names}
    >>> study = fedner.study_for(corpora, training={"rounds": 2})
    >>> def answer(name):  # what runs at a platform: here on the same machine
    ...     own = fedner.PlatformSettings(name=name, data="notes/")
    ...     return fedner.SiteAnswer(fedner.open_site(study, own, name, corpus=corpora[name]))
    >>> engine = fedner.InProcess(answer, names)
    >>> record = fedner.coordinate(study, engine)
    >>> len(record.rounds), sorted(record.reports)
    (2, ['case-reports', 'forum-posts'])
    >>> engine.close()

    Args:
        study: The public study.
        engine: Carries orders and replies; the caller closes it.
        folder: Where study, record, shared weights and report go; also the released model
            (`model/`), if a described head and everything else is shared. None keeps nothing; a
            study that is deployed under differential privacy needs a folder.
        algorithm: Your own algorithm in place of the one that the study names.
        mechanism: Your own mechanism in place of the one that the study names.
        summation: How updates become one sum, in place of what the study says; the platforms must
            have the same.
        resume: Go on from the newest round that coordinator and platforms have stored.
        on_round: Called with the record of each round.
        files: The study's embeddings, opened: needed only where the study trains them.
        device: Where the sums are computed.
        run_name: Names the run to the platforms; None takes the study's title.
        initial: The model that the study begins with, or its folder; platforms get its weights
            with the first order.

    Raises:
        FednerError: Too few platforms answered, the folder holds another run or study, or
            mechanism, summation or initial model do not fit the study.
    """
    chosen = algorithm_for(study, algorithm)
    plan = blueprint(study, declared_files(study) if files is None else files, device, mechanism)
    require_provable(study, chosen, plan.mechanism)
    sums = summation_of(study, chosen) if summation is None else summation
    require_charged(study, sums)
    require_hidden(study, plan.mechanism, sums)
    model = _initial(study, initial)
    first, began = first_weights(plan, model), None if model is None else facts_of(study, model)
    settings = run_settings(study, chosen, server_noise(plan, chosen), run_name)
    settings = replace(settings, summation=sums, releases=releases_of(plan, chosen))
    if folder is not None:
        RunFolder(Path(folder)).keep_study(study)
        if began is not None:
            RunFolder(Path(folder)).write(INITIAL, began.as_dict())
    elif not study.is_deployed:
        settings = replace(settings, checkpoint_every=0)
    done = run(
        chosen,
        engine,
        first,
        settings,
        study.seed,
        None if folder is None else Path(folder),
        resume=resume,
        on_round=on_round,
    )
    if folder is not None:
        facts = model_facts(study, plan.mechanism, done.rounds, began)
        write_shared_model(Path(folder), plan, done.shared, facts)
        write_coordinator_report(Path(folder), study, done, began)
    return done


def _initial(study: Study, given: InitialModel | Path | str | None) -> InitialModel | None:
    """Return the model that the study begins with, whose digest is the study's."""
    if not isinstance(given, InitialModel):
        return located_initial(study, given)
    require_named(given, study.model.initial)
    return given
