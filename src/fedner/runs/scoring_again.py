"""The taggers of a finished simulation scored anew, on every platform's test part."""

from fedner.errors import FednerError
from fedner.runs.folder import FEDERATED, RunFolder, resume_command
from fedner.runs.joint_results import write_joint_results
from fedner.runs.records import RunScores
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import open_sites
from fedner.runs.site_results import write_results
from fedner.runs.site_taggers import finished_methods


def score_again(folder: RunFolder) -> RunScores:
    """Score every tagger of a run and write its results anew; return the scores.

    Raises:
        FednerError: Data are gone, or taggers: scores of the rest would take their place.
    """
    sites = open_sites(folder.settings(), folder.path)
    found = {site.name: finished_methods(site) for site in sites}
    methods = {FEDERATED, *(method for each in found.values() for method in each)}
    missing = [
        f"{method}/{name}"
        for method in sorted(methods)
        for name, held in found.items()
        if method not in held
    ]
    if missing:
        raise FednerError(
            f"{folder.path} lacks the taggers {', '.join(missing)}",
            f"If the run was stopped, `{resume_command(folder.path)}` goes on with it; "
            "else use an undamaged copy.",
        )
    for site in sites:
        write_results(site, algorithm_for(site.study))
    return write_joint_results(sites, folder)
