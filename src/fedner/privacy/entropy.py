"""Where the randomness of noise and sampling comes from: the operating system, or a simulation.

A deployed platform draws from `SystemEntropy`. A sample or a noise that others can derive from a
seed protects nobody, so whatever `SeededSimulation` makes is labelled a simulation in every report.

Why the operating system's generator itself, and not a fast generator seeded from it: coordinates
whose gradient is zero (a word that does not occur) show the noise itself to whoever reads the
update. From such draws the state of a Mersenne twister (torch on a CPU) can be solved, and all
other noise of the step subtracted. The kernel's ChaCha20 stream has no such weakness and gives
about 0.4 GB/s, which is 35 million normals a second on one core together with their transform.
"""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedner.seeds import PathPart, derive, seeded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class SystemEntropy:
    """Randomness that nobody can repeat: every draw comes from the kernel's secure generator."""

    @property
    def is_simulation(self) -> bool:
        """Never: this is what a deployed platform uses."""
        return False

    def at(self, *path: PathPart) -> "SystemEntropy":  # noqa: ARG002 - one interface for both
        """Return the source itself: every draw is fresh, whatever its name."""
        return self


@dataclass(frozen=True, slots=True)
class SeededSimulation:
    """Randomness that anybody with the seed can repeat: for experiments, never for deployment.

    The same seed and path give the same draw, so callers name every draw by its own path
    (`source.at("round", 3, "platform", "a", "step", 0)`).

    Attributes:
        seed: The seed of the run.
        path: The name of the stream.
    """

    seed: int
    path: tuple[PathPart, ...] = ()

    @property
    def is_simulation(self) -> bool:
        """Always: a report of such a run says so."""
        return True

    def at(self, *path: PathPart) -> "SeededSimulation":
        """Return the source whose stream `path` names under this one."""
        return replace(self, path=(*self.path, *path))

    def stream_seed(self, *path: PathPart) -> int:
        """Return the 63-bit seed of the stream that `path` names under this one."""
        return derive(self.seed, *self.path, *path)


Source = SystemEntropy | SeededSimulation


def random_words(source: Source, count: int, *path: PathPart) -> "npt.NDArray[np.uint64]":
    """Return `count` uniform 64-bit words.

    Args:
        source: Where they come from.
        count: How many.
        path: What they are for; names the stream of a simulation.
    """
    import numpy as np

    if isinstance(source, SystemEntropy):
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    stream = seeded(source.seed, *source.path, *path)
    return stream.integers(0, 2**64, size=count, dtype=np.uint64)
