"""Sums that the coordinator opened, kept until their round is stored.

Platforms open a round for one list only (`secure.opened`). If the coordinator, or the whole job,
ends after they did and before the round is stored, the round is taken again. With the same
platforms it is opened again. Where one of them is gone nobody would open it any more: then the sum
that was kept is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from fedner.federated.checkpoints import read_state, stored_rounds, write_state
from fedner.federated.messages import Order
from fedner.tensor_files import tensors_digest


class OpenedTotal(NamedTuple):
    """A sum that was opened.

    Attributes:
        names: Whose updates are in it, sorted.
        totals: The sum.
    """

    names: tuple[str, ...]
    totals: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class OpenedTotals:
    """The folder of opened sums; those of the last two rounds are kept.

    Attributes:
        folder: Where they lie, for the owner alone.
    """

    folder: Path

    def keep(self, order: Order, opened: OpenedTotal) -> None:
        """Put the sum of a round on disk, durably."""
        facts = {"names": list(opened.names), "asked": _asked(order)}
        write_state(self.folder, order.round, opened.totals, facts)

    def read(self, order: Order) -> OpenedTotal | None:
        """Return the sum of the very round that an order asks for; None where none was kept.

        Raises:
            FednerError: If its file is damaged.
        """
        if order.round not in stored_rounds(self.folder):
            return None
        totals, facts = read_state(self.folder, order.round)
        if facts["asked"] != _asked(order):
            return None
        return OpenedTotal(tuple(facts["names"]), totals)


def _asked(order: Order) -> list[str]:
    return [order.study, order.run, tensors_digest(order.shared), tensors_digest(order.extra)]
