"""A whole federation on one machine: sites, coordinator, baselines, and one report over all.

Sites and coordinator are the same as across hospitals, and only messages pass between them. What a
simulation alone can do is to look at all of them: the centralized baseline and the joint report.
Everything is written into the run folder as soon as it is known; a run that was stopped at any
moment goes on from there.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedner.corpus.document import Corpus
from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.federated.algorithms import Algorithm
from fedner.federated.answering import one_thread
from fedner.federated.checkpoints import platform_folder
from fedner.federated.engine import Engine
from fedner.federated.folder_lock import held_by_this_process
from fedner.federated.record import RoundRecord
from fedner.federated.summation import Summation
from fedner.models.device import require_device
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.annotated_types import IN_FILE, Wording
from fedner.runs.centralized import train_joined
from fedner.runs.checks import require_fitting
from fedner.runs.coordinator import coordinate
from fedner.runs.embedding_checks import SOURCE as EMBEDDINGS
from fedner.runs.embedding_checks import path_problems
from fedner.runs.folder import (
    AT_WORK,
    CENTRALIZED,
    LOCAL_ONLY,
    RunFolder,
    begin,
    check_folder,
    discard_empty,
)
from fedner.runs.initial_facts import began_with
from fedner.runs.initial_model import (
    InitialModel,
    facts_of,
    first_weights,
    named_initial,
    opened_initial,
)
from fedner.runs.joint_results import write_joint_results
from fedner.runs.ledgers import require_ledgers, require_room
from fedner.runs.local_training import BaselinePoint, OnPoint, train_baseline
from fedner.runs.parts import keep_parts, parts_of, require_charged
from fedner.runs.platform_data import load_platforms
from fedner.runs.privacy import ledger_name
from fedner.runs.privacy_checks import delta_warnings
from fedner.runs.protected_units import require_units, true_size
from fedner.runs.public_files import open_named_files
from fedner.runs.records import RunScores
from fedner.runs.schedule import algorithm_for, num_rounds
from fedner.runs.side_by_side import side_by_side
from fedner.runs.site import Site, open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.runs.site_results import show_results, write_results
from fedner.runs.site_taggers import finished_methods
from fedner.runs.sums import sum_warnings, summation_of
from fedner.scoring import Scores
from fedner.settings import NamedModel, Settings, SettingsError, platform_settings_of, study_of


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Progress:
    """Who hears how far a run is; by default nobody.

    Attributes:
        say: A line on what is being done.
        data: All data are read and fit their settings.
        begin: The federation begins: its sites, and how many rounds it has.
        round: A round is done.
        baseline: An epoch of a baseline is done.
        method: A method is scored on a platform: method, platform, scores.
    """

    say: Callable[[str], None] = _nothing
    data: Callable[[Sequence[Site]], None] = _nothing
    begin: Callable[[Sequence[Site], int], None] = _nothing
    round: Callable[[RoundRecord], None] = _nothing
    baseline: Callable[[BaselinePoint], None] = _nothing
    method: Callable[[str, str, Scores], None] = _nothing


def train_run(
    settings: Settings,
    path: Path,
    *,
    resume: bool = False,
    algorithm: Algorithm | None = None,
    mechanism: Mechanism | None = None,
    summation: Summation | None = None,
    progress: Progress | None = None,
    corpora: Mapping[str, Corpus] | None = None,
) -> RunScores:
    """Train a federation and its baselines into a run folder; return the scores.

    Args:
        settings: Checked settings.
        path: The run folder.
        resume: Go on with the run that the folder holds.
        algorithm: An algorithm of one's own in place of the one that the settings name.
        mechanism: A mechanism of one's own in place of the one that the settings name.
        summation: How updates become one sum, in place of what the settings say.
        progress: Who hears how far it is.
        corpora: The platforms' texts where they are in memory.

    Raises:
        FednerError: The folder, the data or the settings do not fit, or the run had to stop.
    """
    tell = progress or Progress()
    # Everything that can be wrong is found before the folder exists: a start that fails leaves
    # nothing behind that would ask for --resume.
    check_folder(path, settings, resume=resume)
    start = prepare_start(
        settings,
        path,
        tell.say,
        algorithm=algorithm,
        mechanism=mechanism,
        summation=summation,
        corpora=corpora,
    )
    sites, chosen, initial = start.sites, start.algorithm, start.initial
    tell.data(sites)
    was_there = path.exists()
    folder = begin(path, settings, resume=resume)
    with held_by_this_process(path, AT_WORK):
        try:
            _train(settings, sites, chosen, summation, folder, tell, initial, resume=resume)
        except Exception:
            if not resume:
                discard_empty(folder, keeps_root=was_there)
            raise
        return _finished(settings, sites, chosen, folder, tell, initial)


@dataclass(frozen=True, slots=True)
class Start:
    """A federation that passed every check and did not begin.

    Attributes:
        sites: Its platforms, sorted by name.
        algorithm: What they compute.
        initial: The model that it begins with; None for weights of the seed.
    """

    sites: tuple[Site, ...]
    algorithm: Algorithm
    initial: InitialModel | None


def prepare_start(
    settings: Settings,
    path: Path,
    say: Callable[[str], None] = _nothing,
    *,
    algorithm: Algorithm | None = None,
    mechanism: Mechanism | None = None,
    summation: Summation | None = None,
    corpora: Mapping[str, Corpus] | None = None,
    has_features: bool = True,
) -> Start:
    """Check all that can be wrong before a federation begins; nothing is written but caches.

    Args:
        settings: Checked settings.
        path: The run folder; it need not be there.
        say: Called with a line on what is being done, and with each warning.
        algorithm: An algorithm of one's own in place of the one that the settings name.
        mechanism: A mechanism of one's own in place of the one that the settings name.
        summation: How updates become one sum, in place of what the settings say.
        corpora: The platforms' texts where they are in memory.
        has_features: Whether context features are computed; without them nothing can be trained.

    Raises:
        FednerError: The data or the settings do not fit.
    """
    require_fitting(settings, algorithm, mechanism)
    require_ledgers(settings, mechanism)
    initial = opened_initial(settings)
    sites = open_sites(
        settings,
        path,
        say,
        corpora=corpora,
        algorithm=algorithm,
        mechanism=mechanism,
        initial=None if initial is None else initial.named,
        has_features=has_features,
    )
    if initial is not None:
        _tell_beginning(sites[0], initial, say)
    chosen = algorithm_for(sites[0].study, algorithm)
    for warning in sum_warnings(sites[0].study):
        say(f"warning: {warning}")
    sums = summation_of(sites[0].study, chosen) if summation is None else summation
    require_charged(sites[0].study, sums)
    return Start(tuple(sites), chosen, initial)


def _tell_beginning(site: Site, initial: InitialModel, say: Callable[[str], None]) -> None:
    """Check that a run can begin with a model, and say what is known of it.

    Raises:
        FednerError: It does not fit the study.
    """
    first_weights(site.blueprint, initial)
    facts = facts_of(site.study, initial)
    say(began_with(facts))
    for warning in facts.warnings:
        say(f"warning: {warning}")


def open_sites(
    settings: Settings,
    path: Path,
    say: Callable[[str], None] = _nothing,
    *,
    wording: Wording = IN_FILE,
    corpora: Mapping[str, Corpus] | None = None,
    algorithm: Algorithm | None = None,
    mechanism: Mechanism | None = None,
    knows_types: bool = False,
    initial: NamedModel | None = None,
    has_features: bool = True,
) -> list[Site]:
    """Open every platform of a federation file, sorted by name.

    Args:
        settings: The federation file.
        path: The run folder.
        say: Called with a line on what is being done.
        wording: How the user spells the settings: in a file, or as options of a command.
        corpora: The platforms' texts where they are in memory.
        algorithm: An algorithm of one's own in place of the one that the settings name.
        mechanism: A mechanism of one's own in place of the one that the settings name.
        knows_types: Whether the types of all platforms are known here, declared or not, as where
            nothing is sent.
        initial: The model that the run begins with, where it was opened before.
        has_features: Whether context features are computed; without them nothing can be trained.

    Raises:
        FednerError: Data, embeddings or the partition do not fit together.
    """
    # Embeddings first: a wrong path is found before anybody waits for data.
    if wrong := list(path_problems(settings)):
        raise SettingsError(EMBEDDINGS, wrong)
    device = simulated_device(settings)
    say("opening the embeddings")
    files = open_named_files(settings, device)
    say("reading the platforms' data")
    data = load_platforms(settings, wording, corpora or {}, mechanism)
    require_units(settings, data, mechanism)
    sizes = {name: true_size(each, settings.privacy, mechanism) for name, each in data.items()}
    known = {n: each.labels for n, each in data.items() if knows_types or each.is_synthetic}
    first = named_initial(settings, path) if initial is None else initial
    study = study_of(settings, sizes, files.words.origin, files.context, known, first)
    return [
        open_site(
            study,
            platform_settings_of(settings, name),
            platform_folder(path, name),
            algorithm=algorithm,
            mechanism=mechanism,
            files=files,
            data=data[name],
            say=say,
            has_features=has_features,
        )
        for name in sorted(data)
    ]


def simulated_device(settings: Settings) -> str:
    """Return where a simulation computes.

    Raises:
        FednerError: There is no such device.
    """
    import torch

    device = settings.engine.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    require_device(device)
    return device


def _train(
    settings: Settings,
    sites: Sequence[Site],
    algorithm: Algorithm,
    summation: Summation | None,
    folder: RunFolder,
    tell: Progress,
    initial: InitialModel | None,
    *,
    resume: bool,
) -> None:
    """Train the local-only baselines, then the federation to its last round."""
    study, plan = sites[0].study, sites[0].blueprint
    folder.keep_study(study)
    sums = summation_of(study, algorithm) if summation is None else summation
    keep_parts(folder, parts_of(algorithm, plan.mechanism, sums))
    if LOCAL_ONLY in study.training.baselines:
        _train_baselines(settings, sites, algorithm, tell)
    run_name = ledger_name(folder, study)
    require_room(sites, algorithm, run_name)
    if plan.mechanism is not None:
        for warning in delta_warnings(study, study.public_sizes, plan.mechanism.facts):
            tell.say(f"warning: {warning}")
    tell.begin(sites, num_rounds(study, algorithm))
    with closing(engine_for(settings, sites, algorithm, summation)) as engine:
        # A run that was stopped before its first round has nothing to go on from yet.
        coordinate(
            study,
            engine,
            folder.path,
            algorithm=algorithm,
            mechanism=plan.mechanism,
            summation=summation,
            resume=resume and bool(folder.rounds()),
            on_round=tell.round,
            files=plan.files,
            device=plan.device,
            run_name=run_name,
            initial=initial,
        )


def engine_for(
    settings: Settings,
    sites: Sequence[Site],
    algorithm: Algorithm,
    summation: Summation | None = None,
) -> Engine:
    """Return what runs the sites: this process, or workers on the CPU.

    On a GPU the rounds stay in this process, and workers train the baselines alone.
    """
    chosen, plan = settings.engine, sites[0].blueprint
    held = {site.name: site for site in sites}
    answers = partial(_answer, held, algorithm, summation)
    max_live = 1 if chosen.spill else None
    if not chosen.workers or plan.device != "cpu":
        return InProcess(answers, list(held), max_live=max_live, as_bytes=chosen.as_bytes)
    return Workers(
        answers,
        list(held),
        plan.initial_shared(),
        workers=chosen.workers,
        max_live=max_live,
        loads=plan.study.public_sizes,
    )


def _answer(
    sites: Mapping[str, Site], algorithm: Algorithm, summation: Summation | None, name: str
) -> SiteAnswer:
    return SiteAnswer(sites[name], algorithm, summation)


def _train_baselines(
    settings: Settings, sites: Sequence[Site], algorithm: Algorithm, tell: Progress
) -> None:
    """Let every platform train its local-only baseline; finished ones are left as they are."""
    missing = {site.name: site for site in sites if LOCAL_ONLY not in finished_methods(site)}
    if not missing:
        return
    tell.say("local-only: batch size and length chosen on a tenth of its training part")
    work = partial(_baseline, missing, algorithm)
    workers = min(settings.engine.workers, len(missing))
    if workers < 2:
        for name in missing:
            with one_thread():
                work(name, tell.baseline)
        return
    loads = {name: len(site.data.train) for name, site in missing.items()}
    side_by_side(work, loads, workers, tell.baseline)


def _baseline(
    sites: Mapping[str, Site], algorithm: Algorithm, name: str, on_point: OnPoint
) -> None:
    train_baseline(sites[name], algorithm, on_point)


def _finished(
    settings: Settings,
    sites: Sequence[Site],
    algorithm: Algorithm,
    folder: RunFolder,
    tell: Progress,
    initial: InitialModel | None,
) -> RunScores:
    """Train the centralized baseline, write what all platforms together came to; return it."""
    has_more = CENTRALIZED in settings.training.baselines
    if has_more:
        tell.say("centralized: all data in one place, which privacy forbids; as a bound")
        first = None if initial is None else first_weights(sites[0].blueprint, initial)
        train_joined(sites, algorithm, folder, tell.baseline, first)
        tell.say("scoring on every platform's test part")
    for site in sites:
        if has_more:
            write_results(site, algorithm, tell.method)
        else:
            show_results(site, tell.method)
    return write_joint_results(sites, folder)
