"""Joining a model with a described head: all of it is received; types by their descriptions."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
import torch
from joining_options import joined, late
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.inference.predict import Predictor
from fedner.models.averaged import AveragedTagger
from fedner.models.checkpoint import load_tagger, retyped, save_tagger
from fedner.runs.joining import choice
from fedner.runs.joining.candidates import ARMS, Setting
from fedner.runs.joining.newcomer import described, newcomer, read_data
from fedner.runs.joining.received import open_received
from fedner.runs.joining.record import RECEIVED
from fedner.runs.outcome import outcome_of
from fedner.runs.simulation import train_run
from fedner.settings import Settings

NOTE = "Took aspirin 20 mg, got a terrible headache and nausea, so I stopped the ibuprofen."
DESCRIBED = (
    'model.head="described"',
    "model.rank=8",
    'partition.shared="everything"',
    'types={ADE="an unwanted effect of a medicine", Drug="a medicine"}',
    "training.rounds=8",
)


@pytest.fixture(scope="module")
def run(tiny: Callable[..., Settings], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("described") / "run"
    train_run(tiny(*DESCRIBED), folder)
    return folder


@pytest.fixture(scope="module")
def averaged(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a joined tagger that is an average, whatever cross-validation says."""
    folder = tmp_path_factory.mktemp("averaged") / "late"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "best_method", lambda _: "average")
        found, _ = joined(run / "model", folder)
    assert found.kept == "average"
    return folder


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(result.exception, FednerError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_run_and_its_model_are_the_same_to_a_newcomer(run: Path) -> None:
    one, other = open_received(run), open_received(run / "model")
    assert one.digest == other.digest
    assert one.weights.keys() == other.weights.keys()
    assert one.descriptions == {"ADE": "an unwanted effect of a medicine", "Drug": "a medicine"}
    assert one.title == other.title == "tiny"


def test_all_of_it_serves_types_of_ones_own(run: Path, tmp_path: Path) -> None:
    received = open_received(run)
    data = read_data(late(label_map={"ADE": "Effect"}), 1, has_test=True)
    types = described(data.labels, {"Effect": "what went wrong"}, received.descriptions)
    assert types == {"Drug": "a medicine", "Effect": "what went wrong"}
    own = newcomer(received, data, "sentence", types, 1, tmp_path)
    weights = dict(own.tagger("joined").named_parameters())
    assert set(weights) == set(received.weights), "nothing of it begins afresh"
    assert all(torch.equal(weights[name], received.weights[name]) for name in weights)
    assert own.space.labels == ("Drug", "Effect")
    assert own.recipe("free").head == "free"


def test_the_model_as_it_was_received_is_measured_too(run: Path, tmp_path: Path) -> None:
    wild = dict.fromkeys(ARMS, (Setting(0.5, 2),))  # far from where it began
    platform = late(label_map={"ADE": "Dosage", "Drug": "Medicine"})
    found, _ = joined(run, tmp_path / "late", platform, grid=wild)
    assert list(found.results) == [RECEIVED, "joined", "local-only", "average"]
    received = Predictor.of(retyped(load_tagger(run / "model"), found.types))
    data = read_data(platform, 1, has_test=True)
    predicted = received.predict_sentences(data.test_sentences)
    again = outcome_of(data, [[entity for entity, _ in each] for each in predicted], "sentence")
    assert again == found.results[RECEIVED].outcome
    assert again.scores.strict_micro.predicted > 0, "nothing found: nothing would show"


def test_what_was_trained_at_home_has_its_types_in_it(run: Path, tmp_path: Path) -> None:
    found, _ = joined(run, tmp_path / "late", types={"ADE": "what went wrong"})
    assert found.types == {"ADE": "what went wrong", "Drug": "a medicine"}
    loaded = load_tagger(tmp_path / "late")
    if loaded.recipe.head == "described":
        assert loaded.descriptions == found.types


def test_the_card_names_the_epsilon_of_what_was_received(
    tiny: Callable[..., Settings], tmp_path: Path
) -> None:
    private = (
        "privacy={mechanism='unit-local',simulation=true,noise_multiplier=1.0}",
        "training.evaluate_every=0",
    )
    train_run(tiny(*DESCRIBED, *private), tmp_path / "run")
    for model, out in (("run", "a"), ("run/model", "b")):
        found, _ = joined(tmp_path / model, tmp_path / out)
        assert "imulated differential privacy" in found.received["privacy"]
        assert "epsilon" in found.received["privacy"]
        assert "epsilon" in (tmp_path / out / "MODEL_CARD.md").read_text()


def test_an_average_does_all_that_a_tagger_does(averaged: Path, tmp_path: Path) -> None:
    loaded = load_tagger(averaged)
    assert isinstance(loaded.tagger, AveragedTagger)
    assert loaded.tagger.recipes[0].head == "described"
    found = Predictor.of(loaded).predict(NOTE)
    (tmp_path / "note.txt").write_text(NOTE)
    lines = invoke("predict", averaged, tmp_path / "note.txt", "--json").splitlines()
    spans = json.loads(lines[1])["spans"]
    assert [(each["start"], each["end"]) for each in spans] == [(m.start, m.end) for m in found]
    invoke("redact", averaged, tmp_path / "note.txt", "--out", tmp_path / "redacted.txt")
    invoke("export", averaged, "--to", tmp_path / "onnx")
    nlp = spacy.blank("en")
    nlp.add_pipe("fedner", config={"model": str(averaged)})
    assert [(e.start_char, e.end_char) for e in nlp(NOTE).ents] == [(m.start, m.end) for m in found]
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert [e.label_ for e in again(NOTE).ents] == [m.label for m in found]


def test_an_average_of_taggers_cannot_be_received(averaged: Path, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="average"):
        joined(averaged, tmp_path / "late")


def test_the_shared_model_finds_its_own_types_and_no_others(run: Path, tmp_path: Path) -> None:
    """Types by description alone were measured (docs/joining.md), and are not offered."""
    (tmp_path / "note.txt").write_text(NOTE)
    # Of its own types so small a model finds nothing here; of these it does.
    other = retyped(load_tagger(run / "model"), {"Dosage": "amount", "Medicine": "a medicine"})
    save_tagger(tmp_path / "other", other.tagger, other.recipe, other.space)
    for model, labels in ((run / "model", ["ADE", "Drug"]), (tmp_path / "other", None)):
        lines = invoke("predict", model, tmp_path / "note.txt", "--json").splitlines()
        head, document = map(json.loads, lines)
        assert head["labels"] == (labels or ["Dosage", "Medicine"])
    assert document["spans"], "nothing found: the test would show nothing"
    assert {*head} == {"fedner", "version", "name", "labels"}
    assert {*document["spans"][0]} == {"start", "end", "label", "confidence"}
    given = ["predict", str(run / "model"), str(tmp_path / "note.txt"), "--types", "Dosage=amount"]
    refused = CliRunner().invoke(app, given)
    assert refused.exit_code == 2
    assert "No such option" in refused.output


def test_own_bounds_what_trains_and_leaves_the_test_part() -> None:
    def own(number: int | None) -> tuple[set[int], tuple[int, ...]]:
        found = read_data(late(num_sentences=60), 1, has_test=True, own=number)
        return set(found.train), found.test

    everything, test = own(None)
    few, many = own(5), own(20)
    assert (len(few[0]), len(many[0])) == (5, 20)
    assert few[0] < many[0] < everything
    assert few[1] == many[1] == test
    for wrong in (0, len(everything) + 1):
        with pytest.raises(FednerError, match=f"--own {wrong}: there are {len(everything)}"):
            own(wrong)


def test_own_is_an_option_of_the_command(run: Path, tmp_path: Path) -> None:
    told = invoke(
        "join", run / "model", "--data", "synthetic:social-posts", "--num-sentences", 40,
        "--own", 9, "--epochs", 1, "--out", tmp_path / "late", "--json",
    )  # fmt: skip
    assert json.loads(told)["train_sentences"] == 9
