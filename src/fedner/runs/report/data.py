"""What a report tells of the data: what the files had, what trains, and what was left out."""

from html import escape

from fedner.corpus.flatten import FLATTEN_POLICIES
from fedner.runs.annotated_types import TypeRow, left_out_words
from fedner.runs.records import PlatformFacts, RunFacts
from fedner.runs.report.html_table import html_table
from fedner.settings import PlatformEntry, Settings


def data_section(settings: Settings, facts: RunFacts) -> str:
    """Return the section on the platforms' data."""
    rows = []
    for name, platform in facts.platforms.items():
        for row in platform.types:
            numbers = [getattr(row, key) for key in COUNTED]
            rows.append([escape(name), _type(row), *(f"{number:,}" for number in numbers)])
    lead = (
        "Mentions by type, training and test part together: what the files have, and what part "
        "of it no tagger sees."
    )
    lists = "".join(
        f"<h3>{escape(each.name)}</h3>{_platform(each, facts.platforms[each.name])}"
        for each in settings.platforms
        if each.name in facts.platforms
    )
    table = html_table(["platform", "type", *COUNTED.values()], rows) if rows else ""
    return f"<h2>Data</h2><p>{lead}</p>{table}{lists}"


COUNTED = {
    "mentions": "in the files",
    "left_out": "left out by labels or label_map",
    "flattened": "lost in flattening",
    "skipped": "skipped by lenient reading",
    "kept": "kept",
}


def _type(row: TypeRow) -> str:
    others = [each for each in row.sources if each != row.type]
    renamed = f"<small>from {escape(', '.join(row.sources))}</small>" if others else ""
    return f"{escape(row.type)}{renamed}"


def _platform(settings: PlatformEntry, facts: PlatformFacts) -> str:
    """Return what was done to one platform's mentions, in words and counts."""
    items = [f'<strong class="no">{escape(each)}</strong>' for each in facts.warnings]
    lost = left_out_words(facts.types)
    items.append(f"Left out: {escape(lost)}." if lost else "No mention was left out.")
    items.append(f"Flattening: {escape(FLATTEN_POLICIES[settings.flatten])}.")
    reading = "lenient: what could not be placed was skipped" if settings.lenient else "strict"
    items.append(f"Reading: {reading}.")
    counted = {**facts.changes, **facts.remarks}
    items += [f"{count:,} {escape(what)}" for what, count in counted.items()]
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"
