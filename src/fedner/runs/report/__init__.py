"""What is written of a run for people: the report (HTML, offline) and the model card (Markdown)."""

from pathlib import Path

from fedner.durable import write_text
from fedner.runs.folder import DISCLOSURE, FACTS, PRIVACY, SCORES, SETTINGS, RunFolder, SiteFolder
from fedner.runs.report.card import card
from fedner.runs.report.page import Findings, page

__all__ = ["Findings", "write_report", "write_site_report"]


def write_report(folder: RunFolder) -> None:
    """Write the report and the model card of a finished simulation, from what its folder holds.

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
    name = next(iter(found.scores["platforms"]), "PLATFORM")
    _write(folder, found, folder.tagger(name))


def write_site_report(folder: SiteFolder, found: Findings) -> None:
    """Write a platform's own report and the model card of its tagger."""
    _write(folder, found, folder.tagger())


def _write(folder: RunFolder | SiteFolder, found: Findings, tagger: Path) -> None:
    write_text(folder.report, page(found), owner_only=True)
    write_text(folder.card, card(found, tagger.relative_to(folder.path)), owner_only=True)
