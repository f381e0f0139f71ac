"""What a study leaves in its folder: rows, tables, figures, and one page that holds it all."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from fedner.durable import write_text
from fedner.reproduce import figures, tables
from fedner.reproduce.reproduction import Inputs, PlatformInput, Reproduction, Rows, Shown
from fedner.reproduce.store import as_csv

PAGE = "index.html"
RESULTS = "results.md"
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;
color:#1a1a1a;background:#fff}
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em}table{border-collapse:collapse;font-size:13px}
caption{text-align:left;font-weight:bold;padding:.4em 0}.wide{overflow-x:auto}
th,td{padding:.25em .6em;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}
th:first-child{text-align:left}small{display:block;color:#555}
.missing{color:#8a1c1c;font-style:italic}
.rehearsal{background:#fff3cd;border:1px solid #b58900;padding:.6em 1em}
svg{max-width:100%;height:auto}
pre{background:#f5f5f5;padding:.6em;overflow-x:auto}
"""
REHEARSAL = (
    "A rehearsal with few sentences, tiny models and few steps: it shows that the study runs. "
    "Its numbers mean nothing."
)


def write_output(
    study: Reproduction, rows: Rows, inputs: Inputs, about: Mapping[str, Any]
) -> Shown:
    """Write everything that can be made of the rows; return tables and figures.

    Args:
        study: The study.
        rows: All its rows.
        inputs: What it ran on.
        about: What `study.json` holds: identity and sessions.
    """
    shown, out = study.show(rows, inputs), inputs.out
    for folder in ("tables", "figures"):
        (out / folder).mkdir(exist_ok=True)
    write_text(out / "rows.csv", as_csv(rows))
    write_text(out / "estimates.csv", tables.estimates_csv(shown.tables))
    for table in shown.tables:
        write_text(
            out / "tables" / f"{table.name}.md", _titled(table.title, tables.markdown(table))
        )
        write_text(out / "tables" / f"{table.name}.tex", tables.latex(table))
    for figure in shown.figures:
        write_text(out / "figures" / f"{figure.name}.svg", figures.svg(figure))
    write_text(out / "shown.json", json.dumps(asdict(shown), indent=1) + "\n")
    write_text(out / RESULTS, results_page(study, shown, inputs, about))
    write_text(out / PAGE, page(study, shown, inputs, about))
    return shown


def _titled(title: str, body: str) -> str:
    return f"**{title}**\n\n{body}"


def results_page(
    study: Reproduction, shown: Shown, inputs: Inputs, about: Mapping[str, Any]
) -> str:
    """Return the study in Markdown, as it can be committed beside its figures."""
    parts = [f"# {study.name}: {study.title}", "", f"{study.source}.", ""]
    if inputs.is_rehearsal:
        parts += [f"**{REHEARSAL}**", ""]
    parts += ["```", *commands(about), "```", ""]
    for table in shown.tables:
        parts += [f"## {table.title}", "", tables.markdown(table)]
    for figure in shown.figures:
        parts += [f"## {figure.title}", "", f"![{figure.title}](figures/{figure.name}.svg)", ""]
    parts += [f"- {each}" for each in shown.notes]
    parts += ["", "## How it was run", "", *(f"- {each}" for each in facts(study, inputs, about))]
    return "\n".join([*parts, ""])


def facts(study: Reproduction, inputs: Inputs, about: Mapping[str, Any]) -> list[str]:
    """Return settings, data, seeds, versions and machines in lines."""
    identity = about["identity"]
    corpora = ", ".join(
        f"{each.name} ({each.num_sentences:,} sentences; {', '.join(each.labels)})"
        for each in inputs.platforms
    )
    seeds = (
        f"{inputs.seeds[0]} to {inputs.seeds[-1]}" if inputs.repeats > 1 else str(inputs.seeds[0])
    )
    lines = [*study.settings]
    lines.append(f"platforms: {corpora or 'of its own choice'}")
    lines += [_reading_words(each) for each in inputs.platforms if each.reading]
    lines.append(f"word vectors: {identity['words']}; context encoder: {identity['context']}")
    lines.append(f"seeds {seeds}; a seed names split, first weights and batches")
    return [*lines, *dict.fromkeys(map(_session_words, about["sessions"]))]


def _reading_words(platform: PlatformInput) -> str:
    """Return what reading and flattening skipped, changed or found wrong."""
    mentions, kept = platform.counts.get("mentions", 0), platform.counts.get("kept_mentions", 0)
    parts = "; ".join(f"{what}: {count:,}" for what, count in platform.reading.items())
    return f"{platform.name} as it was read ({kept:,} of {mentions:,} mentions kept): {parts}"


def _session_words(session: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in session["versions"].items())
    return f"{session['date']}: {session['machine']}; {versions}"


def commands(about: Mapping[str, Any]) -> list[str]:
    """Return every command that the study was run by, each once."""
    return list(dict.fromkeys(str(session["command"]) for session in about["sessions"]))


def page(study: Reproduction, shown: Shown, inputs: Inputs, about: Mapping[str, Any]) -> str:
    """Return one HTML page with all tables and figures; needs no network and no script."""
    parts = [
        f"<h1>{escape(study.name)}: {escape(study.title)}</h1>",
        f"<p>{escape(study.source)}</p>",
    ]
    if inputs.is_rehearsal:
        parts.append(f'<p class="rehearsal">{escape(REHEARSAL)}</p>')
    for table in shown.tables:
        parts += [f"<h2>{escape(table.title)}</h2>", tables.html(table)]
    for figure in shown.figures:
        parts += [f"<h2>{escape(figure.title)}</h2>", figures.svg(figure)]
    if shown.notes:
        notes = "".join(f"<li>{escape(each)}</li>" for each in shown.notes)
        parts.append(f"<h2>What it shows</h2><ul>{notes}</ul>")
    held = "".join(f"<li>{escape(each)}</li>" for each in facts(study, inputs, about))
    typed = escape("\n".join(commands(about)))
    parts.append(f"<h2>How it was run</h2><pre>{typed}</pre><ul>{held}</ul>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(study.name)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def figure_path(out: Path, name: str) -> Path:
    """Return where a figure of a study is."""
    return out / "figures" / f"{name}.svg"
