"""Where a watched run is read from; every kind of place has a file beside this one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from fedner.errors import FednerError
from fedner.federated.record import RoundRecord
from fedner.runs.watch.results import Results, privacy_view, rounds_of
from fedner.runs.watch.snapshot import Marks, PlatformView, Snapshot, Standing, View
from fedner.runs.watch.tallies import Tally
from fedner.settings import Study


class Sink(Protocol):
    """Who else hears of every round: an export."""

    def begin(self, run: str, round_: int) -> None:
        """Rounds are told of a run, the first after `round_`; what was told of later ones is void.

        Args:
            run: Its name.
            round_: The last that still holds.
        """

    def add(self, record: RoundRecord) -> None:
        """Hear of the next round."""

    def add_f1(self, name: str, round_: int, value: float) -> None:
        """Hear of a platform's strict F1, where that is told apart from its round."""


class Silent:
    """Nobody else hears."""

    def begin(self, run: str, round_: int) -> None:
        """Hear nothing."""

    def add(self, record: RoundRecord) -> None:
        """Hear nothing."""

    def add_f1(self, name: str, round_: int, value: float) -> None:
        """Hear nothing."""


class Damage:
    """What is wrong with a file of lines: it stays wrong until the file is another one."""

    def __init__(self) -> None:
        self._found: tuple[str, str] | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an error of the block, and raise it again in place of every later block.

        Raises:
            FednerError: A line is damaged, or one before it was.
        """
        if self._found is not None:
            raise FednerError(*self._found)
        try:
            yield
        except FednerError as error:
            self._found = (error.message, error.hint)
            raise

    def clear(self) -> None:
        """Begin anew, with another file."""
        self._found = None


class Source(Protocol):
    """Where a watched run is read from."""

    def look(self) -> bool:
        """Read what is new, at most a chunk; return whether there is more at once.

        Raises:
            FednerError: What was found there is damaged.
        """

    def snapshot(self) -> Snapshot:
        """Return what is to be shown now."""

    def cost_one(self) -> bool:
        """Ask the accountant for one more epsilon; return whether there was any to ask for.

        Raises:
            FednerError: There is no accountant.
        """

    def close(self) -> None:
        """Let go of what is held."""


def cost_one(study: Study | None, tally: Tally) -> bool:
    """Ask the accountant of a study for one more epsilon of what was released.

    Raises:
        FednerError: It is not installed.
    """
    if study is None or not study.privacy.enabled:
        return False
    return tally.spending.cost_one(study.privacy.delta, study.privacy.accountant)


def snapshot_of(
    study: Study | None,
    tally: Tally,
    standing: Standing,
    results: Results,
    *,
    run: str,
    view: View,
    platform: str = "",
    gone: frozenset[str] = frozenset(),
) -> Snapshot:
    """Return what is to be shown of a run.

    Args:
        study: Its study; None where it is not known yet.
        tally: Its rounds.
        standing: How far it is.
        results: What it came to.
        run: Its name.
        view: Whose eyes see it.
        platform: Whose view it is, of a platform's.
        gone: Who is not connected.
    """
    rounds = rounds_of(study)
    is_going_on = standing.phase == "running"
    rows = tuple(_row(name, tally, results, gone) for name in tally.names)
    return Snapshot(
        title=run if study is None else study.title,
        run=run,
        view=view,
        standing=standing,
        round=tally.round,
        rounds=rounds,
        seconds=tally.seconds,
        seconds_left=tally.seconds_left(rounds) if is_going_on else None,
        platform=platform,
        loss=tally.curves("loss"),
        f1=tally.curves("f1"),
        traffic=tally.curves("traffic", is_total=True),
        epsilon=tally.spending.curves(),
        pace=tally.curves("pace"),
        references=results.references,
        marks=_named(tally.marks(), tally),
        platforms=rows,
        incidents=tuple(reversed(tally.incidents)),
        num_incidents=tally.num_incidents,
        privacy=privacy_view(study),
        is_noised=tally.is_noised,
        verdict=results.verdict,
        notes=_notes(study, tally, view),
    )


def _named(marks: tuple[Marks, ...], tally: Tally) -> tuple[Marks, ...]:
    """Return the marks of every platform: a row without any says that all was well."""
    held = {each.name: each for each in marks}
    return tuple(held.get(name, Marks(name, (), ())) for name in tally.names) if held else ()


def _row(name: str, tally: Tally, results: Results, gone: frozenset[str]) -> PlatformView:
    f1_round, f1 = tally.newest_f1.get(name, (None, None))
    spent = results.spent.get(name)
    return PlatformView(
        name=name,
        is_missing=name in tally.gone or name in gone,
        loss=tally.newest_loss.get(name),
        f1=f1,
        f1_round=f1_round,
        final=results.final.get(name, {}),
        bytes_up=tally.bytes_up[name],
        bytes_down=tally.bytes_down[name],
        refused=tally.refused[name],
        missing=tally.missing[name],
        epsilon=tally.spending.newest(name),
        in_all=None if spent is None else spent.in_all,
        granted=None if spent is None else spent.granted,
    )


_NOT_SENT = (
    "Under differential privacy no platform sends its training loss.",
    "No platform has sent a training loss yet, or their policies withhold it.",
)
# Why there is no loss to show, by whose view it is: with DP, and without.
_NO_LOSS: dict[View, tuple[str, str]] = {
    "local": _NOT_SENT,
    "coordinator": _NOT_SENT,
    "platform": (
        "Steps under differential privacy compute no training loss.",
        "No round has been trained here yet, or not by this version of fedner.",
    ),
}


def _notes(study: Study | None, tally: Tally, view: View) -> dict[str, str]:
    """Return why a chart may be empty, by its name."""
    notes = {"loss": _loss_note(study, view), "f1": _f1_note(study)}
    if tally.spending.is_unbounded:
        notes["epsilon"] = "Epsilon is infinite: something was released without noise."
    elif study is not None and not study.privacy.enabled:
        notes["epsilon"] = "Without differential privacy there is no epsilon."
    else:
        notes["epsilon"] = "Nothing was released yet, or its cost is being computed."
    return notes


def _loss_note(study: Study | None, view: View) -> str:
    with_dp, without_dp = _NO_LOSS[view]
    return with_dp if study is not None and study.privacy.enabled else without_dp


def _f1_note(study: Study | None) -> str:
    if study is None:
        return "No round has been scored yet."
    if study.is_deployed and study.privacy.scores is None:
        return "A deployed study under differential privacy sends no scores by round."
    if study.training.evaluate_every == 0 and study.privacy.scores is None:
        return "The study asks for no scores by round (training.evaluate_every = 0)."
    return "No round has been scored yet."
