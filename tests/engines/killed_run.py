"""A small federation with checkpoints, to be killed. Ends with "done" and the final weights."""

import sys
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "federated"))

from linear_platform import initial, random_platform

from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.federated.algorithms import algorithm_named
from fedner.federated.answering import answers
from fedner.federated.engine import Engine
from fedner.federated.record import RoundRecord
from fedner.federated.run import RunSettings, run
from fedner.settings.sections import Encoding
from lives import Say

SIZES = {"alpha": 12, "beta": 10, "gamma": 5}
ROUNDS = 25


def main(folder: Path, kind: str, encoding: Encoding, say: Say) -> None:
    torch.set_num_threads(1)
    algorithm = algorithm_named("scaffold")
    build = partial(random_platform, encoding=encoding)
    engine: Engine
    if kind == "serial":
        engine = InProcess(answers(build, algorithm, folder), list(SIZES))
    else:
        engine = Workers(answers(build, algorithm, folder), list(SIZES), initial(), workers=2)
    settings = RunSettings("kill", ROUNDS, 6, SIZES, checkpoint_every=1, encoding=encoding)

    def tell(record: RoundRecord) -> None:
        say(f"go {record.round}")

    done = run(
        algorithm, engine, initial(), settings, 7, folder, resume=folder.exists(), on_round=tell
    )
    engine.close()
    weights = {name: tensor.tolist() for name, tensor in done.server.shared.items()}
    say(f"done {weights} {done.rounds[-1].losses}")
