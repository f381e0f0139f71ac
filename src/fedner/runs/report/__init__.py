"""What is written of a run for people: the report (HTML, offline) and the model card (Markdown)."""

from pathlib import Path

from fedner.durable import write_text
from fedner.runs.folder import DISCLOSURE, FACTS, SCORES, RunFolder, SiteFolder
from fedner.runs.records import RunDisclosure, RunFacts, RunScores
from fedner.runs.records.audit import AUDIT, AuditRecord
from fedner.runs.report.card import card
from fedner.runs.report.page import Findings, page

__all__ = ["Findings", "write_report", "write_site_report"]


def write_report(folder: RunFolder) -> None:
    """Write the report and the model card of a finished simulation, from what its folder holds.

    Raises:
        FednerError: The run is not finished, or a record of it is damaged.
    """
    found = Findings(
        settings=folder.settings(),
        facts=folder.read_as(RunFacts, FACTS),
        scores=folder.read_as(RunScores, SCORES),
        disclosure=folder.read_as(RunDisclosure, DISCLOSURE),
        rounds=folder.rounds(),
        privacy=folder.privacy(),
        audits=_audits(folder),
    )
    name = next(iter(found.scores.platforms), "PLATFORM")
    _write(folder, found, folder.tagger(name))


def _audits(folder: RunFolder) -> dict[str, AuditRecord]:
    """Return the audits that the platforms' folders hold."""
    names = [each.name for each in folder.settings().platforms]
    held = {name: folder.site(name) for name in names}
    return {
        name: site.read_as(AuditRecord, AUDIT)
        for name, site in held.items()
        if (site.path / AUDIT).is_file()
    }


def write_site_report(folder: SiteFolder, found: Findings) -> None:
    """Write a platform's own report and the model card of its tagger."""
    _write(folder, found, folder.tagger())


def _write(folder: RunFolder | SiteFolder, found: Findings, tagger: Path) -> None:
    write_text(folder.report, page(found), owner_only=True)
    write_text(folder.card, card(found, tagger.relative_to(folder.path)), owner_only=True)
