"""One worker process: it holds some platforms and does what the engine's pipe tells it.

Orders and replies go through shared buffers in their byte form; nothing is unpickled after the
start.
"""

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch
from torch import Tensor

from fedner.engines.allocator import keep_freed_memory
from fedner.engines.frames import FREE, INLINE, ORDER, REPLY, STOP, Frame, read_frame
from fedner.engines.roster import MakeAnswer, Roster
from fedner.errors import FednerError
from fedner.federated.answering import logged_failure
from fedner.federated.message_bytes import order_in, pack_message
from fedner.federated.messages import Order, Reply, failure
from fedner.federated.tensor_bytes import copied_bytes

_PARENT_CHECK_SECONDS = 2.0
ORDER_START = 64  # the order buffer begins with the sequence of its order


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """What a worker is started with.

    Attributes:
        answers: Makes what answers for a platform, of its name.
        names: The worker's platforms.
        max_live: How many platforms are held in memory.
        orders: The buffer that the engine writes orders to, each after its sequence.
        slots: The buffers that this worker writes its replies to.
    """

    answers: MakeAnswer
    names: Sequence[str]
    max_live: int | None
    orders: Tensor
    slots: Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class _Task:
    """An order and who is to answer it; no order where it could not be read."""

    sequence: int
    names: Sequence[str]
    order: Order | None
    code: str = "order-refused"


class EngineGoneError(Exception):
    """The engine's process is no more, or has said stop."""


def work(job: WorkerJob, pipe: Connection) -> None:
    """Serve the engine until it says stop or is gone."""
    # Ctrl-C reaches the whole group: the engine's process decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()
    worker = _Worker(job, pipe)
    try:
        worker.serve()
    except (EngineGoneError, EOFError, OSError):
        pass  # nobody is left to tell
    finally:
        worker.roster.close()


class _Worker:
    """The serving loop and which slots are free."""

    def __init__(self, job: WorkerJob, pipe: Connection) -> None:
        self.job = job
        self.pipe = pipe
        self.parent = os.getppid()
        self.roster = Roster(job.answers, job.names, job.max_live)
        self.free = list(range(len(job.slots)))

    def serve(self) -> None:
        """Take one call after the other: all of its orders first, then the work."""
        tasks: list[_Task] = []
        while True:
            frame = self._receive()
            if frame is None:
                continue
            tasks.append(self._task(frame))
            if not frame.is_last:
                continue
            for task in tasks:
                self._answer(task)
            tasks = []

    def _task(self, frame: Frame) -> _Task:
        """Return what a frame asks for; its order is a copy, so that nobody can change it."""
        length = len(frame.rest) - frame.length if frame.kind == INLINE else len(frame.rest)
        names = json.loads(frame.rest[:length])
        mine = [name for name in names if name in self.job.names]
        try:
            if frame.kind == INLINE:
                return _Task(frame.sequence, mine, order_in(copied_bytes(frame.rest[length:])))
            region = self.job.orders[ORDER_START : ORDER_START + frame.length].clone()
            if int(self.job.orders[:8].view(torch.int64)) != frame.sequence:
                # The engine gave this call up and wrote the next order over it.
                return _Task(frame.sequence, mine, None, "no-reply")
            return _Task(frame.sequence, mine, order_in(region))
        except FednerError as error:
            for name in mine:
                logged_failure(error, name, Order("", 0))
            return _Task(frame.sequence, mine, None)

    def _answer(self, task: _Task) -> None:
        for name in task.names:
            if task.order is None:
                reply: Reply = failure(name, 0, task.code)
            else:
                reply = self.roster.answer(name, task.order)
            self._send_reply(task, name, reply)

    def _send_reply(self, task: _Task, name: str, reply: Reply) -> None:
        """Send a reply; one that cannot travel becomes a failure."""
        try:
            packed = pack_message(reply)
            if not packed.tensors or packed.num_bytes > len(self.job.slots[0]):
                frame = Frame(INLINE, task.sequence, length=packed.num_bytes)
                self._send(frame._replace(rest=packed.to_bytes()))
                return
            slot = self._free_slot()
            try:
                packed.write(self.job.slots[slot])
            except BaseException:
                self.free.append(slot)
                raise
            self._send(Frame(REPLY, task.sequence, slot, packed.num_bytes))
        except FednerError as error:
            order = Order("", 0) if task.order is None else task.order
            self._send_reply(task, name, logged_failure(error, name, order))

    def _free_slot(self) -> int:
        while not self.free:
            self._receive()
        return self.free.pop()

    def _send(self, frame: Frame) -> None:
        self.pipe.send_bytes(frame.to_bytes())

    def _receive(self) -> Frame | None:
        """Return the next frame with an order, or None where it freed a slot.

        Raises:
            EngineGoneError: If there is nobody to serve any more.
        """
        while not self.pipe.poll(_PARENT_CHECK_SECONDS):
            # A sibling may hold a copy of the pipe's other end, so that it never reads as closed.
            if os.getppid() != self.parent:
                raise EngineGoneError
        frame = read_frame(self.pipe.recv_bytes())
        if frame.kind == FREE:
            self.free.append(frame.slot)
            return None
        if frame.kind not in (ORDER, INLINE) or frame.kind == STOP:
            raise EngineGoneError
        return frame
