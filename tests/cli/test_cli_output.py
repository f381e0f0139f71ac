"""How tables look where the terminal is narrow, and how differences are written."""

import io

import pytest
from rich.console import Console

from fedner.cli.output import table
from fedner.cli.results_view import interval
from fedner.scoring import Interval


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_narrow_terminal_cuts_no_name_short(width: int) -> None:
    name = "university-hospital-of-a-long-name"
    shown = io.StringIO()
    made = table("Scores", ("platform", "local-only", "federated"), [(name, "64.5", "66.3")])
    Console(file=shown, width=width, markup=False).print(made)
    cells = [line.split("│")[1].strip() for line in shown.getvalue().splitlines() if "│" in line]
    assert "".join(cells) == name


def test_a_zero_from_below_has_no_sign_of_its_own() -> None:
    difference = Interval(0.0, -0.0, -1e-9, 0.95)
    assert interval(difference) == "+0.0 (+0.0, +0.0)"
    difference = Interval(-0.018, -0.04, 0.01, 0.95)
    assert interval(difference) == "-1.8 (-4.0, +1.0)"
