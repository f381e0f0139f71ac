"""The federation that every engine runs: a small BiLSTM tagger, ten platforms, FedAvg of one step.

Plain torch and nothing else, since each peer has an environment of its own. The sentences of a
platform's step follow from platform and round alone, so that all engines do the same arithmetic
and must come to the same weights.

    L  tokens of a sentence, D  features of a token
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

NUM_PLATFORMS, ROUNDS = 10, 50
SENTENCES, BATCH, LENGTH = 128, 32, 20
FEATURES, HIDDEN, TAGS, RATE, SEED = 100, 100, 9, 0.1, 5


class SmallTagger(nn.Module):
    """A BiLSTM with a softmax for each token, over given features."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, HIDDEN, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * HIDDEN, TAGS)

    def loss(self, features_BLD: Tensor, tags_BL: Tensor) -> Tensor:
        """Return the mean loss of a token."""
        hidden, _ = self.lstm(features_BLD)
        scores: Tensor = self.out(hidden)
        return nn.functional.cross_entropy(scores.reshape(-1, TAGS), tags_BL.reshape(-1))


def new_tagger() -> SmallTagger:
    """Return the tagger with the weights that every run begins with."""
    torch.manual_seed(SEED)
    return SmallTagger()


def weights_of(tagger: nn.Module) -> dict[str, Tensor]:
    """Return a copy of the weights."""
    return {name: tensor.detach().clone() for name, tensor in tagger.named_parameters()}


@lru_cache(maxsize=NUM_PLATFORMS)
def examples(platform: int) -> tuple[Tensor, Tensor]:
    """Return all sentences of a platform: features and tags."""
    generator = torch.Generator().manual_seed(platform)
    features = torch.randn(SENTENCES, LENGTH, FEATURES, generator=generator)
    return features, torch.randint(TAGS, (SENTENCES, LENGTH), generator=generator)


def rows(round_: int) -> range:
    """Return which sentences a platform takes in a round, counted from 0."""
    start = round_ * BATCH % SENTENCES
    return range(start, start + BATCH)


def batch(platform: int, round_: int) -> tuple[Tensor, Tensor]:
    """Return the sentences of a platform's step in a round, gathered as a drawn batch is."""
    features, tags = examples(platform)
    taken = torch.tensor(rows(round_))
    return features[taken], tags[taken]


@lru_cache(maxsize=1)
def own_tagger() -> SmallTagger:
    """Return the one tagger of this process, which its platforms take turns with."""
    return new_tagger()


def train(platform: int, round_: int, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Take a platform's step from the given weights on, and return the new ones.

    The step is written out: `torch.optim` imports a compiler that nobody here needs.
    """
    tagger = own_tagger()
    own = dict(tagger.named_parameters())
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(weights[name])
    gradients = torch.autograd.grad(tagger.loss(*batch(platform, round_)), list(own.values()))
    with torch.no_grad():
        torch._foreach_add_(list(own.values()), list(gradients), alpha=-RATE)
    return weights_of(tagger)


def mean(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of the platforms' weights."""
    return {name: torch.stack([each[name] for each in states]).mean(dim=0) for name in states[0]}


class Stopwatch:
    """Notes the end of each round, on the clock that all processes of the machine share."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def lap(self) -> None:
        """Note the end of a round."""
        self.ends.append(time.monotonic())

    def write(self, weights: Mapping[str, Tensor]) -> None:
        """Write ends and final weights where the contest asked for them."""
        path = Path(os.environ["FEDERATION_RESULT"])
        listed = {name: tensor.flatten().tolist() for name, tensor in sorted(weights.items())}
        path.write_text(json.dumps({"ends": self.ends, "weights": listed}))


def one_thread(main: Callable[[], None]) -> None:
    """Run a script with one intra-op thread."""
    torch.set_num_threads(1)
    main()
