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
            "Take 'cpu': --device cpu, or engine.device = \"cpu\" in a federation file.",
        )
