"""What a removal leaves: the parts of its corpora, and Presidio's analyzer as its peer."""

import json
import sys
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.experiments.deidentification import arms
from fedner.experiments.deidentification.arms import Size, Training, by_presidio, train_local_only
from fedner.experiments.deidentification.corpora import LOOKED_FOR, TYPES, load, parts
from fedner.experiments.deidentification.stand_ins import stand_in
from fedner.inference.removal_scores import scores_at

FIRST, LAST = ("Anna", "Bob", "Carl", "Dora"), ("Lee", "Smith", "Jones", "Brown")


def people(number: int) -> str:
    return f"{FIRST[number % 4]} {LAST[number // 4 % 4]}"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both corpora, tiny and our own."""
    data = tmp_path_factory.mktemp("data")
    records = []
    for number in range(80):
        name = people(number)
        text = f"Please call {name} about order {number % 10}."
        span = {"entity_type": "PERSON", "entity_value": name, "start_position": 12}
        spans = [span | {"end_position": 12 + len(name)}]
        records.append({"full_text": text, "spans": spans, "template_id": number % 10})
    (data / "presidio-synth").mkdir()
    (data / "presidio-synth" / "synth.json").write_text(json.dumps(records))
    queries = (
        f"===QUERY===\nIs {people(number)} (case {number}) better?\n===PHI_TAGS===\n"
        + json.dumps({"identifier_type": "NAME", "value": people(number)})
        + "\n\n"
        for number in range(80)
    )
    (data / "synthetic-phi-queries").mkdir()
    (data / "synthetic-phi-queries" / "queries.txt").write_text("".join(queries))
    return data


def test_templates_stay_together_and_parts_are_of_the_seed(corpora: Path) -> None:
    corpus = load(corpora, "presidio-synth")
    own = parts(corpus, 1)
    groups = [{each.patient for each in part} for part in (own.train, own.held_out)]
    assert [len(each) for each in groups] == [6, 4]
    assert not groups[0] & groups[1]
    assert parts(corpus, 1) == own != parts(corpus, 2)
    assert own.first(5).documents == own.train.documents[:5]
    assert set(LOOKED_FOR[corpus.name]) < set(TYPES[corpus.name]) == set(corpus.labels)
    with pytest.raises(FednerError, match="no corpus"):
        load(corpora, "i2b2")


def test_the_types_are_those_of_the_corpora(data: Path) -> None:
    for name, types in TYPES.items():
        found = {span.label for document in load(data, name) for span in document.spans}
        assert found == set(types)


def test_presidio_is_scored_by_the_letters_that_it_removes(corpora: Path, tmp_path: Path) -> None:
    held_out = parts(load(corpora, "presidio-synth"), 1).held_out
    lines = []
    for number, document in enumerate(held_out):
        (span,) = document.spans
        end = span.end if number % 4 else span.end - 1  # every fourth keeps a letter
        found = {"id": document.id, "found": [[span.start, end, 0.85]]}
        lines.append(json.dumps(found))
    (tmp_path / "found.jsonl").write_text("\n".join(lines))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncp "{tmp_path}/found.jsonl" "$3"\n')
    python.chmod(0o755)
    scored = by_presidio(python, tmp_path / "own", held_out, held_out.labels)
    found = scores_at(scored, 1e-9)
    assert (found.overall.mentions, found.overall.missed) == (32, 8)
    assert found.lost.value == 0
    texts = [json.loads(line) for line in (tmp_path / "own/texts.jsonl").read_text().splitlines()]
    assert texts == [{"id": each.id, "text": each.text} for each in held_out]


def test_a_finished_tagger_is_not_trained_again_and_half_begun_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training("hashed", 1, Size(epochs=1, hidden=8, character_dimension=8))
    (tmp_path / "run").mkdir()  # killed before it had settings
    (tmp_path / "run" / "parts.json").write_text("{")
    corpus = stand_in("presidio-synth", 20)
    tagger = train_local_only(tmp_path, corpus, training)
    assert (tagger / "model.json").is_file()
    monkeypatch.setattr(arms, "train_run", None)
    assert train_local_only(tmp_path, corpus, training) == tagger
    assert train_local_only(tmp_path, corpus, training, described=True) == tmp_path / "run/model"


def test_a_python_without_presidio_is_refused(corpora: Path, tmp_path: Path) -> None:
    held_out = parts(load(corpora, "presidio-synth"), 1).held_out
    with pytest.raises(FednerError, match="Presidio's analyzer failed") as caught:
        by_presidio(Path(sys.executable), tmp_path, held_out, held_out.labels)
    assert "presidio-analyzer" in caught.value.hint
    assert not (tmp_path / "presidio.jsonl").exists()
