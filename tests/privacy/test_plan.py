"""Plans: the figures that everybody quotes, curves that end where they should, and pictures."""

import json
import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fedner.errors import FednerError
from fedner.privacy.curve import svg_curve, text_curve
from fedner.privacy.planning import plan

pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")

SETTING: dict[str, Any] = {"batch_size": 32, "epochs": 10, "delta": 1e-5}


def test_epsilon_for_a_noise_is_that_of_one_platform() -> None:
    central = plan(examples=14_987, noise_multiplier=1.0, **SETTING)
    assert (round(central.rdp, 2), round(central.pld, 2)) == (1.03, 0.74)
    shared = plan(examples=14_987, noise_multiplier=1.0, platforms=20, **SETTING)
    assert shared.examples_per_platform == 749
    assert (round(shared.rdp, 2), round(shared.pld, 2)) == (4.96, 4.40)
    assert shared.steps == 240


def test_noise_for_a_target() -> None:
    found = plan(examples=749, target_epsilon=3.0, **SETTING)
    assert found.pld <= 3.0 < found.rdp
    assert found.rdp_noise_multiplier is not None
    assert found.rdp_noise_multiplier > found.noise_multiplier
    assert plan(examples=749, noise_multiplier=found.rdp_noise_multiplier, **SETTING).rdp <= 3.0


@pytest.mark.parametrize(("examples", "epochs"), [(749, 10), (749, 95), (20, 3)])
def test_the_curve_rises_to_the_total(examples: int, epochs: int) -> None:
    found = plan(examples=examples, noise_multiplier=2.0, batch_size=32, epochs=epochs, delta=1e-5)
    assert len(found.curve) <= 41
    assert found.curve[-1].epoch == epochs
    assert (found.curve[-1].rdp, found.curve[-1].pld) == (found.rdp, found.pld)
    values = [point.pld for point in found.curve]
    assert values == sorted(values)
    middle = found.curve[len(found.curve) // 2]
    alone = plan(
        examples=examples, noise_multiplier=2.0, batch_size=32, epochs=middle.epoch, delta=1e-5
    )
    assert middle.rdp == pytest.approx(alone.rdp)
    assert middle.pld == pytest.approx(alone.pld, rel=0.005)


def test_a_plan_is_json() -> None:
    found = plan(examples=749, noise_multiplier=1.0, **SETTING)
    assert json.loads(json.dumps(found.to_json()))["curve"][0]["epoch"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": None},
        {"target_epsilon": 1.0},
        {"noise_multiplier": -1.0},
        {"batch_size": 0},
        {"epochs": 0},
        {"platforms": 1000},
        {"delta": 0.0},
    ],
)
def test_a_senseless_plan_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FednerError):
        plan(**{"examples": 749, "noise_multiplier": 1.0, **SETTING, **change})


def test_the_drawing_fills_its_area() -> None:
    found = plan(examples=749, noise_multiplier=1.0, **SETTING)
    lines = text_curve(found.curve, width=30, height=5).splitlines()
    drawn = [line.split("┤")[1] for line in lines[1:6]]
    assert all(len(line) == 30 for line in drawn)
    assert drawn[0][-1] == "█"  # the last epoch reaches the top
    assert drawn[-1][0] != " "
    heights = ["".join(line[at] for line in drawn).strip() for at in range(30)]
    assert [len(one) for one in heights] == sorted(len(one) for one in heights)


def test_no_noise_is_drawn_as_such() -> None:
    found = plan(examples=749, noise_multiplier=0.0, **SETTING)
    assert "infinite" in text_curve(found.curve)
    assert "∞" in svg_curve(found)
    assert math.isinf(found.pld)


def test_the_svg_stands_alone() -> None:
    picture = svg_curve(plan(examples=749, noise_multiplier=1.0, **SETTING))
    root = ET.fromstring(picture)  # noqa: S314 - our own output
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2
    for line in lines:
        points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
        assert len(points) == 11
        assert all(0 <= x <= 640 and 0 <= y <= 360 for x, y in points)
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("examples", 0, 1),
        ("examples", 2, 3),
        ("batch_size", 0, 1),
        ("epochs", 0, 1),
        ("platforms", 0, 1),
    ],
)
def test_a_number_that_makes_no_sense_is_named(name: str, value: int, least: int) -> None:
    asked = {"examples": 749, "noise_multiplier": 1.0, **SETTING, name: value}
    if least == 3:
        asked["platforms"] = 3
    with pytest.raises(FednerError) as caught:
        plan(**asked)
    expected = f"The privacy plan makes no sense: {name} is {value}, expected at least {least}."
    assert caught.value.message == expected
    plan(**{**asked, name: least}, with_curve=False)


@pytest.mark.parametrize(
    ("highest", "top"),
    [
        (0.9, 1),
        (1.0, 1),
        (1.1, 2),
        (3.0, 4),
        (4.5, 5),
        (7.0, 8),
        (8.5, 10),
        (12.0, 20),
        (0.03, 0.04),
    ],
)
def test_the_axis_of_the_curve_ends_at_a_round_number(highest: float, top: float) -> None:
    made = plan(examples=749, noise_multiplier=1.0, **SETTING)
    points = tuple(replace(point, rdp=highest, pld=highest / 2) for point in made.curve)
    svg = ET.fromstring(svg_curve(replace(made, curve=points)))  # noqa: S314 - of our own making
    labels = [each.text for each in svg.iter() if each.get("text-anchor") == "end"]
    assert labels == [f"{top * part / 4:g}" for part in range(5)]
