"""Stacks are tested on one thread, on a world of four platforms."""

from collections.abc import Iterator

import pytest
import torch
from tiny_world import corpus, world_of

from fedner.experiments.joining.world import Sizes, World


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small() -> World:
    """Three platforms of three, two and four types."""
    names = ("ade", "bc5cdr", "psytar")
    return world_of([corpus(name, 24) for name in names], sizes=Sizes(6, 7, 5, 4))
