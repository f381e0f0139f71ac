"""The summary of a run in a terminal of 80 columns: no number is broken, the verdict is on top."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fedner.cli import output, results_view
from fedner.runs.records import PrivacySpent, RunScores
from run_records import (
    METHODS,
    gain_of,
    platform_of,
    platform_spent,
    privacy_spent,
    run_disclosure,
    run_scores,
    scores_of,
)

LONG = ("case-reports", "a-platform-with-a-rather-long-name", "social-posts")
SHORT = ("case-reports", "fourteen-chars", "social-posts")


def record(names: tuple[str, ...] = SHORT) -> RunScores:
    found = scores_of(("X", 7654, 2346), wrong=2346)
    gain = gain_of("not clear", -0.1234, -0.2345, 0.1111)
    methods = {name.replace("-", "_"): found for name in METHODS}
    return run_scores(**{name: platform_of(gain, **methods) for name in names})


def spent(names: tuple[str, ...] = SHORT) -> PrivacySpent:
    return privacy_spent(**dict.fromkeys(names, platform_spent(7.983, 12.345)))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Console:
    console = Console(width=80, highlight=False, markup=False, record=True)
    monkeypatch.setattr(results_view, "console", console)
    monkeypatch.setattr(output, "console", console)
    return console


@pytest.mark.parametrize("names", [SHORT, LONG])
def test_numbers_fit_80_columns_and_are_never_broken(
    narrow: Console, names: tuple[str, ...]
) -> None:
    results_view.show_verdict(record(names), spent(names))
    results_view.show_scores(record(names))
    results_view.show_spent(spent(names))
    results_view.show_disclosure(run_disclosure(*names))
    results_view.show_places(Path("run"), Path("run/report.html"), Path("run/MODEL_CARD.md"))
    text = narrow.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert all(
        line[-1] in "\u2513\u2503\u2529\u2502\u2518"
        for line in text.splitlines()
        if line[0] in "\u250f\u2503\u2521\u2502\u2514"
    )
    whole = ("-12.3 (-23.4, +11.1)", "76.5", "100.0", "not clear", "7.983", "12.345", "17.123")
    for number in (*whole, "123,456 ", "1e-05", "22,713,216", "123.5 GB", "12,345,678"):
        assert number in text
    assert "..." not in text
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_the_verdict_stands_on_top_with_zeros_before_it(narrow: Console) -> None:
    held = record()
    gain = held.platforms["social-posts"].gain
    nothing = platform_of(gain, federated=scores_of(("X", 0, 1)))
    found = replace(held, platforms={**held.platforms, "social-posts": nothing})
    results_view.show_verdict(found, None)
    results_view.show_scores(found)
    lines = narrow.export_text().splitlines()
    assert lines[0].startswith("Strict F1 is 0.0")
    assert "social-posts (federated)" in " ".join(lines[:2])
    head = "\n".join(lines[:6])
    assert "It is not clear whether joining helped any of 3 platforms" in head
    assert "No differential privacy" in head


def test_epsilon_stands_in_the_summary(narrow: Console) -> None:
    results_view.show_verdict(record(), spent())
    results_view.show_spent(spent())
    text = narrow.export_text()
    assert "epsilon 7.98" in text
    assert "Epsilon spent" in text
    assert "No differential privacy" not in text
