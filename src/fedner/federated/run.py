"""The round loop: the same for every algorithm and every engine.

A round: choose platforms, broadcast, take the replies in canonical order, refuse what is unsound,
combine the rest, let the server advance, evaluate where it is time, write the record, checkpoint
where it is time. Platforms store their private parts before the server stores its own.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedner.errors import FednerError
from fedner.federated.aggregate import (
    Combined,
    Reply,
    Rule,
    WeightedMean,
    combine,
    in_canonical_order,
)
from fedner.federated.algorithms.algorithm import Algorithm, Server
from fedner.federated.checkpoints import (
    drop_after,
    held_by_this_process,
    owner_folder,
    stored_rounds,
)
from fedner.federated.ema import averaged, require_decay
from fedner.federated.engine import Engine
from fedner.federated.messages import Broadcast, nothing_shared, payload_bytes
from fedner.federated.participation import Participation, check_participation, choose
from fedner.federated.record import RecordFile, RoundRecord
from fedner.federated.screening import NormRule, OnRefusal, Screen
from fedner.federated.server_noise import ServerNoise
from fedner.federated.server_state import restore_server, store_server
from fedner.federated.sizes import check_sizes, planned_batches
from fedner.privacy.ledger_marks import LedgerMark
from fedner.tensors import SharedState

RECORD = "rounds.jsonl"
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


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run came to.

    Attributes:
        server: The server's last state, with the shared weights.
        rounds: The record of every round, those before a resume included.
        resumed_from: The round that the run went on from; 0 where it began anew.
        ema: The EMA of the shared weights; without tensors where the run has none.
    """

    server: Server
    rounds: tuple[RoundRecord, ...]
    resumed_from: int = 0
    ema: SharedState = field(default_factory=nothing_shared)

    @property
    def shared(self) -> SharedState:
        """The shared weights to work with: the EMA where there is one, else the last."""
        return self.ema or self.server.shared


@dataclass(slots=True)
class _State:
    """Where a run stands."""

    round: int
    server: Server
    screen: Screen
    records: list[RoundRecord]
    ema: SharedState = field(default_factory=nothing_shared)


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
    _check_noise(algorithm, settings, folder)
    if folder is None:
        state = _State(0, algorithm.init(initial), _screen(settings), [])
        return _rounds(algorithm, engine, settings, seed, state, None, on_round)
    with held_by_this_process(owner_folder(folder)), closing(RecordFile(folder / RECORD)) as record:
        place = _Place(folder, record)
        state = _begin(algorithm, engine, initial, settings, place, resume)
        return _rounds(algorithm, engine, settings, seed, state, place, on_round)


def _rounds(
    algorithm: Algorithm,
    engine: Engine,
    settings: RunSettings,
    seed: int,
    state: _State,
    place: _Place | None,
    on_round: OnRound | None,
) -> RunRecord:
    """Take the rounds that are left."""
    first = state.round
    while state.round < settings.rounds:
        began = time.perf_counter()
        done = _round(algorithm, engine, settings, seed, state)
        done = replace(done, seconds=time.perf_counter() - began)
        state.records.append(done)
        if place is not None:
            place.record.append(done)
            if _is_time(state.round, settings, settings.checkpoint_every):
                _store(engine, settings, state, place)
        if on_round is not None:
            on_round(done)
    return RunRecord(state.server, tuple(state.records), first, state.ema)


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
    expected = ("gradients", "differences") if noise.is_whole else ("gradients",)
    if algorithm.sends not in expected:
        raise FednerError(
            f"noise at the server with algorithm {algorithm.name!r}, whose updates are "
            f"{algorithm.sends}; expected {' or '.join(expected)}",
            "Take fedner with one local step (FedAvg of one plain SGD step is fedner with an SGD "
            "server), unit 'platform', or noise at the platforms.",
        )


def _screen(settings: RunSettings) -> Screen:
    # Whether a sum that nobody noised yet is refused must not depend on what is in it.
    rule = settings.norms if settings.noise is None else NormRule(None, None)
    return Screen(rule, settings.on_refusal, takes_float64=settings.noise is not None)


def _begin(
    algorithm: Algorithm,
    engine: Engine,
    initial: SharedState,
    settings: RunSettings,
    place: _Place,
    resume: bool,
) -> _State:
    """Return where the run begins: at round 0, or at the newest round that everybody has."""
    state = _State(0, algorithm.init(initial), _screen(settings), [])
    if not resume:
        if place.record.path.exists():
            raise FednerError(
                f"{place.folder} already holds a run", "Resume it, or name another folder."
            )
        return state
    common = set(stored_rounds(place.server)) & set(engine.saved())
    state.round = max((each for each in common if each <= settings.rounds), default=0)
    engine.load(state.round)
    if state.round:
        has_ema = settings.ema_decay is not None
        state.server, state.ema, facts = restore_server(
            place.server, state.round, state.server, has_ema=has_ema
        )
        state.screen.norms = [float(norm) for norm in facts["norms"]]
        marks = facts.get("marks", {})
        state.screen.marks = {name: LedgerMark(**mark) for name, mark in marks.items()}
    drop_after(place.server, state.round)
    state.records = place.record.keep_until(state.round)
    return state


def _round(
    algorithm: Algorithm, engine: Engine, settings: RunSettings, seed: int, state: _State
) -> RoundRecord:
    """Take one round: `state` is at the next one afterwards."""
    number = state.round + 1
    chosen = choose(settings.participation, list(settings.public_sizes), seed, number)
    sizes = {name: settings.public_sizes[name] for name in chosen}
    batches = planned_batches(sizes, settings.batch_size, algorithm.batching)
    broadcast = Broadcast(settings.run, number, state.server.shared, state.server.extra, batches)
    replies = in_canonical_order(engine.round(broadcast, chosen), chosen)
    combined = _combine(algorithm, settings, state.screen, broadcast, replies)
    state.server = algorithm.advance(state.server, combined)
    if settings.ema_decay is not None:
        before, decay = state.round, settings.ema_decay
        state.ema = SharedState(averaged(state.ema, state.server.shared, before, decay))
    state.round = number
    scores: Mapping[str, Mapping[str, Any]] = {}
    if _is_time(number, settings, settings.evaluate_every):
        shared = state.ema or state.server.shared
        after = replace(broadcast, shared=shared, extra=state.server.extra)
        scores = {name: each.as_dict() for name, each in engine.evaluate(after).items()}
    return _record(settings, state.screen, broadcast, scores)


def _combine(
    algorithm: Algorithm,
    settings: RunSettings,
    screen: Screen,
    broadcast: Broadcast,
    replies: Iterable[Reply],
) -> Combined:
    """Combine the accepted updates of a round, or raise where too few came."""
    sizes = settings.public_sizes
    weights = {
        name: float(size) if algorithm.weighting == "size" else 1.0 for name, size in sizes.items()
    }
    rule, noise = settings.rule, settings.noise
    if noise is not None:
        rule = noise.rule(broadcast.round, broadcast.shared)
        weights = noise.divisors(broadcast.batches, sizes)
    joint = sum(broadcast.batches.values())
    quorum = settings.participation.quorum
    try:
        combined = combine(screen.accepted_updates(replies, broadcast), weights, rule, joint)
    except FednerError:
        if screen.accepted or not (screen.failures or screen.refusals):
            raise
        raise _too_few(screen, broadcast, quorum) from None
    has_silent = quorum is None and bool(screen.failures)
    if has_silent or len(screen.accepted) < (quorum or 1):
        raise _too_few(screen, broadcast, quorum)
    return combined


def _too_few(screen: Screen, broadcast: Broadcast, quorum: int | None) -> FednerError:
    reasons = [f"{each.platform}: {each.message}" for each in screen.failures]
    reasons += [f"{each.platform}: refused, {each.message}" for each in screen.refusals]
    wanted = "all" if quorum is None else f"at least {quorum}"
    return FednerError(
        f"round {broadcast.round}: {len(screen.accepted)} of {len(broadcast.batches)} platforms "
        f"answered soundly; expected {wanted} ({'; '.join(reasons)})",
        "Fix those platforms and resume the run, or give a quorum.",
    )


def _is_time(round_: int, settings: RunSettings, every: int) -> bool:
    return bool(every) and (round_ % every == 0 or round_ == settings.rounds)


def _record(
    settings: RunSettings,
    screen: Screen,
    broadcast: Broadcast,
    scores: Mapping[str, Mapping[str, Any]],
) -> RoundRecord:
    accepted = screen.accepted
    losses = {name: each.loss for name, each in accepted.items() if each.loss is not None}
    weight = sum(settings.public_sizes[name] for name in losses)
    total = sum(settings.public_sizes[name] * loss for name, loss in losses.items())
    return RoundRecord(
        round=broadcast.round,
        seconds=0.0,
        loss=total / weight if losses else None,
        losses=losses,
        # What the server noises came without noise: not even its norms are for the record.
        norms={} if settings.noise else {name: each.norm for name, each in accepted.items()},
        bytes_up={name: each.num_bytes for name, each in accepted.items()},
        bytes_down=dict.fromkeys(broadcast.batches, payload_bytes(broadcast)),
        refusals=tuple(each._asdict() for each in screen.refusals),
        failures=tuple(
            {"platform": each.platform, "code": each.code, "message": each.message}
            for each in screen.failures
        ),
        scores=scores,
        events=dict(screen.events),
    )


def _store(engine: Engine, settings: RunSettings, state: _State, place: _Place) -> None:
    """Store a round: record, then every platform's private part, then the server's."""
    place.record.sync()
    engine.save(state.round)
    marks = {name: asdict(mark) for name, mark in state.screen.marks.items()}
    # Norms of sums that came without noise are not to outlive their round.
    norms = [] if settings.noise else state.screen.norms
    facts = {"run": settings.run, "norms": norms, "marks": marks}
    store_server(place.server, state.round, state.server, state.ema, facts)
