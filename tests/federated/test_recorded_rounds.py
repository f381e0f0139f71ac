"""Rounds whose steps are recorded come to the weights of rounds whose steps are launched."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tagger_platforms import NAMES, SEED, first_shared, tagger_platform
from torch import Tensor

from fedner.engines.in_process import InProcess
from fedner.federated.algorithms import FednerSettings, fedner
from fedner.federated.answering import answers
from fedner.federated.learner import TaggerLearner
from fedner.federated.platform import LocalSettings, Platform
from fedner.federated.run import RunSettings, run
from fedner.models import graphed
from fedner.models.graphed import RecordedSteps
from fedner.tensors import SharedState

SIZES = dict.fromkeys(NAMES, 40)


def recording_platform(name: str, *, marginal: bool = False) -> Platform:
    """Return a platform of recorded steps; without a CUDA device a replay is the step itself."""
    cut = "everything" if marginal else "fedner"
    settings = LocalSettings(max_grad_norm=1.0)
    made = tagger_platform(name, cut, 0.0, marginal=marginal, settings=settings)
    learner = made.learner
    assert isinstance(learner, TaggerLearner)
    steps = RecordedSteps(learner.tagger, learner.corpus, record=lambda compute, *_: compute)
    made.learner = replace(learner, recorded=steps)
    return made


def federated(platforms: dict[str, Platform], local_steps: int, rounds: int = 5) -> SharedState:
    algorithm = fedner(FednerSettings(local_steps=local_steps))
    engine = InProcess(answers(platforms.__getitem__, algorithm), NAMES)
    settings = RunSettings("t", rounds, 51, SIZES)
    return run(algorithm, engine, first_shared("fedner", 0.0), settings, SEED).server.shared


@pytest.mark.parametrize("local_steps", [1, 3])
def test_recorded_rounds_are_launched_rounds(
    local_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphed, "FIRST_RECORDED_VISIT", 1)
    settings = LocalSettings(max_grad_norm=1.0)
    plain = {name: tagger_platform(name, dropout=0.0, settings=settings) for name in NAMES}
    recorded = {name: recording_platform(name) for name in NAMES}
    expected, found = federated(plain, local_steps), federated(recorded, local_steps)
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=2e-5), name
    for name in NAMES:
        learner = recorded[name].learner
        assert isinstance(learner, TaggerLearner)
        steps = learner.recorded
        assert steps is not None
        # 17 sentences, or what an epoch of 40 left: all are padded up to 17.
        assert {shape.sentences for shape in steps.recordings} == {17}
        for key, weight in plain[name].private().items():
            assert torch.allclose(recorded[name].private()[key], weight, atol=2e-5), key


def test_open_types_are_launched() -> None:
    recorded = recording_platform(NAMES[0], marginal=True)
    plain = tagger_platform(NAMES[0], "everything", 0.0, marginal=True)
    chosen = np.arange(5)
    loss, found = recorded.learner.gradients(chosen, SEED)
    expected_loss, expected = plain.learner.gradients(chosen, SEED)
    assert torch.equal(loss, expected_loss)
    require_same(found, expected)


def require_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert all(torch.equal(found[name], value) for name, value in expected.items())
