"""torch's fused LSTM cells are taken only where they do what the plain ones do."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedner.models.layers import recurrence
from fedner.models.layers.recurrence import plain_cell, plain_cell_back

CPU = torch.device("cpu")


def off_by(step: Callable[..., tuple[Tensor, ...]], place: int, error: float) -> object:
    def wrong(*tensors: Tensor) -> tuple[Tensor, ...]:
        parts = [each.clone() for each in step(*tensors)]
        parts[place][-1, -1] += error
        return tuple(parts)

    return wrong


@pytest.fixture
def _fused_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fused kernels exist on CUDA alone: here plain ones stand for kernels that are right."""
    monkeypatch.setattr(recurrence, "_fused", plain_cell)
    monkeypatch.setattr(recurrence, "_fused_back", plain_cell_back)


@pytest.mark.usefixtures("_fused_are_plain")
def test_kernels_that_are_right_agree() -> None:
    assert recurrence._agree(CPU)


@pytest.mark.usefixtures("_fused_are_plain")
@pytest.mark.parametrize(
    ("name", "step", "place"),
    [
        ("_fused", plain_cell, 0),
        ("_fused", plain_cell, 1),
        ("_fused", plain_cell, 2),
        ("_fused_back", plain_cell_back, 0),
        ("_fused_back", plain_cell_back, 1),
    ],
)
def test_a_kernel_that_is_wrong_in_one_number_does_not(
    monkeypatch: pytest.MonkeyPatch, name: str, step: Callable[..., object], place: int
) -> None:
    monkeypatch.setattr(recurrence, name, off_by(step, place, 1e-3))  # type: ignore[arg-type]
    assert not recurrence._agree(CPU)
    monkeypatch.setattr(recurrence, name, off_by(step, place, 1e-7))  # type: ignore[arg-type]
    assert recurrence._agree(CPU), "rounding is no error"


@pytest.mark.usefixtures("_fused_are_plain")
def test_a_kernel_that_leaves_out_an_input_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in range(3):

        def deaf(*tensors: Tensor, place: int = place) -> tuple[Tensor, ...]:
            held = [
                torch.zeros_like(each) if at == place else each for at, each in enumerate(tensors)
            ]
            return plain_cell(*held)

        monkeypatch.setattr(recurrence, "_fused", deaf)
        assert not recurrence._agree(CPU)
    monkeypatch.setattr(recurrence, "_fused", plain_cell)
    for place in range(5):

        def forgetful(*tensors: Tensor, place: int = place) -> tuple[Tensor, ...]:
            held = [
                torch.zeros_like(each) if at == place else each for at, each in enumerate(tensors)
            ]
            return plain_cell_back(*held)

        monkeypatch.setattr(recurrence, "_fused_back", forgetful)
        assert not recurrence._agree(CPU)


def test_without_the_kernels_the_plain_cells_are_taken() -> None:
    assert recurrence._cells(CPU) == (plain_cell, plain_cell_back)


def one_output_less(*tensors: Tensor) -> tuple[Tensor, ...]:
    return plain_cell_back(*tensors)[:1]


@pytest.mark.usefixtures("_fused_are_plain")
def test_kernels_of_another_torch_with_other_outputs_are_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recurrence, "_fused_back", one_output_less)
    with pytest.raises(ValueError, match="zip"):
        recurrence._agree(CPU)
    on_cpu = recurrence._agree
    monkeypatch.setattr(recurrence, "_agree", lambda _: on_cpu(CPU))
    tried = recurrence._cells.__wrapped__(torch.device("cuda"))
    assert tried == (plain_cell, plain_cell_back)


@pytest.mark.usefixtures("_fused_are_plain")
@pytest.mark.parametrize("error", [AttributeError, NotImplementedError, RuntimeError, TypeError])
def test_kernels_that_are_missing_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def missing(*tensors: Tensor) -> tuple[Tensor, ...]:
        raise error("no such kernel")

    on_cpu = recurrence._agree
    monkeypatch.setattr(recurrence, "_agree", lambda _: on_cpu(CPU))
    cuda = torch.device("cuda")
    assert recurrence._cells.__wrapped__(cuda) == (recurrence._fused, recurrence._fused_back)
    monkeypatch.setattr(recurrence, "_fused", missing)
    assert recurrence._cells.__wrapped__(cuda) == (plain_cell, plain_cell_back)
