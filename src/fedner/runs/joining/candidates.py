"""What a newcomer tries at home: three arms, and for each the settings of its training.

- joined: the received weights, fine-tuned;
- described: the same model with a described head, from scratch;
- free: the same model with a free head, from scratch.

The last two never saw anybody else's texts: the better of them is *local-only*. All numbers that
decide how a candidate trains stand here. They were chosen with NCBI-disease and Ex-PTM as
newcomers, seeds 101 to 103; docs/results.md has the table. No result is computed on those.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from fedner.models.zoo import Recipe
from fedner.optimizers import OptimizerSettings
from fedner.training import TrainingSettings

Arm = Literal["joined", "described", "free"]
JOINED: Arm = "joined"
LOCAL: tuple[Arm, ...] = ("described", "free")
ARMS: tuple[Arm, ...] = (JOINED, *LOCAL)

MAX_GRAD_NORM = 5.0
# A pretrained encoder that is trained along is stepped more carefully than what stands behind it.
_ENCODER_LEARNING_RATE = 3e-5
_ADAPTER_LEARNING_RATE = 3e-4

# Learning rate, and how strongly weights are held to those that were received.
_Rows = tuple[tuple[float, float], ...]
_RECEIVED: _Rows = ((2e-3, 100), (2e-3, 30), (2e-3, 10), (4e-3, 3), (4e-3, 1), (2e-3, 0))
# A head that begins afresh must move far: higher learning rates, weaker pulls.
_RECEIVED_WITHOUT_HEAD: _Rows = ((1e-3, 0), (2e-3, 0), (4e-3, 0), (8e-3, 0), (4e-3, 1), (4e-3, 3))
_DESCRIBED: _Rows = ((1e-3, 0), (2e-3, 0), (4e-3, 0), (8e-3, 0), (1.6e-2, 0), (3.2e-2, 0))
_FREE: _Rows = ((5e-4, 0), (1e-3, 0), (2e-3, 0), (4e-3, 0), (8e-3, 0), (1.6e-2, 0))


class Schedule(NamedTuple):
    """How long a candidate trains, by how many sentences it has.

    Attributes:
        epochs: How often every sentence is seen.
        batch_size: How many of them a step reads.
    """

    epochs: int
    batch_size: int


def schedule(num_sentences: int) -> Schedule:
    """Return the usual epochs and batch size for so many sentences.

    >>> schedule(25), schedule(100)
    (Schedule(epochs=40, batch_size=8), Schedule(epochs=20, batch_size=16))
    """
    if num_sentences <= 50:
        return Schedule(40, 8)
    if num_sentences <= 1_000:
        return Schedule(20, 16 if num_sentences < 400 else 32)
    return Schedule(15, 64)


@dataclass(frozen=True, slots=True)
class Setting:
    """How one candidate trains.

    Attributes:
        learning_rate: The first one; it decays to 0 in a straight line.
        epochs: How often every sentence is seen.
        pull: How strongly weights are held to those that training begins with.
        batch_size: How many sentences a step reads; None goes by how many are trained on.
        is_scheduled: Whether epochs and batch size are the usual ones for the number of sentences,
            and others for a part of them.
    """

    learning_rate: float
    epochs: int
    pull: float = 0.0
    batch_size: int | None = None
    is_scheduled: bool = False

    @property
    def label(self) -> str:
        """The setting in one word."""
        held = f"-pull{self.pull:g}" if self.pull else ""
        return f"{self.learning_rate:g}x{self.epochs}{held}"

    def words(self) -> str:
        """Return the setting as people say it."""
        held = f"pull {self.pull:g}, " if self.pull else ""
        return f"learning rate {self.learning_rate:g}, {held}{self.epochs} epochs"

    def for_part(self, num_sentences: int) -> "Setting":
        """Return the same learning rate and pull, as long as is usual for so many sentences."""
        return replace(self, **schedule(num_sentences)._asdict()) if self.is_scheduled else self


Grid = Mapping[Arm, tuple[Setting, ...]]


def grid(num_sentences: int, *, has_head: bool, epochs: int | None = None) -> Grid:
    """Return the settings that are tried.

    Args:
        num_sentences: How many sentences the newcomer trains on.
        has_head: Whether a head that knows types by their descriptions was received.
        epochs: The number of epochs; None goes by the number of sentences.
    """
    rows: dict[Arm, _Rows] = {
        "joined": _RECEIVED if has_head else _RECEIVED_WITHOUT_HEAD,
        "described": _DESCRIBED,
        "free": _FREE,
    }
    usual = schedule(num_sentences)
    return {
        arm: tuple(
            Setting(rate, usual.epochs, pull, usual.batch_size, is_scheduled=True)
            if epochs is None
            else Setting(rate, epochs, pull)
            for rate, pull in each
        )
        for arm, each in rows.items()
    }


def arm_recipe(recipe: Recipe, arm: Arm) -> Recipe:
    """Return what an arm is composed of: the received recipe, or it with another head."""
    if arm == "joined":
        return recipe
    return replace(recipe, head=arm, residual=False)


def training_of(setting: Setting, recipe: Recipe, num_sentences: int) -> TrainingSettings:
    """Return how a candidate is trained.

    Args:
        setting: What is tried.
        recipe: What is trained.
        num_sentences: How many sentences, none of them empty.
    """
    size = setting.batch_size or schedule(num_sentences).batch_size
    factors: tuple[tuple[str, float], ...] = ()
    if recipe.trains_encoder:
        whole = recipe.adapter is None
        rate = _ENCODER_LEARNING_RATE if whole else _ADAPTER_LEARNING_RATE
        factors = (("embeddings.context", rate / setting.learning_rate),)
    optimizer = OptimizerSettings(
        "adam",
        setting.learning_rate,
        schedule="linear",
        decay_steps=max(1, setting.epochs * -(-num_sentences // size)),
        factors=factors,
    )
    return TrainingSettings(
        epochs=setting.epochs,
        batch_size=size,
        optimizer=optimizer,
        max_grad_norm=MAX_GRAD_NORM,
        pull=setting.pull,
    )
