"""The platforms of one process: made when first asked, at most so many awake at once."""

from collections.abc import Callable, Sequence

from fedner.errors import FednerError
from fedner.federated.answering import logged_failure
from fedner.federated.engine import Answer
from fedner.federated.messages import Order, Reply

MakeAnswer = Callable[[str], Answer]


class Roster:
    """Some platforms, and what answers for each.

    Attributes:
        names: The platforms, sorted.
        max_live: How many are held in memory at once; None holds all.
    """

    def __init__(self, make: MakeAnswer, names: Sequence[str], max_live: int | None = None) -> None:
        if max_live is not None and max_live < 1:
            raise FednerError(f"max_live: found {max_live}; expected at least 1, or none")
        self.names = sorted(names)
        self.max_live = max_live
        self._make = make
        self._answers: dict[str, Answer] = {}
        self._awake: dict[str, None] = {}  # the one that was asked last comes last

    def answer(self, name: str, order: Order) -> Reply:
        """Let a platform do what an order says; whatever goes wrong there is a `Failure`."""
        try:
            if name not in self._answers:
                self._answers[name] = self._make(name)
            self._wake(name)
            return self._answers[name](order)
        except Exception as error:  # noqa: BLE001 - one platform's fault must not end the others
            return logged_failure(error, name, order)

    def close(self) -> None:
        """Let go of all platforms."""
        answers, self._answers, self._awake = self._answers, {}, {}
        for answer in answers.values():
            answer.close()

    def _wake(self, name: str) -> None:
        """Note who is asked; those who were not asked for longest may have to rest."""
        self._awake.pop(name, None)
        while self.max_live is not None and len(self._awake) >= self.max_live:
            oldest = next(iter(self._awake))
            self._answers[oldest].rest()
            del self._awake[oldest]
        self._awake[name] = None
