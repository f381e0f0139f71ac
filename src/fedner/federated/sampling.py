"""Which sentences a platform draws: without replacement within its epoch, from named streams.

The cursor is all that must be kept between rounds; the order of an epoch follows from the seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedner.corpus.groups import Grouping, Unit
from fedner.corpus.platforms import slices
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.seeds import seeded

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a platform stands in its data.

    Attributes:
        pool: Which slice of the data; 0 where there is only one.
        epoch: Passes begun over that slice, counted from 0.
        position: Sentences of this pass that were drawn.
    """

    pool: int = 0
    epoch: int = 0
    position: int = 0


@dataclass(slots=True)
class Sampler:
    """Draws the batches of one platform.

    Attributes:
        pools: The sentences by index: one pool, or the slices of an incremental schedule.
        seed: The seed of the run.
        platform: Names the platform's own streams.
        cursor: Where it stands; may be set, to go on from a checkpoint.
    """

    pools: Sequence["NDArray[np.int64]"]
    seed: int
    platform: str
    cursor: Cursor = field(default_factory=Cursor)
    _order: "tuple[int, int, NDArray[np.int64]] | None" = None

    def __post_init__(self) -> None:
        if not self.pools or not all(len(pool) for pool in self.pools):
            raise FednerError(
                f"platform {self.platform!r} has no sentence to train on",
                "Check its data and split; an incremental schedule may ask for too many slices.",
            )

    def enter(self, pool: int) -> None:
        """Go to a slice; a slice that is entered anew begins with its first epoch."""
        if pool != self.cursor.pool:
            self.cursor = Cursor(pool)

    @property
    def size(self) -> int:
        """How many sentences the current slice has."""
        return len(self.pools[self.cursor.pool])

    def draw(self, batch: int) -> "NDArray[np.int64]":
        """Return the next sentences; the last batch of an epoch is what remains."""
        cursor = self.cursor
        if cursor.position >= self.size:
            cursor = Cursor(cursor.pool, cursor.epoch + 1)
        chosen = self._epoch_order(cursor)[cursor.position : cursor.position + batch]
        self.cursor = Cursor(cursor.pool, cursor.epoch, cursor.position + len(chosen))
        return chosen

    def _epoch_order(self, cursor: Cursor) -> "NDArray[np.int64]":
        if self._order is None or self._order[:2] != (cursor.pool, cursor.epoch):
            path = ("platform", self.platform, "slice", cursor.pool, "epoch", cursor.epoch)
            order = seeded(self.seed, *path).permutation(self.pools[cursor.pool])
            self._order = (cursor.pool, cursor.epoch, order)
        return self._order[2]


def slice_indices(
    sentences: Sequence[Sentence], share: float, seed: int, *, by: Unit = "sentence"
) -> tuple["NDArray[np.int64]", ...]:
    """Return the disjoint slices of the incremental schedule as indices of non-empty sentences.

    Args:
        sentences: The platform's training sentences.
        share: The size of a slice, above 0 and at most 1.
        seed: Where the randomness comes from.
        by: What must stay together.
    """
    return tuple(
        np.asarray([at for at in part if sentences[at].tokens], dtype=np.int64)
        for part in slices(Grouping.of(sentences, by), share, seed)
    )
