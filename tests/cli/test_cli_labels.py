"""Types on the command line: label maps of score and convert, scores that are blind for types."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.reading import read
from fedner.errors import FednerError

TEXT = "Pain and rash after Aspirin."
GOLD = [(0, 4, "ADE"), (9, 13, "ADE"), (20, 27, "Drug")]
FOUND = [(0, 4, "ADR"), (9, 13, "ADE"), (20, 27, "Medication"), (5, 8, "Noise")]


def corpus(path: Path, spans: list[tuple[int, int, str]]) -> Path:
    record = {
        "id": "1",
        "text": TEXT,
        "spans": [{"start": start, "end": end, "label": label} for start, end, label in spans],
    }
    path.write_text(json.dumps(record) + "\n")
    return path


def columns(path: Path, *tags: str) -> Path:
    words = ("Pain", "and", "rash", "after", "Aspirin")
    rows = "\n".join(f"{word} {tag}" for word, tag in zip(words, tags, strict=True))
    path.write_text(rows + "\n")
    return path


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return corpus(tmp_path / "gold.jsonl", GOLD)


@pytest.fixture
def found(tmp_path: Path) -> Path:
    return corpus(tmp_path / "found.jsonl", FOUND)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*arguments: object) -> dict:
    return json.loads(run(*arguments, "--json"))


def test_type_blind_scores_count_types_that_the_gold_corpus_lacks(gold: Path, found: Path) -> None:
    sighted = run_json("score", gold, found)["relaxed_any_type"]["micro"]
    assert (sighted["gold_touched"], sighted["predicted"]) == (1, 1)
    blind = run_json("score", gold, found, "--type-blind")
    micro = blind["relaxed_any_type"]["micro"]
    assert (micro["gold"], micro["gold_touched"]) == (3, 3)
    assert (micro["predicted"], micro["predicted_touching"]) == (4, 3)
    assert blind["strict"] == run_json("score", gold, found)["strict"], "which do ask for types"
    assert blind["ignored"]["predicted"] == {"ADR": 1, "Medication": 1, "Noise": 1}
    shown = run("score", gold, found, "--type-blind")
    assert "Medication" in shown
    assert "100.0" in shown.split(), "no number is broken at 80 columns"
    assert "only in the type-blind scores" in " ".join(shown.split())


def test_type_blind_scores_of_columns(tmp_path: Path) -> None:
    truth = columns(tmp_path / "gold.conll", "B-ADE", "O", "B-ADE", "O", "B-Drug")
    other = columns(tmp_path / "found.conll", "B-X", "O", "B-X", "O", "O")
    micro = run_json("score", truth, other, "--type-blind")["relaxed_any_type"]["micro"]
    assert (micro["gold_touched"], micro["predicted_touching"]) == (2, 2)
    assert run_json("score", truth, other)["relaxed_any_type"]["micro"]["predicted"] == 0


def test_score_with_a_label_map(gold: Path, found: Path) -> None:
    options = ("--label-map", "ADR=ADE", "--label-map", "Medication=Drug", "--label-map", "Noise=")
    scores = run_json("score", gold, found, *options)
    assert scores["strict"]["micro"]["f1"] == 1.0
    assert scores["ignored"]["predicted"] == {}
    both = run_json("score", gold, found, "--against", found, *options)
    assert both["against"]["difference"]["value"] == 0.0
    reverse = run_json(
        "score", found, gold, "--label-map", "ADR=ADE", "--label-map", "Drug=Medication"
    )
    assert reverse["strict"]["labels"]["Medication"]["tp"] == 1, "gold types are renamed too"


def test_convert_with_a_label_map(found: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    options = ("--label-map", "ADR=ADE", "--label-map", "Noise=")
    said = run_json("data", "convert", found, out, "--to", "jsonl", *options)
    assert said["losses"] == {
        "mentions renamed by the label map": 1,
        "mentions of a type that the label map leaves out": 1,
    }
    assert said["mentions"] == 3
    written = read(out)
    assert written.labels == ("ADE", "Medication")
    assert [span.label for span in written.documents[0].spans] == ["ADE", "ADE", "Medication"]


@pytest.mark.parametrize(
    ("option", "message", "hint"),
    [
        ("ADRR=ADE", "no type 'ADRR'", "'ADR'"),
        ("ADR", "not OLD=NEW", "ADR=ADE"),
        ("=ADE", "not OLD=NEW", "ADR=ADE"),
        (("ADR=ADE", "ADR=Drug"), "'ADE' and to 'Drug'", "Choose one"),
    ],
)
def test_a_wrong_label_map_is_refused(
    option: str | tuple[str, ...], message: str, hint: str, gold: Path, found: Path, tmp_path: Path
) -> None:
    given = [option] if isinstance(option, str) else option
    options = [word for each in given for word in ("--label-map", each)]
    for command in (
        ("score", gold, found),
        ("data", "convert", found, tmp_path / "out", "--to", "jsonl"),
    ):
        with pytest.raises(FednerError, match=message) as caught:
            run(*command, *options)
        assert hint in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_division_by_source_has_no_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "one/1", "text": "Pain."}\n{"id": "two/1", "text": "Rash."}\n')
    with pytest.raises(FednerError, match="--into 2 does not go with --how source"):
        run("data", "platforms", path, "--how", "source", "--into", 2)
    assert len(run_json("data", "platforms", path, "--how", "source")["platforms"]) == 2
    for options in (("--into", 2), ("--how", "source")):
        with pytest.raises(FednerError, match="no corpus was given"):
            run("data", "platforms", *options)
