"""What everybody knows of an encrypted run before it begins."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedner.federated.encrypted.announcements import RoundContext
from fedner.federated.encrypted.mirror import MirrorPlan
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.messages import Order


@dataclass(frozen=True, slots=True)
class EncryptionPlan:
    """Public facts of an encrypted run.

    Attributes:
        parameters: Those of the encryption.
        mirror: What the server's step is, which every platform takes.
        scales: What each platform of the study multiplies its update by before it is encrypted,
            and which share of the range is its own: together 1.
        factor: What the sum is multiplied by after it was decrypted.
        least: The fewest platforms whose updates may be in a sum: every platform reads it.
        batches: Returns the batches of all who are chosen for a round: public, by the study's seed.
        norm_bound: The largest norm of an update, checked by its platform; None for none.
        must_be_charged: Whether every update carries what it costs under differential privacy.
    """

    parameters: CkksParameters
    mirror: MirrorPlan
    scales: Mapping[str, float]
    factor: float
    least: int
    batches: Callable[[int], Mapping[str, int]]
    norm_bound: float | None = None
    must_be_charged: bool = False

    def context(self, order: Order) -> RoundContext:
        """Return what names the sum of an order's round."""
        return RoundContext(order.study, order.run, order.round, str(self.parameters))
