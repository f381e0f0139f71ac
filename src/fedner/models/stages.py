"""The stages of a tagger, and the one walk over them that everybody takes.

Training runs each layer, DP-SGD also taps it, the ONNX export writes it down: three ways to make a
value of a stage, one order of stages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import nn

from fedner.errors import FednerError
from fedner.models.layers.forms import LayerForms
from fedner.models.layers.table import layer_forms

Value = TypeVar("Value")
FIRST = "embeddings"  # what a stage follows that shall come first


@dataclass(frozen=True, slots=True)
class Stage:
    """A layer in its place.

    Attributes:
        name: Its dotted name in the tagger.
        layer: The layer.
    """

    name: str
    layer: nn.Module

    @property
    def forms(self) -> LayerForms:
        """What fedner knows of its type of layer."""
        return layer_forms(self.name, self.layer)

    @property
    def window(self) -> int:
        """How many neighbouring tokens one of its values reads."""
        return self.forms.window(self.layer)


@dataclass(frozen=True, slots=True)
class Stages:
    """All stages before the decoder, in order.

    Attributes:
        sources: Each reads the batch and gives a part of what every token is made of.
        encoders: Each reads what the one before gives; the last one gives the emissions.
    """

    sources: tuple[Stage, ...]
    encoders: tuple[Stage, ...]

    def __post_init__(self) -> None:
        misplaced = [each for each in self.sources if not each.forms.is_source]
        misplaced += [each for each in self.encoders if each.forms.is_source]
        if misplaced:
            names = [f"{each.name} ({type(each.layer).__name__})" for each in misplaced]
            raise FednerError(
                f"the tagger's stages do not fit together: {', '.join(names)}",
                "Sources (is_source) belong in the embeddings, other layers after them.",
            )

    @property
    def all(self) -> tuple[Stage, ...]:
        """Sources, then encoders."""
        return (*self.sources, *self.encoders)


@dataclass(frozen=True, slots=True)
class StageRecipe:
    """An encoder that a tagger is built with.

    Attributes:
        name: The name of the stage, which its parameters are named after.
        layer: The name of its `LayerForms`.
        settings: What the layer is built with, beside the size of what it reads: as JSON has it.
        after: The stage that it follows; empty for the last one before the emissions.
    """

    name: str
    layer: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    after: str = ""


def walk(
    stages: Stages,
    run: Callable[[Stage, Sequence[Value]], Value],
    settle: Callable[[Stage, Value, Stage | None], Value],
) -> Value:
    """Go from the sources to the emissions.

    Args:
        stages: The stages.
        run: Makes the value of a stage from those before it.
        settle: Makes of that value what the next stage reads. Gets the stage, its value, and the
            encoder before which it stands; None for a source.

    Returns:
        The value of the last encoder, as it is.
    """
    found = [run(stage, ()) for stage in stages.sources]
    parts = [settle(stage, each, None) for stage, each in zip(stages.sources, found, strict=True)]
    for stage, following in zip(stages.encoders[:-1], stages.encoders[1:], strict=True):
        parts = [settle(stage, run(stage, parts), following)]
    return run(stages.encoders[-1], parts)
