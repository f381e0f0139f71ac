"""A whole federation in one process, platform after platform, on the CPU or on a GPU."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedner.engines.allocator import keep_freed_memory
from fedner.engines.roster import Build, Roster
from fedner.federated.aggregate import Reply
from fedner.federated.checkpoints import platform_folder, stored_rounds
from fedner.federated.messages import Broadcast
from fedner.federated.platform import LocalFunction
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores


class InProcess:
    """The serial engine: replies come one by one, so that one update is in memory at a time."""

    def __init__(
        self,
        build: Build,
        names: Sequence[str],
        local: LocalFunction,
        *,
        folder: Path | None = None,
        max_live: int | None = None,
    ) -> None:
        """Make the engine; platforms are built when first asked.

        This process computes for them, so that it keeps freed memory from now on, up to a bound
        (`allocator.keep_freed_memory`).

        Args:
            build: Makes a platform, at its beginning, of its name.
            names: The platforms.
            local: What a platform does in a round (`Algorithm.local`).
            folder: The run folder, where platforms store their states.
            max_live: How many platforms are held in memory; the others are spilled to disk.
        """
        keep_freed_memory()
        self._roster = Roster(build, names, local, folder, max_live)

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms, sorted by name."""
        return self._roster.names

    def round(self, broadcast: Broadcast, chosen: Sequence[str]) -> Iterator[Reply]:
        """Let the chosen platforms work, one after the other."""
        for name in sorted(chosen):
            yield self._roster.run_round(name, broadcast)

    def evaluate(self, broadcast: Broadcast) -> Mapping[str, Scores | NoisedScores]:
        """Return what every platform tells of its scores; those that tell nothing are left out."""
        scored = ((name, self._roster.scores(name, broadcast)) for name in self.platforms)
        return {name: scores for name, scores in scored if scores is not None}

    def save(self, round_: int) -> None:
        """Store every platform's state under a round."""
        self._roster.save(round_)

    def saved(self) -> Sequence[int]:
        """Return the rounds that every platform has stored."""
        return common_rounds(self._roster.folder, self.platforms)

    def load(self, round_: int) -> None:
        """Go on from a stored round; 0 is the beginning."""
        self._roster.load(round_)

    def close(self) -> None:
        """Let go of all platforms."""
        self._roster.close()


def common_rounds(folder: Path | None, names: Sequence[str]) -> list[int]:
    """Return the rounds that every platform has stored in a run folder, oldest first."""
    if folder is None or not names:
        return []
    rounds = [set(stored_rounds(platform_folder(folder, name))) for name in names]
    return sorted(set.intersection(*rounds))
