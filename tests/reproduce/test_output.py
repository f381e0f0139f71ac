"""Tables and figures: every entry as people and machines read it."""

import csv
import io
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fedner.reproduce import figures, tables
from fedner.reproduce.estimates import estimate, estimated, paired_gain
from fedner.reproduce.reproduction import Estimate, Figure, Panel, Row, Series, Table

MANY = Estimate(84.166, 0.72, 83.5, 84.9, 10, 81.62)
ONE = Estimate(70.0, None, None, None, 1)
TABLE = Table(
    "name",
    "A title & more",
    ("model", "F1_strict", "50 %"),
    (("a|b", MANY, None), ("c", ONE, "-")),
    ("A note.",),
)
SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 - our own output


def rows_of(values: dict[int, float], way: str) -> list[Row]:
    return [Row({"way": way, "repeat": n}, {"f1": value}) for n, value in values.items()]


def test_an_entry_has_mean_deviation_interval_and_the_published_number() -> None:
    assert tables.text(MANY, 2) == "84.17 ± 0.72 [83.50, 84.90] (paper 81.62)"
    assert tables.text(ONE, 1) == "70.0"
    assert tables.text(None, 1) == "missing"
    assert tables.short(MANY, 1) == "84.2 ± 0.7"
    assert tables.short(ONE, 1) == "70.0"
    assert tables.short(None, 1) == "missing"
    assert tables.number(-0.001, 2) == "0.00"
    assert tables.number(-0.5, 2) == "-0.50"


def test_markdown_says_how_to_read_it_and_what_is_missing() -> None:
    text = tables.markdown(TABLE)
    assert "| a\\|b | 84.17 ± 0.72" in text
    assert "over 1 to 10 repeats" in text
    assert "- paper: the published number" in text
    assert "- missing: not run" in text
    assert "- A note." in text
    plain = replace(TABLE, rows=(("c", ONE, "-"),))
    assert "missing" not in tables.markdown(plain)
    assert "paper" not in tables.markdown(plain)


def test_an_entry_says_that_others_of_its_table_have_more_repeats() -> None:
    some = replace(MANY, num=2, published=None)
    table = replace(TABLE, rows=(("a", MANY, some), ("b", ONE, "-")))
    text, page = tables.markdown(table), tables.html(table)
    assert "| 84.17 ± 0.72 [83.50, 84.90] (paper 81.62) | 84.17 ± 0.72 [83.50, 84.90] (2" in text
    assert "| b | 70.00 (1 repeat) |" in text
    assert page.count("<small>2 repeats</small>") == page.count("<small>1 repeat</small>") == 1
    same = tables.markdown(replace(table, rows=(("a", some, some),)))
    assert "(2 repeats)" not in same


def test_latex_escapes_what_latex_would_read() -> None:
    text = tables.latex(TABLE)
    assert r"F1\_strict & 50 \%" in text
    assert r"84.17 $\pm$ 0.72 (81.62)" in text
    assert text.count(r"\\") == 3
    assert r"\begin{tabular}{lrr}" in text


def test_html_marks_what_is_missing_and_escapes() -> None:
    text = tables.html(TABLE)
    assert "A title &amp; more" in text
    assert '<td class="missing">missing</td>' in text
    assert "<small>paper 81.62</small>" in text
    assert parsed(f"<div>{text}</div>").tag == "div"


def test_every_estimate_is_a_line_of_csv() -> None:
    lines = list(csv.DictReader(io.StringIO(tables.estimates_csv([TABLE]))))
    assert [line["row"] for line in lines] == ["a|b", "a|b", "c"]
    assert lines[0]["published"] == "81.62"
    assert float(lines[0]["mean"]) == pytest.approx(84.166)
    assert (lines[1]["column"], lines[1]["mean"], lines[1]["repeats"]) == ("50 %", "", "0")
    assert lines[2]["deviation"] == ""


def test_estimates_are_students_means() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found is not None
    assert found.mean == 2.0
    assert found.deviation == 1.0
    assert found.high == pytest.approx(2 + 4.302653 / 3**0.5, abs=1e-5)
    assert estimate([]) is None
    single = estimate([5.0])
    assert single == Estimate(5.0, None, None, None, 1)


def test_gains_are_paired_by_repeat() -> None:
    rows = rows_of({1: 70.0, 2: 80.0, 3: 60.0}, "alone")
    rows += rows_of({3: 63.0, 1: 71.0}, "joined")
    gain = paired_gain(rows, "f1", {"way": "alone"}, {"way": "joined"})
    assert gain is not None
    assert gain.num == 2
    assert gain.mean == 2.0
    assert estimated(rows, "f1", way="nobody") is None


def figure(kind: str = "curves", points: tuple[Estimate | None, ...] | None = None) -> Figure:
    held = points or (MANY, None, ONE, replace(MANY, mean=86.0))
    series = (Series("one & two", held), Series("other", tuple(reversed(held))))
    panel = Panel("<panel>", ("20%", "40%", "60%", "80%"), series, "share")
    return Figure("f", "A figure", (panel, panel), kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["curves", "bars"])
def test_a_figure_is_sound_svg_with_every_series(kind: str) -> None:
    root = parsed(figures.svg(figure(kind)))
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert "one & two" in words
    assert words.count("<panel>") == 2
    assert words.count("80%") == 2
    assert root.get("aria-label") == "A figure"


def test_series_differ_in_colour_and_in_stroke_and_mark() -> None:
    assert len(set(figures.COLOURS)) == len(figures.COLOURS)
    assert len(set(figures.STROKES)) == len(figures.STROKES)
    text = figures.svg(figure())
    assert figures.COLOURS[0] in text
    assert f'stroke-dasharray="{figures.STROKES[1]}"' in text


def test_no_line_crosses_a_mark_where_nothing_was_run() -> None:
    root = parsed(figures.svg(figure()))
    lines = [line.get("points", "").split() for line in root.iter(f"{SVG}polyline")]
    assert [len(line) for line in lines] == [2, 2, 2, 2]  # the last two marks, the first two
    spanning = figure()
    panels = tuple(replace(panel, spans_gaps=True) for panel in spanning.panels)
    root = parsed(figures.svg(replace(spanning, panels=panels)))
    lines = [line.get("points", "").split() for line in root.iter(f"{SVG}polyline")]
    assert [len(line) for line in lines] == [3, 3, 3, 3]


def test_two_repeats_have_no_whisker() -> None:
    wide = replace(MANY, num=2, low=0.0, high=1000.0)
    few, many = (figure(points=(each,) * 4) for each in (wide, replace(wide, num=3)))
    assert "500" not in figures.svg(few)
    assert "500" in figures.svg(many)


@pytest.mark.parametrize("kind", ["curves", "bars"])
def test_published_numbers_are_marked_and_in_the_legend(kind: str) -> None:
    text = figures.svg(figure(kind))
    assert text.count("<title>published</title>") == 2 * 2 * 2 + 1  # panels, series, points; legend
    assert figures.PUBLISHED in text
    without = figures.svg(figure(kind, points=(ONE,) * 4))
    assert "published" not in without


def test_the_name_of_an_axis_stands_beside_slanted_marks() -> None:
    long = figure("bars")
    marks = tuple(f"a rather long name {number}" for number in range(4))
    panels = tuple(replace(each, marks=marks) for each in long.panels)
    shown = {
        kind: next(
            element
            for element in parsed(figures.svg(replace(long, panels=held))).iter(f"{SVG}text")
            if element.text == "share"
        )
        for kind, held in (("slanted", panels), ("plain", long.panels))
    }
    assert shown["plain"].get("text-anchor") == "middle"
    assert shown["slanted"].get("text-anchor") == "end"
    assert float(shown["slanted"].get("x", "0")) == figures.WIDTH - figures.RIGHT


def test_bars_that_do_not_begin_at_zero_say_so() -> None:
    assert "axis begins at" in figures.svg(figure("bars"))
    low = figure("bars", points=(Estimate(2.0, None, None, None, 1), ONE, ONE, ONE))
    assert "axis begins at" not in figures.svg(low)


def test_axes_begin_no_lower_than_the_measure_can_be() -> None:
    wide = figure(points=(Estimate(2.0, 4.0, -6.0, 10.0, 5),) * 4)
    assert ">-5<" in figures.svg(wide)
    bounded = replace(wide, panels=tuple(replace(each, least=0.0) for each in wide.panels))
    text = figures.svg(bounded)
    assert ">0<" in text
    assert ">-5<" not in text
    bottom = figures.HEIGHT - figures.BOTTOM
    ends = [float(line.get("y2", "0")) for line in parsed(text).iter(f"{SVG}line")]
    assert max(ends) <= bottom + 4  # whiskers end at the axis, whose marks stand a little below it
