"""The report of a run: whole in itself, with the numbers of the run, safe with odd names."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

from fedner.runs.folder import SCORES, RunFolder
from fedner.runs.report import write_report
from fedner.runs.report.charts import Gain, Point, gains, learning_curve, type_bars
from fedner.runs.report.page import size

VOID = {"meta", "br", "line", "circle", "rect", "polyline"}


class Checked(HTMLParser):
    """Collects what would be loaded, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [
            str(value) for name, value in attrs if name in ("src", "href", "srcset", "xlink:href")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_report_loads_nothing_and_is_well_formed(finished: Path) -> None:
    text = (finished / "report.html").read_text()
    page = Checked()
    page.feed(text)
    assert page.open == []
    assert page.loads == []
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert not re.search(r"https?://|//[a-z]|@import|url\(", text)


def test_the_report_has_the_numbers_of_the_run(finished: Path) -> None:
    text = (finished / "report.html").read_text()
    scores = RunFolder(finished).read(SCORES)
    assert "Synthetic data" in text
    for name, platform in scores["platforms"].items():
        assert name in text
        difference = platform["gain"]["strict"]["difference"]
        assert f"{100 * difference['value']:+.1f}" in text
        for method in ("alone", "federated", "pooled"):
            assert f"{100 * platform['methods'][method]['strict']['micro']['f1']:.1f}" in text
    assert text.count("<svg") == 1 + 2 * len(scores["platforms"])
    assert "prefers-color-scheme: dark" in text
    assert "word_cnn" in text


def test_a_report_can_be_written_anew(finished: Path) -> None:
    before = (finished / "report.html").read_bytes()
    (finished / "report.html").unlink()
    write_report(RunFolder(finished))
    assert (finished / "report.html").read_bytes() == before


def test_names_are_text_and_never_markup() -> None:
    name = '<script>&"x'
    drawn = (
        learning_curve(name, [Point(1, 50.0)], {})
        + gains([Gain(name, 1.0, 0.0, 2.0)])
        + type_bars(name, {name: {"alone": 10.0}})
    )
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn


def test_charts_without_points_are_drawn() -> None:
    assert learning_curve("a", [], {"alone": 40.0}).startswith("<svg")
    assert gains([]).startswith("<svg")
    assert type_bars("a", {}).startswith("<svg")


def test_labels_of_lines_that_meet_do_not_overlap() -> None:
    drawn = learning_curve("a", [Point(5, 50.0)], {"alone": 50.0, "pooled": 50.1})
    places = [
        float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="start" class="value"', drawn)
    ]
    assert len(places) == 3
    assert min(b - a for a, b in pairwise(places)) >= 12


def test_sizes_are_read_by_people() -> None:
    assert size(999) == "999 bytes"
    assert size(26_500_000) == "26.5 MB"
    assert size(7_000_000_000_000) == "7,000.0 GB"
