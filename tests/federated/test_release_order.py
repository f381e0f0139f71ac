"""Charged before data are touched; noise alone if work fails; killed in between, answered once."""

import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from linear_platform import LinearLearner, linear_partition
from numpy.typing import NDArray
from tagger_platforms import NAMES, first_shared, sentences_of, tagger_platform
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated import dp_steps, orders
from fedner.federated.algorithms import (
    Algorithm,
    FedAvgSettings,
    FednerSettings,
    LocalTraining,
    ScaffoldSettings,
    fedavg,
    fedner,
    scaffold,
)
from fedner.federated.algorithms.fedavg import plain_sgd
from fedner.federated.contribution import Contribution
from fedner.federated.dp_steps import (
    BudgetSpentError,
    DPSteps,
    sliced_units,
)
from fedner.federated.message_bytes import to_bytes
from fedner.federated.messages import Order, Update
from fedner.federated.platform import Platform, platform
from fedner.privacy.budget import Budget
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger, read_spent
from fedner.privacy.ledger_files import FAILURES
from fedner.privacy.mechanisms import (
    PLATFORM,
    UNIT_CENTRAL,
    UNIT_LOCAL,
    Mechanism,
    PlatformPrivacy,
    ScoreNoise,
    unit_local,
)
from fedner.privacy.noise import Clipped
from fedner.privacy.noise import clip as clip_state
from fedner.privacy.sampling import PoissonSample, Units
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Counts
from fedner.tensors import SharedState
from sigmas import accepts

WIDE, SIZE = 2_000, 6
SECRET = "patient Jane Doe"
OnData = Callable[[], None]


class Watched(LinearLearner):
    """Wide weights; whoever touches its data first calls `on_data`."""

    def __init__(self, on_data: OnData) -> None:
        super().__init__([[0.0, 0.0, 0.0]] * SIZE, [0.0] * SIZE)
        self.on_data = on_data
        self._weights = {name: torch.zeros(WIDE) for name in self._weights}

    def gradients(
        self, sentences: NDArray[np.int64], seed: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        del sentences, seed
        self.on_data()
        return torch.zeros(()), {name: torch.zeros(WIDE) for name in self._weights}

    def clipped(
        self,
        sample: PoissonSample,
        max_grad_norm: float,
        names: Collection[str],
        loss: str,
        seed: int,
    ) -> Clipped:
        del loss, seed
        if sample.num_units:
            self.on_data()
        return clip_state({name: torch.zeros(WIDE) for name in names}, max_grad_norm)

    def sentence_counts(self) -> list[Counts]:
        self.on_data()
        return [Counts(tp=1)] * SIZE


def watched(
    folder: Path | None,
    on_data: OnData = lambda: None,
    *,
    budget: float = 100.0,
    source: Source | None = None,
    **changes: object,
) -> Platform:
    chosen = SystemEntropy() if source is None else source
    plain = PlatformPrivacy(UNIT_LOCAL, 2.0, 1.5, SIZE, source=chosen)
    privacy = replace(plain, **changes)  # type: ignore[arg-type]
    units = Units("sentence", tuple((position,) for position in range(SIZE)))
    ledger = None
    if folder is not None:
        adjacency = privacy.event(1, 1).adjacency
        held = Budget(budget, 1e-5, privacy.event(1, 1).unit, adjacency, accountant="rdp")
        ledger = Ledger.open(folder / "ledger", held, is_simulation=chosen.is_simulation)
    pools = (units,) if privacy.mechanism.samples_units else ()
    tested = None if privacy.scores is None else units
    steps = DPSteps(privacy, pools, ledger, tested=tested)
    return platform("alpha", Watched(on_data), linear_partition(), 7, privacy=steps)


def zeros() -> dict[str, Tensor]:
    return {name: torch.zeros(WIDE) for name in ("shared.a", "shared.b", "private.c")}


def ask(round_: int = 1, batch: int = SIZE, shift: float = 0.0) -> Order:
    weights = {name: tensor + shift for name, tensor in zeros().items()}
    shared = linear_partition().shared_state(weights)
    return Order("run", round_, shared, batches={"alpha": batch})


def ledger_of(own: Platform) -> Ledger:
    assert own.privacy is not None
    assert own.privacy.ledger is not None
    return own.privacy.ledger


def is_noise(update: Update, sigma: float) -> bool:
    """Accepted at sigma, rejected at two thirds and three halves of it."""
    return all(
        accepts(tensor, sigma)
        and not accepts(tensor, sigma * 2 / 3)
        and not accepts(tensor, sigma * 3 / 2)
        for tensor in update.tensors.values()
    )


SCORES = ScoreNoise(max_norm=2.0, noise_multiplier=3.0)
SOURCES: dict[str, Source | None] = {"deployed": None, "simulated": SeededSimulation(3)}


# Before the data.


@pytest.mark.parametrize("mechanism", [UNIT_LOCAL, PLATFORM], ids=lambda each: each.name)
@pytest.mark.parametrize("kind", SOURCES)
def test_the_charge_is_on_the_disk_before_data_are_touched(
    tmp_path: Path, mechanism: Mechanism, kind: str
) -> None:
    seen: list[int] = []

    def look() -> None:
        seen.append(read_spent(tmp_path / "ledger").steps)

    own = watched(tmp_path, look, mechanism=mechanism, source=SOURCES[kind])
    own.run_round(fedner(FednerSettings(local_steps=3)), ask())
    steps = 1 if mechanism is PLATFORM else 3
    assert seen == [steps] * 3, "all steps of the round were counted before the first one"
    own.run_round(fedner(FednerSettings(local_steps=2)), ask(2))
    assert seen[3:] == [steps + (1 if mechanism is PLATFORM else 2)] * 2
    own.close()


def test_the_charge_of_scores_comes_before_they_are_counted(tmp_path: Path) -> None:
    seen: list[int] = []
    own = watched(
        tmp_path, lambda: seen.append(read_spent(tmp_path / "ledger").steps), scores=SCORES
    )
    assert isinstance(own.scores(ask()), NoisedScores)
    assert seen == [1]
    own.close()


def test_what_the_budget_refuses_is_refused_before_data_are_touched(tmp_path: Path) -> None:
    touched: list[int] = []
    own = watched(tmp_path, lambda: touched.append(1), budget=0.5, scores=SCORES)
    with pytest.raises(BudgetSpentError):
        own.run_round(fedner(FednerSettings(local_steps=50)), ask())
    with pytest.raises(BudgetSpentError):
        own.scores(ask())
    assert touched == []
    assert ledger_of(own).releases == ()
    own.close()


def replace_steps_by_nothing(work: Any) -> None:
    Algorithm("custom", fedner().init, work, fedner().advance)  # type: ignore[call-arg]


def test_an_algorithm_must_say_beforehand_how_many_steps_it_takes(tmp_path: Path) -> None:
    touched: list[int] = []
    own = watched(tmp_path, lambda: touched.append(1))

    def work(platform: Platform, broadcast: Order) -> Contribution:
        gradients = [platform.gradient(broadcast, step) for step in range(3)]
        return Contribution(gradients[0].shared, [])

    with pytest.raises(TypeError, match="steps"):
        replace_steps_by_nothing(work)
    # It says 2 and takes 3: the third never touches data, and what is sent is noise alone.
    update = own.run_round(replace(fedner(), local=work, steps=lambda _batch, _size: 2), ask())
    assert len(touched) == 2
    assert is_noise(update, 1.5 * 2.0 / SIZE)
    assert ledger_of(own).spent().steps == 2
    own.close()


def test_a_step_that_was_not_charged_touches_no_data(tmp_path: Path) -> None:
    touched: list[int] = []
    own = watched(tmp_path, lambda: touched.append(1), scores=SCORES)
    assert own.privacy is not None
    own.privacy.begin(0)
    with pytest.raises(FednerError, match="charged"):
        own.gradient(ask(), 0)
    own.scores(ask())
    touched.clear()
    with pytest.raises(FednerError, match="charged"):  # scores were charged, a step was not
        own.gradient(ask(), 0)
    assert touched == []
    own.close()


def test_a_model_that_cannot_be_clipped_is_refused_before_the_charge(tmp_path: Path) -> None:
    class Odd(Watched):
        def clipped(
            self,
            sample: PoissonSample,
            max_grad_norm: float,
            names: Collection[str],
            loss: str,
            seed: int,
        ) -> Clipped:
            del sample, max_grad_norm, names, loss, seed
            raise FednerError("There is no per-unit gradient for odd.layer.")

    own = watched(tmp_path)
    own.learner = Odd(lambda: None)
    with pytest.raises(FednerError, match="no per-unit gradient"):
        own.run_round(fedner(), ask())
    assert ledger_of(own).releases == ()
    own.close()


# Whatever fails afterwards is noise alone.


def failing(error: BaseException) -> OnData:
    def fail() -> None:
        raise error

    return fail


ERRORS: list[BaseException] = [
    FednerError(SECRET),
    ValueError(SECRET),
    MemoryError(SECRET),
    RuntimeError(SECRET),
    torch.OutOfMemoryError(SECRET),
    RecursionError(SECRET),
    StopIteration(SECRET),
    AssertionError(SECRET),
]


@pytest.mark.parametrize("mechanism", [UNIT_LOCAL, PLATFORM], ids=lambda each: each.name)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_work_that_fails_is_answered_with_noise_alone(
    tmp_path: Path, error: BaseException, mechanism: Mechanism, caplog: pytest.LogCaptureFixture
) -> None:
    own = watched(tmp_path, failing(error), mechanism=mechanism)
    update = own.run_round(fedner(), ask())
    sigma = 1.5 * 2.0 / (1 if mechanism is PLATFORM else SIZE)
    assert is_noise(update, sigma)
    assert SECRET.encode() not in to_bytes(update)
    assert ledger_of(own).spent().steps == 1
    assert own.last_round == 1
    again = own.run_round(fedner(), ask())
    assert all(torch.equal(again.tensors[key], each) for key, each in update.tensors.items())
    assert SECRET in caplog.text
    assert SECRET in (tmp_path / "ledger" / FAILURES).read_text()
    if mechanism is UNIT_LOCAL:
        assert accepts(own.optimizer.state()["first.private.c"] / 0.1, sigma), "stepped on noise"
    own.close()


@pytest.mark.parametrize("place", ["draw_sentences", "gaussian"])
def test_wherever_a_step_fails(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = unit_local if place == "gaussian" else dp_steps
    own = watched(tmp_path)
    real, calls = getattr(module, place), []

    def first_fails(*arguments: object, **options: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError(SECRET)
        return real(*arguments, **options)

    monkeypatch.setattr(module, place, first_fails)
    assert is_noise(own.run_round(fedner(), ask()), 1.5 * 2.0 / SIZE)
    own.close()


class NotFinite(Watched):
    """Clips to sums that no noise makes finite."""

    def clipped(
        self,
        sample: PoissonSample,
        max_grad_norm: float,
        names: Collection[str],
        loss: str,
        seed: int,
    ) -> Clipped:
        found = super().clipped(sample, max_grad_norm, names, loss, seed)
        if sample.num_units:
            for tensor in found.value.values():
                tensor[0] = float("nan")
        return found


@pytest.mark.parametrize("mechanism", [UNIT_LOCAL, UNIT_CENTRAL], ids=lambda each: each.name)
def test_a_sum_that_is_not_finite_is_answered_with_noise_alone(mechanism: Mechanism) -> None:
    own = watched(None, mechanism=mechanism, source=SeededSimulation(1))
    own.learner = NotFinite(lambda: None)
    own._weights = dict(own.learner.weights())
    update = own.run_round(fedner(), ask())
    if mechanism is UNIT_LOCAL:
        assert is_noise(update, 1.5 * 2.0 / SIZE)
    else:
        assert not any(bool(tensor.any()) for tensor in update.tensors.values())


@pytest.mark.parametrize("size", [3e38, 1e30, 1e19])
def test_weights_that_overflow_on_the_data_are_answered_like_any_others(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A character's vector at 3e38 turned sums to NaN, and a failure left: a bit about the data."""
    monkeypatch.setattr(orders, "MOST_WEIGHT", 3.4e38)  # even if nothing else kept them out
    name = NAMES[0]
    privacy = PlatformPrivacy(UNIT_LOCAL, 0.5, 1.0, 40, source=SystemEntropy())
    steps = DPSteps(privacy, sliced_units(sentences_of(name), "sentence", privacy))
    own = tagger_platform(name, privacy=steps)
    hostile = SharedState({key: tensor.clone() for key, tensor in first_shared().items()})
    hostile["embeddings.characters.embedding.weight"][5:40] = size
    update = own.run_round(fedner(), Order("run", 1, hostile, batches={name: 40}))
    assert all(bool(tensor.isfinite().all()) for tensor in update.tensors.values())
    table = update.tensors["embeddings.characters.embedding.weight"][1:]
    # A single coordinate may be rounded to 0: once in 100,000, and this noise has no seed.
    assert bool(table.any(dim=1).all()), "noise in every row"


def test_only_the_step_that_failed_is_noise_alone_and_the_round_goes_on(tmp_path: Path) -> None:
    calls: list[int] = []

    def second_fails() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError(SECRET)

    own = watched(tmp_path, second_fails)
    update = own.run_round(fedner(FednerSettings(local_steps=4)), ask())
    assert len(calls) == 4
    # The mean of four noised gradients.
    assert is_noise(update, 1.5 * 2.0 / SIZE / 2)
    assert ledger_of(own).spent().steps == 4
    own.close()


def test_nobody_can_tell_a_failed_step_from_another() -> None:
    """With the same seed the bytes are the same: the data of both are zeros."""
    source = SeededSimulation(9)
    sound = watched(None, source=source).run_round(fedner(), ask())
    failed = watched(None, failing(ValueError(SECRET)), source=source).run_round(fedner(), ask())
    assert to_bytes(sound) == to_bytes(failed)


def test_unit_platform_with_an_update_that_is_not_finite_is_noise_alone(tmp_path: Path) -> None:
    own = watched(tmp_path, mechanism=PLATFORM)
    own.learner.gradients = lambda _sentences, _seed: (  # type: ignore[method-assign]
        torch.zeros(()),
        {name: torch.full((WIDE,), float("nan")) for name in zeros()},
    )
    assert is_noise(own.run_round(fedner(), ask()), 1.5 * 2.0)
    own.close()


def test_a_round_that_failed_half_way_leaves_no_trace_in_the_private_weights(
    tmp_path: Path,
) -> None:
    calls: list[int] = []

    def second_fails() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError(SECRET)

    own = watched(tmp_path, second_fails, mechanism=PLATFORM)
    own.learner.gradients = lambda _sentences, _seed: (  # type: ignore[method-assign]
        second_fails() or torch.zeros(()),
        {name: torch.ones(WIDE) for name in zeros()},
    )
    before = own.state()
    own.run_round(fedner(FednerSettings(local_steps=2)), ask())
    assert len(calls) == 2
    after = own.state()
    assert set(after.tensors) == set(before.tensors)
    assert all(torch.equal(after.tensors[key], each) for key, each in before.tensors.items())
    assert after.facts == {**before.facts, "last_round": 1}
    own.close()


def test_weights_that_overflow_afterwards_leave_no_failure(tmp_path: Path) -> None:
    """Post-processing may overflow too; asked again, it must not be another release."""
    own = watched(tmp_path)
    local = fedavg(FedAvgSettings(LocalTraining(plain_sgd(3e38), steps=2)))
    update = own.run_round(local, ask())
    assert all(bool(tensor.isfinite().all()) for tensor in update.tensors.values())
    assert ledger_of(own).spent().steps == 2
    again = own.run_round(local, ask())
    assert all(torch.equal(again.tensors[key], each) for key, each in update.tensors.items())
    own.close()


@pytest.mark.parametrize("kind", SOURCES)
def test_scores_that_cannot_be_counted_are_noise_alone(tmp_path: Path, kind: str) -> None:
    own = watched(tmp_path, failing(ValueError(SECRET)), scores=SCORES, source=SOURCES[kind])
    scores = own.scores(ask())
    assert isinstance(scores, NoisedScores)
    assert scores.standard_deviation == 6.0
    assert ledger_of(own).spent().steps == 1
    assert own.scores(ask()) == scores
    assert SECRET in (tmp_path / "ledger" / FAILURES).read_text()
    own.close()


def test_a_platform_without_a_test_part_tells_noise(tmp_path: Path) -> None:
    own = watched(tmp_path, scores=SCORES)
    own.learner.sentence_counts = lambda: None  # type: ignore[method-assign]
    assert isinstance(own.scores(ask()), NoisedScores)
    own.close()


# What stops the platform.


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("mechanism", [UNIT_LOCAL, PLATFORM], ids=lambda each: each.name)
def test_a_stopped_round_is_charged_and_answered_under_its_charge(
    tmp_path: Path, stop: type[BaseException], mechanism: Mechanism
) -> None:
    calls: list[int] = []

    def second_stops() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise stop

    own = watched(tmp_path, second_stops, mechanism=mechanism)
    local = fedner(FednerSettings(local_steps=2))
    before = own.state()
    with pytest.raises(stop):
        own.run_round(local, ask())
    after = own.state()
    assert after.facts == before.facts
    assert set(after.tensors) == set(before.tensors)
    assert all(torch.equal(after.tensors[key], each) for key, each in before.tensors.items())
    spent = ledger_of(own).spent()
    assert spent.steps == (1 if mechanism is PLATFORM else 2), "it was counted"
    own.run_round(local, ask())
    assert ledger_of(own).spent() == spent, "and is not counted again"
    [entry] = ledger_of(own).releases
    assert entry.answer is not None
    own.close()


def test_an_answer_that_cannot_be_stored_leaves_no_trace_in_the_private_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = watched(tmp_path)
    own.run_round(fedner(), ask())
    before = own.state()

    def full(*_: object, **__: object) -> None:
        raise FednerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "answer", full)
        with pytest.raises(FednerError, match="full"):
            own.run_round(fedner(), ask(2))
    after = own.state()
    assert after.facts == before.facts
    assert all(torch.equal(after.tensors[key], each) for key, each in before.tensors.items())
    own.run_round(fedner(), ask(2))
    assert ledger_of(own).spent().steps == 2
    own.close()


# Killed at each point between charge, work, answer and sending.


def die_at(call: int, folder: str) -> None:
    """Let this process kill itself at its n-th call that writes to the ledger's files."""
    calls = 0
    changes = ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.chmod")

    def watch(event: str, arguments: Sequence[object]) -> None:
        nonlocal calls
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY
        if (opens or event in changes) and folder in str(arguments[0]):
            calls += 1
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def in_another_process(work: Callable[[int], None]) -> tuple[bytes, int]:
    """Return what a forked process sent, and its exit code."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            os.close(reading)
            work(writing)
            code = 0
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as world:
        sent = world.read()
    return sent, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_answered_once(folder: Path, sent: bytes) -> None:
    """Asked again after a death: one charge, one answer; another request is another release."""
    own = watched(folder)
    update = replace(own.run_round(fedner(), ask()), event=None)
    assert sent in (b"", to_bytes(update)), "what was sent before is what is sent again"
    assert ledger_of(own).spent().steps == 1
    [entry] = ledger_of(own).releases
    assert entry.answer is not None
    own.run_round(fedner(), ask(shift=0.5))
    assert ledger_of(own).spent().steps == 2
    own.close()


def test_killed_at_each_write_between_charge_and_sending(tmp_path: Path) -> None:
    """The platform dies at its n-th writing call, for every n, once the ledger is open."""
    code = call = 0
    for call in range(1, 100):
        folder = tmp_path / str(call)
        folder.mkdir()

        def work(world: int, folder: Path = folder, call: int = call) -> None:
            own = watched(folder)
            die_at(call, str(folder))
            update = own.run_round(fedner(), ask())
            os.write(world, to_bytes(replace(update, event=None)))

        sent, code = in_another_process(work)
        assert code in (0, -signal.SIGKILL)
        check_answered_once(folder, sent)
        if code == 0:
            assert sent
            break
        assert not sent, "nothing leaves before the last write"
    assert code == 0, "there are more writing calls than were tried"
    assert call > 8


@pytest.mark.parametrize("moment", ["at work", "before sending"])
def test_killed_between_the_writes(tmp_path: Path, moment: str) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def work(world: int) -> None:
        del world
        watched(tmp_path, die if moment == "at work" else lambda: None).run_round(fedner(), ask())
        die()

    sent, code = in_another_process(work)
    assert (sent, code) == (b"", -signal.SIGKILL)
    assert read_spent(tmp_path / "ledger").steps == 1
    check_answered_once(tmp_path, b"")


def test_killed_while_scores_are_counted(tmp_path: Path) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    _, code = in_another_process(lambda _: watched(tmp_path, die, scores=SCORES).scores(ask()))
    assert code == -signal.SIGKILL
    own = watched(tmp_path, scores=SCORES)
    assert ledger_of(own).spent().steps == 1
    first = own.scores(ask())
    assert own.scores(ask()) == first
    assert ledger_of(own).spent().steps == 1
    own.close()


# Which request an answer belongs to.


def scaffold_asks(extra: float = 0.0, round_: int = 1) -> Order:
    order = ask(round_)
    control = {name: tensor + extra for name, tensor in order.shared.items()}
    return replace(order, extra=linear_partition().shared_state({**control, "private.c": zeros()}))


def test_other_extra_tensors_are_another_request(tmp_path: Path) -> None:
    own = watched(tmp_path)
    local = scaffold(ScaffoldSettings(steps=2))
    first = own.run_round(local, scaffold_asks(0.0))
    other = own.run_round(local, scaffold_asks(1.0))
    assert ledger_of(own).spent().steps == 4, "SCAFFOLD's control variate decides the answer"
    shift = (other.tensors["shared.a"] - first.tensors["shared.a"]).mean()
    assert abs(float(shift) + 0.2) < 0.02, "two steps at rate 0.1 along a control of 1"
    own.close()


def test_scaffold_goes_back_to_its_control_variates_with_a_resend(tmp_path: Path) -> None:
    own = watched(tmp_path)
    local = scaffold(ScaffoldSettings(steps=2))
    first = own.run_round(local, scaffold_asks())
    control = {name: tensor.clone() for name, tensor in own.memory.items()}
    second = own.run_round(local, scaffold_asks(0.5, 2))
    own.close()
    own = watched(tmp_path)  # begun anew: no control variate yet
    assert own.memory == {}
    again = own.run_round(local, scaffold_asks())
    assert set(own.memory) == set(control) == {"control.shared.a", "control.shared.b"}
    assert all(torch.equal(own.memory[name], each) for name, each in control.items())
    assert all(torch.equal(again.extra[name], each) for name, each in first.extra.items())
    assert any(bool(each.any()) for each in first.extra.values())
    later = own.run_round(local, scaffold_asks(0.5, 2))
    assert all(torch.equal(later.extra[name], each) for name, each in second.extra.items())
    own.close()


def test_each_thing_that_decides_the_answer_is_in_the_digest(tmp_path: Path) -> None:
    own = watched(tmp_path)
    own.run_round(fedner(), ask())
    orders = [
        (fedner(), ask(shift=0.1)),
        (fedner(), replace(ask(), run="other")),
        (fedner(), ask(batch=3)),
        (fedner(FednerSettings(local_steps=2)), ask()),
        (fedner(FednerSettings(loss="sum")), ask()),
        (fedavg(FedAvgSettings(LocalTraining(plain_sgd(0.1), steps=1))), ask()),
        (fedavg(FedAvgSettings(LocalTraining(plain_sgd(0.2), steps=1))), ask()),
    ]
    for count, (local, order) in enumerate(orders, start=2):
        own.run_round(local, order)
        assert len(ledger_of(own).releases) == count
    for changes in (
        {"noise_multiplier": 3.0},
        {"max_grad_norm": 1.0},
        {"private_part": "frozen"},
        {"loss": "mean"},
    ):
        own.close()
        own = watched(tmp_path, **changes)
        count = len(ledger_of(own).releases)
        own.run_round(fedner(), ask())
        assert len(ledger_of(own).releases) == count + 1, changes
    own.close()


def test_two_platforms_of_one_ledger_get_their_own_answers(tmp_path: Path) -> None:
    """One after the other, as where platforms are spilled: their costs add up."""
    sent, private = {}, {}
    both = {"alpha": SIZE, "beta": SIZE}
    order = replace(ask(), batches=both)
    for name in ("alpha", "beta", "alpha", "beta"):
        own = watched(tmp_path)
        own.name = name
        update = own.run_round(fedner(), order)
        assert update.platform == name
        found = (update.tensors["shared.a"], own.private()["private.c"].clone())
        if name in sent:
            assert torch.equal(found[0], sent[name])
            assert torch.equal(found[1], private[name])
        sent[name], private[name] = found
        own.close()
    assert not torch.equal(sent["alpha"], sent["beta"])
    assert not torch.equal(private["alpha"], private["beta"])
    spent = read_spent(tmp_path / "ledger")
    assert spent.steps == 2
    own = watched(tmp_path)
    with pytest.raises(FednerError, match="another platform"):
        watched(tmp_path)  # side by side it is refused
    own.close()


def test_the_event_of_an_update_is_its_charge(tmp_path: Path) -> None:
    own = watched(tmp_path)
    update = own.run_round(fedner(FednerSettings(local_steps=3)), ask(batch=2))
    [entry] = ledger_of(own).releases
    assert isinstance(entry.event, GaussianRelease)
    assert entry.event.steps == 3
    assert entry.charge.platform == "alpha"
    assert update.event is not None
    assert update.event["release"]["steps"] == 3
    own.close()


def test_a_round_whose_hidden_values_left_before_is_another_release(tmp_path: Path) -> None:
    """They may have been opened with other platforms: the same noise must not be sent again."""
    own = watched(tmp_path)
    first = own.run_round(fedner(), ask())
    same = own.run_round(fedner(), ask(), 0)
    assert all(torch.equal(same.tensors[key], each) for key, each in first.tensors.items())
    assert ledger_of(own).spent().steps == 1
    fresh = own.run_round(fedner(), ask(), 1)
    assert not any(torch.equal(fresh.tensors[key], each) for key, each in first.tensors.items())
    assert ledger_of(own).spent().steps == 2
    again = own.run_round(fedner(), ask(), 1)
    assert all(torch.equal(again.tensors[key], each) for key, each in fresh.tensors.items())
    assert ledger_of(own).spent().steps == 2, "it never left: it is answered from the record"
    own.close()


def test_simulated_noise_cannot_be_drawn_anew(tmp_path: Path) -> None:
    own = watched(tmp_path, source=SeededSimulation(3))
    first = own.run_round(fedner(), ask())
    same = own.run_round(fedner(), ask(), 1)
    assert all(torch.equal(same.tensors[key], each) for key, each in first.tensors.items())
    assert ledger_of(own).spent().steps == 1
    own.close()
