"""What a run spent on every platform: from the ledgers, or from the record of a simulation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedner.errors import FednerError
from fedner.federated.messages import RELEASE
from fedner.privacy.events import GaussianRelease, from_json
from fedner.privacy.ledger import read_spent
from fedner.privacy.ledger_chain import BudgetLine
from fedner.privacy.ledger_files import LINES, default_witness, read_checked
from fedner.privacy.mechanisms import MechanismFacts
from fedner.runs.folder import LEDGER_NAME, RunFolder
from fedner.runs.parts import stored_parts
from fedner.runs.privacy import ledger_name
from fedner.runs.privacy_checks import delta_warnings
from fedner.runs.records import (
    Grant,
    LedgerSpent,
    NoiseBy,
    PlatformSpent,
    PrivacySpent,
)
from fedner.runs.release_costs import finite, recorded_events, spent_on, stated
from fedner.runs.reply_log import REPLIES, read_replies
from fedner.runs.site import Site
from fedner.runs.site_ledger import ledger_folder
from fedner.runs.trust import trust_note
from fedner.settings import PlatformSettings, Study, platform_settings_of
from fedner.settings.policy import NoisePlace

_NOISE_BY: Mapping[NoisePlace, NoiseBy] = {
    "central": "server",
    "local": "platform",
    "distributed": "platforms",
}
SIMULATION_NOTE = (
    "Simulation: sample and noise came from a seed. The numbers are those of a DP run, but "
    "this one protects nobody."
)
SCORES_NOTE = (
    "Scores on the platforms' test parts and counts of their texts are computed on the "
    "platforms and are not covered by epsilon: a report that contains them is only for the "
    "platform itself."
)
NOISED_SCORES_NOTE = (
    "Scores by round are noised (multiplier {noise:g}, a unit's counts clipped at {max_norm:g}) "
    "and every release of them is in epsilon. Scores at the end and counts of texts are "
    "computed on the platforms and are not: a report that contains them is only for the "
    "platform itself."
)
SPLIT_NOTE = (
    "The split into training and test part is taken as given: neighbours differ in one unit of "
    "a part, and the rest of the part is the same."
)
KEYED_NOTE = (
    "A hash of the unit under a key that only the platform has decides on training and test "
    "part, kept share and slices: one unit more or less moves no other. A test part in a "
    "separate file is taken as given."
)
TUNED_ON = {
    "nothing": "The settings were not chosen by any scores.",
    "public": "The settings were chosen on public or synthetic data, not on the protected ones.",
    "charged": (
        "The settings were chosen on the protected data, by runs in the same ledgers: epsilon "
        "over all runs covers them."
    ),
    "protected": (
        "The settings were chosen on the protected data, which epsilon does not cover; what was "
        "done is declared below."
    ),
    None: "Nobody said on which data the settings were chosen.",
}
WHOLE_NOTE = (
    "What each platform transmitted is protected. Its private part was trained without noise: "
    "epsilon does not cover a platform's finished tagger."
)
FROZEN_NOTE = (
    "The private part was frozen while updates were transmitted and trained without noise "
    "afterwards: epsilon does not cover a platform's finished tagger."
)


def run_spent(folder: RunFolder) -> PrivacySpent | None:
    """Return what a simulation, finished or not, spent on every platform; None without DP.

    Raises:
        FednerError: A ledger was tampered with or is gone.
    """
    study, settings = folder.study(), folder.settings()
    if not study.privacy.enabled:
        return None
    run = ledger_name(folder, study) if (folder.path / LEDGER_NAME).is_file() else study.title
    rounds = folder.rounds()
    platforms = {
        name: _platform_spent(
            study,
            platform_settings_of(settings, name),
            folder.site(name).path,
            recorded_events(rounds, name),
            run,
        )
        for name in study.names
    }
    facts = stored_parts(folder).mechanism
    return None if facts is None else _spent(study, facts, platforms)


def site_spent(site: Site) -> PrivacySpent | None:
    """Return what a run spent on one platform, by its own record; None without DP.

    Raises:
        FednerError: Its ledger was tampered with or is gone.
    """
    study, mechanism = site.study, site.blueprint.mechanism
    if mechanism is None:
        return None
    replies = read_replies(site.folder.path / REPLIES)
    run = replies[-1].run if replies else study.title
    sent = {(each.round, each.verb): each for each in replies if each.event and each.run == run}
    found = (from_json(each.event[RELEASE]) for each in sent.values() if each.event)
    events = [event for event in found if isinstance(event, GaussianRelease)]
    spent = _platform_spent(study, site.own, site.folder.path, events, run)
    return _spent(study, mechanism.facts, {site.name: spent})


def _spent(
    study: Study, mechanism: MechanismFacts, platforms: Mapping[str, PlatformSpent]
) -> PrivacySpent:
    held = study.privacy
    large = delta_warnings(study, study.public_sizes, mechanism)
    return PrivacySpent(
        mechanism=mechanism.name,
        noise_by=_NOISE_BY[mechanism.noise_place],
        unit=mechanism.unit(held.unit),
        simulation=held.simulation,
        delta=held.delta,
        target_epsilon=held.epsilon,
        budget=held.budget,
        private_part=held.private_part,
        tuned_on=held.tuned_on,
        uncharged=held.uncharged,
        notes=(*_notes(study, mechanism), *large),
        platforms=platforms,
    )


def _platform_spent(
    study: Study,
    own: PlatformSettings,
    folder: Path,
    recorded: Sequence[GaussianRelease],
    run: str,
) -> PlatformSpent:
    """Return what a run spent on a platform: by its ledger, or by the record where it has none."""
    delta = study.privacy.delta
    where = ledger_folder(study, own, folder)
    events = list(recorded)
    in_all: float | None = None
    granted = None
    if where is not None and (where / LINES).is_file():
        chain = read_checked(where, default_witness(where))
        lines = [line.event for line in chain.releases if line.run == run]
        events = [event for event in lines if isinstance(event, GaussianRelease)]
        granted = None if chain.budget is None else chain.budget.epsilon
        in_all = finite(read_spent(where, delta=delta).by(study.privacy.accountant))
    ledger = None if where is None else str(where)
    return replace(spent_on(events, delta), in_all=in_all, granted=granted, ledger=ledger)


def folder_spent(path: Path) -> LedgerSpent:
    """Return what the ledger in a folder says, over all runs and for each.

    Raises:
        FednerError: There is no ledger, or it cannot be trusted.
    """
    if not (path / LINES).is_file():
        raise FednerError(
            f"{path} holds neither a run nor a privacy ledger",
            "Name a run folder, or the folder of a platform's ledger.",
        )
    chain = read_checked(path, default_witness(path))
    if chain.budget is None:
        raise FednerError(f"the ledger in {path} has no budget yet", "Nothing was released.")
    runs = sorted({line.run for line in chain.releases})
    return LedgerSpent(
        ledger=str(path),
        simulation=chain.opening.is_simulation,
        budget=chain.budget,
        public_size=chain.public_units,
        grants=tuple(_grant(line) for line in chain.grants),
        releases=len(chain.releases),
        all=stated(read_spent(path)),
        runs={run: stated(read_spent(path, run)) for run in runs},
    )


def _grant(line: BudgetLine) -> Grant:
    granted = line.budget
    return Grant(line.time, line.who, granted.epsilon, granted.delta, line.public_units)


def _notes(settings: Study, mechanism: MechanismFacts) -> list[str]:
    held = settings.privacy
    notes = [SIMULATION_NOTE] if held.simulation else []
    notes.append(trust_note(settings, mechanism))
    if held.private_part == "frozen":
        notes.append(FROZEN_NOTE)
    if mechanism.samples_units:
        notes.append(KEYED_NOTE if settings.is_deployed else SPLIT_NOTE)
    else:
        notes.append(WHOLE_NOTE)
    notes.append(TUNED_ON[held.tuned_on])
    if settings.embeddings.trainable:
        notes.append(
            "The word table is trained: each of its rows gets noise in every step, even the "
            "rows of words that nobody used. Frozen vectors cost no noise."
        )
    if settings.training.baselines:
        notes.append("The baselines were trained without noise, for comparison.")
    if held.scores is None:
        return [*notes, SCORES_NOTE]
    return [
        *notes,
        NOISED_SCORES_NOTE.format(
            noise=held.scores.noise_multiplier, max_norm=held.scores.max_norm
        ),
    ]
