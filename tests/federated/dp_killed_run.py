"""A deployed federation with ledgers, to be killed. Ends with "done" and how many rounds it had."""

from pathlib import Path

import torch
from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.federated.algorithms import fedner
from fedner.federated.answering import answers
from fedner.federated.dp_steps import DPSteps
from fedner.federated.platform import Platform
from fedner.federated.record import RoundRecord
from fedner.federated.run import RunSettings, run
from fedner.privacy.budget import Budget
from fedner.privacy.ledger import Ledger
from fedner.privacy.mechanisms import UNIT_LOCAL, PlatformPrivacy
from fedner.privacy.sampling import Units
from fedner.settings.sections import Encoding
from lives import Say

SIZES = {"alpha": 12, "beta": 10, "gamma": 5}
ROUNDS = 20


def dp_platform(folder: Path, budget: float, name: str, encoding: Encoding = "float32") -> Platform:
    size = SIZES[name]
    budgeted = Budget(budget, 1e-5, "sentence", accountant="rdp")
    ledger = Ledger.open(folder / "ledgers" / name, budgeted)
    units = Units("sentence", tuple((position,) for position in range(size)))
    steps = DPSteps(PlatformPrivacy(UNIT_LOCAL, 1.0, 8.0, size), (units,), ledger)
    return random_platform(name, size, privacy=steps, encoding=encoding)


def engine_in(folder: Path, budget: float = 100.0) -> InProcess:
    return InProcess(
        answers(lambda name: dp_platform(folder, budget, name), fedner(), folder), list(SIZES)
    )


def plan(rounds: int = ROUNDS, every: int = 4) -> RunSettings:
    return RunSettings("kill", rounds, 9, SIZES, checkpoint_every=every)


def main(folder: Path, say: Say) -> None:
    torch.set_num_threads(1)

    def tell(record: RoundRecord) -> None:
        say(f"go {record.round}")

    engine = engine_in(folder)
    resume = (folder / "rounds.jsonl").exists()
    done = run(fedner(), engine, initial(), plan(), 7, folder, resume=resume, on_round=tell)
    engine.close()
    say(f"done {len(done.rounds)}")
