"""How a run shows that it lives: a bar, the latest scores of every platform, lines that stay."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from fedner.cli.output import console

if TYPE_CHECKING:
    from fedner.federated.record import RoundRecord
    from fedner.runs.local_training import BaselinePoint
    from fedner.runs.simulation import Progress
    from fedner.runs.site import Site
    from fedner.scoring import Scores
    from fedner.settings import Study

SHOWN_PER_SECOND = 4


class LiveProgress(AbstractContextManager["LiveProgress"]):
    """The screen of a run; where nobody is watching it prints a line now and then."""

    def __init__(self) -> None:
        self.round = 0
        self._rounds = 0
        self._first: int | None = None
        self._began = 0.0
        self._status = "beginning"
        self._scores: dict[str, dict[str, str]] = {}
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._task: Any = None
        self._live = Live(
            get_renderable=self._render,
            console=console,
            refresh_per_second=SHOWN_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> "LiveProgress":
        if console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def callbacks(self) -> "Progress":
        """Return what a run calls."""
        from fedner.runs.simulation import Progress

        return Progress(
            self.say,
            self._on_data,
            self._begin,
            self.on_round,
            self._on_baseline,
            self._on_method,
        )

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._status = line
        console.print(Text(line, style="dim"))

    def _on_data(self, sites: "Sequence[Site]") -> None:
        """Say what the taggers will not see, and what looks wrong, before training begins."""
        from fedner.runs.annotated_types import left_out_words

        for name, data in ((site.name, site.data) for site in sites):
            words = left_out_words(data.types.rows(data.labels))
            if words:
                console.print(f"{name}: left out of training and test: {words}", soft_wrap=True)
            for kind, count in sorted(data.remarks.items()):
                console.print(Text(f"{name}: {count:,} {kind}", style="dim"), soft_wrap=True)
            for warning in data.warnings:
                console.print(Text(f"warning: {name}: {warning}", style="yellow"), soft_wrap=True)

    def _begin(self, sites: "Sequence[Site]", rounds: int) -> None:
        self.begin(sites[0].study, rounds)

    def begin(self, study: "Study", rounds: int) -> None:
        """Show the bar of a study's rounds."""
        self._status = "federated rounds"
        for name in study.names:
            self._scores.setdefault(name, {})
        self._task = self._bar.add_task("federated", total=rounds, loss="", left="")
        self._rounds, self._began = rounds, time.monotonic()
        shared, privacy = sum(study.public_sizes.values()), study.privacy
        unit = privacy.unit if privacy.enabled else "sentence"
        number = len(study.names)
        platforms = "1 platform" if number == 1 else f"{number:,} platforms"
        self.say(f"federation of {platforms}, {shared:,} training {unit}s, {rounds:,} rounds")

    def on_round(self, record: "RoundRecord") -> None:
        """Show what a round came to."""
        from fedner.privacy.scores import NoisedScores

        self.round = record.round
        left = self._time_left()
        loss = "" if record.loss is None else f"loss {record.loss:.2f}"
        self._bar.update(self._task, completed=record.round, loss=loss, left=left)
        for name, scores in record.scores.items():
            found = scores if isinstance(scores, NoisedScores) else scores.strict_micro
            self._scores.setdefault(name, {})["federated"] = f"{100 * found.f1:.1f}"
        for refusal in record.refusals:
            said = f"round {record.round}: refused {refusal.platform}: {refusal.message}"
            console.print(Text(said, style="yellow"))
        if record.scores and not console.is_terminal:
            shown = ", ".join(
                f"{name} {held['federated']}"
                for name, held in sorted(self._scores.items())
                if "federated" in held
            )
            is_noised = any(isinstance(each, NoisedScores) for each in record.scores.values())
            measure = f"{'noised ' if is_noised else ''}strict F1 {shown}"
            said = ", ".join(part for part in (loss, measure, left) if part)
            console.print(f"round {record.round:,}: {said}", soft_wrap=True)

    def _time_left(self) -> str:
        """Return how long the remaining rounds will take, going by those that this start took."""
        if self._first is None:
            self._first = self.round - 1  # a run that is resumed does not begin at round 1
        taken = self.round - self._first
        if not taken or self.round >= self._rounds:
            return ""
        seconds = (time.monotonic() - self._began) / taken * (self._rounds - self.round)
        return f"{duration(seconds)} left"

    def _on_baseline(self, point: "BaselinePoint") -> None:
        said = f"epoch {point.epoch}"
        if point.strict_f1 is not None:
            said = f"{100 * point.strict_f1:.1f} held out ({said})"
        for name in point.platforms:
            self._scores.setdefault(name, {})[point.method] = said

    def _on_method(self, method: str, platform: str, scores: "Scores") -> None:
        f1 = 100 * scores.strict_micro.f1
        self._scores.setdefault(platform, {})[method] = f"{f1:.1f} on test"

    def _render(self) -> Group:
        table = Table(title=self._status, title_justify="left", title_style="bold")
        methods = [
            name
            for name in ("local-only", "federated", "centralized")
            if any(name in held for held in self._scores.values())
        ]
        for column in ("strict F1", *methods):
            table.add_column(column)
        for name, held in sorted(self._scores.items()):
            table.add_row(name, *(held.get(method, "") for method in methods))
        return Group(table, self._bar) if self._scores else Group(Text(self._status))


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(42), duration(150), duration(7500)
    ('42 s', '2 min', '2 h 5 min')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
