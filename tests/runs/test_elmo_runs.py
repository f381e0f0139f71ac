"""Whole runs with a tiny ELMo: its mix is trained, travels as shared, is noised, saved, resumed."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from joining_options import joined

from fedner.federated.record import RoundRecord
from fedner.inference.predict import Predictor
from fedner.models.checkpoint import load_tagger, retyped
from fedner.models.layers.scalar_mix import ScalarMix
from fedner.runs.folder import DISCLOSURE, RunFolder, tagger_folder
from fedner.runs.joining import choice
from fedner.runs.simulation import Progress, train_run
from fedner.settings import Settings
from tiny_elmo import OPTIONS, random_weights, save

Make = Callable[..., Settings]
NAMES = ("case-reports", "forum-posts", "social-posts")
MIX = {"embeddings.mix.weights", "embeddings.mix.factor"}
PRIVATE = (
    "privacy.mechanism=unit-local",
    "privacy.simulation=true",
    "privacy.noise_multiplier=1.0",
    *(f"platforms.{number}.public_size=30" for number in range(3)),
)


class StopError(Exception):
    """A run is stopped on purpose."""


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Assignments for a run with a tiny ELMo in the context slot."""
    h5py = pytest.importorskip("h5py", reason="needs the extra elmo")
    folder = tmp_path_factory.mktemp("elmo")
    save(h5py, folder / "elmo", OPTIONS, random_weights())
    given = (f"embeddings.context={folder / 'elmo'}", f"embeddings.cache={folder / 'cache'}")
    return ("model.recipe=ELMoNER", "training.rounds=3", *given)


def mixes(folder: Path) -> list[ScalarMix]:
    held = [load_tagger(tagger_folder(folder, name)).tagger.embeddings.mix for name in NAMES]
    return [mix for mix in held if mix is not None]


def names_in(folder: Path, part: str) -> set[str]:
    left = RunFolder(folder).read(DISCLOSURE)["platforms"]["case-reports"]
    return {tensor["name"] for tensor in left[part]}


@pytest.mark.parametrize("privacy", [(), PRIVATE], ids=["clear", "private"])
def test_the_mix_is_trained_and_shared(
    tiny: Make, elmo: tuple[str, ...], tmp_path: Path, privacy: tuple[str, ...]
) -> None:
    train_run(tiny(*elmo, *privacy), tmp_path / "run")
    assert names_in(tmp_path / "run", "tensors") >= MIX
    first, *others = mixes(tmp_path / "run")
    assert len(others) == 2
    assert len(set(first.weights.tolist())) == 3, "it began with three equal weights"
    assert first.factor.item() != 1.0
    for other in others:
        assert torch.equal(first.weights, other.weights)
        assert torch.equal(first.factor, other.factor)
    predictor = Predictor.load(tagger_folder(tmp_path / "run", "forum-posts"))
    predictor.predict("I had a rash after two days.")


def test_a_preset_without_embeddings_keeps_it_at_home(
    tiny: Make, elmo: tuple[str, ...], tmp_path: Path
) -> None:
    train_run(tiny(*elmo, 'partition.shared=["word_cnn"]'), tmp_path / "run")
    assert names_in(tmp_path / "run", "kept") >= MIX
    first, second, _ = mixes(tmp_path / "run")
    assert not torch.equal(first.weights, second.weights)


def test_resumed_equals_uninterrupted(tiny: Make, elmo: tuple[str, ...], tmp_path: Path) -> None:
    settings = tiny(*elmo)
    train_run(settings, tmp_path / "whole")

    def stop(record: RoundRecord) -> None:
        if record.round == 2:
            raise StopError

    with pytest.raises(StopError):
        train_run(settings, tmp_path / "parts", progress=Progress(round=stop))
    train_run(settings, tmp_path / "parts", resume=True)
    for whole, part in zip(mixes(tmp_path / "whole"), mixes(tmp_path / "parts"), strict=True):
        assert torch.equal(whole.weights, part.weights)
    cards = [(tmp_path / name / "MODEL_CARD.md").read_bytes() for name in ("whole", "parts")]
    assert cards[0] == cards[1]


def test_a_platform_joins_with_context_features(
    tiny: Make, elmo: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types are described by the encoder; an average is saved, moved and loaded with it."""
    head = ('model.head="described"', "model.rank=8", 'partition.shared="everything"')
    train_run(tiny(*elmo, *head, 'types={ADE="an unwanted effect"}'), tmp_path / "run")
    monkeypatch.setattr(choice, "best_method", lambda _: "average")
    found, kept = joined(tmp_path / "run" / "model", tmp_path / "late")
    assert (found.kept, found.types["ADE"]) == ("average", "an unwanted effect")
    other = retyped(load_tagger(tmp_path / "run" / "model"), {"Dosage": "amount of a drug"})
    assert other.tagger.emissions.source == "context"
    text = "Took aspirin, got a terrible headache and nausea."
    (tmp_path / "late").rename(tmp_path / "moved")
    loaded = load_tagger(tmp_path / "moved")
    assert Predictor.of(loaded).predict(text) == Predictor.of(kept).predict(text)
