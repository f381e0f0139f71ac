"""What tests of mechanisms share: sizes, sources, and a step without any gradient."""

import torch

from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.mechanisms import ClippedStep
from fedner.privacy.noise import clip

WIDE, BOUND, MULTIPLIER = 20_000, 3.0, 0.5
BATCH, UNITS = 4, 8
SOURCES: dict[str, Source] = {"deployed": SystemEntropy(), "simulated": SeededSimulation(3)}


def clipped_step(source: Source, value: float = 0.0) -> ClippedStep:
    """A clipped sum of one shared and one private tensor, filled with a value."""
    tensors = {
        name: torch.full((WIDE,), value, dtype=torch.float64) for name in ("shared", "private")
    }
    weights = {name: torch.zeros(WIDE) for name in tensors}
    return ClippedStep(clip(tensors, BOUND), ("shared",), weights, float(BATCH), source)
