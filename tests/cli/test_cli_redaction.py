"""`fedner redaction` and what `fedner redact` makes of it, as a user types it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.inference.threshold_file import NAME
from fedner.models.checkpoint import save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized

TEXT = "Seen by Anna Smith on 2021-03-05 with aspirin and a rash, then by Bob Lee."


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)


def said(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tagger without training, in doubt about every word."""
    torch.manual_seed(0)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("DATE", "NAME"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    with torch.no_grad():
        tagger.emissions.bias[0] = 0.6
        tagger.emissions.weight *= 6
    save_tagger(tmp_path / "tagger", tagger, recipe, space)
    return tmp_path / "tagger"


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.jsonl"
    spans = [
        {"start": 8, "end": 18, "label": "NAME"},
        {"start": 22, "end": 32, "label": "DATE"},
        {"start": 66, "end": 73, "label": "NAME"},
        {"start": 38, "end": 45, "label": "DRUG"},
    ]
    records = [{"id": str(n), "text": TEXT, "spans": spans} for n in range(40)]
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def test_a_threshold_is_chosen_stored_beside_the_tagger_and_used(
    model: Path, gold: Path, tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text(TEXT)
    plain = said("redact", model, note, "--out", tmp_path / "plain.txt")
    assert plain["threshold"] is None
    found = said("redaction", "calibrate", model, gold, "--recall", 0.9, "--most-lost", 1)
    assert found["written"] == str(model / NAME)
    assert found["recall"] == 1.0
    assert found["measured"]["overall"]["mentions"] == 60
    assert found["not_known_to_the_tagger"] == {"DRUG": 40}
    assert set(found["measured"]["by_type"]) == {"DATE", "NAME"}
    used = said("redact", model, note, "--out", tmp_path / "safe.txt")
    assert used["threshold"] == found["threshold"]
    assert used["measured"]["overall"]["share"] == found["measured"]["overall"]["share"]
    safe = (tmp_path / "safe.txt").read_text()
    assert not re.search("Anna|Smith|2021|Bob|Lee", safe), "what was promised on the very text"
    again = said("redact", model, note, "--out", tmp_path / "p2.txt", "--no-threshold")
    assert again["threshold"] is None
    assert (tmp_path / "p2.txt").read_text() == (tmp_path / "plain.txt").read_text()


def test_people_read_how_many_remain(model: Path, gold: Path, tmp_path: Path) -> None:
    asked = ("redaction", "calibrate", model, gold, "--recall", 0.9, "--most-lost", 1)
    shown = " ".join(run(*asked).stdout.split())
    assert "Of 1,000 mentions none remain: 0 to" in shown
    assert "other words" in shown
    assert "not counted: 40 mentions of DRUG" in shown
    note = tmp_path / "note.txt"
    note.write_text(TEXT)
    result = run("redact", model, note, "--out", tmp_path / "safe.txt")
    assert "of 1,000 mentions none remain" in " ".join(result.stdout.split())


def test_a_threshold_is_of_its_tagger_and_of_its_types(
    model: Path, gold: Path, tmp_path: Path
) -> None:
    note, kept = tmp_path / "note.txt", tmp_path / "chosen.json"
    note.write_text(TEXT)
    asked = ("redaction", "calibrate", model, gold, "--recall", 0.9, "--most-lost", 1)
    said(*asked, "--keep", "DATE", "--out", kept)
    assert not (model / NAME).exists()
    out = ("--out", tmp_path / "o.txt", "--calibration", kept)
    with pytest.raises(FednerError, match="chosen to remove NAME"):
        run("redact", model, note, *out, "--remove", "DATE")
    with pytest.raises(FednerError, match="exclude each other"):
        run("redact", model, note, *out, "--threshold", 0.1)
    assert said("redact", model, note, *out)["types"] == ["NAME"]
    record = json.loads(kept.read_text())
    kept.write_text(json.dumps(record | {"threshold": 0.9}))
    with pytest.raises(FednerError, match="was altered"):
        run("redact", model, note, "--out", tmp_path / "p.txt", "--calibration", kept)
    card = model / "model.json"
    said(*asked)
    torch.manual_seed(1)
    weights = model / "model.safetensors"
    other = tmp_path / "other"
    space = TagSpace.of(("DATE", "NAME"), "BIO")
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=4)
    save_tagger(other, tagger, recipe, space)
    weights.write_bytes((other / "model.safetensors").read_bytes())
    card.write_bytes((other / "model.json").read_bytes())
    with pytest.raises(FednerError, match="found a threshold for the tagger"):
        run("redact", model, note, "--out", tmp_path / "q.txt")


def test_types_to_remove_or_keep(model: Path, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text(TEXT)
    low = ("--threshold", 0.001)
    only = said("redact", model, note, "--out", tmp_path / "a.txt", "--remove", "NAME", *low)
    assert set(only["files"][0]["replaced"]) == {"NAME"}
    but = said("redact", model, note, "--out", tmp_path / "b.txt", "--keep", "NAME", *low)
    assert set(but["files"][0]["replaced"]) == {"DATE"}
    with pytest.raises(FednerError, match="no type AGE"):
        run("redact", model, note, "--out", tmp_path / "c.txt", "--remove", "AGE")


def test_a_key_gives_pseudonyms_names_and_dates(model: Path, tmp_path: Path) -> None:
    notes, key = tmp_path / "notes", tmp_path / "home.key"
    notes.mkdir()
    (notes / "Smith.txt").write_text(TEXT)
    made = said("redaction", "key", key)
    assert len(made["fingerprint"]) == 16
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FednerError, match="need a secret key"):
        run("redact", model, notes, "--out", tmp_path / "x", "--how", "pseudonym")
    with pytest.raises(FednerError, match="need a key"):
        run("redact", model, notes, "--out", tmp_path / "x", "--patient-pattern", "(?P<patient>.)")
    options = ("--key", key, "--threshold", 0.0001, "--remove", "NAME", "--date-type", "NAME")
    found = said("redact", model, notes, "--out", tmp_path / "out", *options)
    target = Path(found["files"][0]["target"])
    assert re.fullmatch(r"[a-z2-7]{8}\.txt", target.name)
    assert "[NAME-" in target.read_text()
    kept = said("redact", model, notes, "--out", tmp_path / "k", *options, "--keep-file-names")
    assert Path(kept["files"][0]["target"]).name == "Smith.txt"
    with pytest.raises(FednerError, match="DATE is not removed"):
        run("redact", model, notes, "--out", tmp_path / "y", *options, "--date-type", "DATE")
    inside = tmp_path / "given"
    inside.mkdir()
    key.rename(inside / "home.key")
    with pytest.raises(FednerError, match="the key must not be given away"):
        run("redact", model, notes, "--out", inside, "--key", inside / "home.key")


def test_data_without_the_types_are_refused(model: Path, gold: Path) -> None:
    asked = ("redaction", "calibrate", model, gold, "--recall", 0.9, "--most-lost", 1)
    with pytest.raises(FednerError, match="have no mention of DATE, NAME; found DRUG") as caught:
        run(*asked, "--label-map", "NAME=", "--label-map", "DATE=")
    assert "--label-map" in caught.value.hint
    renamed = said(*asked, "--label-map", "DRUG=NAME")
    assert renamed["measured"]["overall"]["mentions"] == 80
    with pytest.raises(FednerError, match="cannot be reached"):
        run("redaction", "calibrate", model, gold, "--recall", 0.9, "--most-lost", 0.01)


def test_standard_output_is_no_file(model: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text(TEXT)
    with pytest.raises(FednerError, match="standard output is no file"):
        run("redact", model, "note.txt", "--out", "-")
    assert not (tmp_path / "-").exists()
