"""A linear model of three numbers in a tagger's place: gradients that one can do in one's head.

Loss of a sentence: (w . x - y)^2 / 2 with w = (shared.a, shared.b, private.c). Sentence s of a
platform has x = inputs[s] and y = targets[s].
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.federated.dp_steps import DPSteps
from fedner.federated.platform import LocalSettings, Platform, platform
from fedner.models.partition import Partition, partition
from fedner.optimizers import OptimizerSettings
from fedner.privacy.noise import Clipped, sum_of_disjoint
from fedner.privacy.noise import clip as clip_state
from fedner.privacy.sampling import PoissonSample
from fedner.scoring import Counts, Scores
from fedner.settings.sections import Encoding
from fedner.tensors import SharedState

SHARED = ("shared",)
SGD = OptimizerSettings(name="sgd", learning_rate=0.5)


class LinearLearner:
    def __init__(self, inputs: Sequence[Sequence[float]], targets: Sequence[float]) -> None:
        self.inputs = torch.tensor(inputs)
        self.targets = torch.tensor(targets)
        self._weights = {
            "private.c": torch.zeros(1),
            "shared.a": torch.zeros(1),
            "shared.b": torch.zeros(1),
        }
        self.seen: list[tuple[int, ...]] = []

    def weights(self) -> Mapping[str, Tensor]:
        return self._weights

    def drawable(self) -> NDArray[np.int64]:
        return np.arange(len(self.targets))

    def gradients(
        self, sentences: NDArray[np.int64], seed: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        del seed  # no dropout here
        self.seen.append(tuple(sorted(sentences.tolist())))
        order = ("shared.a", "shared.b", "private.c")
        w = torch.cat([self._weights[name] for name in order])
        x, y = self.inputs[sentences], self.targets[sentences]
        error = x @ w - y
        gradient = (error[:, None] * x).mean(dim=0)
        return (error**2 / 2).mean(), {name: gradient[i : i + 1] for i, name in enumerate(order)}

    def clipped(
        self,
        sample: PoissonSample,
        max_grad_norm: float,
        names: Collection[str],
        loss: str,
        seed: int,
    ) -> Clipped:
        """The slow loop over units: each unit's summed gradient over `names`, clipped whole."""
        del loss, seed
        parts = [clip_state({name: torch.zeros(1) for name in names}, max_grad_norm)]
        for unit in range(sample.num_units):
            own = [s for s, u in zip(sample.sentences, sample.units_B, strict=True) if u == unit]
            _, gradient = self.gradients(np.asarray(own), 0)
            summed = {name: gradient[name] * len(own) for name in names}
            parts.append(clip_state(summed, max_grad_norm))
        return sum_of_disjoint(parts)

    def scores(self) -> Scores:
        """Something that depends on the weights: whole-number errors as false positives."""
        total = float(sum(weight.abs().sum() for weight in self._weights.values()))
        return Scores(strict={"X": Counts(tp=1, fp=round(total * 1000))})

    def sentence_counts(self) -> list[Counts]:
        """One sentence for each target, with a whole number of missed entities."""
        return [Counts(tp=2, fp=1, fn=int(abs(target))) for target in self.targets.tolist()]


def linear_partition(shared: Sequence[str] = SHARED) -> Partition:
    return partition(["private.c", "shared.a", "shared.b"], shared)


def initial(a: float = 0.0, b: float = 0.0) -> SharedState:
    zeros = {"private.c": torch.zeros(1), "shared.a": torch.tensor([a])}
    return linear_partition().shared_state({**zeros, "shared.b": torch.tensor([b])})


DATA: dict[str, tuple[list[list[float]], list[float]]] = {
    # x = (a, b, c) and y; platform p looks at a and c, platform q at b and c.
    "p": ([[1.0, 0.0, 1.0]], [1.0]),
    "q": ([[0.0, 2.0, 1.0]], [3.0]),
}


def linear_platform(
    name: str, settings: LocalSettings | None = None, seed: int = 7, **options: object
) -> Platform:
    chosen = LocalSettings(optimizer=SGD) if settings is None else settings
    learner = LinearLearner(*DATA[name])
    return platform(name, learner, linear_partition(), seed, chosen, **options)  # type: ignore[arg-type]


def random_platform(
    name: str,
    size: int = 12,
    seed: int = 7,
    privacy: DPSteps | None = None,
    encoding: Encoding = "float32",
) -> Platform:
    """A platform of noisy data, the same for the same name."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    inputs = torch.randn(size, 3, generator=generator)
    targets = inputs @ torch.tensor([1.0, -2.0, 0.5]) + torch.randn(size, generator=generator)
    learner = LinearLearner(inputs.tolist(), targets.tolist())
    local = LocalSettings(encoding=encoding)
    return platform(name, learner, linear_partition(), seed, local, privacy=privacy)


def values(state: Mapping[str, Tensor]) -> dict[str, float]:
    return {name: round(float(tensor), 6) for name, tensor in sorted(state.items())}
