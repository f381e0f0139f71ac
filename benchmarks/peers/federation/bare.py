"""The federation without an engine: one process, or two forked ones with pipes.

python -m benchmarks.peers.federation.bare 1
python -m benchmarks.peers.federation.bare 2
"""

import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

import torch

from benchmarks.peers.federation import task


def one_process() -> None:
    """Let platform after platform take its step."""
    watch, weights = task.Stopwatch(), task.weights_of(task.new_tagger())
    for round_ in range(task.ROUNDS):
        platforms = range(task.NUM_PLATFORMS)
        weights = task.mean([task.train(each, round_, weights) for each in platforms])
        watch.lap()
    watch.write(weights)


def _work(platforms: Sequence[int], pipe: Connection) -> None:
    torch.set_num_threads(1)
    for round_ in range(task.ROUNDS):
        weights = {name: torch.from_numpy(array) for name, array in pipe.recv().items()}
        done = [task.train(each, round_, weights) for each in platforms]
        pipe.send([{name: tensor.numpy() for name, tensor in each.items()} for each in done])


def two_processes() -> None:
    """Let two long-lived processes take five platforms each."""
    watch, weights = task.Stopwatch(), task.weights_of(task.new_tagger())
    context = multiprocessing.get_context("fork")
    half = task.NUM_PLATFORMS // 2
    pipes, crew = [], []
    for part in (range(half), range(half, task.NUM_PLATFORMS)):
        here, there = context.Pipe()
        crew.append(context.Process(target=_work, args=(part, there), daemon=True))
        crew[-1].start()
        pipes.append(here)
    for _ in range(task.ROUNDS):
        for pipe in pipes:
            pipe.send({name: tensor.numpy() for name, tensor in weights.items()})
        replies = [each for pipe in pipes for each in pipe.recv()]
        weights = task.mean(
            [{name: torch.from_numpy(array) for name, array in each.items()} for each in replies]
        )
        watch.lap()
    for process in crew:
        process.join()
    watch.write(weights)


if __name__ == "__main__":
    task.one_thread({"1": one_process, "2": two_processes}[sys.argv[1]])
