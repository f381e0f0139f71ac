"""Units measured from gradients that are known for each sentence by itself.

Shapes: B sentences, U units.
"""

import torch
from torch import Tensor

from fedner.models.per_unit.tap import Factors, Measured, Totals, norm_rows, squared_sum
from fedner.models.per_unit.units import Sizes, Units


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
