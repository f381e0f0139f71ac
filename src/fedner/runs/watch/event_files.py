"""A run as TensorBoard's event files: every round, and epsilon where it was computed.

The files are written by the package `tensorboard` itself (the extra `tensorboard`). Tags are
`loss/PLATFORM`, `strict_f1/PLATFORM`, `bytes_up/PLATFORM` and so on; the step is the round.
"""

import importlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedner.durable import owner_folder
from fedner.errors import FednerError
from fedner.federated.record import RoundRecord
from fedner.privacy.scores import NoisedScores
from fedner.runs.watch.snapshot import Snapshot
from fedner.runs.watch.tallies import strict_f1

MEAN = "mean of all"
_SUFFIX = ".fedner"  # of our own files: those of an earlier export are replaced
_SECONDS = 2.0  # between two writes to the disk


class EventFiles:
    """The event files of the runs that are watched, one folder each; a `Sink`."""

    def __init__(self, folder: Path) -> None:
        """Name the folder that `tensorboard --logdir` is given.

        Args:
            folder: The folder; each run has one of its own in it.

        Raises:
            FednerError: TensorBoard is not installed.
        """
        self.folder = folder
        self._tables = _tensorboard()
        self._writer: Any = None
        self._run = ""
        self._began = time.time()
        self._refused: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._costed: set[tuple[str, int]] = set()
        self.num_rounds = 0

    def begin(self, run: str, round_: int) -> None:
        """Write a run from its beginning, or from a round on: later steps do not count any more."""
        if self._writer is None or run != self._run:
            self.close()
            place = owner_folder(self.folder / (run or "run"))
            for old in place.glob(f"events.out.tfevents.*{_SUFFIX}"):
                old.unlink()
            self._writer = self._tables.writer(
                str(place), flush_secs=_SECONDS, filename_suffix=_SUFFIX
            )
        self._run, self._began, self.num_rounds = run, time.time(), round_
        self._refused, self._missing, self._costed = {}, {}, set()
        log = self._tables.event.SessionLog(status=self._tables.event.SessionLog.START)
        self._writer.add_event(
            self._tables.event.Event(wall_time=time.time(), step=round_ + 1, session_log=log)
        )

    def add(self, record: RoundRecord) -> None:
        """Write a round."""
        self.num_rounds = record.round
        values = list(self._values(record))
        self._write(record.round, values)

    def add_f1(self, name: str, round_: int, value: float) -> None:
        """Write a platform's strict F1 with the weights of a round."""
        self._write(round_, [(f"strict_f1/{name}", value)])

    def add_costs(self, shown: Snapshot) -> None:
        """Write the epsilons that are known now and were not written before."""
        for curve in shown.epsilon:
            for point in curve.points:
                if (curve.name, point.last) not in self._costed:
                    self._costed.add((curve.name, point.last))
                    self._write(point.last, [(f"epsilon/{curve.name}", point.mean)])

    def flush(self) -> None:
        """Bring all to the disk."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Bring all to the disk and close the file; may be called twice."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step: int, values: list[tuple[str, float]]) -> None:
        table = self._tables.summary
        held = [table.Summary.Value(tag=tag, simple_value=value) for tag, value in values]
        event = self._tables.event.Event(
            wall_time=time.time(), step=step, summary=table.Summary(value=held)
        )
        self._writer.add_event(event)

    def _values(self, record: RoundRecord) -> Iterator[tuple[str, float]]:
        yield "seconds_per_round", record.seconds
        if record.loss is not None:
            yield f"loss/{MEAN}", record.loss
        for name, loss in record.losses.items():
            yield f"loss/{name}", loss
        for name, scores in record.scores.items():
            kind = "noised_strict_f1" if isinstance(scores, NoisedScores) else "strict_f1"
            yield f"{kind}/{name}", strict_f1(scores)
        for name, size in record.bytes_up.items():
            yield f"bytes_up/{name}", float(size)
        for name, size in record.bytes_down.items():
            yield f"bytes_down/{name}", float(size)
        yield from self._counted(record)

    def _counted(self, record: RoundRecord) -> Iterator[tuple[str, float]]:
        """Yield how often platforms were refused or missing so far, where that has grown."""
        for kind, counts, found in (
            ("refused", self._refused, record.refusals),
            ("missing", self._missing, record.failures),
        ):
            for name in sorted({each.platform for each in found}):
                counts[name] = counts.get(name, 0) + sum(each.platform == name for each in found)
                yield f"{kind}/{name}", float(counts[name])


class _Tables:
    """What is used of TensorBoard."""

    def __init__(self) -> None:
        self.event = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self.summary = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        name = "tensorboard.summary.writer.event_file_writer"
        self.writer = importlib.import_module(name).EventFileWriter


def _tensorboard() -> _Tables:
    try:
        return _Tables()
    except ImportError as error:
        raise FednerError(
            "event files for TensorBoard were requested, but TensorBoard is not installed",
            "Install it: pip install 'fedner[tensorboard]'.",
        ) from error
