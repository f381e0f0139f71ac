"""`platforms`: shards, who trains with whom, and what the tables show."""

from dataclasses import replace

import pytest
from beyond_rehearsal import Rehearsed, assert_whole, figure_named, mean_of, rehearse, table_named

from fedner.reproduce.bench import Bench
from fedner.reproduce.beyond.platforms import (
    CENTRALIZED,
    EQUAL,
    LOCAL,
    NUMBERS,
    PLATFORMS,
    PRIVATE,
    SHARED,
    tables_of,
)
from fedner.reproduce.beyond.sharding import equal_shards
from fedner.reproduce.locating import KNOWN
from fedner.reproduce.reproduction import Row


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(PLATFORMS, tmp_path_factory.mktemp("platforms"))


def test_a_rehearsal_has_every_number_and_every_curve(rehearsed: Rehearsed) -> None:
    assert_whole(rehearsed.shown)
    table = table_named(rehearsed.shown, "platforms")
    assert [row[0] for row in table.rows] == [str(each) for each in NUMBERS]
    curves = figure_named(rehearsed.shown, "platforms").panels[0].series
    assert [each.label for each in curves] == [SHARED, PRIVATE, LOCAL, CENTRALIZED]
    assert len(table_named(rehearsed.shown, "platforms-as-given").rows) == 2  # types differ


def test_every_platform_of_a_federation_is_scored(rehearsed: Rehearsed) -> None:
    for number in NUMBERS:
        held = [
            row
            for row in rehearsed.rows
            if row.factors["arm"] == PRIVATE
            and row.factors["parts"] == EQUAL
            and row.factors["platforms"] == number
        ]
        assert len(held) == min(number, 3) + 1


@pytest.mark.slow
def test_fifty_platforms_train_together(rehearsed: Rehearsed) -> None:
    cell = next(each for each in rehearsed.cells if each.key.startswith("equal shards/50/FedNER"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedner.reproduce.beyond.platforms.dealt", lambda _, number: number)
        rows = PLATFORMS.run(cell, Bench(rehearsed.inputs))
    assert len(rows) == 51


def test_shards_share_nothing_but_the_test_part(rehearsed: Rehearsed) -> None:
    bench = Bench(rehearsed.inputs)
    few, many = (equal_shards(bench, rehearsed.inputs.names, number, 1) for number in (2, 5))
    assert {each["split"]["test_data"] for each in (*few.entries, *many.entries)} == {
        few.entries[0]["split"]["test_data"]
    }
    texts = [[document.text for document in corpus] for corpus in many.corpora.values()]
    sentences = [sum(len(text.splitlines()) for text in each) for each in texts]
    assert max(sentences) - min(sentences) <= 1
    assert sum(sentences) == sum(
        len(document.text.splitlines()) for corpus in few.corpora.values() for document in corpus
    )
    other = equal_shards(bench, rehearsed.inputs.names, 5, 2)
    first, second = (next(iter(each.corpora["shard-01"])) for each in (many, other))
    assert first.text != second.text


def test_all_together_draw_as_many_sentences(rehearsed: Rehearsed) -> None:
    real = replace(rehearsed.inputs, is_rehearsal=False)
    drawn = {n: n * tables_of(real, PRIVATE, n)["training"]["batch_size"] for n in NUMBERS}
    assert all(240 <= each <= 256 for each in drawn.values())
    assert {tables_of(real, SHARED, n)["training"]["rounds"] for n in NUMBERS} == {600}
    assert tables_of(real, SHARED, 5)["partition"] == {"shared": "everything"}


def test_gains_are_paired_by_repeat(rehearsed: Rehearsed) -> None:
    def row(arm: str, repeat: int, f1: float) -> Row:
        factors = {"parts": EQUAL, "arm": arm, "platform": "mean"}
        return Row({**factors, "platforms": 5, "repeat": repeat}, {"strict_f1": f1})

    rows = [row(LOCAL, 1, 40.0), row(LOCAL, 2, 50.0), row(PRIVATE, 1, 44.0), row(PRIVATE, 2, 56.0)]
    table = table_named(PLATFORMS.show(rows, rehearsed.inputs), "platforms")
    (line,) = (each for each in table.rows if each[0] == "5")
    assert mean_of(line[1]) == 45.0
    assert mean_of(line[4]) == 5.0
    assert line[5] is None


def test_the_parts_of_btc_are_known_by_name() -> None:
    assert all(name in KNOWN for name in PLATFORMS.corpora[0])
