"""The audit of one platform of a run or of a study: on its own data, before anything is sent.

Everything is computed at home. What comes out depends on the platform's texts and is charged to no
ledger: it is for the platform's own eyes, and of a protected platform nothing of it is handed on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedner.audit.described_types import DECOYS
from fedner.audit.observation import Protection, Target
from fedner.audit.suite import AuditBudget, Audited, audit
from fedner.durable import owner_folder, write_text
from fedner.errors import FednerError
from fedner.federated.answering import one_thread
from fedner.federated.dp_steps import padding_rows
from fedner.runs.folder import SCORES, SETTINGS, RunFolder, write_record
from fedner.runs.platform_file import read_platform
from fedner.runs.privacy import platform_privacy
from fedner.runs.records.audit import AUDIT, AuditRecord
from fedner.runs.report import write_report
from fedner.runs.report.audit_picture import audit_svg
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import open_sites
from fedner.runs.site import Site, open_site
from fedner.runs.study_defaults import colluding_in_force
from fedner.runs.study_files import read_study
from fedner.settings import nearest

PICTURE = "audit.svg"
EXAMPLE_NOISE = 1.0
EXAMPLE_BOUND = 1.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AuditPlaces:
    """Where an audit was written.

    Attributes:
        record: audit.json.
        picture: audit.svg.
    """

    record: Path
    picture: Path


def run_site(folder: RunFolder, platform: str | None, say: Say) -> Site:
    """Open one platform of a simulation: the named one, else the one with the fewest sentences.

    Raises:
        FednerError: There is no such platform, or its data cannot be read any more.
    """
    sites = {site.name: site for site in open_sites(folder.settings(), folder.path, say)}
    if platform is None:
        # Who has least has most to lose in every batch.
        return min(sites.values(), key=lambda site: (len(site.data.train), site.name))
    if platform not in sites:
        raise FednerError(
            f"{folder.path} has no platform {platform!r}", nearest(platform, sorted(sites))
        )
    return sites[platform]


def study_site(study: Path, own: Path, folder: Path, say: Say) -> Site:
    """Open a platform's half of a study, as it would take part.

    Args:
        study: study.toml.
        own: The platform's platform.toml.
        folder: Where what it keeps would go.
        say: Called with a line on what is being done.

    Raises:
        FednerError: Study, settings or data do not fit.
    """
    return open_site(read_study(study), read_platform(own), folder, say=say)


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a run."""
    return (path / SETTINGS).is_file()


def audit_site(
    site: Site,
    seed: int,
    *,
    noise_multiplier: float | None = None,
    budget: AuditBudget | None = None,
    say: Say | None = None,
) -> AuditRecord:
    """Attack one platform under every defence.

    Args:
        site: The platform.
        seed: Of every draw.
        noise_multiplier: The noise of the DP columns, where the study asks for none.
        budget: How much may be tried.
        say: Called with a line on what is being done.

    Raises:
        FednerError: The noise was given although the study says it.
    """
    asked = _asked_for(site)
    if asked is not None and noise_multiplier is not None:
        raise FednerError(
            f"--noise-multiplier {noise_multiplier:g}, but the study has its own noise",
            "Leave it out: the study's noise is audited.",
        )
    protection = _example(site, noise_multiplier) if asked is None else asked
    with one_thread():
        found = audit(_audited(site), protection, seed, budget, say)
    return AuditRecord(
        site.name,
        site.study.digest,
        seed,
        protection.max_grad_norm,
        protection.noise_multiplier,
        protection.num_platforms,
        asked is not None,
        tuple(found),
    )


def _asked_for(site: Site) -> Protection | None:
    """Return the protection that the study asks for; None where it protects no single unit."""
    algorithm = algorithm_for(site.study)
    held = platform_privacy(site.blueprint, algorithm, site.name)
    if held is None or not held.mechanism.samples_units or not held.noise_multiplier:
        return None
    return Protection(
        held.max_grad_norm,
        held.noise_multiplier,
        _num_platforms(site),
        colluding_in_force(site.study),
        held.loss,
    )


def _example(site: Site, noise_multiplier: float | None) -> Protection:
    chosen = EXAMPLE_NOISE if noise_multiplier is None else noise_multiplier
    if not chosen > 0:
        raise FednerError(
            f"--noise-multiplier {chosen:g}; expected a number above 0",
            "Without noise there is no differential privacy to audit.",
        )
    colluding = colluding_in_force(site.study)
    return Protection(EXAMPLE_BOUND, chosen, _num_platforms(site), colluding)


def _num_platforms(site: Site) -> int:
    """Return how many platforms a sum has: those of the study, or as few as one may have."""
    return max(len(site.study.platforms), colluding_in_force(site.study) + 2)


def _audited(site: Site) -> Audited:
    """Return the platform as attackers meet it in the first round."""
    tagger = site.tagger()
    target = Target(
        tagger, site.training_part(), site.blueprint.partition.shared, padding_rows(tagger)
    )
    types = site.blueprint.types
    guesses = None
    if types is not None:
        every = {**DECOYS, **site.descriptions()}
        guesses = site.blueprint.describing(every).types
    return Audited(target, site.space, guesses)


def write_audit(record: AuditRecord, folder: Path) -> AuditPlaces:
    """Write the record and its picture, for their owner alone."""
    owner_folder(folder)
    write_record(folder, AUDIT, record.as_dict())
    write_text(folder / PICTURE, audit_svg(record), owner_only=True)
    return AuditPlaces(folder / AUDIT, folder / PICTURE)


def keep_in_run(record: AuditRecord, folder: RunFolder) -> AuditPlaces:
    """Write the audit into the platform's folder of a run; a finished run's card tells of it."""
    places = write_audit(record, folder.site(record.platform).path)
    if (folder.path / SCORES).is_file():
        write_report(folder)
    return places
