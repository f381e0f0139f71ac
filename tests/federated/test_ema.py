"""The EMA of weights: its numbers, where it is used, and that a resumed run has the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from linear_platform import SGD, initial, linear_platform, random_platform, values

from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.algorithms import ALGORITHMS, FednerSettings, algorithm_named, fedner
from fedner.federated.answering import answers
from fedner.federated.checkpoints import read_state
from fedner.federated.ema import averaged
from fedner.federated.messages import Order
from fedner.federated.platform import LocalSettings, Platform
from fedner.federated.run import RunRecord, RunSettings, run

NAMES = ["alpha", "beta", "gamma"]
SIZES = {"alpha": 12, "beta": 10, "gamma": 5}


def test_an_average_by_hand() -> None:
    ema: dict[str, torch.Tensor] = {}
    found = []
    for before, value in enumerate((8.0, 2.0, 6.0)):
        ema = averaged(ema, {"w": torch.tensor([value])}, before, 0.5)
        found.append(float(ema["w"]))
    # 8; (2 + 8/2) / (1 + 1/2); (6 + 2/2 + 8/4) / (1 + 1/2 + 1/4)
    assert found == pytest.approx([8.0, 4.0, 36 / 7])


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=30),
    st.sampled_from([0.1, 0.9, 0.999, 1 - 1e-9]),
)
def test_the_average_is_the_weighted_mean(iterates: list[float], decay: float) -> None:
    ema: dict[str, torch.Tensor] = {}
    for before, value in enumerate(iterates):
        weights = {"w": torch.tensor([value], dtype=torch.float64)}
        ema = averaged(ema, weights, before, decay)
        assert float(weights["w"]) == value
    shares = [decay ** (len(iterates) - 1 - i) for i in range(len(iterates))]
    expected = sum(s * w for s, w in zip(shares, iterates, strict=True)) / sum(shares)
    assert float(ema["w"]) == pytest.approx(expected, rel=1e-9, abs=1e-7)


def test_steps_go_on_from_the_weights_and_scores_from_the_average() -> None:
    """Two rounds of FedNER by hand, as in test_algorithms, averaged with d = 1/2."""
    platforms = {
        name: linear_platform(name, LocalSettings(optimizer=SGD, ema_decay=0.5))
        for name in ("p", "q")
    }
    algorithm = fedner(FednerSettings(server_optimizer=SGD))

    def go(rounds: int, ema_decay: float | None) -> RunRecord:
        engine = InProcess(answers(platforms.__getitem__, algorithm), ["p", "q"])
        settings = RunSettings("test", rounds, 2, {"p": 3, "q": 1}, ema_decay=ema_decay)
        return run(algorithm, engine, initial(), settings, seed=7)

    first = go(1, 0.5)
    assert values(first.shared) == values(first.server.shared)
    after_one = {name: values(each.private())["private.c"] for name, each in platforms.items()}
    for name in ("p", "q"):
        platforms[name] = linear_platform(name, LocalSettings(optimizer=SGD, ema_decay=0.5))
    second = go(2, 0.5)
    for name, weight in second.ema.items():
        expected = (first.server.shared[name] + 2 * second.server.shared[name]) / 3
        torch.testing.assert_close(weight, expected)
    assert values(second.server.shared) == {"shared.a": 0.421875, "shared.b": 0.75}
    assert values(second.shared) == {"shared.a": 0.40625, "shared.b": 0.75}
    for name, each in platforms.items():
        last = values(each.private())["private.c"]
        assert float(each.ema["private.c"]) == pytest.approx((after_one[name] + 2 * last) / 3)
        assert each.num_averaged == 2
    plain = {name: linear_platform(name) for name in ("p", "q")}
    platforms.update(plain)
    assert values(go(2, None).server.shared) == values(second.server.shared)


def test_scoring_shows_the_average_and_puts_the_weights_back() -> None:
    platform = linear_platform("p", LocalSettings(optimizer=SGD, ema_decay=0.5))
    platform.private()["private.c"].fill_(3.0)
    platform.ema = {"private.c": torch.tensor([1.0])}
    scores = platform.scores(Order("test", 1, initial(0.25, 0.5)))
    assert scores is not None
    assert scores.strict["X"].fp == 1750  # |0.25| + |0.5| + |1|, not |3|, in thousandths
    assert values(platform.private()) == {"private.c": 3.0}


def averaging(name: str) -> Platform:
    platform = random_platform(name)
    platform.settings = LocalSettings(ema_decay=0.7)
    return platform


def start(name: str, folder: Path, *, resume: bool = False, **changes: Any) -> RunRecord:
    algorithm = algorithm_named(name)
    engine = InProcess(answers(averaging, algorithm, folder), NAMES)
    settings = RunSettings(
        "test",
        changes.pop("rounds", 7),
        6,
        SIZES,
        evaluate_every=2,
        checkpoint_every=1,
        **{"ema_decay": 0.7, **changes},
    )
    return run(algorithm, engine, initial(), settings, 7, folder, resume=resume)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_resumed_average_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    whole = start(name, tmp_path / "whole")
    start(name, tmp_path / "parts", rounds=3)
    parts = start(name, tmp_path / "parts", resume=True)
    assert parts.resumed_from == 3
    assert parts.ema.keys() == whole.ema.keys() == whole.server.shared.keys()
    assert all(torch.equal(parts.ema[key], whole.ema[key]) for key in whole.ema)
    # Round 3, the last one of the first part, was scored there.
    assert [each.scores for each in parts.rounds[3:]] == [each.scores for each in whole.rounds[3:]]
    for platform in NAMES:
        ends = [
            read_state(tmp_path / part / "platforms" / platform, 7) for part in ("whole", "parts")
        ]
        assert ends[0][1] == ends[1][1]
        assert ends[0][1]["num_averaged"] == 7
        assert "ema/private.c" in ends[0][0]
        assert all(torch.equal(ends[0][0][key], ends[1][0][key]) for key in ends[0][0])


def test_a_run_is_not_resumed_with_another_average(tmp_path: Path) -> None:
    start("fedner", tmp_path, rounds=2)
    with pytest.raises(FednerError, match="was averaged"):
        start("fedner", tmp_path, resume=True, ema_decay=None)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5])
def test_a_senseless_average_is_refused(decay: float, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="ema_decay: found"):
        start("fedner", tmp_path, ema_decay=decay)
    with pytest.raises(FednerError, match="ema_decay: found"):
        linear_platform("p", LocalSettings(ema_decay=decay))
