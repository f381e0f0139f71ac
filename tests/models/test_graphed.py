"""Recorded steps: padding up to shared shapes changes nothing, and neither does replaying."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_platform import FROZEN_RECIPES, context_size, small, small_platform
from torch import Tensor

from fedner.models import crf_kernels, graphed
from fedner.models.features import EncodedCorpus, collate, encode_corpus
from fedner.models.graphed import Compute, PaddedShape, RecordedSteps, recorded_steps
from fedner.models.tagger import Tagger
from fedner.models.types import type_vectors
from fedner.models.zoo import RECIPES, build_tagger
from fedner.training import gradients

SEED = 3
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def made(
    name: str = "LSTM-CRF", device: str = "cpu", dropout: float = 0.0, **changes: Any
) -> tuple[Tagger, EncodedCorpus]:
    recipe, platform = replace(small(RECIPES[name]), dropout=dropout, **changes), small_platform()
    size = context_size(recipe)
    types = None
    if recipe.head == "described":
        labels = dict.fromkeys(platform.space.labels, "")
        types = type_vectors(labels, encoder=None, words=platform.words.source)
    tagger = build_tagger(recipe, platform.words, platform.space, size, types=types)
    context_TD = platform.context() if recipe.context else None
    corpus = encode_corpus(
        platform.sentences,
        platform.words,
        space=platform.space,
        context_TD=context_TD,
        device=device,
    )
    return tagger.to(device).train(), corpus


def same(compute: Compute, indices: Tensor, pool: Any) -> Compute:
    """Record nothing: where there is no CUDA device, a replay is the computation itself."""
    del indices, pool
    return compute


def require_equal(
    steps: RecordedSteps, chosen: list[int], tolerance: float = 1e-6, relative: float = 1e-4
) -> None:
    expected_loss, expected = gradients(steps.tagger, collate(steps.corpus, chosen))
    loss, found = steps.gradients(np.asarray(chosen), SEED)
    assert torch.allclose(loss, expected_loss, rtol=1e-5)
    assert list(found) == list(expected)
    for key, value in expected.items():
        assert torch.allclose(found[key], value, atol=tolerance, rtol=relative), key


@pytest.mark.parametrize("name", FROZEN_RECIPES)
def test_padded_gradients_are_those_of_the_batch(name: str) -> None:
    steps = RecordedSteps(*made(name), record=same)
    for chosen in ([3, 11, 20, 30], [7, 2], [40], [0, 1, 2, 3, 4]):
        require_equal(steps, chosen)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_a_described_head_is_recorded_too(decoder: str, device: str) -> None:
    changes = {"head": "described", "residual": True, "decoder": decoder}
    tagger, corpus = made("ELMoNER", device, **changes)
    recording = {"record": same} if device == "cpu" else {}
    # Convolutions of padded shapes are TF32 on a GPU, as in the replays below.
    tolerances = () if device == "cpu" else (1e-3, 1e-2)
    steps = RecordedSteps(tagger, corpus, **recording)
    assert RecordedSteps.fits(tagger, torch.device("cuda"))
    for _ in range(graphed.FIRST_RECORDED_VISIT + 1):
        require_equal(steps, [3, 11, 20, 30], *tolerances)
    assert steps.recordings
    assert "emissions.type.B.weight" in steps.gradients(np.asarray([1]), SEED)[1]


def test_a_smaller_batch_is_padded_with_sentences_of_no_token() -> None:
    steps = RecordedSteps(*made())
    shape, _ = steps._indices(np.asarray([0, 1, 2, 3]))
    smaller, indices = steps._indices(np.asarray([5]))
    assert (shape.sentences, smaller.sentences) == (4, 4)
    lengths_B = torch.split(indices, smaller.parts)[1]
    assert lengths_B.tolist() == [steps.corpus.lengths[5], 0, 0, 0]


def test_few_shapes_with_room_for_every_batch() -> None:
    _, corpus = made()
    widest = corpus.characters_VC.shape[1]
    shapes = set()
    for tokens in range(1, 129):
        for words in (2, 4 * tokens + 1):
            shape = PaddedShape.of(corpus, 4, tokens, words, 5)
            assert tokens <= shape.tokens <= tokens + max(3, tokens // 4)
            assert words <= shape.words
            shapes.add(shape)
        assert PaddedShape.of(corpus, 4, tokens, 2, widest).characters == widest
    assert len(shapes) <= 2 * 16


def test_a_shape_is_recorded_when_it_comes_again() -> None:
    steps = RecordedSteps(*made(), record=same)
    chosen = np.asarray([0, 1, 2])
    for visit in range(1, graphed.FIRST_RECORDED_VISIT + 1):
        steps.gradients(chosen, SEED)
        assert len(steps.recordings) == (visit == graphed.FIRST_RECORDED_VISIT)
    before = dict(steps.visits)
    steps.gradients(chosen, SEED)
    assert steps.visits == before


def test_recordings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed, "MOST_GRAPHS", 1)
    monkeypatch.setattr(graphed, "FIRST_RECORDED_VISIT", 1)
    steps = RecordedSteps(*made(), record=same)
    lengths = steps.corpus.lengths
    short, long = int(lengths.argmin()), int(lengths.argmax())
    require_equal(steps, [short])
    require_equal(steps, [long])
    assert len(steps.recordings) == 1


def test_what_cannot_be_recorded_is_launched(caplog: pytest.LogCaptureFixture) -> None:
    def fails(compute: Compute, indices: Tensor, pool: Any) -> Compute:
        raise RuntimeError("operation not permitted when stream is capturing")

    steps = RecordedSteps(*made(), record=fails)
    with caplog.at_level(logging.WARNING):
        for _ in range(graphed.FIRST_RECORDED_VISIT + 2):
            require_equal(steps, [0, 1, 2])
    assert not steps.is_recording
    assert not steps.recordings
    assert sum("launched instead" in each.message for each in caplog.records) == 1


def test_the_seed_of_a_step_is_that_of_its_dropout() -> None:
    steps = RecordedSteps(*made(dropout=0.5), record=same)
    chosen = np.asarray([0, 1, 2])
    first, _ = steps.gradients(chosen, 1)
    other, _ = steps.gradients(chosen, 2)
    again, _ = steps.gradients(chosen, 1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_training_mode_comes_back_after_scoring() -> None:
    steps = RecordedSteps(*made(), record=same)
    steps.tagger.eval()
    steps.gradients(np.asarray([0]), SEED)
    assert steps.tagger.training


def test_only_cuda_and_frozen_words() -> None:
    platform = small_platform(trainable=True)
    tagger = build_tagger(small(RECIPES["LSTM-CRF"]), platform.words, platform.space)
    assert not RecordedSteps.fits(tagger, torch.device("cuda"))
    frozen, corpus = made()
    assert RecordedSteps.fits(frozen, torch.device("cuda"))
    assert not RecordedSteps.fits(frozen, torch.device("cpu"))
    assert recorded_steps(frozen, corpus, "auto") is None
    assert not RecordedSteps.fits(frozen.double(), torch.device("cuda"))


@needs_cuda
@pytest.mark.parametrize("name", FROZEN_RECIPES)
def test_replayed_gradients_are_those_of_launched_steps(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphed, "FIRST_RECORDED_VISIT", 1)
    steps = RecordedSteps(*made(name, "cuda"))
    for chosen in ([0, 1, 2, 3], [9, 8, 7, 6], [20, 21, 22, 23], [0, 1, 2, 3], [4, 5]):
        require_equal(steps, chosen, tolerance=1e-3, relative=1e-2)
    assert steps.recordings
    assert steps.is_recording


@needs_cuda
def test_without_triton_the_chain_is_recorded_in_log_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed, "FIRST_RECORDED_VISIT", 1)
    monkeypatch.setattr(crf_kernels, "triton_works", lambda _device: False)
    steps = RecordedSteps(*made("LSTM-CRF", "cuda"))
    for chosen in ([0, 1, 2, 3], [9, 8, 7, 6]):
        require_equal(steps, chosen, tolerance=1e-3, relative=1e-2)
    assert steps.recordings
    assert steps.is_recording


@needs_cuda
def test_a_replay_takes_the_seed_of_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed, "FIRST_RECORDED_VISIT", 1)
    tagger, corpus = made("CNN-CLSTM-CRF", "cuda", dropout=0.5)
    replayed, launched = RecordedSteps(tagger, corpus), recorded_steps(tagger, corpus, "off")
    assert launched is not None
    chosen = np.asarray([0, 1, 2])
    losses = []
    for seed in (1, 2, 1):
        loss, found = replayed.gradients(chosen, seed)
        expected_loss, expected = launched.gradients(chosen, seed)
        assert torch.allclose(loss, expected_loss, rtol=1e-4)
        for key, value in expected.items():
            assert torch.allclose(found[key], value, atol=1e-3, rtol=1e-2), key
        losses.append(float(loss))
    assert replayed.recordings
    assert not launched.recordings
    assert losses[0] == pytest.approx(losses[2], rel=1e-5)
    assert losses[0] != pytest.approx(losses[1], rel=1e-4)


@needs_cuda
def test_a_gradient_outlives_the_next_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed, "FIRST_RECORDED_VISIT", 1)
    steps = RecordedSteps(*made("LSTM-CRF", "cuda"))
    _, first = steps.gradients(np.asarray([0, 1]), SEED)
    kept = {name: each.clone() for name, each in first.items()}
    steps.gradients(np.asarray([2, 3]), SEED)
    assert all(torch.equal(first[name], each) for name, each in kept.items())
