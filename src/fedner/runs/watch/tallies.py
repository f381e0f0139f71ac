"""The rounds of a run, counted one by one into curves and sums of constant size."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedner.federated.record import RoundRecord
from fedner.privacy.scores import NoisedScores
from fedner.runs.records import Incident
from fedner.runs.watch.snapshot import Curve, Marks
from fedner.runs.watch.spending import Spending
from fedner.runs.watch.thinned import MOST_POINTS, Point, Thinned
from fedner.scoring import Scores

MEAN, UP, DOWN = "mean of all", "up", "down"
_RECENT = 32  # rounds that the time left goes by
_MOST_INCIDENTS = 100
_ALL_POINTS = 6_000  # of one chart
_FEWEST = 64


def points_for(num_platforms: int) -> int:
    """Return how many points a curve has at most, so that a chart of many is quick to send."""
    return max(_FEWEST, min(MOST_POINTS, _ALL_POINTS // max(1, num_platforms)))


@dataclass(slots=True)
class Tally:
    """What the rounds so far came to.

    Attributes:
        names: The platforms.
        round: The newest round.
        seconds: How long all took.
        recent: How long the newest took.
        bytes_up: By platform.
        bytes_down: By platform.
        refused: How many updates of a platform were refused.
        missing: How often a platform did not answer.
        gone: Who did not answer in the newest round.
        newest_loss: By platform.
        newest_f1: By platform: round and strict F1.
        is_noised: Whether scores by round bear noise.
        incidents: The newest.
        num_incidents: How many there were.
        spending: What releases cost.
    """

    names: Sequence[str]
    round: int = 0
    seconds: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    bytes_up: Counter[str] = field(default_factory=Counter)
    bytes_down: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    gone: frozenset[str] = frozenset()
    newest_loss: dict[str, float] = field(default_factory=dict)
    newest_f1: dict[str, tuple[int, float]] = field(default_factory=dict)
    is_noised: bool = False
    incidents: deque[Incident] = field(default_factory=lambda: deque(maxlen=_MOST_INCIDENTS))
    num_incidents: int = 0
    spending: Spending = field(default_factory=Spending)
    _curves: dict[str, dict[str, Thinned]] = field(default_factory=dict)

    def add(self, record: RoundRecord) -> None:
        """Count the next round."""
        self.round = record.round
        if record.seconds > 0:  # a platform does not know of its first round
            self.seconds += record.seconds
            self.recent.append(record.seconds)
            self._draw("pace", "seconds", record.round, record.seconds)
        self._add_losses(record)
        self._add_scores(record)
        self.add_bytes(record.bytes_up, record.bytes_down)
        self.add_incidents(_incidents(record), record.round)
        self.gone = frozenset(each.platform for each in record.failures)

    def add_incidents(self, found: Sequence[Incident], round_: int) -> None:
        """Count refusals and missing answers of a round."""
        for each in found:
            self.incidents.append(each)
            self.num_incidents += 1
            is_refusal = each.kind == "refused"
            (self.refused if is_refusal else self.missing)[each.platform] += 1
            self._draw("refused" if is_refusal else "missing", each.platform, round_, 1.0)

    def curves(self, chart: str, *, is_total: bool = False) -> tuple[Curve, ...]:
        """Return the lines of a chart, the mean first, then by name."""
        held = self._curves.get(chart, {})
        order = sorted(held, key=lambda name: (name != MEAN, name != UP, name))
        return tuple(Curve(name, tuple(held[name].points), is_total) for name in order)

    def marks(self) -> tuple[Marks, ...]:
        """Return the rounds in which something was wrong, of the platforms that have any."""
        refused, missing = self._curves.get("refused", {}), self._curves.get("missing", {})
        return tuple(
            Marks(name, _points(refused, name), _points(missing, name))
            for name in sorted({*refused, *missing})
        )

    def seconds_left(self, rounds: int | None) -> float | None:
        """Return how long the rounds that are left will take, going by the newest."""
        if rounds is None or not self.recent or self.round >= rounds:
            return None
        return sum(self.recent) / len(self.recent) * (rounds - self.round)

    def _draw(self, chart: str, name: str, round_: int, value: float) -> None:
        held = self._curves.setdefault(chart, {})
        if name not in held:
            held[name] = Thinned(points_for(len(self.names)))
        held[name].add(round_, value)

    def _add_losses(self, record: RoundRecord) -> None:
        if record.loss is not None:
            self._draw("loss", MEAN, record.round, record.loss)
        for name, loss in record.losses.items():
            self.newest_loss[name] = loss
            self._draw("loss", name, record.round, loss)

    def _add_scores(self, record: RoundRecord) -> None:
        for name, scores in record.scores.items():
            self.add_f1(name, record.round, strict_f1(scores))
            if isinstance(scores, NoisedScores):
                self.is_noised = True
                self.spending.add(name, record.round, scores.event)
        for name, event in record.events.items():
            self.spending.add(name, record.round, event)

    def add_f1(self, name: str, round_: int, value: float) -> None:
        """Count a platform's strict F1 with the weights of a round."""
        self.newest_f1[name] = (round_, value)
        self._draw("f1", name, round_, value)

    def add_bytes(self, up: Mapping[str, int], down: Mapping[str, int]) -> None:
        """Count what was transmitted up to the newest round."""
        self.bytes_up.update(up)
        self.bytes_down.update(down)
        self._draw("traffic", UP, self.round, float(self.bytes_up.total()))
        self._draw("traffic", DOWN, self.round, float(self.bytes_down.total()))


def strict_f1(scores: Scores | NoisedScores) -> float:
    """Return strict F1, noised where it is."""
    return scores.f1 if isinstance(scores, NoisedScores) else scores.strict_micro.f1


def _points(held: Mapping[str, Thinned], name: str) -> tuple[Point, ...]:
    return tuple(held[name].points) if name in held else ()


def _incidents(record: RoundRecord) -> list[Incident]:
    refused = [
        Incident(record.round, each.platform, "round", "refused", each.message)
        for each in record.refusals
    ]
    return refused + [
        Incident(record.round, each.platform, each.verb, "no answer", each.message)
        for each in record.failures
    ]
