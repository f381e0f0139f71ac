"""One message, one byte form: whatever the order in which its facts were put together."""

from linear_platform import initial

from fedner.federated.message_bytes import order_from_bytes, to_bytes
from fedner.federated.messages import Order


def test_the_order_of_facts_changes_no_byte() -> None:
    sizes = {"alpha": 3, "beta": 4, "gamma": 5}
    turned = dict(reversed(sizes.items()))
    assert list(turned) != list(sizes)
    first, second = (
        to_bytes(Order("run", 1, initial(), batches=batches)) for batches in (sizes, turned)
    )
    assert first == second
    assert order_from_bytes(first).batches == sizes
