"""Per-unit gradients of the decoder: the CRF gives every sentence's own, a softmax trains nothing.

Shapes: B sentences, L tokens, K tags, U units.
"""

import torch
from torch import Tensor

from fedner.models.crf import CRF
from fedner.models.softmax import SoftmaxDecoder
from fedner.privacy.per_layer.tap import Factors, Measured, Totals, squared_sum
from fedner.privacy.per_layer.units import Units


def decoder_gradients(
    decoder: CRF | SoftmaxDecoder, emissions_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the gradients of each sentence's negative log-likelihood.

    Returns:
        That at the emissions, and by name those of the trained parameters, one for each sentence.
    """
    if isinstance(decoder, SoftmaxDecoder):
        with torch.enable_grad():
            leaf_BLK = emissions_BLK.detach().requires_grad_()
            loss = -decoder.log_likelihood(leaf_BLK, tags_BL, lengths_B).sum()
        return torch.autograd.grad(loss, leaf_BLK)[0], {}
    result = decoder.sentence_gradients(emissions_BLK.detach(), tags_BL, lengths_B)
    start_BK, end_BK, transitions_BKK = result.parameters
    every = {"start": start_BK, "end": end_BK, "transitions": transitions_BKK}
    trained = {name for name, each in decoder.named_parameters() if each.requires_grad}
    return -result.emissions_BLK, {name: -every[name] for name in every if name in trained}


def measure_sentences(prefix: str, gradients: dict[str, Tensor], units: Units) -> Measured:
    """Measure parameters whose gradient is known for each sentence by itself (B, ...)."""
    summed = {f"{prefix}.{name}": units.sums(each) for name, each in gradients.items()}
    squares_U = units.unit_B.new_zeros(units.num_units, dtype=torch.float64)
    for each in summed.values():
        squares_U += squared_sum(each)

    def add_weighted(factors: Factors, totals: Totals) -> None:
        every_U = torch.arange(units.num_units, device=units.unit_B.device)
        for name, each in summed.items():
            totals[name].add_(factors.scale(each, every_U).sum(0).to(totals[name].dtype))

    return Measured(squares_U, add_weighted)
