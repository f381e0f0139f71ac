"""The training loop: fresh batches, seeds, early stopping, and resuming bit for bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.prepare import prepare
from fedner.corpus.sentence import Sentence
from fedner.corpus.synthetic import generate
from fedner.errors import FednerError
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.tagger import Tagger
from fedner.models.zoo import RECIPES, build_tagger, resized
from fedner.optimizers import OptimizerSettings
from fedner.training import (
    EpochRecord,
    TrainingSettings,
    TrainingState,
    bucketed_batches,
    clip_by_norm,
    gradients,
    hold_out,
    load,
    load_training,
    save_training,
    snapshot,
    train,
    trainable,
)

CORPUS = generate("social-posts", 40, seed=2)
SENTENCES = prepare(CORPUS.documents).sentences
SPACE = TagSpace.of(CORPUS.labels, "BIO")
RECIPE = resized(RECIPES["CNN-CLSTM-CRF"], hidden=8, filters=8, character_filters=6)
SETTINGS = TrainingSettings(epochs=4, batch_size=8, optimizer=OptimizerSettings(learning_rate=1e-2))


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def fresh(trainable_words: bool = False, row_sparse: bool = True) -> Tagger:
    source = HashedWords(200, 10)
    words = WordEmbedding(source, trainable=trainable_words, row_sparse=row_sparse)
    return build_tagger(RECIPE, words, SPACE, seed=3)


def encoded(tagger: Tagger):
    return encode_corpus(SENTENCES, tagger.embeddings.words, space=SPACE)


@given(
    lengths=st.lists(st.integers(0, 9), max_size=300),
    batch=st.integers(1, 7),
    epoch=st.integers(1, 3),
)
def test_an_epoch_sees_every_sentence_with_tokens_once(lengths, batch, epoch) -> None:
    numbers = np.asarray(lengths, dtype=np.int64)
    batches = bucketed_batches(numbers, batch, 7, epoch)
    seen = sorted(index for each in batches for index in each.tolist())
    assert seen == np.flatnonzero(numbers).tolist()
    assert all(0 < len(each) <= batch for each in batches)


def test_batches_are_fresh_each_epoch_and_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, 2000)
    first, second = (bucketed_batches(lengths, 20, 7, epoch) for epoch in (1, 2))
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    padded = sum(len(each) * lengths[each].max() for each in first)
    assert padded < 1.1 * lengths.sum()
    means = [lengths[each].mean() for each in first]
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.3


def run(settings=SETTINGS, *, words=False, row_sparse=True, seed=1, stop_after=None, path=None):
    """Train; if asked, stop after some epochs and go on from the file in a fresh tagger."""
    tagger = fresh(words, row_sparse)
    corpus = encoded(tagger)
    held = None
    if settings.patience is not None:
        corpus, held = hold_out(corpus, SENTENCES, SPACE, seed=5)
    if stop_after is not None:

        def stop(state: TrainingState) -> None:
            save_training(path, state)
            if len(state.curve) == stop_after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(tagger, corpus, settings, seed, held_out=held, after_epoch=stop)
        tagger = fresh(words, row_sparse)
        resumed = load_training(path)
        return tagger, train(tagger, corpus, settings, seed, held_out=held, resume=resumed)
    return tagger, train(tagger, corpus, settings, seed, held_out=held)


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def test_a_seed_decides_everything() -> None:
    (one, first), (two, second), (three, _) = run(), run(), run(seed=2)
    assert same(trainable(one), trainable(two))
    assert first.curve == second.curve
    assert not same(trainable(one), trainable(three))


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("patience", [None, 2])
@pytest.mark.parametrize("stop_after", [1, 3])
def test_resumed_equals_uninterrupted(tmp_path: Path, words, patience, stop_after) -> None:
    settings = replace(SETTINGS, patience=patience)
    straight, state = run(settings, words=words)
    resumed, other = run(settings, words=words, stop_after=stop_after, path=tmp_path / "state")
    assert same(trainable(straight), trainable(resumed))
    assert state.curve == other.curve
    assert same(state.optimizer, other.optimizer)
    assert same(state.best, other.best)


def test_row_sparse_training_equals_dense() -> None:
    sparse, _ = run(words=True)
    dense, _ = run(words=True, row_sparse=False)
    for name, weight in trainable(dense).items():
        assert torch.allclose(trainable(sparse)[name], weight, atol=1e-4), name


def test_momentum_and_decay_make_sparse_gradients_dense() -> None:
    for optimizer in (
        OptimizerSettings("sgd", 0.1, momentum=0.9),
        OptimizerSettings("adam", 0.01, weight_decay=0.1),
        OptimizerSettings("sgd", 0.1),
    ):
        settings = replace(SETTINGS, epochs=2, optimizer=optimizer)
        sparse, _ = run(settings, words=True)
        dense, _ = run(settings, words=True, row_sparse=False)
        for name, weight in trainable(dense).items():
            assert torch.allclose(trainable(sparse)[name], weight, atol=1e-5), name


def test_early_stopping_keeps_the_best_epoch() -> None:
    settings = replace(
        SETTINGS, epochs=30, patience=2, optimizer=OptimizerSettings(learning_rate=5e-2)
    )
    tagger, state = run(settings)
    scores = [record.strict_f1 for record in state.curve]
    assert state.best_epoch == 1 + scores.index(max(scores))
    assert len(state.curve) in (30, state.best_epoch + 2)
    assert same(trainable(tagger), state.best)


def test_the_held_out_part_is_a_tenth_of_the_training_part_and_not_trained_on() -> None:
    tagger = fresh()
    corpus, held = hold_out(encoded(tagger), SENTENCES, SPACE, seed=5)
    assert len(held.sentences) == round(len(SENTENCES) / 10)
    assert len(corpus) + len(held.corpus) == len(SENTENCES)
    kept, cut = set(corpus.starts.tolist()), set(held.corpus.starts.tolist())
    assert not kept & cut
    lengths = [len(sentence.tokens) for sentence in held.sentences]
    assert held.corpus.lengths.tolist() == lengths


def test_the_loss_falls_and_stands_in_the_curve() -> None:
    _, state = run(replace(SETTINGS, epochs=6))
    losses = [record.loss for record in state.curve]
    assert losses[-1] < 0.7 * losses[0]
    assert [record.epoch for record in state.curve] == [1, 2, 3, 4, 5, 6]
    assert state.best_epoch == 0


def test_gradients_are_those_of_backward() -> None:
    tagger = fresh()
    batch = collate(encoded(tagger), range(5))
    tagger.eval()
    loss, named = gradients(tagger, batch)
    tagger.losses(batch).mean().backward()
    assert not loss.requires_grad
    for name, weight in trainable(tagger).items():
        assert torch.equal(named[name], weight.grad)


@given(bound=st.floats(0.01, 100.0))
def test_clipping_bounds_the_norm_and_changes_nothing_else(bound: float) -> None:
    dense = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([[4.0]])}
    rows = torch.sparse_coo_tensor(
        [[1, 1, 0]], [[2.0], [2.0], [0.0]], (3, 1), check_invariants=False
    )
    sparse = {"a": dense["a"], "b": rows}
    for gradient in (dense, sparse):
        clipped = clip_by_norm(gradient, bound)
        norm = sum(float(part.to_dense().square().sum()) for part in clipped.values()) ** 0.5
        assert norm == pytest.approx(min(5.0, bound), rel=1e-4)
        ratio = float(clipped["a"][0]) / 3.0
        assert torch.allclose(clipped["b"].to_dense(), gradient["b"].to_dense() * ratio)
    assert clip_by_norm(dense, None) == dense


def test_refusals() -> None:
    tagger = fresh()
    nothing = encode_corpus([Sentence.of([])], tagger.embeddings.words, space=SPACE)
    with pytest.raises(FednerError, match="no token to train on"):
        train(tagger, nothing, SETTINGS, 1)
    with pytest.raises(FednerError, match="needs a held-out part"):
        train(tagger, encoded(tagger), replace(SETTINGS, patience=2), 1)
    with pytest.raises(FednerError, match="no such parameter"):
        load(tagger, {"nonsense": torch.zeros(1)})
    with pytest.raises(FednerError, match=r"shape \(1,\), the tagger has \(5,\)"):
        load(tagger, {"emissions.bias": torch.zeros(1)})


def test_a_state_is_a_copy_that_later_epochs_leave_alone() -> None:
    tagger, states = fresh(), []
    train(tagger, encoded(tagger), SETTINGS, 1, after_epoch=states.append)
    taken = [snapshot(state.optimizer) for state in states]
    assert not same(taken[0], taken[1])
    assert not same(states[0].weights, states[1].weights)
    assert states[-1].curve[-1] == EpochRecord(4, states[-1].curve[-1].loss, None)


def test_what_is_held_out_tears_no_patient_apart() -> None:
    own = [replace(each, patient=f"p{place % 5}") for place, each in enumerate(SENTENCES)]
    rest, held = hold_out(encoded(fresh()), own, SPACE, by="patient", seed=5)
    held_patients = {each.patient for each in held.sentences}
    assert len(held_patients) == 1
    members = [each for each in own if each.patient in held_patients]
    assert list(held.sentences) == members
    assert len(held.corpus) == len(members)
    assert len(rest) == len(own) - len(members)
