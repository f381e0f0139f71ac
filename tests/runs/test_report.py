"""The report of a run: whole in itself, with the numbers of the run, safe with odd names."""

import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

from fedner.runs.folder import FACTS, SCORES, RunFolder
from fedner.runs.records import RunScores
from fedner.runs.report import write_report
from fedner.runs.report.charts import GainBar, Point, gains, learning_curve, type_bars
from fedner.runs.report.rows import size
from fedner.runs.simulation import train_run
from fedner.runs.verdict import verdict_sentence, zero_sentence
from fedner.settings import Settings

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
        for method in ("local-only", "federated", "centralized"):
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
        + gains([GainBar(name, 1.0, 0.0, 2.0)])
        + type_bars(name, {name: {"local-only": 10.0}})
    )
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn


def test_charts_without_points_are_drawn() -> None:
    assert learning_curve("a", [], {"local-only": 40.0}).startswith("<svg")
    assert gains([]).startswith("<svg")
    assert type_bars("a", {}).startswith("<svg")


def test_labels_of_lines_that_meet_do_not_overlap() -> None:
    drawn = learning_curve("a", [Point(5, 50.0)], {"local-only": 50.0, "centralized": 50.1})
    places = [
        float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="start" class="value"', drawn)
    ]
    assert len(places) == 3
    assert min(b - a for a, b in pairwise(places)) >= 12


def test_sizes_are_read_by_people() -> None:
    assert size(999) == "999 bytes"
    assert size(26_500_000) == "26.5 MB"
    assert size(7_000_000_000_000) == "7,000.0 GB"


def test_the_report_begins_with_a_verdict_and_what_privacy_there_was(finished: Path) -> None:
    text = (finished / "report.html").read_text()
    head = text[text.index("<body>") : text.index("<h2>")]
    assert verdict_sentence(RunFolder(finished).read_as(RunScores, SCORES)) in unescape(head)
    assert "No differential privacy" in head
    assert "<h2>No differential privacy</h2>" in text
    zeros = zero_sentence(RunFolder(finished).read_as(RunScores, SCORES).by_platform)
    assert not zeros or head.index("alarm") < head.index("verdict"), "a score of 0.0 comes first"


def test_the_report_has_precision_recall_and_what_was_left_out(finished: Path) -> None:
    text = (finished / "report.html").read_text()
    for platform in RunFolder(finished).read(SCORES)["platforms"].values():
        micro = platform["methods"]["federated"]["strict"]["micro"]
        cells = "".join(f"<td>{100 * micro[each]:.1f}</td>" for each in ("precision", "recall"))
        assert f"<td>federated</td>{cells}" in text
    data = text[text.index("<h2>Data</h2>") :]
    for row in RunFolder(finished).read(FACTS)["platforms"]["forum-posts"]["types"]:
        counts = (row[key] for key in ("mentions", "left_out", "flattened", "skipped", "kept"))
        cells = "".join(f"<td>{count:,}</td>" for count in counts)
        assert f"<td>forum-posts</td><td>{row['type']}</td>{cells}" in data
    assert "longest-first hull" in data


def test_what_was_left_out_and_warned_of_is_in_report_and_card(
    tiny: Callable[..., Settings], tmp_path: Path
) -> None:
    data, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    data.write_text("a\tB-X\n\nb\tB-<b>\n\n" * 5)
    test.write_text("a\tB-Y\n\n")
    split = f"platforms.0.split={{ test_data = '{test}' }}"
    changes = ('platforms.0.label_map={ "<b>" = "" }', 'platforms.0.labels=["X", "Y"]', split)
    train_run(tiny(f"platforms.0.data={data}", *changes, "training.rounds=1"), tmp_path / "run")
    report = (tmp_path / "run" / "report.html").read_text()
    assert "Left out: 5 &lt;b&gt; by labels or label_map." in report
    assert "no training sentence mentions Y" in report
    card = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    assert "| `longest` | strict | 5 \\<b\\> by labels or label\\_map |" in card
    assert card.index("Strict F1 is 0.0") < card.index("## "), "on top of the card too"
