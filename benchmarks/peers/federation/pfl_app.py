"""The federation in pfl's simulation: one process, or two by torchrun.

    .venv-pfl/bin/python -m benchmarks.peers.federation.pfl_app
    .venv-pfl/bin/torchrun --nproc-per-node 2 -m benchmarks.peers.federation.pfl_app

FederatedAveraging, one local step of plain SGD, the server's SGD with rate 1 (the mean itself), no
evaluation but the one before the first round that pfl always makes. A "user" is a platform in a
round, since pfl's users have no notion of the round: they are sampled in order.
"""

import os

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel

from benchmarks.peers.federation import task


class PflTagger(task.SmallTagger):
    """The task's tagger with the methods that pfl calls."""

    def metrics(self, *data: torch.Tensor) -> dict:
        """Return nothing: nobody is scored here."""
        del data
        return {}


class Lap(TrainingProcessCallback):
    """Notes the end of each round."""

    def __init__(self) -> None:
        self.watch = task.Stopwatch()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Note it."""
        del aggregate_metrics, model, central_iteration
        self.watch.lap()
        return False, Metrics()


def _dataset(user: int) -> PyTorchTensorDataset:
    round_, platform = divmod(user, task.NUM_PLATFORMS)
    return PyTorchTensorDataset(task.batch(platform, round_), user_id=str(user))


def simulate() -> None:
    """Run the federation."""
    torch.manual_seed(task.SEED)
    tagger = PflTagger()
    model = PyTorchModel(
        tagger,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(tagger.parameters(), lr=1.0),
    )
    users = list(range(task.NUM_PLATFORMS * task.ROUNDS))
    data = FederatedDataset(_dataset, get_user_sampler("minimize_reuse", users))
    lap = Lap()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=task.ROUNDS,
            evaluation_frequency=task.ROUNDS + 1,
            train_cohort_size=task.NUM_PLATFORMS,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=data, val_data=None, postprocessors=[WeightByUser()]),
        model,
        NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=task.RATE, local_batch_size=task.BATCH
        ),
        callbacks=[lap],
        send_metrics_to_platform=False,
    )
    if os.environ.get("RANK", "0") == "0":
        lap.watch.write(task.weights_of(tagger))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # its threads may abort an exiting process


if __name__ == "__main__":
    task.one_thread(simulate)
