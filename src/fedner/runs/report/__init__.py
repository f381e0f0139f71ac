"""What is written of a run for people: the report (HTML, offline) and the model card (Markdown)."""

from fedner.durable import write_text
from fedner.runs.folder import DISCLOSURE, FACTS, PRIVACY, SCORES, SETTINGS, RunFolder
from fedner.runs.report.card import card
from fedner.runs.report.page import Findings, page

__all__ = ["write_report"]


def write_report(folder: RunFolder) -> None:
    """Write the report and the model card of a finished run, from what its folder holds.

    Raises:
        FednerError: The run is not finished.
    """
    found = Findings(
        settings=folder.read(SETTINGS),
        facts=folder.read(FACTS),
        scores=folder.read(SCORES),
        disclosure=folder.read(DISCLOSURE),
        rounds=folder.rounds(),
        privacy=folder.read(PRIVACY) if (folder.path / PRIVACY).is_file() else None,
    )
    write_text(folder.report, page(found), owner_only=True)
    write_text(folder.card, card(found), owner_only=True)
