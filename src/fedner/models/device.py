"""Where a tagger runs: a device that is not there is an error that says so, not a trace."""

import torch

from fedner.errors import FednerError


def require_device(device: torch.device | str) -> None:
    """Check that a device can be used.

    Raises:
        FednerError: A GPU is asked for, and torch sees none.
    """
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        build = "" if torch.version.cuda else "; this build of torch is for the CPU alone"
        raise FednerError(
            f"device {str(device)!r}: torch sees no GPU on this machine{build}",
            "Use 'cpu': --device cpu, or engine.device = \"cpu\" in a federation file.",
        )


def seed_dropout(device: torch.device | str, seed: int) -> None:
    """Seed the generator that a step's dropout draws from.

    On the CPU that one alone: `torch.manual_seed` also queues the seed for GPUs that nobody uses,
    each time with a formatted stack, which takes longer than many a small layer.

    >>> import torch
    >>> seed_dropout("cpu", 7)
    >>> drawn = torch.rand(3)
    >>> bool(torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(7))))
    True
    """
    if torch.device(device).type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
