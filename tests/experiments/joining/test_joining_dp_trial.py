"""The trial of settings under DP, tiny: names, features of one scale, points of all rates."""

from pathlib import Path

import pytest
import tiny_study
import torch

from fedner.experiments.joining import private_trial
from fedner.experiments.joining.private_trial import TRIALS, Trial
from fedner.experiments.joining.world import World

NAMES = tiny_study.NEWCOMERS


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(private_trial, "FEDERATIONS", {"medical": NAMES})
    monkeypatch.setattr(private_trial, "PUBLIC", {"medical": NAMES[:1]})
    return tiny_study.tiny_world()


def test_no_two_trials_have_one_name() -> None:
    assert len({each.name for each in TRIALS}) == len(TRIALS)


def test_features_have_one_scale_over_the_public_words(world: World) -> None:
    found = private_trial.standardised(world).described.features_ND
    count = sum(len(each.tokens) for each in world.corpora[NAMES[0]].sentences)
    begin = int(world.sentences.starts_S[world.first[NAMES[0]]])
    public = found[begin : begin + count]
    varies = world.described.features_ND[begin : begin + count].std(0) > 1e-2
    torch.testing.assert_close(public.mean(0), torch.zeros(found.shape[1]), atol=1e-4, rtol=0)
    torch.testing.assert_close(
        public.std(0)[varies], torch.ones(int(varies.sum())), atol=1e-3, rtol=0
    )


@pytest.mark.parametrize(
    "trial",
    [
        Trial("public", (0.001, 0.01), 8, 4, ("bilstm.",), 16, 1, public_steps=2),
        Trial("scratch", (0.001, 0.01), 8, 4, batch_size=16, epochs=1, is_standardised=True),
        Trial("scratch", (0.001, 0.01), 8, 4, batch_size=16, epochs=2, ema_decay=0.9),
        Trial("scratch", (0.001, 0.01), 8, 4, batch_size=16, epochs=1, public_weight=0.5),
        Trial("scratch", (0.001, 0.01), 8, 4, batch_size=16, epochs=1, pull=2.0),
    ],
)
def test_a_trial_has_a_point_of_every_learning_rate(
    world: World, trial: Trial, tmp_path: Path
) -> None:
    found = private_trial.run_trial(trial, world, tmp_path)
    assert [each.learning_rate for each in found] == [0.001, 0.01]
    assert all(each.noise_multiplier > 0 and 0 <= each.f1 <= 100 for each in found)
