"""The test that every engine must pass, those from outside included: the bits of the serial one."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.engines.roster import MakeAnswer
from fedner.federated.algorithms import algorithm_named
from fedner.federated.answering import answers
from fedner.federated.engine import Engine
from fedner.federated.messages import Order, ScoreReport
from fedner.federated.participation import Participation
from fedner.federated.platform import Platform
from fedner.federated.run import RunRecord, RunSettings, run

NAMES = ["alpha", "beta", "delta", "gamma"]
SIZES = {"alpha": 12, "beta": 10, "delta": 7, "gamma": 5}
MakeEngine = Callable[[MakeAnswer, Sequence[str]], Engine]


def finished(order: Order, platform: Platform) -> ScoreReport:
    """What a platform does at the end: it scores the final weights with its private part."""
    platform.load_shared(order.shared)
    scores = platform.learner.scores()
    found = {} if scores is None else {"federated": scores, "local-only": scores}
    return ScoreReport(platform.name, order.round, found)  # type: ignore[arg-type]


def comparable(done: RunRecord) -> list[Any]:
    rounds = [(r.loss, r.losses, r.norms, r.scores, r.bytes_up, r.failures) for r in done.rounds]
    shared = {name: tensor.tolist() for name, tensor in done.server.shared.items()}
    return [rounds, shared, done.reports, done.missing]


def run_on(
    make: MakeEngine,
    algorithm: str,
    folder: Path,
    rounds: int = 4,
    *,
    resume: bool = False,
    **changes: Any,
) -> RunRecord:
    chosen = algorithm_named(algorithm)
    build = partial(random_platform, encoding=changes.get("encoding", "float32"))
    made = answers(build, chosen, folder, finish=finished, study="ab")
    engine = make(made, NAMES)
    plan = RunSettings(
        "test", rounds, 8, SIZES, evaluate_every=2, checkpoint_every=1, study="ab", **changes
    )
    try:
        return run(chosen, engine, initial(), plan, 7, folder, resume=resume)
    finally:
        engine.close()


def check_parity(make: MakeEngine, folder: Path) -> None:
    """Run whole, sampled, and stopped and resumed, on this engine and on the serial one."""
    some = {"participation": Participation(sample=2)}
    rounded = [("scaffold", {"encoding": "int8"}), ("fedner", some | {"encoding": "bfloat16"})]
    ways: list[tuple[str, dict[str, Any]]] = [("scaffold", {}), ("fedner", some), *rounded]
    for number, (algorithm, changes) in enumerate(ways):
        here, there = folder / f"here {number}", folder / f"there {number}"
        whole = run_on(InProcess, algorithm, there, **changes)
        assert set(whole.reports) == set(NAMES)
        run_on(make, algorithm, here, rounds=2, **changes)
        resumed = run_on(make, algorithm, here, resume=True, **changes)
        assert resumed.resumed_from == 2
        assert comparable(resumed) == comparable(whole)
