"""What a report tells of mistakes: how many of each kind, by type; never a text."""

from html import escape

from fedner.runs.records import RunScores
from fedner.runs.report.html_table import html_table
from fedner.scoring import MISTAKE_KINDS, by_kind


def mistakes_section(scores: RunScores) -> str:
    """Return the section on mistakes of the main method; empty where nothing was counted."""
    method = scores.main_method
    rows = []
    for name, platform in scores.platforms.items():
        counts = platform.mistakes.get(method or "", {})
        for label, held in counts.items():
            rows.append([escape(name), escape(label), *(f"{held[k]:,}" for k in MISTAKE_KINDS)])
        if len(counts) > 1:
            rows.append([escape(name), "all types", *(f"{n:,}" for n in by_kind(counts).values())])
    if not rows:
        return ""
    lead = (
        f"Mistakes of the {escape(str(method))} taggers on the test part. Missed: no found "
        "mention overlaps it. Border: a found mention overlaps it. Type: the same words were "
        "found with another type. Spurious: found where there is no mention. <code>fedner "
        "errors RUN --platform P</code> shows each in its text, to its platform alone."
    )
    return f"<h2>Mistakes</h2><p>{lead}</p>{html_table(['platform', 'type', *MISTAKE_KINDS], rows)}"
