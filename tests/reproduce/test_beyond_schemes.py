"""`schemes`: who tags with what, and the tables of it."""

from pathlib import Path

import pytest
from beyond_rehearsal import Rehearsed, assert_whole, mean_of, rehearse, table_named

from fedner.reproduce.bench import Bench
from fedner.reproduce.beyond.schemes import ALL_BIO, ALL_BIOES, SCHEMES, arms, scheme_of
from fedner.reproduce.reproduction import Row


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(SCHEMES, tmp_path_factory.mktemp("schemes"))


def test_each_platform_in_turn_has_bioes() -> None:
    names = ("a", "b")
    found = {arm: [scheme_of(arm, name) for name in names] for arm in arms(names)}
    assert found == {
        ALL_BIO: ["BIO", "BIO"],
        "BIOES at a": ["BIOES", "BIO"],
        "BIOES at b": ["BIO", "BIOES"],
        ALL_BIOES: ["BIOES", "BIOES"],
    }


def test_a_rehearsal_has_every_row_and_every_bar(rehearsed: Rehearsed) -> None:
    assert_whole(rehearsed.shown)
    assert len(rehearsed.cells) == 5
    table = table_named(rehearsed.shown, "schemes")
    assert [row[0] for row in table.rows] == arms(rehearsed.inputs.names)
    assert table.columns == ("tags", "case-reports", "forum-posts", "social-posts", "mean")


def test_the_schemes_reach_the_platforms(
    rehearsed: Rehearsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class StoppedError(Exception):
        pass

    def federated(_bench: Bench, _key: str, settings: object) -> None:
        seen.append({each.name: each.tag_scheme for each in settings.platforms})  # type: ignore[attr-defined]
        raise StoppedError

    monkeypatch.setattr(Bench, "federated", federated)
    cell = next(each for each in rehearsed.cells if each.factors["arm"] == "BIOES at forum-posts")
    with pytest.raises(StoppedError):
        SCHEMES.run(cell, Bench(rehearsed.inputs))
    assert seen == [{"case-reports": "BIO", "forum-posts": "BIOES", "social-posts": "BIO"}]


def test_differences_are_paired_by_repeat(rehearsed: Rehearsed) -> None:
    def row(arm: str, repeat: int, f1: float) -> Row:
        return Row({"arm": arm, "repeat": repeat, "platform": "case-reports"}, {"strict_f1": f1})

    rows = [row(ALL_BIO, 1, 50.0), row(ALL_BIO, 2, 60.0), row(ALL_BIO, 3, 90.0)]
    rows += [row(ALL_BIOES, 1, 51.0), row(ALL_BIOES, 2, 62.0)]
    table = table_named(SCHEMES.show(rows, rehearsed.inputs), "schemes-differences")
    assert mean_of(table.rows[-1][1]) == pytest.approx(1.5)
    assert table.rows[-1][2] is None


def test_rows_count_bytes_and_rounds(rehearsed: Rehearsed, tmp_path: Path) -> None:
    own = [row for row in rehearsed.rows if row.factors["platform"] != "mean"]
    assert all(row.measures["bytes_up"] for row in own)
    assert {row.measures["rounds"] for row in own} == {1}
