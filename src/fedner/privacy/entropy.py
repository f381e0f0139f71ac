"""Where the randomness of noise and sampling comes from: the operating system, or a simulation.

A deployed platform draws from `SystemEntropy`. A sample or a noise that others can derive from a
seed protects nobody, so whatever `SeededSimulation` makes is labelled a simulation in every report.

Why not a fast statistical generator seeded from the system: coordinates whose gradient is zero (a
word that does not occur) show the noise itself to whoever reads the update. From such draws the
state of a Mersenne twister (torch on a CPU) or the key of Philox (torch on a GPU, a weak cipher)
can be sought, and all other noise of the step subtracted.

Where the kernel (0.4 GB/s) would be the slowest part of a step, `system_bytes` takes OpenSSL's
generator, CTR_DRBG with AES-256 (NIST SP 800-90A), 7 GB/s where the processor has AES instructions:
reading its output tells nothing about the rest, and who steals its state cannot go back. Before
each draw it is seeded anew from the kernel, so that neither a fork nor a virtual machine that was
copied while it ran gives the same noise twice. Each thread has a generator of its own. A Python
without OpenSSL, or one whose generator fails, draws from the kernel: slower, and no weaker.
"""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedner.seeds import PathPart, derive, seeded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# The strength of AES-256, and half as much again as the standard asks of a seed.
_SEED_BYTES = 48


@dataclass(frozen=True, slots=True)
class SystemEntropy:
    """Randomness that nobody can repeat: the kernel's, or a cipher's that the kernel keys."""

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


def system_bytes(count: int) -> bytes:
    """Return `count` random bytes of cryptographic quality, freshly seeded by the kernel."""
    try:
        import ssl  # most commands never draw
    except ImportError:
        return os.urandom(count)
    try:
        ssl.RAND_add(os.urandom(_SEED_BYTES), _SEED_BYTES)
        return ssl.RAND_bytes(count)
    except ssl.SSLError:
        return os.urandom(count)


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
