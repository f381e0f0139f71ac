"""What a newcomer tries at home: three arms, and for each the settings of its training.

- joined: the received weights, fine-tuned;
- described: the same model with a described head, from scratch;
- free: the same model with a free head, from scratch.

The last two never saw anybody else's texts: the better of them is *local-only*. All numbers that
decide how long a candidate trains stand here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from fedner.models.zoo import Recipe
from fedner.optimizers import OptimizerSettings
from fedner.training import TrainingSettings

Arm = Literal["joined", "described", "free"]
JOINED: Arm = "joined"
LOCAL: tuple[Arm, ...] = ("described", "free")
ARMS: tuple[Arm, ...] = (JOINED, *LOCAL)

MAX_GRAD_NORM = 5.0
# (most sentences, batch size) and (most sentences, epochs): the first row that holds them counts.
_BATCH_SIZES = ((50, 8), (1_000, 16))
_LARGE_BATCH = 32
_EPOCHS = ((400, 40), (1_000, 30), (2_000, 20))
_LEAST_EPOCHS = 15
# A pretrained encoder that is trained along is stepped more carefully than what stands behind it.
_ENCODER_LEARNING_RATE = 3e-5
_ADAPTER_LEARNING_RATE = 3e-4

# Learning rate, and the multiple of the usual number of epochs.
_FINE_TUNED = ((2.5e-4, 1.0), (5e-4, 1.0), (1e-3, 1.0), (2e-3, 1.0), (5e-4, 0.5), (1e-3, 0.5))
_FROM_SCRATCH = ((5e-4, 1.0), (1e-3, 1.0), (2e-3, 1.0), (3e-3, 1.0), (5e-3, 1.0), (8e-3, 1.0))
_GRIDS: dict[Arm, tuple[tuple[float, float], ...]] = {
    "joined": _FINE_TUNED,
    "described": _FROM_SCRATCH,
    "free": _FROM_SCRATCH,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """How one candidate trains; the batch size follows from how many sentences it has.

    Attributes:
        learning_rate: The first one; it decays to 0 in a straight line.
        epochs: How often every sentence is seen.
    """

    learning_rate: float
    epochs: int

    @property
    def label(self) -> str:
        """The setting in one word."""
        return f"{self.learning_rate:g}x{self.epochs}"


Grid = Mapping[Arm, tuple[Setting, ...]]


def grid(num_sentences: int, epochs: int | None = None) -> Grid:
    """Return the settings that are tried.

    Args:
        num_sentences: How many sentences the newcomer trains on.
        epochs: The usual number of epochs; None goes by the number of sentences.
    """
    usual = _usual_epochs(num_sentences) if epochs is None else epochs
    return {arm: _settings(rows, usual) for arm, rows in _GRIDS.items()}


def _settings(rows: tuple[tuple[float, float], ...], usual: int) -> tuple[Setting, ...]:
    """Return the settings of an arm, equal ones once."""
    made = [Setting(rate, max(1, round(share * usual))) for rate, share in rows]
    return tuple(dict.fromkeys(made))


def _usual_epochs(num_sentences: int) -> int:
    return next((epochs for most, epochs in _EPOCHS if num_sentences <= most), _LEAST_EPOCHS)


def batch_size(num_sentences: int) -> int:
    """Return how many sentences a step reads."""
    return next((size for most, size in _BATCH_SIZES if num_sentences <= most), _LARGE_BATCH)


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
    size = batch_size(num_sentences)
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
    )
