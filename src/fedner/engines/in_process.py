"""A whole federation in one process, platform after platform, on the CPU or on a GPU."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from fedner.engines.allocator import keep_freed_memory
from fedner.engines.roster import MakeAnswer, Roster
from fedner.federated.answering import logged_failure
from fedner.federated.message_bytes import order_from_bytes, reply_from_bytes, to_bytes
from fedner.federated.messages import Order, Reply, Update, failure
from fedner.federated.tensor_bytes import NotFiniteError
from fedner.tensors import SharedState, map_shared


class InProcess:
    """The serial engine: replies come one by one, so that one update is in memory at a time.

    >>> import fedner
    >>> corpus = fedner.synthetic_corpus("case-reports", 40, seed=1)
    >>> study = fedner.study_for({"clinic": corpus}, training={"rounds": 1})
    >>> own = fedner.PlatformSettings(name="clinic", data="notes/")
    >>> site = fedner.open_site(study, own, "clinic", corpus=corpus)
    >>> engine = fedner.InProcess(lambda name: fedner.SiteAnswer(site), ["clinic"], as_bytes=True)
    >>> engine.platforms
    ['clinic']
    >>> engine.close()
    """

    def __init__(
        self,
        answers: MakeAnswer,
        names: Sequence[str],
        *,
        max_live: int | None = None,
        as_bytes: bool = False,
    ) -> None:
        """Make the engine; platforms are built when first asked.

        This process computes for them, so from now on it keeps freed memory, up to a bound
        (`allocator.keep_freed_memory`).

        Args:
            answers: Makes a platform's answer from its name (`answering.answers`).
            names: The platforms.
            max_live: How many platforms are held in memory; the others are spilled to disk.
            as_bytes: Whether every order and reply goes through its byte form, as on a network.
        """
        keep_freed_memory()
        self._roster = Roster(answers, names, max_live)
        self._as_bytes = as_bytes

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms, sorted by name."""
        return self._roster.names

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        """Hand each platform its order, one after the other; here no reply can be late."""
        del timeout
        sent: tuple[Order, bytes] | None = None
        for name in sorted(orders):
            order = orders[name]
            if not self._as_bytes:
                yield self._roster.answer(name, order)
                continue
            try:
                sent = sent if sent is not None and sent[0] is order else (order, to_bytes(order))
            except NotFiniteError:
                yield failure(name, order.round, "order-refused")
                continue
            yield self._through_bytes(name, *sent)

    def close(self) -> None:
        """Release all platforms."""
        self._roster.close()

    def _through_bytes(self, name: str, order: Order, data: bytes) -> Reply:
        """Answer an order that came as bytes, and send the reply as bytes."""
        device = next((tensor.device for tensor in order.shared.values()), torch.device("cpu"))
        try:
            read = order_from_bytes(data)
            shared, extra = _moved(read.shared, device), _moved(read.extra, device)
            reply = self._roster.answer(name, replace(read, shared=shared, extra=extra))
            found = reply_from_bytes(to_bytes(reply))
        except Exception as error:  # noqa: BLE001 - a reply that cannot travel is its platform's
            return logged_failure(error, name, order)
        if not isinstance(found, Update):
            return found
        tensors, extra = _moved(found.tensors, device), _moved(found.extra, device)
        return replace(found, tensors=tensors, extra=extra, scales=_moved(found.scales, device))


def _moved(state: SharedState, device: torch.device) -> SharedState:
    return map_shared(lambda tensor: tensor.to(device), state)
