"""The federation in fedner: the serial engine, or two workers.

    python -m benchmarks.peers.federation.ours 0
    python -m benchmarks.peers.federation.ours 2

Each round has its own slice of a platform's sentences, so that fedner draws the very sentences that
the other engines take (in another order, which changes a mean loss by rounding alone).
"""

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.peers.federation import task
from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.federated.algorithms import FedAvgSettings, LocalTraining, fedavg
from fedner.federated.algorithms.fedavg import plain_sgd
from fedner.federated.answering import answers
from fedner.federated.engine import Engine
from fedner.federated.platform import Platform, platform
from fedner.federated.run import RunSettings, run
from fedner.models.partition import Partition
from fedner.scoring import Scores


class SmallLearner:
    """The task's tagger and one platform's sentences, as a platform's learner."""

    def __init__(self, name: str) -> None:
        self.tagger = task.new_tagger()
        self.features, self.tags = task.examples(int(name))
        self.named = dict(self.tagger.named_parameters())

    def weights(self) -> Mapping[str, Tensor]:
        """Return the weights themselves."""
        return self.named

    def drawable(self) -> Any:
        """Return all sentences."""
        return np.arange(task.SENTENCES)

    def gradients(self, sentences: Any, seed: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss and its gradient."""
        del seed
        taken = torch.from_numpy(sentences)
        loss = self.tagger.loss(self.features[taken], self.tags[taken])
        computed = torch.autograd.grad(loss, list(self.named.values()))
        return loss.detach(), dict(zip(self.named, computed, strict=True))

    def scores(self) -> Scores | None:
        """Return nothing: nobody is scored here."""
        return None


def _platform(name: str) -> Platform:
    learner = SmallLearner(name)
    cut = Partition(tuple(sorted(learner.weights())), ())
    pools = tuple(np.asarray(task.rows(round_)) for round_ in range(task.ROUNDS))
    return platform(name, learner, cut, task.SEED, pools=pools)


def federation(workers: int) -> None:
    """Run the federation; no worker is the serial engine."""
    watch, weights = task.Stopwatch(), task.weights_of(task.new_tagger())
    shared = Partition(tuple(sorted(weights)), ()).shared_state(weights)
    algorithm = fedavg(FedAvgSettings(LocalTraining(plain_sgd(task.RATE), steps=1)))
    names = [str(number) for number in range(task.NUM_PLATFORMS)]
    engine: Engine
    if workers:
        engine = Workers(answers(_platform, algorithm), names, shared, workers=workers)
    else:
        engine = InProcess(answers(_platform, algorithm), names)
    sizes = dict.fromkeys(names, task.SENTENCES)
    settings = RunSettings("contest", task.ROUNDS, task.BATCH, sizes)
    done = run(algorithm, engine, shared, settings, task.SEED, on_round=lambda _: watch.lap())
    engine.close()
    watch.write(done.server.shared)


if __name__ == "__main__":
    task.one_thread(partial(federation, int(sys.argv[1])))
