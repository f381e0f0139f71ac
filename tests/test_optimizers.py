"""Our book-keeping around torch's arithmetic: equal to torch.optim, restorable by name."""

from dataclasses import replace

import pytest
import torch

from fedner.errors import FednerError
from fedner.optimizers import Optimizer, OptimizerSettings

SETTINGS = [
    OptimizerSettings("adam", 0.01),
    OptimizerSettings("adam", 0.01, weight_decay=0.1),
    OptimizerSettings("sgd", 0.1),
    OptimizerSettings("sgd", 0.1, momentum=0.9, weight_decay=0.01),
]


def _weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {
        "b.weight": torch.randn(4, 3, generator=generator),
        "a.bias": torch.randn(5, generator=generator),
    }


def _gradients(step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    return {name: torch.randn(w.shape, generator=generator) for name, w in _weights().items()}


def _torch_peer(settings: OptimizerSettings, parameters: list[torch.Tensor]):
    if settings.name == "adam":
        return torch.optim.Adam(
            parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
    return torch.optim.SGD(
        parameters,
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )


@pytest.mark.parametrize("settings", SETTINGS)
def test_steps_as_torch_does(settings: OptimizerSettings) -> None:
    ours, theirs = _weights(), _weights()
    optimizer = Optimizer(settings)
    peer = _torch_peer(settings, list(theirs.values()))
    for step in range(7):
        gradients = _gradients(step)
        optimizer.step(ours, gradients)
        for name, weight in theirs.items():
            weight.grad = gradients[name].clone()
        peer.step()
    for name, weight in theirs.items():
        assert torch.allclose(ours[name], weight, atol=1e-7, rtol=0)


@pytest.mark.parametrize("settings", SETTINGS)
def test_restored_goes_on_bit_for_bit(settings: OptimizerSettings) -> None:
    straight, halted = _weights(), _weights()
    first = Optimizer(settings)
    for step in range(6):
        first.step(straight, _gradients(step))
    second = Optimizer(settings)
    for step in range(3):
        second.step(halted, _gradients(step))
    second = Optimizer.restored(settings, second.state())
    for step in range(3, 6):
        second.step(halted, _gradients(step))
    assert all(torch.equal(straight[name], halted[name]) for name in straight)


def test_no_gradients_is_no_step() -> None:
    optimizer = Optimizer(SETTINGS[0])
    optimizer.step({}, {})
    assert optimizer.steps == 0


def test_a_state_without_steps_is_refused() -> None:
    with pytest.raises(FednerError, match="no step count"):
        Optimizer.restored(SETTINGS[0], {"first.a": torch.zeros(1)})


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_a_linear_schedule_steps_at_falling_rates(kind: str) -> None:
    falling = Optimizer(
        OptimizerSettings(name=kind, learning_rate=0.4, schedule="linear", decay_steps=4)
    )
    told = Optimizer(OptimizerSettings(name=kind, learning_rate=0.4))
    one, other = {"w": torch.ones(3)}, {"w": torch.ones(3)}
    for rate in (0.4, 0.3, 0.2, 0.1, 0.0, 0.0):
        gradient = {"w": one["w"].clone() - 0.2}
        falling.step(one, gradient)
        told.step(other, gradient, rate)
        torch.testing.assert_close(one["w"], other["w"])
    with pytest.raises(FednerError, match="decay_steps"):
        Optimizer(OptimizerSettings(schedule="linear")).step(one, {"w": one["w"].clone()})


def test_a_warm_up_rises_and_then_falls() -> None:
    settings = OptimizerSettings(
        learning_rate=1.0, schedule="linear", decay_steps=20, warmup_ratio=0.2
    )
    rates = [settings.learning_rate_at(step) for step in range(22)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[4:20] == pytest.approx([(20 - step) / 16 for step in range(4, 20)])
    assert rates[20:] == [0.0, 0.0]
    for wrong in (
        {"warmup_ratio": 0.1},
        {"warmup_ratio": 1.0, "schedule": "linear"},
        {"warmup_ratio": -0.1},
    ):
        with pytest.raises(FednerError, match="warmup"):
            OptimizerSettings(**wrong)


@pytest.mark.parametrize("settings", SETTINGS)
def test_factors_step_some_weights_at_another_rate(settings: OptimizerSettings) -> None:
    factored = replace(settings, factors=(("b", 0.1), ("b.weight", 7.0)))
    slow, weights = replace(settings, learning_rate=settings.learning_rate * 0.1), _weights()
    ours, mixed = Optimizer(factored), dict(weights)
    fast, slowly = Optimizer(settings), Optimizer(slow)
    one, other = _weights(), _weights()
    for step in range(4):
        gradients = _gradients(step)
        ours.step(mixed, gradients)
        fast.step(one, gradients)
        slowly.step(other, gradients)
    assert torch.allclose(mixed["a.bias"], one["a.bias"], atol=1e-6)
    assert torch.allclose(mixed["b.weight"], other["b.weight"], atol=1e-6)
    assert not torch.allclose(mixed["b.weight"], one["b.weight"], atol=1e-4)
    again = Optimizer.restored(factored, {n: t.clone() for n, t in ours.state().items()})
    copies = {name: tensor.clone() for name, tensor in mixed.items()}
    ours.step(mixed, _gradients(9))
    again.step(copies, _gradients(9))
    assert all(torch.equal(mixed[name], copies[name]) for name in mixed)
