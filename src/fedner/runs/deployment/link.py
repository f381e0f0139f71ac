"""How fast the link to the server is, measured; and how long a study takes over it.

A session of the federation carries the measurement: the same port, mutual TLS and identity as
everything else. What is sent are letters of no meaning.
"""

import secrets
import statistics
import time
from dataclasses import dataclass

from fedner.engines.flare.session import AdminSession
from fedner.runs.deployment.serving import CHUNK_BYTES
from fedner.settings import Study

_TURNS = 5
_UP_BYTES = 2**18
_LEAST_SECONDS = 1e-4  # clocks tell no less


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """A link to the server, as it was when it was measured.

    Attributes:
        latency: Seconds until the answer to an empty question.
        down: Bytes a second from the server.
        up: Bytes a second to the server.
    """

    latency: float
    down: float
    up: float

    @property
    def slower(self) -> float:
        """Bytes a second in the slower direction."""
        return min(self.down, self.up)

    @property
    def words(self) -> str:
        """The link in words."""
        down, up = (f"{each * 8 / 1e6:,.0f}" for each in (self.down, self.up))
        return f"{self.latency * 1e3:,.0f} ms, {down} Mbit/s down, {up} Mbit/s up"


def measure_link(session: AdminSession) -> MeasuredLink:
    """Measure latency and both directions.

    Raises:
        FednerError: The server does not answer.
    """
    latency = statistics.median(_seconds(session, 0, 0) for _ in range(_TURNS))
    down = _rate(session, CHUNK_BYTES, 0, latency)
    return MeasuredLink(latency, down, _rate(session, 0, _UP_BYTES, latency))


def ask_nothing(session: AdminSession) -> None:
    """Ask an empty question, which the server answers to whomever it admits.

    Raises:
        FednerError: The server refuses, or does not answer.
    """
    session.ask("link", "0")


def _rate(session: AdminSession, down: int, up: int, latency: float) -> float:
    """Return bytes a second, by the fastest of some turns."""
    fastest = min(_seconds(session, down, up) for _ in range(_TURNS))
    return (down + up) / max(fastest - latency, _LEAST_SECONDS)


def _seconds(session: AdminSession, down: int, up: int) -> float:
    filling = [secrets.token_hex(up // 2)] if up else []
    began = time.perf_counter()
    session.ask("link", str(down), *filling)
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class LinkEstimate:
    """What a study takes over a link, without the platforms' own work.

    Attributes:
        rounds: How many rounds there are.
        megabytes: What a round carries, both directions together.
        seconds_per_round: How long that takes.
        seconds: How long everything takes.
    """

    rounds: int
    megabytes: float
    seconds_per_round: float
    seconds: float

    @property
    def words(self) -> str:
        """The estimate in words."""
        rounds = f"{self.rounds:,} rounds of {self.megabytes:,.1f} MB"
        digits = ",.1f" if self.seconds_per_round >= 1 else ".2g"
        each = f"each {self.seconds_per_round:{digits}} s on the way"
        return f"{rounds}, {each}: {_span(self.seconds)} in all, without the platforms' own work"


def estimate(study: Study, link: MeasuredLink) -> LinkEstimate:
    """Return how long messages of a study are on their way over a measured link.

    Raises:
        FednerError: The study trains its embeddings, whose size is known where the files are.
    """
    from fedner.runs.link_time import estimated_seconds, link_traffic

    traffic = link_traffic(study)
    seconds = estimated_seconds(study, link.slower, link.latency, 0.0)
    carried = traffic.down + traffic.up
    each = carried / link.slower + link.latency
    return LinkEstimate(traffic.rounds, carried / 1e6, each, seconds)


def _span(seconds: float) -> str:
    """Return a span of time that people can read."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"
