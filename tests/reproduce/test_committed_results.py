"""The committed results are what their rows come to, and pages say the same numbers."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedner.reproduce.catalogue import CATALOGUE
from fedner.reproduce.estimates import chosen, estimated, gain_between
from fedner.reproduce.opening import drawn_inputs
from fedner.reproduce.output import write_output
from fedner.reproduce.reproduction import Estimate, Factor, Row
from fedner.reproduce.store import all_rows, read_cells, read_study
from fedner.reproduce.tables import short

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
STUDIES = sorted(each.parent.name for each in RESULTS.glob("*/rows.jsonl"))

# Rows of the table of docs/results.md by their name there: the ways, and the shares of data.
COLLAPSE: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "no DP": (("no DP",), ()),
    "as in 2021": (("as in 2021",), ()),
    "loss per token": (("loss per token",), ()),
    "max_grad_norm 0.15; with learning rate 1.5": (
        ("max_grad_norm 0.15", "max_grad_norm 0.15, learning rate 1.5"),
        (),
    ),
    "max_grad_norm 15": (("max_grad_norm 15",), ()),
    "learning rate 0.5": (("learning rate 0.5",), ()),
    "noise_multiplier 5; with learning rate 0.03": (
        ("noise_multiplier 5", "noise_multiplier 5, learning rate 0.03"),
        (),
    ),
    "batch 256; with learning rate 1.2": (("batch 256", "batch 256, learning rate 1.2"), ()),
    "CRF (68.0 without DP)": (("CRF",), ()),
    "micro-batches of 8; of 32": (("micro-batches of 8", "micro-batches of 32"), ()),
    "n = 5 (60.8 without DP)": (("n = 5",), ()),
    "n = 20 (49.6 without DP)": (("n = 20",), ()),
    "n = 5, slices, one pass, at 20, 60, 100 %": (("one pass",), (20, 60, 100)),
    "n = 5, slices, 10 passes": (("10 passes",), (20, 60, 100)),
    "n = 5, slices, 10 passes, CRF": (("10 passes, CRF",), (20, 60, 100)),
    "n = 5, slices, one pass, whole batches clipped": (
        ("one pass, whole batches clipped",),
        (20, 60, 100),
    ),
    "n = 5, slices, 10 passes, whole batches clipped": (
        ("10 passes, whole batches clipped",),
        (20, 60, 100),
    ),
    "n = 5, fix, epsilon 3; epsilon 1": (("n = 5, fix, epsilon 3", "n = 5, fix, epsilon 1"), ()),
}


def rows_of(study: str) -> list[Row]:
    return all_rows(read_cells(RESULTS / study))


def lines_of(page: Path, head: str) -> list[list[str]]:
    """Return the rows of the Markdown table of a page whose head begins so."""
    text = page.read_text("utf-8").partition(f"\n| {head}")[2].partition("\n\n")[0]
    return [
        [cell.strip() for cell in line.replace("**", "").strip("|").split("|")]
        for line in text.split("\n")[2:]
    ]


def in_words(found: Estimate | None) -> str:
    """Return a gain as the pages have it."""
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_and_its_figures_are_what_the_rows_come_to(name: str, tmp_path: Path) -> None:
    committed, out = RESULTS / name, tmp_path / name
    shutil.copytree(committed, out)
    shutil.rmtree(out / "figures", ignore_errors=True)
    write_output(CATALOGUE[name], all_rows(read_cells(out)), drawn_inputs(out), read_study(out))
    assert (out / "results.md").read_text("utf-8") == (committed / "results.md").read_text("utf-8")
    drawn = {each.name: each.read_bytes() for each in out.glob("figures/*.svg")}
    assert drawn == {each.name: each.read_bytes() for each in committed.glob("figures/*.svg")}


def test_table_2_of_the_readme_is_that_of_its_rows() -> None:
    rows = rows_of("fedner-table2")
    lines = lines_of(ROOT / "README.md", "model | ADE Corpus V2")
    assert len(lines) == 8
    for model, *shown in lines:
        places = [{"model": model, "platform": name} for name in ("ade", "psytar", "twimed")]
        assert shown == [short(estimated(rows, "strict_f1", **place), 2) for place in places]


def test_what_joining_gains_is_that_of_its_rows() -> None:
    whole, shares = rows_of("fedner-table2"), rows_of("fedner-figure3")
    strong = ("ELMoNER (strong baseline)", "FedNER (as the strong baseline)")
    lines = lines_of(ROOT / "docs" / "results.md", "platform | weak baseline, all data")
    assert len(lines) == 3
    for name, *shown in lines:
        place: dict[str, Factor] = {"platform": name}
        assert shown == [
            in_words(gain_between(whole, place, "model", "ELMoNER", "FedNER")),
            in_words(gain_between(shares, {**place, "share": 0.2}, "model", "ELMoNER", "FedNER")),
            in_words(gain_between(whole, place, "model", *strong)),
        ]


def test_the_tables_of_newcomers_are_those_of_their_page() -> None:
    page, own = ROOT / "docs" / "results.md", RESULTS / "joining" / "results.md"
    for head in ("own sentences | alone", "newcomer | 0", "joined with ... is worth"):
        assert lines_of(page, head) == lines_of(own, head)
        assert lines_of(page, head)


@pytest.mark.parametrize("name", COLLAPSE)
def test_why_it_collapsed_is_what_the_rows_say(name: str) -> None:
    rows = chosen(rows_of("tagging-collapse"), platform="all")
    lines = {line[0]: line[1:] for line in lines_of(ROOT / "docs" / "results.md", "changed |")}
    assert lines.keys() == COLLAPSE.keys()
    ways, shares = COLLAPSE[name]
    places: Sequence[dict[str, Factor]] = [{"way": ways[0], "share": each} for each in shares] or [
        {"way": way} for way in ways
    ]
    for measure, shown in zip(("strict_f1", "token_f1"), lines[name], strict=False):
        found = [estimated(rows, measure, **place) for place in places]
        numbers = re.split(r"[;,] ", shown)
        assert numbers == [rounded(each) for each in found]


def rounded(found: Estimate | None) -> str:
    """Return a mean with one digit, rounded once: not what was rounded to two digits before."""
    assert found is not None
    return f"{found.mean:.1f}"
