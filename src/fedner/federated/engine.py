"""What runs the platforms: the only difference between a simulation and a live federation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from fedner.federated.messages import Order, Reply


class Engine(Protocol):
    """Carries orders to platforms and replies back; the round loop is the same for every engine.

    >>> import fedner
    >>> class Counting:
    ...     def __init__(self, inner):
    ...         self.inner, self.platforms, self.asked = inner, inner.platforms, 0
    ...
    ...     def ask(self, orders, timeout=None):
    ...         self.asked += len(orders)
    ...         return self.inner.ask(orders, timeout)
    ...
    ...     def close(self):
    ...         self.inner.close()
    >>> corpora = {"clinic": fedner.synthetic_corpus("case-reports", 40, seed=1)}
    >>> study = fedner.study_for(corpora, training={"rounds": 1})
    >>> own = fedner.PlatformSettings(name="clinic", data="notes/")
    >>> site = fedner.open_site(study, own, "clinic", corpus=corpora["clinic"])
    >>> engine = Counting(fedner.InProcess(lambda name: fedner.SiteAnswer(site), ["clinic"]))
    >>> record = fedner.coordinate(study, engine)
    >>> engine.asked > 0
    True
    >>> engine.close()
    """

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms, sorted by name."""

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        """Hand each platform its order, and give exactly one reply of each, in any order.

        Replies may come one by one; the caller takes all of them before the next call. What goes
        wrong at one platform becomes its `Failure` and stops nobody else: "worker-died" if its
        process ended, "no-reply" if it was silent for longer than `timeout`. A late reply to an
        earlier call is dropped.

        Args:
            orders: By platform. Equal orders are one object, so that tensors are sent once.
            timeout: Seconds that all replies together may take; None waits for ever.
        """

    def close(self) -> None:
        """End everything that the engine began; may be called twice."""


class Answer(Protocol):
    """What runs at a platform: it takes an order and returns a reply; engines know nothing else."""

    def __call__(self, order: Order) -> Reply:
        """Do what an order says. It never raises: what goes wrong is a `Failure`."""

    def rest(self) -> None:
        """Free the memory that is not needed until the next order."""

    def close(self) -> None:
        """Release everything; may be called twice."""
