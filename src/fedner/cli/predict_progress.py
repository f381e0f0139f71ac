"""How a long prediction shows that it lives: a bar, or a line now and then where nobody watches."""

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fedner.cli.output import errors
from fedner.cli.progress import duration

SECONDS_BETWEEN_LINES: Final = 30.0


class PredictionProgress(AbstractContextManager["PredictionProgress"]):
    """Notes that are done, on standard error."""

    def __init__(self, total: int | None, *, quiet: bool = False) -> None:
        self._total = total
        self._quiet = quiet
        self._began = self._said = time.monotonic()
        self._first: int | None = None
        self._bar = Progress(
            TextColumn("notes"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=errors,
            transient=True,
        )
        self._task = self._bar.add_task("notes", total=total, left="")

    def __enter__(self) -> "PredictionProgress":
        if errors.is_terminal and not self._quiet:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar.live.is_started:  # else rich would print an empty line
            self._bar.stop()

    def on_note(self, done: int) -> None:
        """Show how many notes are done."""
        if self._first is None:
            self._first = done - 1  # a job that goes on did not do those before
        left = self._time_left(done)
        self._bar.update(self._task, completed=done, left=left)
        is_time = time.monotonic() - self._said > SECONDS_BETWEEN_LINES
        if is_time and not errors.is_terminal and not self._quiet:
            self._said = time.monotonic()
            of = "" if self._total is None else f" of {self._total:,}"
            errors.print(f"{done:,}{of} notes{', ' if left else ''}{left}", soft_wrap=True)

    def _time_left(self, done: int) -> str:
        if self._total is None or done >= self._total or self._first is None:
            return ""
        seconds = (time.monotonic() - self._began) / (done - self._first)
        return f"{duration(seconds * (self._total - done))} left"
