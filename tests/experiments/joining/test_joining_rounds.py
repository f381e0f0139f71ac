"""A step of a stack over several platforms is a round of the product's federation."""

import numpy as np
import pytest
import torch
from product import encoded, space_of, tagger_of
from test_joining_stack import NAMES, batch_of, given

from fedner.engines.in_process import InProcess
from fedner.experiments.joining import arms, training
from fedner.experiments.joining.kinds import DESCRIBED
from fedner.experiments.joining.stack import Tags, hidden_states, stacked
from fedner.experiments.joining.training import Labelled, Plan, Source, joint_loss, train
from fedner.experiments.joining.world import World
from fedner.federated.algorithms import FednerSettings, fedner
from fedner.federated.answering import answers
from fedner.federated.learner import TaggerLearner, gold_losses
from fedner.federated.platform import Platform, platform
from fedner.federated.run import RunSettings, run
from fedner.federated.sampling import Sampler
from fedner.models.partition import partition
from fedner.optimizers import OptimizerSettings
from fedner.training import Evaluation, gradients, trainable

SEED, ROUNDS, BATCH = 7, 4, 5
SIZES = {"ade": 24, "bc5cdr": 9, "psytar": 16}
WEIGHTS = {
    "equal": dict.fromkeys(NAMES, 1 / 3),
    "sqrt-size": {"ade": 24**0.5 / 11.898979, "bc5cdr": 3 / 11.898979, "psytar": 4 / 11.898979},
    "size": {"ade": 24 / 49, "bc5cdr": 9 / 49, "psytar": 16 / 49},
}


def sources_of(world: World, weighting: str) -> list[Source]:
    return [
        Source(
            [world.numbers(name, np.arange(SIZES[name]))],
            BATCH,
            Tags.bio([world.vectors[name]], world.device),
            torch.tensor([WEIGHTS[weighting][name]]),
        )
        for name in NAMES
    ]


@pytest.mark.parametrize("weighting", list(WEIGHTS))
def test_the_studys_weights_are_those_of_the_weighting(small: World, weighting: str) -> None:
    crew = [(name, np.arange(size)) for name, size in SIZES.items()]
    found = arms._weights(crew, arms.Together("ade", 1, weighting=weighting))
    assert found == pytest.approx(list(WEIGHTS[weighting].values()), rel=1e-5)


@pytest.mark.parametrize("weighting", list(WEIGHTS))
def test_the_joint_gradient_is_the_weighted_sum_of_the_platforms(
    small: World, weighting: str
) -> None:
    taggers = {name: tagger_of(small, DESCRIBED, name) for name in NAMES}
    chosen = {name: [0, 3, 8, 2, 5] for name in NAMES}
    first = {name: each.detach() for name, each in trainable(taggers["ade"]).items()}
    weights = {name: each.requires_grad_() for name, each in stacked([first], small.device).items()}
    picked = [small.numbers(name, np.asarray(chosen[name])) for name in NAMES]
    rows = small.sentences.rows(np.concatenate(picked)[None])
    gold = small.sentences.gold_VN[0][rows.token_MBL] * rows.mask
    batch = Labelled(rows, gold, torch.full((1, 15), 0.2))
    states = hidden_states(weights, small.described, rows)
    loss = joint_loss(weights, states, sources_of(small, weighting), batch)
    found = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
    own = {
        name: gradients(taggers[name], batch_of(small, name, chosen[name])[0])[1] for name in NAMES
    }
    for key, each in found.items():
        expected = sum(WEIGHTS[weighting][name] * own[name][key] for name in NAMES)
        torch.testing.assert_close(each[0], expected, atol=1e-5, rtol=1e-4, msg=key)


def platform_of(world: World, name: str) -> Platform:
    tagger = tagger_of(world, DESCRIBED, name)
    corpus = encoded(world, name)
    kept = world.corpora[name].sentences
    space = space_of(world, name)
    learner = TaggerLearner(
        tagger, corpus, gold_losses, Evaluation(corpus, kept, space), space.labels
    )
    cut = partition(trainable(tagger), "everything")
    return platform(name, learner, cut, SEED, pools=(np.arange(SIZES[name]),))


@pytest.mark.parametrize("weighting", list(WEIGHTS))
def test_rounds_of_a_federation_are_steps_of_the_stack(
    small: World, weighting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of the product bounds no norm of the sum: neither does the stack here."""
    server = OptimizerSettings(learning_rate=0.02, schedule="linear", decay_steps=ROUNDS)
    algorithm = fedner(
        FednerSettings(server_optimizer=server, batching="each", weighting=weighting)
    )
    first = trainable(tagger_of(small, DESCRIBED, NAMES[0]))
    named = {name: weight.detach().clone() for name, weight in first.items()}
    shared = partition(named, "everything").shared_state(named)
    engine = InProcess(answers(lambda name: platform_of(small, name), algorithm), list(NAMES))
    settings = RunSettings("t", ROUNDS, BATCH, SIZES)
    after = run(algorithm, engine, shared, settings, SEED).server.shared

    batches = []
    for name in NAMES:
        sampler = Sampler((np.arange(SIZES[name]),), SEED, name)
        drawn = [sampler.draw(BATCH) for _ in range(ROUNDS)]
        batches.append([small.numbers(name, each)[None] for each in drawn])
    given(monkeypatch, batches, BATCH)
    monkeypatch.setattr(training, "MAX_GRAD_NORM", 1e9)
    found = train(
        stacked([named], small.device),
        small.described,
        small.sentences,
        sources_of(small, weighting),
        Plan(ROUNDS, [0.02], 0.0, 1),
    )
    assert set(found) == set(after)
    for key, each in found.items():
        assert not torch.allclose(each[0], named[key], atol=1e-3), key
        torch.testing.assert_close(each[0], after[key], atol=5e-5, rtol=1e-3, msg=key)
