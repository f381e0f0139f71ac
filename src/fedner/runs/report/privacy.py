"""The section on differential privacy: what was spent on every platform, and what it means."""

from collections.abc import Sequence
from html import escape

from fedner.runs.records import PrivacySpent
from fedner.runs.report.html_table import html_table
from fedner.runs.report.rows import GUARANTEE, guarantee_cells, over_all_runs
from fedner.runs.trust import NOTHING
from fedner.runs.verdict import NO_PRIVACY


def privacy_section(spent: PrivacySpent | None) -> str:
    """Return the section on what a run spent, or that it had no differential privacy.

    Args:
        spent: What was spent; None without differential privacy.
    """
    if spent is None:
        return f"<h2>No differential privacy</h2><p>{escape(NO_PRIVACY)} {escape(NOTHING)}</p>"
    rows = [
        [
            escape(name),
            *guarantee_cells(one),
            ", ".join(f"{size:,}" for size in one.public_units) or "-",
            f"{one.steps:,}",
            _numbers(one.sampling_probability),
            _numbers(one.noise_multiplier),
            _numbers(one.max_grad_norm),
            over_all_runs(one),
        ]
        for name, one in spent.platforms.items()
    ]
    columns = [
        "platform", *GUARANTEE, "public size", "noised steps", "sampling probability",
        "noise multiplier", "max_grad_norm", "spent over all runs",
    ]  # fmt: skip
    word = "Simulation of differential privacy" if spent.simulation else "Differential privacy"
    notes = "".join(f"<p>{escape(note)}</p>" for note in spent.notes)
    declared = "".join(f"<li>{escape(each)}</li>" for each in spent.uncharged)
    uncharged = (
        f"<p>Declared uses of protected data that epsilon does not cover:</p><ul>{declared}</ul>"
        if declared
        else "<p>No use of protected data beyond these steps was declared.</p>"
    )
    return f"<h2>{word}</h2>{notes}{html_table(columns, rows)}{uncharged}"


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values[:4]) or "-"
