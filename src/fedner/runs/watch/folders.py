"""A run's folder: of a simulation with all its platforms, or of the coordinator at a server."""

from collections.abc import Callable
from pathlib import Path

from fedner.engines.flare.job_ends import JobEnd, last_begin, read_ends
from fedner.engines.flare.refusals import refusals_in
from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.federated.folder_lock import is_held
from fedner.federated.record import parse_round
from fedner.federated.run import RECORD
from fedner.runs.folder import AT_WORK, LOCAL_ONLY, SCORES, platform_names, resume_command
from fedner.runs.report.coordinator import SCORE_REPORTS
from fedner.runs.watch.results import (
    Kept,
    Results,
    local_results,
    reported_results,
    rounds_of,
    study_file,
)
from fedner.runs.watch.snapshot import Snapshot, Standing, View
from fedner.runs.watch.source import Damage, Silent, Sink, cost_one, snapshot_of
from fedner.runs.watch.tail import LineTail
from fedner.runs.watch.tallies import Tally
from fedner.settings import Study

_Judge = Callable[[Path, Study | None, int], Standing]


class FolderSource:
    """The half of a run that its coordinator keeps, read from its folder."""

    def __init__(
        self,
        folder: Path,
        view: View,
        judge: _Judge,
        results: Kept[Results],
        sink: Sink | None = None,
    ) -> None:
        """Name the folder; nothing is read yet.

        Args:
            folder: The folder.
            view: Whose eyes see it.
            judge: Tells from the folder, the study and the newest round how far the run is.
            results: What the run came to.
            sink: Who else hears of every round.
        """
        self.folder = folder
        self._view: View = view
        self._judge = judge
        self._results = results
        self._sink = sink or Silent()
        self._study = study_file(folder)
        self._record = LineTail(folder / RECORD)
        self._tally = Tally([])
        self._is_begun = False
        self._damage = Damage()

    def look(self) -> bool:
        """Read the rounds that are new.

        Raises:
            FednerError: A record is damaged, or the folder is gone.
        """
        if self._is_begun and not self.folder.is_dir():
            raise FednerError(
                f"{self.folder} is gone: what is shown was read before", "Was it moved or deleted?"
            )
        self._name()
        new = self._record.read()
        if new.is_anew or not self._is_begun:
            self._is_begun = True
            self._tally = Tally(self._names())
            self._sink.begin(self.folder.name, 0)
            self._damage.clear()
        with self._damage.noted():
            for line in new.lines:
                record = parse_round(self._record.path, line, self._tally.round + 1)
                self._tally.add(record)
                self._sink.add(record)
        return new.has_more

    def snapshot(self) -> Snapshot:
        """Return what is to be shown now."""
        study = self._study.get()
        standing = self._judge(self.folder, study, self._tally.round)
        results = (self._results.get() if standing.phase == "done" else None) or Results()
        return snapshot_of(
            study,
            self._tally,
            standing,
            results,
            run=self.folder.name,
            view=self._view,
            gone=frozenset(standing.waiting_for),
        )

    def cost_one(self) -> bool:
        """Ask the accountant for one more epsilon.

        Raises:
            FednerError: It is not installed.
        """
        return cost_one(self._study.get(), self._tally)

    def close(self) -> None:
        """Nothing is held between two looks."""

    def _names(self) -> list[str]:
        study = self._study.get()
        return platform_names(self.folder) if study is None else study.names

    def _name(self) -> None:
        """Take the platforms' names as soon as there is a study."""
        if not self._tally.names:
            self._tally.names = self._names()


def local_source(folder: Path, sink: Sink | None = None) -> FolderSource:
    """Return a simulation's folder as a source."""
    results = Kept(folder / SCORES, lambda path: local_results(path.parent))
    return FolderSource(folder, "local", local_standing, results, sink)


def server_source(folder: Path, sink: Sink | None = None) -> FolderSource:
    """Return the folder of a run at a server as a source."""
    results = Kept(folder / SCORE_REPORTS, lambda path: reported_results(path.parent))
    return FolderSource(folder, "coordinator", server_standing, results, sink)


def local_standing(folder: Path, study: Study | None, round_: int) -> Standing:
    """Return how far a simulation is."""
    if not folder.is_dir():
        return Standing("failed", "its folder is gone")
    is_at_work = is_held(folder, AT_WORK) or is_held(folder)
    is_finished = (folder / SCORES).is_file()
    if is_at_work:
        return _at_work(folder, study, round_)
    if is_finished:
        return Standing("done")
    if is_at_work is None and round_ < (rounds_of(study) or 0):
        return Standing("running", "this system cannot tell whether the training is still running")
    where = f"after round {round_:,}" if round_ else "before its first round"
    return Standing("stopped", f"{where}; go on with it: {resume_command(folder)}")


def _at_work(folder: Path, study: Study | None, round_: int) -> Standing:
    if round_ and round_ == rounds_of(study):
        return Standing("finishing", "all rounds are done; taggers are finished and scored")
    if round_:
        return Standing("running")
    if study is None:
        return Standing("preparing")
    if LOCAL_ONLY in study.training.baselines:
        done = len(list(folder.glob(f"platforms/*/baselines/{LOCAL_ONLY}.json")))
        if done < len(study.names):
            return Standing(
                "preparing", f"local-only baselines: {done} of {len(study.names)} are trained"
            )
    return Standing("running", "the first round")


def server_standing(folder: Path, study: Study | None, round_: int) -> Standing:
    """Return how far a run at a server is, by its folder alone."""
    ends = read_ends(folder)
    newest = ends[-1] if ends else None
    if is_held(folder):
        if round_ and round_ == rounds_of(study):
            return Standing("finishing", "all rounds are done; platforms finish and report")
        return Standing("running", "" if round_ else "the first round")
    has_begun = last_begin(folder)
    if newest is not None and newest.time >= has_begun:
        return _ended(newest, study)
    if not has_begun and not round_:
        return Standing("waiting", "its job has not begun")
    return Standing("interrupted", "its process ended; the server's watchdog goes on with it")


def _ended(end: JobEnd, study: Study | None) -> Standing:
    """Return how a run stands whose newest job ended as told."""
    if end.outcome == "fault":
        names = tuple(sorted(end.missing))
        reasons = [FAILURES[end.missing[name]] for name in names]
        if len(names) > 1:  # of one alone the name is said already
            reasons = [f"{name}: {words}" for name, words in zip(names, reasons, strict=True)]
        return Standing("waiting", "; ".join(reasons) or end.words, names)
    if end.outcome == "refused":
        found = refusals_in([end.words], [] if study is None else study.names)
        why = "; ".join(f"{name}: {', '.join(words)}" for name, words in found.items())
        return Standing("refused", why or end.words, tuple(found))
    if end.outcome == "stopped":
        return Standing("stopped", "the coordinator stopped it: fedner federation resume")
    return Standing("done" if end.outcome == "done" else "failed", end.words)
