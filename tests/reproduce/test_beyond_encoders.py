"""`encoders`: which there are, how each can be used, and who joins whom."""

from dataclasses import replace
from pathlib import Path

import pytest
from beyond_rehearsal import Rehearsed, assert_whole, mean_of, rehearse, table_named

from fedner.errors import FednerError
from fedner.reproduce.beyond.encoder_plans import ADAPTED, WHOLE, encoder_tables
from fedner.reproduce.beyond.encoders import (
    ALONE,
    ENCODERS,
    FEDNER,
    FROZEN,
    JOINED,
    cells,
    encoders,
    tables_of,
    ways,
)
from fedner.reproduce.opening import Options, open_study
from fedner.reproduce.reproduction import Row


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(ENCODERS, tmp_path_factory.mktemp("encoders"))


def test_a_rehearsal_has_every_way_and_arm(rehearsed: Rehearsed) -> None:
    assert_whole(rehearsed.shown)
    table = table_named(rehearsed.shown, "encoders")
    assert [row[1] for row in table.rows] == [FROZEN, ADAPTED, WHOLE]
    arms = {(cell.factors["way"], cell.factors["arm"]) for cell in rehearsed.cells}
    assert len(arms) == 9


def _two(tmp_path: Path) -> tuple[str, str]:
    trainable, other = tmp_path / "minilm", tmp_path / "flair"
    trainable.mkdir()
    other.mkdir()
    (trainable / "config.json").write_text("{}")
    return str(trainable), str(other)


def test_every_context_is_an_encoder(rehearsed: Rehearsed, tmp_path: Path) -> None:
    first, second = _two(tmp_path)
    inputs = replace(rehearsed.inputs, is_rehearsal=False, context=first, more_contexts=(second,))
    assert encoders(inputs) == {"minilm": first, "flair": second}
    assert (ways(first), ways(second)) == ((FROZEN, ADAPTED, WHOLE), (FROZEN,))
    found = cells(inputs, [])
    of_encoder = {
        name: {each.factors["way"] for each in found if each.factors["encoder"] == name}
        for name in ("minilm", "flair")
    }
    assert of_encoder == {"minilm": {FROZEN, ADAPTED, WHOLE}, "flair": {FROZEN}}
    assert {each.factors["arm"] for each in found} == {ALONE, FEDNER, JOINED}
    again = replace(inputs, more_contexts=(str(tmp_path / "other" / "minilm"),))
    assert list(encoders(again)) == ["minilm", "minilm (2)"]


def test_adapters_and_the_whole_encoder_differ_in_what_is_trained(rehearsed: Rehearsed) -> None:
    real = replace(rehearsed.inputs, is_rehearsal=False)
    whole, adapted = (encoder_tables(real, way, "minilm") for way in (WHOLE, ADAPTED))
    assert "adapter" not in whole["model"]
    assert adapted["model"]["adapter"] == {"rank": 8, "alpha": 16.0}
    for found, rate in ((whole, 1e-4), (adapted, 3e-3)):
        assert found["algorithm"]["local"]["optimizer"]["learning_rate"] == rate
        assert found["local_optimizer"]["encoder_learning_rate"] == rate
    frozen = tables_of(real, FROZEN, "minilm")
    assert (frozen["model"]["recipe"], frozen["embeddings"]["context"]) == ("ELMoNER", "minilm")


def test_a_mean_needs_every_platform(rehearsed: Rehearsed, tmp_path: Path) -> None:
    first, _ = _two(tmp_path)
    inputs = replace(rehearsed.inputs, is_rehearsal=False, context=first)

    def row(platform: str, repeat: int, f1: float) -> Row:
        factors = {"encoder": "minilm", "way": FROZEN, "arm": ALONE, "platform": platform}
        return Row({**factors, "trainable": 1, "repeat": repeat}, {"strict_f1": f1})

    names = inputs.names
    rows = [row(name, 1, 10.0 * number) for number, name in enumerate(names)]
    rows.append(row(names[0], 2, 99.0))
    table = table_named(ENCODERS.show(rows, inputs), "encoders")
    assert mean_of(table.rows[0][2]) == 10.0
    assert table.rows[1][2] is None
    assert [row[1] for row in table.rows] == [FROZEN, ADAPTED, WHOLE]
    drawn = replace(inputs, context="minilm (9 bytes)", more_contexts=())
    assert ENCODERS.show(rows, drawn) == ENCODERS.show(rows, inputs), "of rows alone"


def test_several_contexts_are_opened(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "own.conll").write_text("Anna\tB-PER\nspoke\tO\n\n" * 20)
    first, second = _two(tmp_path)
    options = Options(
        out=tmp_path / "out",
        platforms=(f"own={data / 'own.conll'}",),
        contexts=(first, second),
        device="cpu",
    )
    opened = open_study(ENCODERS, options, [])
    assert opened.inputs.more_contexts == (second,)
    with pytest.raises(FednerError, match="is not there"):
        open_study(ENCODERS, replace(options, contexts=(first, "nowhere"), resume=True), [])
