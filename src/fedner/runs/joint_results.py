"""What all platforms of a simulation came to, side by side: only one machine can look at all."""

from collections.abc import Sequence

from fedner.runs.folder import DISCLOSURE, FACTS, PRIVACY, SCORES, RunFolder
from fedner.runs.privacy_record import run_spent
from fedner.runs.records import (
    Disclosure,
    PlatformScores,
    RunDisclosure,
    RunFacts,
    RunScores,
    SiteFacts,
)
from fedner.runs.report import write_report
from fedner.runs.site import Site


def write_joint_results(sites: Sequence[Site], folder: RunFolder) -> RunScores:
    """Gather what the sites wrote into the run folder, with one report; return the scores."""
    study = sites[0].study
    held = {site.name: site.folder for site in sites}
    platforms = {name: each.read_as(PlatformScores, SCORES) for name, each in held.items()}
    is_synthetic = all(site.data.is_synthetic for site in sites)
    scores = RunScores(study.title, study.seed, is_synthetic, platforms)
    own = {name: each.read_as(SiteFacts, FACTS) for name, each in held.items()}
    facts = RunFacts.of(own, folder.initial())
    disclosed = {name: each.read_as(Disclosure, DISCLOSURE) for name, each in held.items()}
    folder.write(FACTS, facts.as_dict())
    folder.write(SCORES, scores.as_dict())
    folder.write(DISCLOSURE, RunDisclosure.of(disclosed).as_dict())
    spent = run_spent(folder)
    if spent is not None:
        folder.write(PRIVACY, spent.as_dict())
    write_report(folder)
    return scores
