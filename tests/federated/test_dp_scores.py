"""Noised scores of a platform: recorded before they leave, told again, refused, or kept at home."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.errors import FednerError
from fedner.federated.algorithms import fedner
from fedner.federated.answering import answers
from fedner.federated.dp_steps import (
    BudgetSpentError,
    DPSteps,
)
from fedner.federated.messages import Order, ScoreReport
from fedner.federated.platform import Platform
from fedner.federated.record import RoundRecord
from fedner.federated.run import OnRound, RunRecord, RunSettings, run
from fedner.privacy.budget import Budget
from fedner.privacy.entropy import SeededSimulation
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger, read_spent
from fedner.privacy.mechanisms import PLATFORM, UNIT_LOCAL, PlatformPrivacy, ScoreNoise
from fedner.privacy.sampling import Units
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores

SIZES = {"alpha": 12, "beta": 10}
EVERY = ScoreNoise(max_norm=5.0, noise_multiplier=20.0)
SIMULATED = PlatformPrivacy(UNIT_LOCAL, 1.0, 8.0, 12, source=SeededSimulation(5), scores=EVERY)


def every_sentence(size: int) -> Units:
    return Units("sentence", tuple((position,) for position in range(size)))


def scored(
    name: str = "alpha",
    folder: Path | None = None,
    budget: float = 100.0,
    settings: PlatformPrivacy | None = None,
) -> Platform:
    chosen = SIMULATED if settings is None else settings
    units, ledger = every_sentence(SIZES[name]), None
    if folder is not None:
        chosen = PlatformPrivacy(UNIT_LOCAL, 1.0, 8.0, SIZES[name], scores=EVERY)
        ledger = Ledger.open(folder / name, Budget(budget, 1e-5, "sentence"))
    tested = None if chosen.scores is None else units
    steps = DPSteps(chosen, (units,), ledger, tested=tested)
    return random_platform(name, SIZES[name], privacy=steps)


def ask(round_: int = 1, shift: float = 0.0) -> Order:
    return Order("run", round_, initial(shift), batches={"alpha": 4})


def test_what_is_noised_are_the_counts_of_the_test_part() -> None:
    """Counting that fails is answered with noise alone: this must not hide that it never works."""
    hardly = replace(SIMULATED, scores=ScoreNoise(max_norm=1e6, noise_multiplier=1e-12))
    found = scored(settings=hardly).scores(ask())
    assert isinstance(found, NoisedScores)
    assert (round(found.tp, 3), round(found.fp, 3)) == (24.0, 12.0)  # of twelve sentences


def test_scores_are_in_the_ledger_before_they_leave_and_told_again(tmp_path: Path) -> None:
    own = scored(folder=tmp_path)
    first = own.scores(ask())
    assert isinstance(first, NoisedScores)
    assert own.privacy is not None
    assert own.privacy.ledger is not None
    [line] = own.privacy.ledger.releases
    assert line.event == first.event
    assert isinstance(line.event, GaussianRelease)
    assert (line.event.purpose, line.event.sampling_probability) == ("statistics", 1.0)
    assert (line.event.max_norm, line.event.noise_multiplier) == (5.0, 20.0)
    assert own.scores(ask()) == first, "the same numbers at no new cost"
    own.close()
    own = scored(folder=tmp_path)
    assert own.scores(ask()) == first, "also after a restart"
    assert own.scores(ask(shift=0.5)) != first
    for number in range(2, 10):
        own.scores(ask(number))
    own.close()
    spent = read_spent(tmp_path / "alpha")
    assert spent.steps == 10
    # Ten full-batch Gaussian releases of noise 20 at delta 1e-5, by dp-accounting.
    assert spent.pld == pytest.approx(0.56128, abs=1e-4)
    assert spent.rdp == pytest.approx(0.61580, abs=1e-4)


def test_steps_and_scores_share_one_budget(tmp_path: Path) -> None:
    own = scored(folder=tmp_path, budget=0.5)
    number = 0
    with suppress(BudgetSpentError):
        for number in range(1, 100):
            own.scores(ask(number))
    assert 1 < number < 99
    released = len(own.privacy.ledger.releases)  # type: ignore[union-attr]
    assert released == number - 1
    with pytest.raises(BudgetSpentError):
        own.run_round(fedner(), ask(number))
    assert len(own.privacy.ledger.releases) == released  # type: ignore[union-attr]
    own.close()
    assert read_spent(tmp_path / "alpha").pld <= 0.5


def test_a_platform_without_budget_is_left_out_of_the_scores(tmp_path: Path) -> None:
    def build(name: str) -> Platform:
        return scored(name, tmp_path, 0.05 if name == "alpha" else 100.0)

    engine = InProcess(answers(build, fedner()), list(SIZES))
    order = Order("run", 1, initial(), verb="evaluate")
    found = {each.platform: each for each in engine.ask(dict.fromkeys(SIZES, order))}
    assert found["alpha"] == ScoreReport("alpha", 1), "it says nothing, and that is no failure"
    told = found["beta"]
    assert isinstance(told, ScoreReport)
    assert told.noised is not None
    assert not told.scores
    engine.close()


def test_deployed_without_such_noise_no_scores_leave() -> None:
    own = scored(settings=PlatformPrivacy(UNIT_LOCAL, 1.0, 8.0, 12))
    assert own.scores(ask()) is None
    clear = scored(settings=replace(SIMULATED, scores=None)).scores(ask())
    assert isinstance(clear, Scores), "a simulation protects nobody"


def test_of_unit_platform_they_are_refused() -> None:
    with pytest.raises(FednerError, match="trained in the clear"):
        PlatformPrivacy(PLATFORM, 1.0, 8.0, 1, scores=EVERY)


def test_every_engine_tells_the_same_noised_scores() -> None:
    algorithm = fedner()
    plan = RunSettings("run", 3, 6, SIZES, evaluate_every=2)
    records = []
    for engine in (
        InProcess(answers(scored, algorithm), list(SIZES)),
        Workers(answers(scored, algorithm), list(SIZES), initial(), workers=2),
    ):
        done = run(algorithm, engine, initial(), plan, 7)
        records.append([each.scores for each in done.rounds])
        engine.close()
    assert records[0] == records[1]
    assert [sorted(each) for each in records[0]] == [[], ["alpha", "beta"], ["alpha", "beta"]]
    assert all(isinstance(each, NoisedScores) for told in records[0] for each in told.values())


def test_a_run_that_was_stopped_pays_for_no_scores_twice(tmp_path: Path) -> None:
    """Stopped after round 3 was scored and before it was stored: round 3 is taken again."""
    algorithm = fedner()
    plan = RunSettings("run", 6, 6, SIZES, evaluate_every=1, checkpoint_every=2, ema_decay=0.5)

    def go(*, resume: bool, on_round: OnRound | None = None) -> RunRecord:
        engine = InProcess(
            answers(lambda name: scored(name, tmp_path / "ledgers"), algorithm, tmp_path / "run"),
            list(SIZES),
        )
        try:
            return run(
                algorithm, engine, initial(), plan, 7, tmp_path / "run",
                resume=resume, on_round=on_round,
            )  # fmt: skip
        finally:
            engine.close()

    told: list[RoundRecord] = []

    def stop(record: RoundRecord) -> None:
        told.append(record)
        if record.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(resume=False, on_round=stop)
    done = go(resume=True)
    assert done.resumed_from == 2
    assert done.rounds[2].scores == told[2].scores
    assert all(isinstance(each, NoisedScores) for each in done.rounds[2].scores.values())
    for name in SIZES:
        spent = read_spent(tmp_path / "ledgers" / name)
        assert spent.steps == 12, "six updates and six scores"
