"""Every algorithm against numbers worked out by hand, on two platforms of one sentence each.

p: loss (a + c - 1)^2 / 2, q: loss (2 b + c - 3)^2 / 2, all weights 0 at first, private rate 0.5.
So at the beginning p has gradients a: -1, c: -1; q has b: -6, c: -3.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from linear_platform import (
    DATA,
    SGD,
    LinearLearner,
    initial,
    linear_partition,
    linear_platform,
    values,
)

from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.algorithms import (
    ALGORITHMS,
    Algorithm,
    FedAdamSettings,
    FedAvgSettings,
    FednerSettings,
    FedProxSettings,
    LocalTraining,
    ScaffoldSettings,
    algorithm_named,
    fedadam,
    fedavg,
    fedner,
    fedprox,
    scaffold,
)
from fedner.federated.algorithms.algorithm import Batching, Server
from fedner.federated.algorithms.fedavg import plain_sgd
from fedner.federated.answering import answers
from fedner.federated.platform import LocalSettings, Platform, platform
from fedner.federated.run import RunSettings, run
from fedner.federated.sizes import Weighting

SIZES = {"p": 3, "q": 1}
STEPS = 2


def run_two(
    algorithm: Algorithm, rounds: int = 1, sizes: Mapping[str, int] = SIZES, batch: int = 2
) -> tuple[Server, dict[str, Platform]]:
    platforms = {name: linear_platform(name) for name in sizes}
    engine = InProcess(answers(platforms.__getitem__, algorithm), list(sizes))
    settings = RunSettings("test", rounds, batch, sizes)
    return run(algorithm, engine, initial(), settings, seed=7).server, platforms


def private(platforms: Mapping[str, Platform]) -> dict[str, float]:
    return {name: round(float(each.private()["private.c"]), 6) for name, each in platforms.items()}


def test_fedner_sends_gradients_and_keeps_the_private_step() -> None:
    server, platforms = run_two(fedner(FednerSettings(server_optimizer=SGD)))
    # Eq. 2: a: 3/4 * -1, b: 1/4 * -6; the server's rate is 0.5.
    assert values(server.shared) == {"shared.a": 0.375, "shared.b": 0.75}
    assert private(platforms) == {"p": 0.5, "q": 1.5}


# Sizes 9 and 1 as weights: 9 : 1, 3 : 1 and 1 : 1, of the gradients a: -1 and b: -6 at rate 0.5.
@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("size", (0.45, 0.3)), ("sqrt-size", (0.375, 0.75)), ("equal", (0.25, 1.5))],
)
def test_gradients_weigh_by_size_by_its_root_or_alike(
    weighting: Weighting, expected: tuple[float, float]
) -> None:
    algorithm = fedner(FednerSettings(server_optimizer=SGD, weighting=weighting))
    server, _ = run_two(algorithm, sizes={"p": 9, "q": 1})
    assert tuple(values(server.shared).values()) == expected


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedadam", "scaffold"])
def test_averages_weigh_by_the_root_of_the_size_too(name: str) -> None:
    settings = ALGORITHMS[name].settings
    rooted = run_two(algorithm_named(name, settings(weighting="sqrt-size")), sizes={"p": 9, "q": 1})
    sized = run_two(algorithm_named(name, settings(weighting="size")), sizes={"p": 3, "q": 1})
    assert values(rooted[0].shared) == values(sized[0].shared)


def test_a_second_round_of_fedner_goes_on_from_the_first() -> None:
    server, platforms = run_two(fedner(FednerSettings(server_optimizer=SGD)), rounds=2)
    # p: error .375 + .5 - 1 = -.125; q: error 1.5 + 1.5 - 3 = 0.
    assert values(server.shared) == {"shared.a": 0.421875, "shared.b": 0.75}
    assert private(platforms) == {"p": 0.5625, "q": 1.5}


@pytest.mark.parametrize(
    ("batching", "drawn"), [("joint", {"p": 3, "q": 1}), ("each", {"p": 4, "q": 4})]
)
def test_fedner_draws_n_sentences_together_or_for_each(
    batching: Batching, drawn: dict[str, int]
) -> None:
    # Every platform has five equal sentences: whatever is drawn, the means are those of one.
    learners = {
        name: LinearLearner([DATA[name][0][0]] * 5, [DATA[name][1][0]] * 5) for name in SIZES
    }
    platforms = {
        name: platform(name, learner, linear_partition(), 7, LocalSettings(SGD))
        for name, learner in learners.items()
    }
    algorithm = fedner(FednerSettings(server_optimizer=SGD, batching=batching))
    engine = InProcess(answers(platforms.__getitem__, algorithm), list(SIZES))
    server = run(algorithm, engine, initial(), RunSettings("test", 1, 4, SIZES), seed=7).server
    assert {name: len(learner.seen[0]) for name, learner in learners.items()} == drawn
    assert values(server.shared) == {"shared.a": 0.375, "shared.b": 0.75}


def test_fedner_with_adam_on_the_server() -> None:
    server, _ = run_two(fedner())
    # Adam's first step is its rate, whatever the size of the gradient.
    assert values(server.shared) == {"shared.a": 0.001, "shared.b": 0.001}


def test_the_sum_reading_weighs_by_batch_too_and_divides_by_the_joint_batch() -> None:
    data = {"p": ([[1.0, 0.0, 1.0]] * 3, [1.0] * 3), "q": DATA["q"]}
    platforms = {
        name: platform(name, LinearLearner(*data[name]), linear_partition(), 7, LocalSettings(SGD))
        for name in data
    }
    algorithm = fedner(FednerSettings(server_optimizer=SGD, loss="sum"))
    engine = InProcess(answers(platforms.__getitem__, algorithm), ["p", "q"])
    server = run(algorithm, engine, initial(), RunSettings("t", 1, 4, SIZES), 7).server
    # |N_p| = 3, |N_q| = 1: a: 0.5 * (3/4 * 3 * 1) / 4, b: 0.5 * (1/4 * 1 * 6) / 4.
    assert values(server.shared) == {"shared.a": 0.28125, "shared.b": 0.1875}
    assert private(platforms) == {"p": 1.5, "q": 1.5}


def test_k_local_steps_send_the_mean_of_the_gradients() -> None:
    settings = FednerSettings(server_optimizer=SGD, local_steps=STEPS, local_learning_rate=0.1)
    server, platforms = run_two(fedner(settings))
    # p: a: -1, then at a = .1, c = .5: error -.4; mean -.7.
    # q: b: -6, then at b = .6, c = 1.5: error -.3, gradient b: -.6; mean -3.3.
    assert values(server.shared) == {"shared.a": 0.2625, "shared.b": 0.4125}
    assert private(platforms) == {"p": 0.7, "q": 1.65}


def test_one_local_step_is_algorithm_1_bit_for_bit() -> None:
    def updates(settings: FednerSettings) -> dict[str, Any]:
        return dict(run_two(fedner(settings), rounds=3)[0].shared)

    one = updates(FednerSettings())
    other = updates(FednerSettings(local_steps=1, local_learning_rate=123.0))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("sends", ["delta", "weights"])
def test_fedavg_weighs_by_public_size(sends: Any) -> None:
    local = LocalTraining(plain_sgd(0.1), steps=STEPS)
    server, platforms = run_two(fedavg(FedAvgSettings(local, sends)))
    # p: a: .1, then .14; q: b: .6, then .66.
    assert values(server.shared) == {"shared.a": 0.105, "shared.b": 0.165}
    assert private(platforms) == {"p": 0.7, "q": 1.65}


def test_fedavg_of_2021_does_not_weigh() -> None:
    local = LocalTraining(plain_sgd(0.1), steps=STEPS)
    server, _ = run_two(fedavg(FedAvgSettings(local, weighting="equal")))
    assert values(server.shared) == {"shared.a": 0.07, "shared.b": 0.33}


def test_fedavg_by_epochs_passes_over_the_data() -> None:
    local = LocalTraining(plain_sgd(0.1), epochs=2)
    server, platforms = run_two(fedavg(FedAvgSettings(local)))
    assert values(server.shared) == {"shared.a": 0.105, "shared.b": 0.165}
    learner = platforms["p"].learner
    assert isinstance(learner, LinearLearner)
    assert learner.seen == [(0,), (0,)]


def test_fedprox_pulls_back_to_the_broadcast_weights() -> None:
    local = LocalTraining(plain_sgd(0.1), steps=STEPS)
    server, _ = run_two(fedprox(FedProxSettings(local, mu=2.0)))
    # Second step: p: .1 - .1 (-.4 + 2 * .1) = .12; q: .6 - .1 (-.6 + 2 * .6) = .54.
    assert values(server.shared) == {"shared.a": 0.09, "shared.b": 0.135}


def test_fedprox_without_its_term_is_fedavg() -> None:
    local = LocalTraining(plain_sgd(0.1), steps=3)
    near, _ = run_two(fedprox(FedProxSettings(local, mu=0.0)), rounds=2)
    plain, _ = run_two(fedavg(FedAvgSettings(local)), rounds=2)
    assert values(near.shared) == values(plain.shared)


def test_fedadam_steps_along_the_mean_difference() -> None:
    local = LocalTraining(plain_sgd(0.1), steps=STEPS)
    settings = FedAdamSettings(local, learning_rate=0.1, betas=(0.9, 0.99), tau=0.01)
    server, _ = run_two(fedadam(settings))
    # D = (.105, .165); m = .1 D; v = .99 * 1e-4 + .01 D^2; step .1 m / (sqrt(v) + .01).
    assert values(server.shared) == {"shared.a": 0.042918, "shared.b": 0.056376}


def test_scaffold_corrects_drift_with_control_variates() -> None:
    settings = ScaffoldSettings(local_learning_rate=0.1, steps=STEPS)
    server, platforms = run_two(scaffold(settings))
    # First round: no control variate yet, so FedAvg's weights; c_i = -delta / (2 * .1), c by size.
    assert values(server.shared) == {"shared.a": 0.105, "shared.b": 0.165}
    assert values(platforms["p"].memory) == {"control.shared.a": -0.7, "control.shared.b": 0.0}
    assert values(platforms["q"].memory) == {"control.shared.a": 0.0, "control.shared.b": -3.3}
    assert values(server.extra) == {"shared.a": -0.525, "shared.b": -0.825}


def test_scaffold_second_round() -> None:
    settings = ScaffoldSettings(local_learning_rate=0.1, steps=1)
    server, platforms = run_two(scaffold(settings), rounds=2)
    # Round 1: a = .075, b = .15; c_p = (-1, 0), c_q = (0, -6), c = (-.75, -1.5); c = .5 and 1.5.
    # Round 2, p: g_a = .075 + .5 - 1 = -.425; steps a: -.1 (-.425 + 1 - .75), b: -.1 (-1.5).
    #          q: e = .3 + 1.5 - 3 = -1.2, g_b = -2.4; a: -.1 (-.75), b: -.1 (-2.4 + 6 - 1.5).
    assert values(server.shared) == {
        "shared.a": pytest.approx(0.075 + 0.75 * 0.0175 + 0.25 * 0.075),
        "shared.b": pytest.approx(0.15 + 0.75 * 0.15 - 0.25 * 0.21),
    }
    # Option II with one step sets c_i to the gradient itself.
    assert values(platforms["p"].memory) == {"control.shared.a": -0.425, "control.shared.b": 0.0}
    assert values(platforms["q"].memory) == {"control.shared.a": 0.0, "control.shared.b": -2.4}


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_learns_and_composes_with_private_weights(name: str) -> None:
    server, platforms = run_two(algorithm_named(name), rounds=60)
    for each in platforms.values():
        each.load_shared(server.shared)
        loss, _ = each.learner.gradients(each.learner.drawable(), 0)
        assert float(loss) < 0.05


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_the_broadcast_weights_are_never_changed(name: str) -> None:
    algorithm = algorithm_named(name)
    first = initial(0.25, -0.5)
    server = algorithm.init(first)
    run_two(algorithm)
    assert values(first) == {"shared.a": 0.25, "shared.b": -0.5}
    assert all(server.shared[key].data_ptr() != first[key].data_ptr() for key in first)


def test_unknown_algorithms_and_foreign_settings_are_named() -> None:
    with pytest.raises(FednerError, match="no algorithm 'fedsgd'"):
        algorithm_named("fedsgd")
    with pytest.raises(FednerError, match="expected FedProxSettings"):
        algorithm_named("fedprox", FednerSettings())
