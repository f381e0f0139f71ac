"""A simulation in worker processes, to be killed: `python killed_simulation.py FOLDER`.

Prints "begin" before the platforms are asked; "go", the round and the process ids of its workers
after each round, and waits there for a line on standard input; once the input is closed it runs on
freely. Ends with "done".
"""

import multiprocessing
import sys
from pathlib import Path

import torch
from tiny_tables import TABLES

from fedner.federated.record import RoundRecord
from fedner.runs.checks import checked
from fedner.runs.simulation import Progress, train_run
from fedner.settings import override

CHANGES = ("training.checkpoint_every=1", "training.evaluate_every=0")


def main(folder: Path) -> None:
    torch.set_num_threads(1)

    def tell(record: RoundRecord) -> None:
        workers = [str(each.pid) for each in multiprocessing.active_children()]
        print("go", record.round, *workers, flush=True)
        sys.stdin.readline()

    def begin(*_: object) -> None:
        print("begin", flush=True)

    settings = checked(override(TABLES, [*CHANGES, "engine.workers=2"]), Path.cwd())
    train_run(settings, folder, resume=folder.exists(), progress=Progress(begin=begin, round=tell))
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
