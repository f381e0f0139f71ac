"""A platform's own losses and scores by round: a file in its folder, for its owner's eyes alone."""

import json
import logging
import math
import os
from pathlib import Path

from fedner.durable import append_whole
from fedner.runs.reply_log import open_whole_lines
from fedner.scoring import Scores

OWN_PROGRESS = "own-progress.jsonl"
_log = logging.getLogger(__name__)


class OwnProgress:
    """The file of it. No message is made of it: what a policy withholds stands here all the same.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     progress = OwnProgress(Path(folder) / OWN_PROGRESS)
    ...     progress.note_loss("run-1", 1, 0.5)
    ...     progress.close()
    ...     print(progress.path.read_text().strip())
    {"run": "run-1", "round": 1, "loss": 0.5}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def note_loss(self, run: str, round_: int, loss: float) -> None:
        """Add the training loss of a round; one that is not finite has no place in a curve."""
        if math.isfinite(loss):
            self._append({"run": run, "round": round_, "loss": loss})

    def note_scores(self, run: str, round_: int, scores: Scores) -> None:
        """Add strict F1 with the weights of a round."""
        self._append({"run": run, "round": round_, "f1": scores.strict_micro.f1})

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _append(self, line: dict[str, str | int | float]) -> None:
        """Add a line; a round does not fail because a curve could not be written."""
        try:
            if self._handle is None:
                self._handle = open_whole_lines(self.path)
            append_whole(self._handle, json.dumps(line, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            _log.warning("%s was not written: %s", self.path, error)
