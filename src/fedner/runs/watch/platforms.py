"""What one platform sees of a run: its own replies, losses and scores, and results at the end.

At a platform's home the disclosure record is read, which has the time of every reply and all that
was refused; in the folder of a simulation the replies alone. Losses and scores by round are what it
noted for itself (`own_progress`), sent or not. Nobody else's numbers are here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.federated.folder_lock import is_held
from fedner.federated.messages import RELEASE
from fedner.federated.record import RoundRecord
from fedner.federated.strict_json import read_json
from fedner.privacy.events import GaussianRelease, from_json
from fedner.runs.deployment.approvals import read_approval
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.disclosure_record import RECORD, REFUSED
from fedner.runs.folder import SCORES, STUDY
from fedner.runs.records import Incident
from fedner.runs.reply_log import REPLIES
from fedner.runs.watch.own_lines import OwnLines
from fedner.runs.watch.results import Kept, Results, platform_results, read_study
from fedner.runs.watch.snapshot import Snapshot, Standing
from fedner.runs.watch.source import Damage, Silent, Sink, cost_one, snapshot_of
from fedner.runs.watch.tail import LineTail
from fedner.runs.watch.tallies import Tally
from fedner.settings import Study, parse_as

_MOST_LINE = 2**22
_UPDATES = ("round", "sum")


@dataclass(slots=True)
class _Heard:
    """What the lines of one run said so far.

    Attributes:
        tally: Its rounds.
        study: The digest of its study; empty where the lines do not say.
        time: When the newest update left; None where the lines do not say.
        up: Bytes that left since the newest round that was counted.
        down: Bytes that came since then.
        charged: The rounds and verbs whose release is counted: a round that is asked for again is
            answered with the stored bytes, and costs nothing more.
        refused: Why the platform refused, by the newest line; empty where it did not.
        is_finished: Whether the last order was answered.
    """

    tally: Tally
    study: str = ""
    time: float | None = None
    up: int = 0
    down: int = 0
    charged: dict[str, int] = field(default_factory=dict)
    refused: str = ""
    is_finished: bool = False


class PlatformSource:
    """A run as one platform's own lines tell of it."""

    def __init__(
        self,
        name: str,
        lines: Path,
        runs: Path,
        study: Kept[Study],
        *,
        run: str | None = None,
        sink: Sink | None = None,
        folder: Path | None = None,
    ) -> None:
        """Name the places; nothing is read yet.

        Args:
            name: The platform.
            lines: The file of its replies, or its disclosure record.
            runs: The folder of its runs.
            study: The study that it knows.
            run: The run; None follows the newest.
            sink: Who else hears of every round.
            folder: The folder of the run, where it does not stand among others.
        """
        self.name = name
        self._lines = LineTail(lines)
        self._runs, self._folder = runs, folder
        self._study_file = study
        self._wanted, self._run = run, run or ""
        self._sink = sink or Silent()
        self._heard, self._own = self._anew(), OwnLines(self._place, self._run)
        self._results: Kept[Results] | None = None
        self._damage = Damage()

    def look(self) -> bool:
        """Read the lines that are new.

        Raises:
            FednerError: A line is damaged.
        """
        new = self._lines.read()
        if new.is_anew:
            self._begin(self._wanted or "")
            self._damage.clear()
        with self._damage.noted():
            for line in new.lines:
                self._hear(self._parsed(line))
        return new.has_more

    def snapshot(self) -> Snapshot:
        """Return what is to be shown now."""
        study, heard = self._study(), self._heard
        standing = self._standing()
        results = Results()
        if standing.phase == "done":
            if self._results is None:
                title = self._run if study is None else study.title
                self._results = Kept(
                    self._place / SCORES,
                    lambda path: platform_results(path.parent, self.name, title),
                )
            results = self._results.get() or results
        return snapshot_of(
            study,
            heard.tally,
            standing,
            results,
            run=self._run,
            view="platform",
            platform=self.name,
        )

    def cost_one(self) -> bool:
        """Ask the accountant for one more epsilon.

        Raises:
            FednerError: It is not installed.
        """
        return cost_one(self._study(), self._heard.tally)

    def close(self) -> None:
        """Nothing is held between two looks."""

    @property
    def _place(self) -> Path:
        return self._runs / self._run if self._folder is None else self._folder

    def _anew(self) -> _Heard:
        return _Heard(Tally([self.name]))

    def _begin(self, run: str) -> None:
        self._run, self._heard, self._results = run, self._anew(), None
        self._own = OwnLines(self._place, run)
        if run:
            self._sink.begin(run, 0)

    def _study(self) -> Study | None:
        """Return the study of the run, where the platform has that very one."""
        study = self._study_file.get()
        said = self._heard.study
        return study if study is not None and said in ("", study.digest) else None

    def _parsed(self, line: bytes) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = read_json(line, _MOST_LINE)
            if isinstance(found["run"], str) and isinstance(found["round"], int):
                return found
        except (FednerError, KeyError, TypeError):
            pass
        raise FednerError(
            f"{self._lines.path} has a line that describes no reply",
            "Check it: fedner platform record --home HOME",
        )

    def _hear(self, line: Mapping[str, Any]) -> None:
        run = line["run"]
        if not run or self._wanted not in (None, run):
            return
        if run != self._run:
            self._begin(run)
        heard = self._heard
        heard.study = line.get("study", heard.study)
        if line.get("entry") == REFUSED:
            heard.refused = line["code"]
            return
        heard.refused = ""
        if line["code"]:
            self._failed(line)
            return
        self._answered(line)

    def _failed(self, line: Mapping[str, Any]) -> None:
        words = FAILURES.get(line["code"], line["code"])
        found = Incident(line["round"], self.name, line["verb"], "no answer", words)
        self._heard.tally.add_incidents([found], line["round"])

    def _answered(self, line: Mapping[str, Any]) -> None:
        heard, verb, round_ = self._heard, line["verb"], line["round"]
        heard.up += line["num_bytes"]
        heard.down += line["num_received"]
        heard.is_finished = verb == "finish"
        event = self._release(line)
        if event is not None:
            heard.tally.spending.add(self.name, round_, event)
        if heard.is_finished:
            heard.tally.add_bytes({self.name: heard.up}, {self.name: heard.down})
            heard.up, heard.down = 0, 0
        carries = verb in _UPDATES and line["num_bytes"] > 0
        if carries and round_ > heard.tally.round:
            self._count(round_, line.get("time"))
        if verb == "evaluate":
            self._scored(round_)

    def _count(self, round_: int, stated: str | None) -> None:
        heard = self._heard
        moment = None if stated is None else datetime.fromisoformat(stated).timestamp()
        taken = 0.0
        if moment is not None and heard.time is not None:
            taken = max(0.0, moment - heard.time)
        heard.time = moment
        loss = self._own.take("loss", round_)
        losses = {} if loss is None else {self.name: loss}
        up, down = {self.name: heard.up}, {self.name: heard.down}
        record = RoundRecord(round_, taken, None, losses, {}, up, down)
        heard.up, heard.down = 0, 0
        heard.tally.add(record)
        self._sink.add(record)

    def _scored(self, round_: int) -> None:
        newest, _ = self._heard.tally.newest_f1.get(self.name, (0, 0.0))
        value = self._own.take("f1", round_)
        if value is not None and round_ > newest:
            self._heard.tally.add_f1(self.name, round_, value)
            self._sink.add_f1(self.name, round_, value)

    def _release(self, line: Mapping[str, Any]) -> GaussianRelease | None:
        """Return what a reply released, if that was not counted before."""
        if not line.get("event"):
            return None
        if line["round"] <= self._heard.charged.get(line["verb"], 0):
            return None
        self._heard.charged[line["verb"]] = line["round"]
        event = from_json(line["event"][RELEASE])
        return event if isinstance(event, GaussianRelease) else None

    def _standing(self) -> Standing:
        heard = self._heard
        if not self._run:
            return Standing("waiting", "no run has asked anything of this platform yet")
        if heard.refused:
            codes = heard.refused.split(", ")
            return Standing("refused", "; ".join(FAILURES.get(each, each) for each in codes))
        if heard.is_finished and (self._place / SCORES).is_file():
            return Standing("done")
        if is_held(self._place):
            return Standing("finishing" if heard.is_finished else "running")
        return Standing(
            "waiting", "no job of the run works here now; the server begins the next one"
        )


def home_source(home: Path, run: str | None = None, sink: Sink | None = None) -> PlatformSource:
    """Return a platform's home as a source.

    Raises:
        FednerError: It is no home of a platform.
    """
    place = PlatformHome(home)
    approval = Kept(place.approval, _approved)
    name = read_json(place.record.read_bytes(), _MOST_LINE)["name"]
    return PlatformSource(name, home / RECORD, place.runs, approval, run=run, sink=sink)


def _approved(path: Path) -> Study:
    approval = read_approval(path)
    return parse_as(Study, read_json(approval.study.encode(), _MOST_LINE), str(path))


def folder_source(folder: Path, sink: Sink | None = None) -> PlatformSource:
    """Return a platform's folder in a simulation as a source."""
    study = Kept(folder.parent.parent / STUDY, read_study)
    return PlatformSource(
        folder.name, folder / REPLIES, folder.parent, study, sink=sink, folder=folder
    )
