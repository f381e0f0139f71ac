"""Training that is held to its first weights: a decay towards them, beside the optimizer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fedner.training as training
from fedner.corpus.prepare import prepare
from fedner.corpus.synthetic import generate
from fedner.errors import FednerError
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import EncodedCorpus, TagSpace, collate, encode_corpus
from fedner.models.graphed import RecordedSteps
from fedner.models.tagger import Tagger
from fedner.models.zoo import RECIPES, build_tagger, resized
from fedner.optimizers import OptimizerSettings
from fedner.training import (
    TrainingSettings,
    TrainingState,
    bucketed_batches,
    clip_by_norm,
    dropout_seed,
    gradients,
    load_training,
    save_training,
    snapshot,
    train,
    trainable,
)

CORPUS = generate("social-posts", 24, seed=2)
SENTENCES = prepare(CORPUS.documents).sentences
SPACE = TagSpace.of(CORPUS.labels, "BIO")
RECIPE = resized(RECIPES["CNN-CLSTM-CRF"], hidden=6, filters=6, character_filters=4)
LINEAR = OptimizerSettings(learning_rate=1e-2, schedule="linear", decay_steps=12)
PULLED = TrainingSettings(epochs=3, batch_size=8, optimizer=LINEAR, pull=20.0)
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ),
]


def fresh(
    *, words: bool = False, row_sparse: bool = True, device: str = "cpu", dropout: float = 0.2
) -> Tagger:
    source = WordEmbedding(HashedWords(200, 8), trainable=words, row_sparse=row_sparse)
    return build_tagger(replace(RECIPE, dropout=dropout), source, SPACE, seed=3).to(device)


def encoded(tagger: Tagger) -> EncodedCorpus:
    device = next(tagger.parameters()).device
    return encode_corpus(SENTENCES, tagger.embeddings.words, space=SPACE, device=device)


def trained(settings: TrainingSettings, **how: Any) -> dict[str, Tensor]:
    tagger = fresh(**how)
    train(tagger, encoded(tagger), settings, 1)
    return {name: each.detach().cpu() for name, each in trainable(tagger).items()}


def reference(settings: TrainingSettings, **how: Any) -> dict[str, Tensor]:
    """Train number by number: Adam written out, and the pull beside it."""
    tagger, held = fresh(**how), settings.optimizer
    corpus, weights = encoded(tagger), trainable(tagger)
    first = snapshot(weights)
    moments = {
        name: (torch.zeros_like(each), torch.zeros_like(each)) for name, each in first.items()
    }
    number = 0
    tagger.train()
    for epoch in range(1, settings.epochs + 1):
        batches = bucketed_batches(corpus.lengths, settings.batch_size, 1, epoch)
        for step, chosen in enumerate(batches):
            torch.manual_seed(dropout_seed(1, epoch, step))
            _, found = gradients(tagger, collate(corpus, chosen))
            gradient = clip_by_norm(found, settings.max_grad_norm)
            rate = held.learning_rate_at(number)
            number += 1
            for name, weight in weights.items():
                before, slope = weight.detach().clone(), gradient[name].to_dense()
                one, two = moments[name]
                one = held.betas[0] * one + (1 - held.betas[0]) * slope
                two = held.betas[1] * two + (1 - held.betas[1]) * slope**2
                moments[name] = one, two
                direction = one / (1 - held.betas[0] ** number)
                direction /= (two / (1 - held.betas[1] ** number)).sqrt() + held.epsilon
                away = settings.pull * (before - first[name])
                own = rate * held.factor_of(name)
                with torch.no_grad():
                    weight.copy_(before - own * (direction + away))
    return {name: each.detach().cpu() for name, each in weights.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def close(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.allclose(one[n], other[n], atol=2e-5) for n in one)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("words", [False, True])
def test_a_pulled_step_is_adam_and_a_decay_to_the_first_weights(device: str, words: bool) -> None:
    """Word tables with row-sparse gradients too: a pull moves every row that was ever stepped."""
    factors = (("bilstm", 0.3),)
    settings = replace(PULLED, optimizer=replace(LINEAR, factors=factors))
    expected = reference(settings, words=words, device=device)
    assert close(trained(settings, words=words, device=device), expected)
    assert not close(trained(replace(settings, pull=0.0), words=words, device=device), expected)


def test_a_row_sparse_table_is_pulled_like_a_dense_one() -> None:
    sparse, dense = (trained(PULLED, words=True, row_sparse=each) for each in (True, False))
    assert close(sparse, dense)


def test_without_a_pull_nothing_changes_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(PULLED, pull=0.0)
    found = trained(settings)

    def plain(optimizer, weights, gradient, first, pull) -> None:
        assert not first, "nothing is copied where nothing is held"
        assert pull == 0
        optimizer.step(weights, gradient)

    monkeypatch.setattr(training, "_step", plain)
    assert same(trained(settings), found)


def test_a_stronger_pull_stays_nearer() -> None:
    first = {name: each.detach() for name, each in trainable(fresh()).items()}
    ways = []
    for pull in (0.0, 3.0, 30.0, 100.0):
        found = trained(replace(PULLED, pull=pull))
        ways.append(sum(float((found[n] - first[n]).square().sum()) for n in first) ** 0.5)
    assert ways == sorted(ways, reverse=True)
    assert ways[-1] < 0.5 * ways[0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("words", [False, True])
def test_resumed_equals_uninterrupted(tmp_path: Path, words: bool, device: str) -> None:
    """A training that goes on in another process is held to where the first one began."""

    def stop(state: TrainingState) -> None:
        save_training(tmp_path / "state", state)
        raise KeyboardInterrupt

    tagger = fresh(words=words, device=device)
    with pytest.raises(KeyboardInterrupt):
        train(tagger, encoded(tagger), PULLED, 1, after_epoch=stop)
    other = fresh(words=words, device=device)
    train(other, encoded(other), PULLED, 1, resume=load_training(tmp_path / "state"))
    found = {name: each.detach().cpu() for name, each in trainable(other).items()}
    expected = trained(PULLED, words=words, device=device)
    # On a GPU sums have no fixed order: two whole trainings differ in their last digits too.
    assert same(found, expected) if device == "cpu" else close(found, expected)


def test_a_pull_is_neither_begun_nor_dropped_in_the_middle() -> None:
    plain = replace(PULLED, pull=0.0)
    for before, after in ((plain, PULLED), (PULLED, plain)):
        tagger = fresh()
        state = train(tagger, encoded(tagger), replace(before, epochs=1), 1)
        with pytest.raises(FednerError, match=r"the training began with(out)? a pull"):
            train(tagger, encoded(tagger), after, 1, resume=state)


@pytest.mark.parametrize("device", DEVICES)
def test_recorded_steps_are_pulled_too(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """On the CPU a recording is the computation itself; dropout would differ by the padding."""
    plain = trained(PULLED, device=device, dropout=0.0)
    seen: list[RecordedSteps] = []

    def recorded(tagger: Tagger, corpus: EncodedCorpus, *_: object, **__: object) -> RecordedSteps:
        record = {} if device == "cuda" else {"record": lambda compute, *_: compute}
        seen.append(RecordedSteps(tagger, corpus, **record))
        return seen[-1]

    monkeypatch.setattr(training, "recorded_steps", recorded)
    found = trained(replace(PULLED, graphs=True), device=device, dropout=0.0)
    assert seen[0].recordings
    assert all(torch.allclose(found[n], plain[n], atol=2e-3) for n in plain)
    free = trained(replace(PULLED, graphs=True, pull=0.0), device=device, dropout=0.0)
    assert not all(torch.allclose(free[n], plain[n], atol=2e-3) for n in plain)


@pytest.mark.parametrize("pull", [-1.0, float("nan"), float("inf"), 100.1])
def test_a_pull_that_throws_weights_beyond_their_beginning_is_refused(pull: float) -> None:
    with pytest.raises(FednerError, match="at most 1"):
        replace(PULLED, pull=pull)
