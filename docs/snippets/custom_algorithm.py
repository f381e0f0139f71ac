"""An algorithm of one's own: FedNER whose server steps with momentum (as Hsu et al. 2019)."""

import sys
from pathlib import Path

from fedner.federated.aggregate import Combined
from fedner.federated.algorithms.algorithm import Algorithm, Server, copied, one_step
from fedner.federated.contribution import Contribution
from fedner.federated.messages import Order
from fedner.federated.platform import Platform
from fedner.runs.checks import read_settings
from fedner.runs.simulation import train_run
from fedner.tensors import SharedState, map_shared

RATE, MOMENTUM = 0.05, 0.9


def begin(shared: SharedState) -> Server:
    """Make the server's first state: the weights, and a velocity of zero for each."""
    return Server(copied(shared), memory={name: tensor * 0 for name, tensor in shared.items()})


def local(platform: Platform, broadcast: Order) -> Contribution:
    """One platform's round: step the private part, return the gradient of the shared one."""
    gradient = platform.gradient(broadcast, step=0)
    platform.step_private(gradient)
    return Contribution(gradient.shared, [gradient.loss])


def advance(server: Server, combined: Combined) -> Server:
    """Add the mean gradient to the velocity and move the weights along it."""
    speed = {key: MOMENTUM * server.memory[key] + combined.tensors[key] for key in server.shared}
    step = SharedState(speed)
    return Server(map_shared(lambda w, v: w - RATE * v, server.shared, step), memory=speed)


momentum = Algorithm("momentum", begin, local, advance, "joint", sends="gradients", steps=one_step)

if __name__ == "__main__":
    federation, folder = Path(sys.argv[1]), Path(sys.argv[2])
    print(train_run(read_settings(federation), folder, algorithm=momentum).mean)
