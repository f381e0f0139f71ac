"""The first values of a tagger, drawn for each parameter from a stream that its name decides.

Parameters of one name, shape and seed are equal on every platform and machine, whatever else their
taggers hold. Weights and biases of linear maps, convolutions and LSTMs are uniform within
1 / sqrt(values that one output reads), as torch has them; the forget gates of LSTMs begin open
with a bias of 1 (Jozefowicz et al. 2015); characters are uniform with variance 1 / dimension (Ma
and Hovy 2016); the CRF begins at zero, where all tag sequences that the scheme allows are alike,
and so does the residual of a described head. A pretrained encoder begins as it was trained, and
its adapters with a change of zero.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.embeddings.low_rank import LowRank
from fedner.models.tagger import Tagger
from fedner.seeds import seeded

# Parameters that begin as their module made them, beside those of layers that keep their first
# values: a word table and a trained encoder begin as their public source, CRF and residual at zero.
_LEFT_ALONE = (
    "embeddings.words.",
    "embeddings.context.model.",
    "emissions.residual.",
    "decoder.",
)


# Gives values of at most a bound for a parameter: of its name, its shape and that bound.
Draw = Callable[[str, tuple[int, ...], float], Tensor]


def initialise(tagger: Tagger, seed: int) -> None:
    """Set the first values of a tagger in place."""
    initialise_by(tagger, partial(_drawn, seed))


@torch.no_grad()
def initialise_by(tagger: Tagger, draw: Draw) -> None:
    """Set the first values of a tagger in place, from values that the caller draws.

    For many taggers of one shape, whose values are drawn on a GPU; what is not drawn (forget gates,
    padding, adapters) is as in `initialise`.
    """
    kept = [f"{each.name}." for each in tagger.stages.all if each.forms.keeps_first_values]
    for prefix, module in tagger.named_modules():
        if f"{prefix}.".startswith((*_LEFT_ALONE, *kept)):
            continue
        if isinstance(module, LowRank):
            down = module.down
            down.copy_(draw(f"{prefix}.down", tuple(down.shape), module.bound))
            module.up.zero_()
            continue
        for name, parameter in module.named_parameters(recurse=False):
            parameter.copy_(draw(f"{prefix}.{name}", tuple(parameter.shape), _bound(module)))
        if isinstance(module, nn.LSTM):
            _open_forget_gates(module)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()


def _bound(module: nn.Module) -> float:
    """Return the largest first value of a layer's parameters."""
    if isinstance(module, nn.LSTM):
        return 1.0 / math.sqrt(module.hidden_size)
    if isinstance(module, nn.Embedding):
        return math.sqrt(3.0 / module.embedding_dim)
    if isinstance(module, nn.Linear | nn.Conv1d):
        return 1.0 / math.sqrt(module.weight[0].numel())
    bound = getattr(module, "bound", None)
    if not isinstance(bound, float):
        raise FednerError(
            f"there is no rule to initialize a {type(module).__name__}",
            "Set its attribute `bound` to the largest initial value, let its LayerForms have "
            "keeps_first_values, or compose it from layers of torch.",
        )
    return bound


def _drawn(seed: int, name: str, shape: tuple[int, ...], bound: float) -> Tensor:
    """Return uniform values from the stream that the parameter's name decides."""
    return torch.from_numpy(seeded(seed, "init", name).uniform(-bound, bound, shape))


def _open_forget_gates(lstm: nn.LSTM) -> None:
    hidden = lstm.hidden_size
    for name, bias in lstm.named_parameters():
        # torch adds two biases and orders the gates input, forget, cell, output.
        if name.startswith("bias_"):
            bias[hidden : 2 * hidden].fill_(1.0 if name.startswith("bias_ih") else 0.0)
