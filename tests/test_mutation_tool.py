"""The mutation tool: what it changes, what it leaves alone, how it draws, which tests it takes."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="needs the extra mutation")
pytest.importorskip("libcst", reason="needs the extra mutation")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.mutation.coverage_map import Trace, chosen
from scripts.mutation.mutants import Mutant, all_mutants, drawn, mutated_source

SOURCE = '''"""A file."""

from typing import Literal

from fedner.errors import FednerError

__all__ = ["area"]
Kind = Literal["a", "b"]
LIMIT = 3


class Box:
    """A box."""

    @property
    def edge(self) -> int:
        """Its edge."""
        return self.width + 1


def area(
    width: int, height: int = 2
) -> int:
    """Return the area."""
    if width > LIMIT:
        raise FednerError(f"width {width} > {LIMIT}", "Take less.")
    return width * height
'''


def made(root: Path, source: str = SOURCE) -> list[Mutant]:
    folder = root / "src" / "fedner" / "room"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "boxes.py").write_text(source)
    return all_mutants(root, ["room"])


def test_every_change_that_could_matter_is_made_and_no_other(tmp_path: Path) -> None:
    found = {(each.name, each.before, each.after) for each in made(tmp_path)}
    assert found == {
        ("room.boxes.module#1", "LIMIT = 3", "LIMIT = None"),
        ("room.boxes.module#2", "3", "4"),
        ("room.boxes.Box.edge#1", "self.width + 1", "self.width - 1"),
        ("room.boxes.Box.edge#2", "1", "2"),
        ("room.boxes.area#1", "2", "3"),
        ("room.boxes.area#2", "> LIMIT", ">= LIMIT"),
        ("room.boxes.area#3", "width * height", "width / height"),
    }


def test_a_mutant_changes_its_place_alone(tmp_path: Path) -> None:
    for mutant in made(tmp_path):
        changed = mutated_source(mutant, SOURCE).splitlines()
        pairs = zip(SOURCE.splitlines(), changed, strict=True)
        different = [number for number, (old, new) in enumerate(pairs, start=1) if old != new]
        first, last = mutant.lines
        assert len(different) == 1
        assert first <= different[0] <= last


def test_a_draw_follows_from_the_seed_and_hardly_from_other_code(tmp_path: Path) -> None:
    before = made(tmp_path / "before")
    after = made(tmp_path / "after", "FIRST = 1\n\n" + SOURCE)
    for seed in range(5):
        names = [each.name for each in drawn(before, 3, seed)]
        assert names == [each.name for each in drawn(before, 3, seed)]
        assert len(set(names)) == 3
    assert len({tuple(each.name for each in drawn(before, 3, seed)) for seed in range(5)}) > 1
    of_functions = [[each for each in every if "area" in each.name] for every in (before, after)]
    ranks = [[each.rank(0) for each in every] for every in of_functions]
    assert ranks[0] == ranks[1]


def test_a_mutant_meets_the_quickest_tests_that_run_its_statement(tmp_path: Path) -> None:
    by_name = {each.name: each for each in made(tmp_path)}
    path = "src/fedner/room/boxes.py"
    traces = {
        "slow": Trace(9.0, {path: frozenset({25, 27})}),
        "quick": Trace(0.1, {path: frozenset({25, 27})}),
        "middle": Trace(1.0, {path: frozenset({25})}),
        "other": Trace(0.0, {path: frozenset({18})}),
        "elsewhere": Trace(0.0, {"src/fedner/room/else.py": frozenset({25})}),
    }
    assert list(chosen(by_name["room.boxes.area#2"], traces, 60)) == ["quick", "middle", "slow"]
    assert list(chosen(by_name["room.boxes.area#2"], traces, 2)) == ["quick", "middle"]
    assert list(chosen(by_name["room.boxes.area#3"], traces, 60)) == ["quick", "slow"]
    assert list(chosen(by_name["room.boxes.area#3"], traces, 0)) == ["quick"]
    # What runs at import may show in any test of the file.
    everywhere = ["other", "quick", "middle", "slow"]
    assert list(chosen(by_name["room.boxes.module#2"], traces, 60)) == everywhere
    assert list(chosen(by_name["room.boxes.area#1"], traces, 60)) == everywhere
