"""Per-unit gradients of the decoder: the CRF gives every sentence's own, a softmax trains nothing.

Shapes: B sentences, L tokens, K tags, U units.
"""

import torch
from torch import Tensor

from fedner.models.crf import CRF
from fedner.models.softmax import SoftmaxDecoder
from fedner.privacy.per_layer.tap import Factors, Measured, Totals, norm_rows, squared_sum
from fedner.privacy.per_layer.units import Sizes, Units


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


def measure_sentences(
    prefix: str, gradients: dict[str, Tensor], units: Units, masses_B: Tensor | None = None
) -> Measured:
    """Measure parameters whose gradient is known for each sentence by itself (B, ...).

    Args:
        prefix: The name of the layer.
        gradients: By the parameter's own name.
        units: To which unit each sentence belongs.
        masses_B: The sum of the norms of the terms of each sentence's gradient; None where nothing
            cancels within a sentence.
    """
    summed = {f"{prefix}.{name}": units.sums(each.double()) for name, each in gradients.items()}
    squares_U = torch.stack([squared_sum(each) for each in summed.values()]).sum(0)
    if masses_B is None:
        masses_B = torch.stack([norm_rows(each) for each in gradients.values()]).sum(0)

    def add_weighted(factors: Factors, totals: Totals) -> None:
        every_U = torch.arange(units.num_units, device=units.unit_B.device)
        for name, each in summed.items():
            totals[name].add_(factors.scale(each, every_U).sum(0))

    return Measured(Sizes(squares_U, units.sums(masses_B)), add_weighted)
