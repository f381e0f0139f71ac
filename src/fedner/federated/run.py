"""The round loop: the same for every algorithm and every engine.

A round: choose platforms, send the order, take the replies in canonical order, refuse what is
unsound, combine the rest, let the server advance, evaluate where it is time, checkpoint where it is
time, write the record. Platforms store their private parts before the server stores its own.

It begins by asking every platform which rounds it can go on from, and ends by handing out the final
shared weights, with which every platform finishes by itself. A platform that is missing at any of
this is a value: the quorum decides whether the run goes on, and the record has it by name.

To resume is to go on from the newest round that the server and a quorum of the platforms (all,
without one) have stored. A platform without that round goes on from its newest older one; one with
newer rounds drops them (`answering`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedner.durable import owner_folder
from fedner.errors import FednerError
from fedner.federated.aggregate import Rule, WeightedMean
from fedner.federated.algorithms.algorithm import Algorithm, Server
from fedner.federated.asking import Kind, ask_alike, ask_for
from fedner.federated.blind import BlindRounds
from fedner.federated.checkpoints import drop_after, stored_rounds
from fedner.federated.ema import averaged, require_decay
from fedner.federated.encoding import order_down, require_encodable
from fedner.federated.engine import Engine
from fedner.federated.folder_lock import held_by_this_process
from fedner.federated.messages import (
    Order,
    ScoreReport,
    Update,
    Verb,
    failure,
    nothing_shared,
    payload_bytes,
)
from fedner.federated.opened_totals import OpenedTotals
from fedner.federated.participation import Participation, check_participation, choose
from fedner.federated.record import Missing, RecordFile, RoundRecord, missing, read_rounds
from fedner.federated.round import RoundRules, take_round
from fedner.federated.screening import NormRule, OnRefusal, PlannedReleases, Screen
from fedner.federated.server_noise import ServerNoise
from fedner.federated.server_state import restore_server, store_server
from fedner.federated.sizes import check_sizes, planned_batches, platform_weights
from fedner.federated.summation import PLAIN, Summation
from fedner.privacy.events import is_alike
from fedner.privacy.mechanisms import Asked, require_fitting
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores
from fedner.settings.sections import Encoding
from fedner.tensors import SharedState

RECORD = "rounds.jsonl"
SUMS = "sums"
OnRound = Callable[[RoundRecord], None]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a federation runs, whatever the algorithm.

    Attributes:
        run: Names the run.
        rounds: How many rounds.
        batch_size: N: the joint batch, or every platform's own, by the algorithm.
        public_sizes: The declared size of every platform: weights and batch sizes come from it.
        participation: Who is asked, and how many must have answered.
        rule: How updates are aggregated.
        norms: When an update is absurd; not asked where the server adds the noise.
        on_refusal: Whether a refused update ends the run.
        evaluate_every: Score all platforms after this many rounds, and after the last; 0 for never.
        checkpoint_every: Store all states after this many rounds, and after the last; 0 for never.
        noise: The server's noise on the sum of clipped updates, which then takes the place of
            `rule`; None where platforms add their own, or there is none.
        ema_decay: The decay of the EMA of the shared weights, which is scored and kept in their
            place; None for the last weights.
        study: The digest of the study, which every order carries.
        summation: How updates become one sum.
        timeout: Seconds that all replies to an order may take; None waits for ever.
        encoding: In which numbers updates and the weights of a round travel.
        releases: What releases cost by the study, which platforms' words are held against; None
            holds them against nothing.
    """

    run: str
    rounds: int
    batch_size: int
    public_sizes: Mapping[str, int]
    participation: Participation = field(default_factory=Participation)
    rule: Rule = WeightedMean
    norms: NormRule = field(default_factory=NormRule)
    on_refusal: OnRefusal = "continue"
    evaluate_every: int = 0
    checkpoint_every: int = 0
    noise: ServerNoise | None = None
    ema_decay: float | None = None
    study: str = ""
    summation: Summation = PLAIN
    timeout: float | None = None
    encoding: Encoding = "float32"
    releases: PlannedReleases | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run came to.

    Attributes:
        server: The server's last state, with the shared weights; without tensors where platforms
            alone have them.
        rounds: The record of every round, those before a resume included.
        resumed_from: The round that the run went on from; 0 where it began anew.
        ema: The EMA of the shared weights; without tensors where the run has none.
        reports: What each platform reported when it had finished.
        missing: Who was missing before the first round or at the end.
    """

    server: Server
    rounds: tuple[RoundRecord, ...]
    resumed_from: int = 0
    ema: SharedState = field(default_factory=nothing_shared)
    reports: Mapping[str, ScoreReport] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()

    @property
    def shared(self) -> SharedState:
        """The shared weights to work with: the EMA where there is one, else the last."""
        return self.ema or self.server.shared


@dataclass(slots=True)
class _State:
    """Where a run stands; `records` are those of a run that is kept nowhere."""

    round: int
    server: Server
    screen: Screen
    records: list[RoundRecord] = field(default_factory=list)
    ema: SharedState = field(default_factory=nothing_shared)
    missing: list[Missing] = field(default_factory=list)

    @property
    def shared(self) -> SharedState:
        """The shared weights to score and to keep."""
        return self.ema or self.server.shared


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a run is kept."""

    folder: Path
    record: RecordFile

    @property
    def server(self) -> Path:
        """The folder of the server's states."""
        return self.folder / "server"


def run(
    algorithm: Algorithm,
    engine: Engine,
    initial: SharedState,
    settings: RunSettings,
    seed: int,
    folder: Path | None = None,
    *,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> RunRecord:
    """Run a federation to its last round.

    Args:
        algorithm: What platforms and server compute.
        engine: What runs the platforms; the caller closes it.
        initial: The first shared weights.
        settings: Rounds, participation and the like.
        seed: Names every random stream of the run.
        folder: Where record and checkpoints go, readable by the owner alone; None keeps nothing.
        resume: Go on from the newest round that server and all platforms have stored. With the same
            machine, torch and thread count the result is bit for bit that of a run never stopped.
        on_round: Called with the record of each round, for progress.

    Raises:
        FednerError: If the settings do not fit the platforms, the folder holds a run that was not
            to be resumed, too few platforms answered, or an update was refused and that stops.
    """
    _check(settings, engine, folder)
    require_encodable(settings.encoding, algorithm.sends, settings.summation)
    _check_noise(algorithm, settings, folder)
    opened = None
    if folder is not None and settings.summation.at_server is not None:
        opened = OpenedTotals(folder / SUMS)
    blind: BlindRounds | None = None
    if settings.summation.blind is not None:
        sums = None if folder is None else folder / SUMS
        blind = settings.summation.blind(algorithm.init(initial), sums)
    coordinator = _Coordinator(algorithm, engine, settings, seed, on_round, opened, blind)
    if folder is None:
        return coordinator.run(coordinator.begin(initial), None)
    with held_by_this_process(owner_folder(folder)), closing(RecordFile(folder / RECORD)) as record:
        place = _Place(folder, record)
        if not resume and record.path.exists():
            raise FednerError(f"{folder} already holds a run", "Resume it, or name another folder.")
        state = coordinator.resume(initial, place) if resume else coordinator.begin(initial)
        return coordinator.run(state, place)


@dataclass(frozen=True, slots=True)
class _Coordinator:
    """The round loop, built from public facts alone."""

    algorithm: Algorithm
    engine: Engine
    settings: RunSettings
    seed: int
    on_round: OnRound | None
    opened: OpenedTotals | None = None
    blind: BlindRounds | None = None

    def begin(self, initial: SharedState) -> _State:
        """Begin at round 0; what platforms stored of another beginning is dropped."""
        state = self._new_state(initial)
        if self.blind is not None:
            self.blind.begin()
        answers = self._ask(Update, self._order("begin", 0), state.missing)
        if any(each.stored for each in answers.values()):
            self._ask(Update, self._order("load", 0), state.missing)
        return state

    def resume(self, initial: SharedState, place: _Place) -> _State:
        """Go on from the newest round that the server and enough platforms have stored."""
        state = self._new_state(initial)
        answers = self._ask(Update, self._order("begin", 0), state.missing)
        stored = {name: each.stored for name, each in answers.items()}
        state.round = self._common_round(stored_rounds(place.server), stored)
        self._ask(Update, self._order("load", state.round), state.missing)
        if state.round:
            self._restore(state, place)
        drop_after(place.server, state.round)
        place.record.keep_until(state.round)
        return state

    def run(self, state: _State, place: _Place | None) -> RunRecord:
        """Take the rounds that are left and let everybody finish."""
        first = state.round
        while state.round < self.settings.rounds:
            began = time.perf_counter()
            done = self._round(state)
            if place is not None and self._is_time(state.round, self.settings.checkpoint_every):
                done = replace(done, failures=(*done.failures, *self._save(state.round)))
            done = replace(done, seconds=time.perf_counter() - began)
            if place is None:
                state.records.append(done)
            else:  # on the disk alone: a run of days would fill the memory
                self._keep(state, done, place)
            if self.on_round is not None:
                self.on_round(done)
        reports = self._finish(state)
        rounds = state.records if place is None else read_rounds(place.record.path)
        return RunRecord(
            state.server, tuple(rounds), first, state.ema, reports, tuple(state.missing)
        )

    def _order(self, verb: Verb, round_: int) -> Order:
        return Order(self.settings.run, round_, verb=verb, study=self.settings.study)

    def _new_state(self, initial: SharedState) -> _State:
        first = self.algorithm.init(initial) if self.blind is None else Server(nothing_shared())
        return _State(0, first, _screen(self.settings))

    def _save(self, round_: int) -> list[Missing]:
        """Let all platforms store their private parts; return who is missing."""
        gone: list[Missing] = []
        answers = self._ask(Update, self._order("save", round_), gone)
        if self.blind is not None:
            stored = {name: each.stored for name, each in answers.items()}
            self.blind.note_stored(stored, self.engine.platforms)
        return gone

    def _ask(self, kind: type[Kind], order: Order, gone: list[Missing]) -> Mapping[str, Kind]:
        """Give all platforms one order and return their answers; note who is missing."""
        settings = self.settings
        orders = ask_alike(self.engine.platforms, order)
        quorum = settings.participation.quorum
        answers = ask_for(kind, self.engine, orders, settings.timeout, quorum)
        gone += answers.missing
        return answers.replies

    def _common_round(self, own: list[int], stored: Mapping[str, tuple[int, ...]]) -> int:
        """Return the newest round that the server and enough platforms can go on from."""
        quorum = self.settings.participation.quorum
        needed = len(stored) if quorum is None else quorum
        for round_ in sorted(own, reverse=True):
            num_ready = sum(round_ in rounds for rounds in stored.values())
            if round_ <= self.settings.rounds and num_ready >= needed:
                return round_
        return 0

    def _restore(self, state: _State, place: _Place) -> None:
        """Take the server's stored state of the round that the run goes on from."""
        has_ema = self.settings.ema_decay is not None and self.blind is None
        state.server, state.ema, facts = restore_server(
            place.server, state.round, state.server, has_ema=has_ema
        )
        state.screen.restore(facts)

    def _round(self, state: _State) -> RoundRecord:
        """Take one round: `state` is at the next one afterwards."""
        settings, number = self.settings, state.round + 1
        chosen = choose(settings.participation, list(settings.public_sizes), self.seed, number)
        order = replace(
            self._order("round", number),
            shared=state.server.shared,
            extra=state.server.extra,
            batches=self._batches(chosen),
        )
        sent, gone = self._take(order, state)
        state.round = number
        scores: Mapping[str, Scores | NoisedScores] = {}
        if self._is_time(number, settings.evaluate_every):
            extra = state.server.extra
            scored = replace(order, verb="evaluate", shared=state.shared, extra=extra)
            reports = self._ask(ScoreReport, scored, gone)
            odd = [name for name, each in reports.items() if self._has_odd_cost(each)]
            gone += [missing(failure(name, number, "malformed"), "evaluate") for name in odd]
            scores = _told({name: each for name, each in reports.items() if name not in odd})
        return _record(settings, state.screen, order, sent, scores, gone)

    def _has_odd_cost(self, report: ScoreReport) -> bool:
        """Whether scores say of their cost something else than the study."""
        planned = self.settings.releases
        if planned is None or report.noised is None:
            return False
        expected = planned.scores(report.platform)
        return expected is None or not is_alike(report.noised.event, expected)

    def _take(self, order: Order, state: _State) -> tuple[int, list[Missing]]:
        """Take a round's sum and the server's step; return the bytes sent to each, and who is gone.

        Where the server has no weights, platforms take its step.
        """
        engine, screen, rules = self.engine, state.screen, self._rules(order)
        if self.blind is not None:
            handed = self.blind.take(engine, order, screen, rules)
            return handed.bytes_down, list(handed.missing)
        taken = take_round(engine, order, screen, rules)
        state.server = self.algorithm.advance(state.server, taken.combined)
        decay = self.settings.ema_decay
        if decay is not None:
            found = averaged(state.ema, state.server.shared, state.round, decay)
            state.ema = SharedState(found)
        return payload_bytes(order_down(order, self.settings.encoding)), list(taken.missing)

    def _batches(self, chosen: Sequence[str]) -> dict[str, int]:
        sizes = {name: self.settings.public_sizes[name] for name in chosen}
        return dict(planned_batches(sizes, self.settings.batch_size, self.algorithm.batching))

    def _rules(self, order: Order) -> RoundRules:
        settings, sizes = self.settings, self.settings.public_sizes
        weights = platform_weights(sizes, self.algorithm.weighting)
        scales: Mapping[str, float] = {}
        rule, noise = settings.rule, settings.noise
        if noise is not None:
            rule = noise.rule(order.round, order.shared)
            scales = noise.scales(order.batches, sizes, self.algorithm.weighting)
            divisors = noise.divisors(order.batches, sizes)
            weights = {name: each * scales.get(name, 1.0) for name, each in divisors.items()}
        return RoundRules(
            weights,
            self._batches,
            rule,
            settings.participation.quorum,
            settings.timeout,
            settings.summation,
            scales,
            self.opened,
        )

    def _is_time(self, round_: int, every: int) -> bool:
        return bool(every) and (round_ % every == 0 or round_ == self.settings.rounds)

    def _keep(self, state: _State, done: RoundRecord, place: _Place) -> None:
        """Write a round's record and, where it is time, the server's state after it."""
        place.record.append(done)
        if not self._is_time(state.round, self.settings.checkpoint_every):
            return
        place.record.sync()
        # Norms of sums that came without noise are not to outlive their round.
        screened = state.screen.stored(with_norms=self.settings.noise is None)
        facts = {"run": self.settings.run, **screened}
        store_server(place.server, state.round, state.server, state.ema, facts)

    def _finish(self, state: _State) -> Mapping[str, ScoreReport]:
        order = replace(self._order("finish", state.round), shared=state.shared)
        unhurried = replace(self, settings=replace(self.settings, timeout=None))
        if self.blind is not None and state.round:
            state.missing += self.blind.settle(self.engine, order, self._rules(order))
        return unhurried._ask(ScoreReport, order, state.missing)


def _check(settings: RunSettings, engine: Engine, folder: Path | None) -> None:
    check_sizes(settings.public_sizes)
    names = sorted(settings.public_sizes)
    if names != sorted(engine.platforms):
        odd = sorted(set(names) ^ set(engine.platforms))
        raise FednerError(
            f"the settings and the engine differ in the platforms {odd[:5]}",
            "Every platform needs a public size and a place in the engine.",
        )
    check_participation(settings.participation, len(names))
    if settings.rounds < 0 or settings.batch_size < 1:
        raise FednerError(
            f"found {settings.rounds} rounds with batch_size {settings.batch_size}; expected 0 or "
            "more rounds and a batch_size of at least 1"
        )
    require_decay(settings.ema_decay)
    if settings.summation.hides_updates and settings.rule is not WeightedMean:
        raise FednerError(
            f"summation {settings.summation.name!r} with another rule than the mean",
            "Hidden updates cannot be sorted or bounded: use the rule 'mean'.",
        )
    if settings.checkpoint_every and folder is None:
        raise FednerError("checkpoints need a folder", "Name one, or set checkpoint_every to 0.")


def _check_noise(algorithm: Algorithm, settings: RunSettings, folder: Path | None) -> None:
    """Raise unless the server's noise covers what platforms send, and each sum is noised once."""
    noise = settings.noise
    if noise is None:
        return
    if folder is not None and not noise.source.is_simulation and settings.checkpoint_every != 1:
        raise FednerError(
            f"noise at the server with checkpoint_every {settings.checkpoint_every}; expected 1",
            "A round that is not stored would be noised twice after a crash.",
        )
    if settings.summation.hides_updates and algorithm.weighting != "size":
        raise FednerError(
            f"summation {settings.summation.name!r} with weighting {algorithm.weighting!r} and "
            "noise at the server; expected weighting 'size'",
            "Hidden updates cannot be scaled before the noise.",
        )
    sizes, batch = settings.public_sizes.values(), settings.batch_size
    steps = max(algorithm.steps(batch, size / noise.num_slices) for size in sizes)
    asked = Asked(
        algorithm.name,
        algorithm.sends,
        algorithm.has_extra,
        algorithm.loss_reading,
        steps,
        algorithm.weighting,
        encoding=settings.encoding,
    )
    require_fitting(noise.mechanism, asked, "noise at the server")


def _screen(settings: RunSettings) -> Screen:
    # Whether a sum that nobody noised yet is refused must not depend on what is in it.
    rule = settings.norms if settings.noise is None else NormRule(None, None)
    return Screen(
        rule,
        settings.on_refusal,
        takes_float64=settings.noise is not None,
        encoding=settings.encoding,
        planned=settings.releases,
        needs_costs=settings.releases is not None and settings.summation.shows_costs,
    )


def _told(reports: Mapping[str, ScoreReport]) -> dict[str, Scores | NoisedScores]:
    """Return the scores that reports of a round hold; those that tell nothing are left out."""
    found: dict[str, Scores | NoisedScores] = {}
    for name, report in reports.items():
        if report.noised is not None:
            found[name] = report.noised
        elif "federated" in report.scores:
            found[name] = report.scores["federated"]
    return found


def _record(
    settings: RunSettings,
    screen: Screen,
    order: Order,
    sent: int,
    scores: Mapping[str, Scores | NoisedScores],
    gone: Sequence[Missing],
) -> RoundRecord:
    accepted = screen.accepted
    losses = {name: each.loss for name, each in accepted.items() if each.loss is not None}
    weight = sum(settings.public_sizes[name] for name in losses)
    total = sum(settings.public_sizes[name] * loss for name, loss in losses.items())
    norms = {name: each.norm for name, each in accepted.items() if each.norm is not None}
    return RoundRecord(
        round=order.round,
        seconds=0.0,
        loss=total / weight if losses else None,
        losses=losses,
        # What the server noises came without noise: not even its norms are for the record.
        norms={} if settings.noise else norms,
        bytes_up={name: each.num_bytes for name, each in accepted.items()},
        bytes_down=dict.fromkeys(order.batches, sent),
        refusals=tuple(screen.refusals),
        failures=tuple(gone),
        scores=scores,
        events=dict(screen.events),
    )
