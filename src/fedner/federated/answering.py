"""One live platform that answers orders: what it does for each verb, and where it goes on from.

The platform is built when an order first needs it. Its private part is stored in its state folder,
which is locked by the process that answers for it: the lock ends with the process, and a successor
waits some seconds for an orphan that still works there.

Where a platform goes on from:

* `load` of round k: its newest stored private part that is not newer than k; newer ones are
  dropped. Without any it begins anew.
* Its process ended and another one answers: its newest stored private part that is not newer than
  the round before the order's. That it missed rounds is as if it had not been asked in them.

* Its disk was full: as if its process had ended.

Where the coordinator has no weights (`summation.MirroringSum`) the platform's copy of the server is
stored beside the private part, and puts the weights into orders that bring none.

Whatever goes wrong becomes a code with fixed words; the cause is written to the platform's own log.
"""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from fedner.durable import is_disk_full, owner_folder
from fedner.errors import FednerError
from fedner.federated.checkpoints import (
    COPIES,
    drop_after,
    platform_folder,
    read_state,
    stored_rounds,
    write_state,
)
from fedner.federated.dp_steps import BudgetSpentError
from fedner.federated.folder_lock import FolderInUseError, held_by_this_process
from fedner.federated.messages import (
    RELEASE,
    Failure,
    Order,
    Reply,
    ScoreReport,
    SumMessage,
    Update,
    failure,
    nothing_shared,
    order_problem,
)
from fedner.federated.orders import Expected, OrderRefusedError, RoundPassedError, checked_order
from fedner.federated.platform import LocalPart, Platform
from fedner.federated.platform_state import PlatformState
from fedner.federated.summation import (
    PLAIN,
    KeyEndedError,
    MirroringSum,
    PlatformSum,
    Summation,
    SumRefusedError,
)
from fedner.federated.tensor_bytes import NotFiniteError
from fedner.privacy.events import to_json
from fedner.privacy.scores import NoisedScores
from fedner.tensors import map_shared

Build = Callable[[str], Platform]
Finish = Callable[[Order, Platform], ScoreReport]

PATIENCE = 5.0  # seconds; an orphaned worker notices within two that its parent is gone
_RETRY_SECONDS = 0.1
_FACTS = "fedner"
_WITH_WEIGHTS = ("round", "evaluate", "finish")
_TELLS_NOTHING = (BudgetSpentError, OrderRefusedError, RoundPassedError)
_CODES: tuple[tuple[type[FednerError], str], ...] = (
    (BudgetSpentError, "budget-spent"),
    (OrderRefusedError, "order-refused"),
    (RoundPassedError, "round-passed"),
    (FolderInUseError, "folder-in-use"),
    (NotFiniteError, "not-finite"),
    (KeyEndedError, "key-ended"),
    (SumRefusedError, "sum-refused"),
    (FednerError, "error"),
)
_log = logging.getLogger(__name__)


def logged_failure(error: Exception, platform: str, order: Order) -> Failure:
    """Write an error, with its text, to the platform's own log; return what others may know."""
    where = f"platform {platform}, {order.verb!r:.20} of round {order.round!r:.20}"
    if is_disk_full(error):
        _log.error("%s: no room on the disk: %s", where, error)
        return failure(platform, order.round, "disk-full")
    for kind, code in _CODES:
        if isinstance(error, kind):
            _log.warning("%s: %s", where, error)
            return failure(platform, order.round, code)
    _log.error("%s failed", where, exc_info=error)
    return failure(platform, order.round, "unexpected")


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one intra-op thread: bits do not depend on the cores, and small steps win."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Answering:
    """One platform, and what it does with each order; an `Answer`."""

    def __init__(
        self,
        name: str,
        build: Build,
        algorithm: LocalPart,
        folder: Path | None = None,
        *,
        study: str = "",
        rounds: int | None = None,
        reports_scores: bool = True,
        summation: Summation = PLAIN,
        finish: Finish | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Make the answer; nothing is built and no file touched before the first order.

        Args:
            name: The platform.
            build: Makes the platform, at its beginning, of its name.
            algorithm: What it does in a round, and the facts of that.
            folder: Its state folder; None keeps nothing.
            study: The digest of its study; empty takes orders of any.
            rounds: How many rounds the study has; None where nobody said.
            reports_scores: Whether scores by round may leave it.
            summation: How updates become one sum.
            finish: What it does with the final shared weights, and what it reports; None does
                nothing.
            patience: How many seconds it waits for another process that works in its folder.
        """
        self.name = name
        self._build = build
        self._algorithm = algorithm
        self._folder = folder
        self._study = study
        self._rounds = rounds
        self._reports_scores = reports_scores
        self._summation = summation
        self._finish = finish
        self._patience = patience
        self._platform: Platform | None = None
        self._start: int | None = None  # the stored round to go on from; None: nobody said yet
        self._spill: tempfile.TemporaryDirectory[str] | None = None
        self._sum: PlatformSum | None = None
        self._has_copy = False  # of the server, loaded by this process
        self._lock = ExitStack()
        self._is_locked = False

    def __call__(self, order: Order) -> Reply:
        """Do what an order says; whatever goes wrong is a `Failure`."""
        try:
            self._check(order)
            self._hold_folder()
            with one_thread():
                return self._do(order)
        except Exception as error:  # noqa: BLE001 - one platform's fault must not end the others
            if is_disk_full(error):
                self._start_over()
            return logged_failure(error, self.name, order)

    def rest(self) -> None:
        """Put the platform's state aside and let go of its model.

        A crash may lose what lies there, since stored rounds are what a platform goes on from.
        """
        if self._platform is None:
            return
        state = self._platform.state()
        if self._spill is None:
            self._spill = tempfile.TemporaryDirectory(prefix="fedner-spill-")
        save_file(dict(state.tensors), self._spill_path(), {_FACTS: json.dumps(state.facts)})
        self._let_go()

    def close(self) -> None:
        """Let go of the platform, its ledger and its folder."""
        self._let_go()
        self._drop_spill()
        self._start = None
        self._lock.close()
        self._is_locked = False

    def _check(self, order: Order) -> None:
        problem = order_problem(order)
        if problem is None and self._study and order.study != self._study:
            problem = f"the study {order.study!r:.80}; its own is {self._study!r}"
        if problem is None and self._rounds is not None and order.round > self._rounds:
            problem = f"the round {order.round}; the study has {self._rounds}"
        if problem is not None:
            raise OrderRefusedError(
                f"platform {self.name!r} refuses the order: it has {problem}",
                "Coordinator and platform must have the same study.",
            )

    def _do(self, order: Order) -> Reply:
        copy = self._copy(order)
        if copy is not None and order.verb in _WITH_WEIGHTS:
            order = self._filled(copy, order)
        if order.verb == "round":
            attempt = self._sums().num_sent(order)
            update = self._live(order.round - 1).run_round(self._algorithm, order, attempt)
            return self._sums().protect(order, update)
        if order.verb == "sum":
            return self._phase(order)
        if order.verb == "evaluate":
            return self._scored(order)
        if order.verb == "finish":
            return self._finished(order)
        if order.verb == "save":
            self._save(order.round)
        elif order.verb == "load":
            self._load(order.round)
        rounds = () if self._folder is None else tuple(stored_rounds(self._folder))
        return Update(self.name, order.round, stored=rounds)

    def _phase(self, order: Order) -> SumMessage:
        if order.phase > self._summation.num_phases or not self._summation.before:
            raise OrderRefusedError(
                f"platform {self.name!r} refuses phase {order.phase} of a summation: "
                f"{self._summation.name!r} has {self._summation.num_phases}"
            )
        if order.shared:
            self._checked(order)
        return self._sums().phase(order)

    def _copy(self, order: Order) -> MirroringSum | None:
        """Return the side that keeps a copy of the server, where the summation has one."""
        sums = self._sums()
        if not isinstance(sums, MirroringSum):
            return None
        if not self._has_copy and order.verb not in ("begin", "load"):
            newest = order.round - 1 if order.verb in ("round", "sum") else order.round
            self._load_copy(sums, self._begin_from(newest))
        return sums

    def _load_copy(self, sums: MirroringSum, newest: int) -> None:
        folder = None if self._folder is None else self._folder / COPIES
        # Names and shapes are needed where something is stored: the platform is built for them.
        has_stored = folder is not None and bool(stored_rounds(folder))
        shared = self._live(newest).shared() if has_stored else nothing_shared()
        sums.load(folder, newest, shared)
        self._has_copy = True

    def _filled(self, copy: MirroringSum, order: Order) -> Order:
        """Return an order with the weights of the platform's own copy of the server."""
        if order.shared:
            self._checked(order)
        filled = copy.filled(order)
        newest = order.round - 1 if order.verb == "round" else order.round
        own = self._live(newest).shared()
        device = next((each.device for each in own.values()), torch.device("cpu"))
        shared, extra = (
            map_shared(lambda each: each.to(device), part) for part in (filled.shared, filled.extra)
        )
        return replace(filled, shared=shared, extra=extra)

    def _checked(self, order: Order) -> Order:
        """Return an order whose weights are of the model's names and shapes, and finite."""
        platform = self._live(order.round - 1)
        rows = platform.fixed_rows
        return checked_order(
            order, Expected(self.name, platform.shared(), rows, None, None, is_update=False)
        )

    def _scored(self, order: Order) -> ScoreReport:
        """Return what may leave of the scores; nothing where ledger, policy or order forbid it."""
        if not self._reports_scores:
            return ScoreReport(self.name, order.round)
        try:
            found = self._live(order.round).scores(order)
        except _TELLS_NOTHING as error:
            if is_disk_full(error):
                raise
            _log.warning("platform %s reports no scores: %s", self.name, error.message)
            found = None
        if found is None:
            return ScoreReport(self.name, order.round)
        if isinstance(found, NoisedScores):
            event = {RELEASE: to_json(found.event)}
            return ScoreReport(self.name, order.round, noised=found, event=event)
        return ScoreReport(self.name, order.round, {"federated": found})

    def _finished(self, order: Order) -> ScoreReport:
        if self._finish is None:
            return ScoreReport(self.name, order.round)
        platform = self._live(order.round)
        rows, plan = platform.fixed_rows, platform.plan
        expected = Expected(self.name, platform.shared(), rows, None, plan, is_update=False)
        report = self._finish(checked_order(order, expected), platform)
        sums = self._sums()
        if isinstance(sums, MirroringSum):
            sums.finish(order)
        return report

    def _save(self, round_: int) -> None:
        folder, sums = self._need_folder(), self._sums()
        if isinstance(sums, MirroringSum):
            sums.store(folder / COPIES, round_)  # first: a private part has its copy
        # A platform that rests need not be built to be stored.
        rested = self._rested() if self._platform is None else None
        state = self._live(round_).state() if rested is None else rested
        write_state(folder, round_, state.tensors, state.facts)
        if self._platform is not None:
            self._platform.forget_releases(stored_rounds(folder)[0])

    def _load(self, round_: int) -> None:
        self._let_go()
        self._drop_spill()
        self._start = 0
        if self._folder is not None or round_:
            self._start = _rewound(self._need_folder(), round_)
        if self._start:
            self._stored(self._start)  # raises now if it is damaged
        sums = self._sums()
        if isinstance(sums, MirroringSum):
            self._load_copy(sums, self._start)

    def _live(self, newest: int) -> Platform:
        """Return the platform; one that is not live yet goes on from at most round `newest`."""
        if self._platform is None:
            state = self._rested() or self._stored(self._begin_from(newest))
            built = self._build(self.name)
            try:
                if state is not None:
                    built.restore(state)
            except BaseException:
                built.close()
                raise
            self._platform = built
        return self._platform

    def _begin_from(self, newest: int) -> int:
        if self._start is None:
            self._start = 0 if self._folder is None else _rewound(self._folder, newest)
        return self._start

    def _stored(self, round_: int) -> PlatformState | None:
        if not round_ or self._folder is None:
            return None
        return PlatformState(*read_state(self._folder, round_))

    def _rested(self) -> PlatformState | None:
        if self._spill is None:
            return None
        with safe_open(self._spill_path(), framework="pt") as file:
            facts = json.loads((file.metadata() or {})[_FACTS])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        return PlatformState(tensors, facts)

    def _sums(self) -> PlatformSum:
        if self._sum is None:
            self._sum = self._summation.at_platform(self.name)
        return self._sum

    def _let_go(self) -> None:
        if self._platform is not None:
            self._platform.close()
            self._platform = None

    def _start_over(self) -> None:
        """Go on from what is stored, as another process would: the ledger is opened anew too."""
        self._let_go()
        self._drop_spill()
        self._start = None
        self._has_copy = False

    def _spill_path(self) -> Path:
        if self._spill is None:
            raise FednerError(f"platform {self.name!r} has no spilled state")
        return Path(self._spill.name) / "state"

    def _drop_spill(self) -> None:
        if self._spill is not None:
            self._spill.cleanup()
            self._spill = None

    def _need_folder(self) -> Path:
        if self._folder is None:
            raise FednerError(
                f"platform {self.name!r} has no folder to store its state in",
                "Give it the run folder, or run without checkpoints.",
            )
        return self._folder

    def _hold_folder(self) -> None:
        """Lock the state folder for this process; wait a while for another one to end.

        Raises:
            FolderInUseError: If another process still holds it.
        """
        if self._folder is None or self._is_locked:
            return
        folder, end = owner_folder(self._folder), time.monotonic() + self._patience
        while not self._is_locked:
            try:
                self._lock.enter_context(held_by_this_process(folder))
                self._is_locked = True
            except FolderInUseError:
                if time.monotonic() >= end:
                    raise
                time.sleep(_RETRY_SECONDS)


def _rewound(folder: Path, newest: int) -> int:
    """Drop what is newer than a round; return the newest that is left, 0 where there is none."""
    drop_after(folder, newest)
    return max(stored_rounds(folder), default=0)


def answers(
    build: Build, algorithm: LocalPart, folder: Path | None = None, **options: Any
) -> Callable[[str], Answering]:
    """Return what makes the answer of a platform of its name, for engines of one machine.

    Args:
        build: Makes a platform, at its beginning, of its name.
        algorithm: What a platform does in a round.
        folder: The run folder, in which each platform has a state folder; None keeps nothing.
        options: Further arguments of `Answering`.
    """
    return partial(_answering, build, algorithm, folder, options)


def _answering(
    build: Build, algorithm: LocalPart, folder: Path | None, options: dict[str, Any], name: str
) -> Answering:
    own = None if folder is None else platform_folder(folder, name)
    return Answering(name, build, algorithm, own, **options)
