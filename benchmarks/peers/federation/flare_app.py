"""The federation in NVIDIA FLARE's Collab simulator: one long-lived process for each platform.

    .venv-flare/bin/python -m benchmarks.peers.federation.flare_app

The fast settings: arrays as raw bytes in one message, no chunked downloads, all platforms called at
once by one group call. The simulator runs a Collab platform in a process of its own, and a platform
that is called must be alive: ten threads, which is also the default.
"""

import tempfile
from importlib import import_module

import numpy as np
import torch
from nvflare.collab import CollabRecipe, collab
from nvflare.recipe.sim_env import SimEnv

from benchmarks.peers.federation import task

UNCHUNKED = {"np_download_chunk_size": 0, "tensor_download_chunk_size": 0}


def packed(weights: dict[str, torch.Tensor]) -> dict[str, bytes]:
    """Return tensors as bytes."""
    return {name: tensor.numpy().tobytes() for name, tensor in weights.items()}


def unpacked(arrays: dict[str, bytes]) -> dict[str, torch.Tensor]:
    """Return tensors of bytes."""
    shapes = {name: tensor.shape for name, tensor in task.own_tagger().named_parameters()}
    return {
        name: torch.from_numpy(np.frombuffer(arrays[name], dtype=np.float32).copy()).view(shape)
        for name, shape in shapes.items()
    }


class Platform:
    """What a platform publishes."""

    @collab.init
    def prepare(self) -> None:
        """Use one thread."""
        torch.set_num_threads(1)

    @collab.publish
    def train(self, round_: int, arrays: dict[str, bytes]) -> dict[str, bytes]:
        """Take one step."""
        platform = int(collab.site_name.removeprefix("site-")) - 1
        return packed(task.train(platform, round_, unpacked(arrays)))


class Server:
    """The averaging loop."""

    @collab.main
    def average(self) -> None:
        """Average for all rounds."""
        torch.set_num_threads(1)
        watch, weights = task.Stopwatch(), task.weights_of(task.new_tagger())
        for round_ in range(task.ROUNDS):
            replies = collab.clients(timeout=60.0).train(round_, packed(weights))
            weights = task.mean([unpacked(arrays) for _, arrays in sorted(replies)])
            watch.lap()
        watch.write(weights)


def simulate() -> None:
    """Run the federation."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = CollabRecipe(
            job_name="contest",
            server=Server(),
            client=Platform(),
            min_clients=task.NUM_PLATFORMS,
        )
        environment = SimEnv(
            num_clients=task.NUM_PLATFORMS,
            num_threads=task.NUM_PLATFORMS,
            workspace_root=folder,
            log_config="concise",
        )
        recipe.execute(environment, server_exec_params=UNCHUNKED, client_exec_params=UNCHUNKED)


if __name__ == "__main__":
    # The classes must be found by the simulator's other processes under their real module.
    task.one_thread(import_module("benchmarks.peers.federation.flare_app").simulate)
