"""The summary of a run in a terminal of 80 columns: no number is broken, the verdict is on top."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedner.cli import output, results_view

LONG = ("case-reports", "a-platform-with-a-rather-long-name", "social-posts")
SHORT = ("case-reports", "fourteen-chars", "social-posts")


def measures(value: float) -> dict[str, Any]:
    one = {"precision": value, "recall": value, "f1": value, "tp": 1, "fp": 1, "fn": 1}
    return {"micro": one, "labels": {"X": one}}


def record(names: tuple[str, ...] = SHORT) -> dict[str, Any]:
    methods = {
        name: {"strict": measures(0.7654), "relaxed": measures(1.0)}
        for name in ("local-only", "federated", "centralized")
    }
    difference = {"value": -0.1234, "low": -0.2345, "high": 0.1111}
    gain = {"verdict": "not clear", "strict": {"difference": difference}}
    platforms = {name: {"methods": methods, "gain": gain} for name in names}
    means = {name: {"strict": 0.7654, "relaxed": 1.0} for name in methods}
    return {"title": "t", "synthetic": True, "platforms": platforms, "mean": means}


def spent(names: tuple[str, ...] = SHORT) -> dict[str, Any]:
    one = {
        "pld": 7.983, "rdp": 12.345, "delta": 1e-5, "unit": "sentence", "steps": 123_456,
        "in_all": 17.123,
    }  # fmt: skip
    terms = {"simulation": False, "noise_by": "platform", "delta": 1e-5, "unit": "sentence"}
    return {**terms, "platforms": dict.fromkeys(names, one)}


def left(names: tuple[str, ...]) -> dict[str, Any]:
    one = {
        "updates": 12_345, "tensors": [1] * 128, "numbers_per_update": 22_713_216,
        "bytes": 123_456_789_012, "numbers_kept": 12_345_678,
    }  # fmt: skip
    return {"platforms": dict.fromkeys(names, one), "never": ["texts"], "notes": []}


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
    results_view.show_disclosure(left(names))
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
    found = record()
    found["platforms"]["social-posts"]["methods"] = {
        "federated": {"strict": measures(0.0), "relaxed": measures(0.0)}
    }
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
