"""The algorithms by name: one row each, with the settings that it takes."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedner.errors import FednerError
from fedner.federated.algorithms.algorithm import (
    Algorithm,
    Server,
    baseline_batches,
    epoch_rounds,
    lasting,
    one_step,
)
from fedner.federated.algorithms.fedadam import FedAdamSettings, fedadam
from fedner.federated.algorithms.fedavg import FedAvgSettings, LocalTraining, fedavg
from fedner.federated.algorithms.fedner import FednerSettings, fedner
from fedner.federated.algorithms.fedprox import FedProxSettings, fedprox
from fedner.federated.algorithms.scaffold import ScaffoldSettings, scaffold

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "FedAdamSettings",
    "FedAvgSettings",
    "FedProxSettings",
    "FednerSettings",
    "LocalTraining",
    "ScaffoldSettings",
    "Server",
    "algorithm_named",
    "baseline_batches",
    "epoch_rounds",
    "fedadam",
    "fedavg",
    "fedner",
    "fedprox",
    "lasting",
    "one_step",
    "scaffold",
]


class Row(NamedTuple):
    """An algorithm's maker and the settings that it takes.

    Attributes:
        make: Makes the algorithm of its settings.
        settings: Their type.
        steps_shared: The key of its settings that says how shared weights are stepped.
    """

    make: Callable[[Any], Algorithm]
    settings: type
    steps_shared: str = "local.optimizer"


ALGORITHMS: dict[str, Row] = {
    "fedner": Row(fedner, FednerSettings, "server_optimizer"),
    "fedavg": Row(fedavg, FedAvgSettings),
    "fedprox": Row(fedprox, FedProxSettings),
    "fedadam": Row(fedadam, FedAdamSettings),
    "scaffold": Row(scaffold, ScaffoldSettings),
}


def algorithm_named(name: str, settings: object | None = None) -> Algorithm:
    """Return an algorithm by name, with its default settings where none are given.

    Raises:
        FednerError: If there is no such algorithm, or the settings are another's.
    """
    if name not in ALGORITHMS:
        raise FednerError(
            f"no algorithm {name!r}", f"The algorithms are {', '.join(sorted(ALGORITHMS))}."
        )
    row = ALGORITHMS[name]
    if settings is not None and not isinstance(settings, row.settings):
        raise FednerError(
            f"algorithm {name!r}: found settings of type {type(settings).__name__}; expected "
            f"{row.settings.__name__}"
        )
    return row.make(settings)
