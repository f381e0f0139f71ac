"""Our book-keeping around torch's arithmetic: equal to torch.optim, restorable by name."""

import pytest
import torch

from fedner.errors import FednerError
from fedner.optimisers import Optimiser, OptimiserSettings

SETTINGS = [
    OptimiserSettings("adam", 0.01),
    OptimiserSettings("adam", 0.01, weight_decay=0.1),
    OptimiserSettings("sgd", 0.1),
    OptimiserSettings("sgd", 0.1, momentum=0.9, weight_decay=0.01),
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


def _torch_peer(settings: OptimiserSettings, parameters: list[torch.Tensor]):
    if settings.kind == "adam":
        return torch.optim.Adam(parameters, lr=settings.rate, weight_decay=settings.weight_decay)
    return torch.optim.SGD(
        parameters,
        lr=settings.rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )


@pytest.mark.parametrize("settings", SETTINGS)
def test_steps_as_torch_does(settings: OptimiserSettings) -> None:
    ours, theirs = _weights(), _weights()
    optimiser = Optimiser(settings)
    peer = _torch_peer(settings, list(theirs.values()))
    for step in range(7):
        gradients = _gradients(step)
        optimiser.step(ours, gradients)
        for name, weight in theirs.items():
            weight.grad = gradients[name].clone()
        peer.step()
    for name, weight in theirs.items():
        assert torch.allclose(ours[name], weight, atol=1e-7, rtol=0)


@pytest.mark.parametrize("settings", SETTINGS)
def test_restored_goes_on_bit_for_bit(settings: OptimiserSettings) -> None:
    straight, halted = _weights(), _weights()
    first = Optimiser(settings)
    for step in range(6):
        first.step(straight, _gradients(step))
    second = Optimiser(settings)
    for step in range(3):
        second.step(halted, _gradients(step))
    second = Optimiser.restored(settings, second.state())
    for step in range(3, 6):
        second.step(halted, _gradients(step))
    assert all(torch.equal(straight[name], halted[name]) for name in straight)


def test_no_gradients_is_no_step() -> None:
    optimiser = Optimiser(SETTINGS[0])
    optimiser.step({}, {})
    assert optimiser.steps == 0


def test_a_state_without_steps_is_refused() -> None:
    with pytest.raises(FednerError, match="no step count"):
        Optimiser.restored(SETTINGS[0], {"first.a": torch.zeros(1)})


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_a_linear_schedule_steps_at_falling_rates(kind: str) -> None:
    falling = Optimiser(OptimiserSettings(kind=kind, rate=0.4, schedule="linear", decay_steps=4))
    told = Optimiser(OptimiserSettings(kind=kind, rate=0.4))
    one, other = {"w": torch.ones(3)}, {"w": torch.ones(3)}
    for rate in (0.4, 0.3, 0.2, 0.1, 0.0, 0.0):
        gradient = {"w": one["w"].clone() - 0.2}
        falling.step(one, gradient)
        told.step(other, gradient, rate)
        torch.testing.assert_close(one["w"], other["w"])
    with pytest.raises(FednerError, match="decay_steps"):
        Optimiser(OptimiserSettings(schedule="linear")).step(one, {"w": one["w"].clone()})
