"""How a joining shows that it lives: a bar over its trainings, lines that stay."""

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from fedner.cli.output import console
from fedner.cli.progress import duration

if TYPE_CHECKING:
    from fedner.runs.joining.join import JoinProgress


class JoinBar(AbstractContextManager["JoinBar"]):
    """The screen of a joining; where nobody is watching only its lines are printed."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("trainings", total=None, visible=False, left="")

    def __enter__(self) -> "JoinBar":
        if console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def callbacks(self) -> "JoinProgress":
        """Return what a joining calls."""
        from fedner.runs.joining.join import JoinProgress

        return JoinProgress(self._say, self._on_job)

    def _say(self, line: str) -> None:
        console.print(Text(line, style="dim"))

    def _on_job(self, done: int, total: int, name: str) -> None:
        if not name:  # a batch of trainings begins: some may be finished already
            self._began, self._first = time.monotonic(), done
        left = ""
        if done > self._first and done < total:
            seconds = (time.monotonic() - self._began) / (done - self._first) * (total - done)
            left = f"{duration(seconds)} left"
        self._bar.update(self._task, completed=done, total=total, visible=True, left=left)
