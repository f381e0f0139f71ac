"""Platforms side by side in long-lived worker processes on the CPU, one thread each.

Same bits as the serial engine: what a platform computes depends on its name and the seed alone, and
the round loop takes replies in canonical order. Workers are forked, where that is safe: no import
is repeated, and pages of torch and of the data are shared until somebody writes to them.

A worker that died is started again by the next call, a bounded number of times. One that is late is
left to finish; what it still sends of earlier calls is dropped, and it gets its next order then.
One that is silent in several calls in a row is ended, and so started again: nobody waits for it in
every call of a long run.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import wait

import torch

from fedner.engines.allocator import keep_freed_memory
from fedner.engines.buffers import StartMethod, room_for, shared_buffer
from fedner.engines.frames import INLINE, ORDER, Frame
from fedner.engines.member import Member, Post
from fedner.engines.roster import MakeAnswer
from fedner.engines.worker import ORDER_START, WorkerJob
from fedner.errors import FednerError
from fedner.federated.message_bytes import pack_message
from fedner.federated.messages import Order, Reply, failure
from fedner.federated.tensor_bytes import NotFiniteError
from fedner.tensors import SharedState

SLOTS = 2  # one update is on its way while the next is computed
RESTARTS = 3
MOST_MISSED = 3  # calls in a row
_SLOT_BYTES = 32 * 2**20  # for more slots of a worker, so that it need not wait for a busy engine


class Workers:
    """The engine of several processes; use it as a context manager, or close it.

    >>> import fedner, torch
    >>> names, weights = ["forum", "clinic"], {"weight": torch.zeros(3)}
    >>> with fedner.Workers(lambda name: None, names, weights, workers=2) as engine:
    ...     engine.platforms
    ['clinic', 'forum']
    """

    def __init__(
        self,
        answers: MakeAnswer,
        names: Sequence[str],
        initial: SharedState,
        *,
        workers: int = 2,
        max_live: int | None = None,
        loads: Mapping[str, int] | None = None,
        start: StartMethod | None = None,
        restarts: int = RESTARTS,
        most_missed: int = MOST_MISSED,
    ) -> None:
        """Start the workers.

        Args:
            answers: Makes a platform's answer from its name (`answering.answers`). It runs in the
                workers; if they are spawned, not forked, it must be picklable.
            names: The platforms.
            initial: The first shared weights; they give the shared buffers their size.
            workers: How many processes.
            max_live: How many platforms each worker holds in memory; the others are on disk.
            loads: How much work each platform is, as its public size; it balances the workers.
            start: How processes start; None forks where that is safe.
            restarts: How often each worker that died is started again.
            most_missed: In how many calls in a row a worker may be silent before it is ended.
        """
        if workers < 1:
            raise FednerError(f"workers: found {workers}; expected at least 1")
        keep_freed_memory()  # every reply takes as much memory as the last one freed
        self._names = sorted(names)
        self._sequence = 0
        method = start or safe_method()
        room = room_for(initial)
        self._orders = shared_buffer(ORDER_START + room, method)
        self._crew: list[Member] = []
        parts = deal_platforms(self._names, loads or {}, min(workers, len(self._names)))
        try:
            for part in parts:
                slots = [shared_buffer(room, method) for _ in range(num_slots(part, room, method))]
                job = WorkerJob(answers, part, max_live, self._orders, slots)
                self._crew.append(Member(job, method, restarts, most_missed))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms, sorted by name."""
        return self._names

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        """Hand each platform its order, and yield replies as they come."""
        end = None if timeout is None else time.monotonic() + timeout
        self._sequence += 1
        try:
            posts = self._posts(orders)
        except NotFiniteError:
            yield from (failure(name, each.round, "order-refused") for name, each in orders.items())
            return
        for member in self._crew:
            member.begin(self._sequence, posts)
        while any(member.awaited for member in self._crew):
            busy = {member.pipe: member for member in self._crew if member.awaited}
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = wait(list(busy), left)
            for pipe in ready:
                yield from busy[pipe].take()  # type: ignore[index]  # `wait` forgets the type
            if not ready:
                for member in busy.values():
                    yield from member.give_up()

    def close(self) -> None:
        """End the workers; may be called twice."""
        for member in self._crew:
            member.stop()
        for member in self._crew:
            member.end()
        self._crew = []

    def _posts(self, orders: Mapping[str, Order]) -> list[Post]:
        """Return what is to be sent to whom; the first order goes through the shared buffer."""
        groups: dict[int, list[str]] = {}
        for name in sorted(orders):
            groups.setdefault(id(orders[name]), []).append(name)
        return [
            Post(orders[names[0]], names, self._frame(orders[names[0]], is_first=not place))
            for place, names in enumerate(groups.values())
        ]

    def _frame(self, order: Order, *, is_first: bool) -> Frame:
        """Write an order to the shared buffer, or into the frame where it has no room there."""
        packed = pack_message(order)
        if not is_first or packed.num_bytes > len(self._orders) - ORDER_START:
            data = packed.to_bytes()
            return Frame(INLINE, self._sequence, length=len(data), rest=data)
        # A worker that still reads the last order sees by its sequence that it was overwritten.
        mark = self._orders[:8].view(torch.int64)
        mark[0] = 0
        packed.write(self._orders[ORDER_START:])
        mark[0] = self._sequence
        return Frame(ORDER, self._sequence, length=packed.num_bytes)


def safe_method() -> StartMethod:
    """Return "fork" where a forked process can compute: on Linux, before a GPU was touched."""
    has_gpu_state = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
    return "fork" if sys.platform.startswith("linux") and not has_gpu_state else "spawn"


def num_slots(part: Sequence[str], room: int, method: StartMethod) -> int:
    """Return how many updates a worker can have on their way.

    One for each of its platforms where updates are small: the worker computes on while the engine's
    process waits for a core. Spawned workers share named memory, which is too scarce for that.
    """
    if method == "spawn":
        return SLOTS
    return max(SLOTS, min(len(part), _SLOT_BYTES // max(room, 1)))


def deal_platforms(
    names: Sequence[str], loads: Mapping[str, int], num_workers: int
) -> list[list[str]]:
    """Deal platforms among workers, the heaviest first, each to the least burdened."""
    parts: list[list[str]] = [[] for _ in range(num_workers)]
    burden = [0] * num_workers
    for name in sorted(names, key=lambda name: (-loads.get(name, 1), name)):
        lightest = burden.index(min(burden))
        parts[lightest].append(name)
        burden[lightest] += loads.get(name, 1)
    return [sorted(part) for part in parts]
