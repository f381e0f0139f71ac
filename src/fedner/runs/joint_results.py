"""What all platforms of a simulation came to, side by side: only one machine can look at all."""

from collections.abc import Sequence
from typing import Any

from fedner.runs.folder import DISCLOSURE, FACTS, PRIVACY, SCORES, RunFolder
from fedner.runs.joint_summary import joint_disclosure, joint_facts
from fedner.runs.outcome import joint_summary
from fedner.runs.privacy_record import run_spent
from fedner.runs.report import write_report
from fedner.runs.site import Site


def write_joint_results(sites: Sequence[Site], folder: RunFolder) -> dict[str, Any]:
    """Gather what the sites wrote into the run folder, with one report; return the scores."""
    study = sites[0].study
    held = {site.name: site.folder for site in sites}
    scores = {
        "title": study.title,
        "seed": study.seed,
        "synthetic": all(site.data.is_synthetic for site in sites),
        **joint_summary({name: each.read(SCORES) for name, each in held.items()}),
    }
    folder.write(FACTS, joint_facts({name: each.read(FACTS) for name, each in held.items()}))
    folder.write(SCORES, scores)
    disclosed = {name: each.read(DISCLOSURE) for name, each in held.items()}
    folder.write(DISCLOSURE, joint_disclosure(disclosed))
    spent = run_spent(folder)
    if spent is not None:
        folder.write(PRIVACY, spent)
    write_report(folder)
    return scores
