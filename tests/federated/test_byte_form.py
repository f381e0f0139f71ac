"""One message, one byte form: whatever the order in which its facts were put together."""

from linear_platform import initial

from fedner.federated.messages import (
    Broadcast,
    broadcast_from_bytes,
    broadcast_to_bytes,
)


def test_the_order_of_facts_changes_no_byte() -> None:
    sizes = {"alpha": 3, "beta": 4, "gamma": 5}
    turned = dict(reversed(sizes.items()))
    assert list(turned) != list(sizes)
    first, second = (
        broadcast_to_bytes(Broadcast("run", 1, initial(), batches=batches))
        for batches in (sizes, turned)
    )
    assert first == second
    assert broadcast_from_bytes(first).batches == sizes
