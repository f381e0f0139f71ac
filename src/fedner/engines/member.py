"""A worker process as its engine sees it: what it was sent, what it owes, whether it lives."""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from torch import Tensor
from torch import multiprocessing as torch_multiprocessing

from fedner.engines.buffers import StartMethod
from fedner.engines.frames import FREE, INLINE, REPLY, STOP, Frame, read_frame
from fedner.engines.worker import WorkerJob, work
from fedner.errors import FednerError
from fedner.federated.message_bytes import reply_in
from fedner.federated.messages import Order, Reply, failure
from fedner.federated.tensor_bytes import copied_bytes

_MOST_CONTROL_BYTES = 2**24
_STOP_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Post(NamedTuple):
    """An order on its way.

    Attributes:
        order: The order.
        names: Who gets it.
        frame: How it is sent.
    """

    order: Order
    names: Sequence[str]
    frame: Frame


class Member:
    """A worker as the engine sees it.

    Attributes:
        names: Its platforms.
        pipe: The way to it.
        awaited: The platforms whose reply to the current call is still to come, with the round.
    """

    def __init__(
        self, job: WorkerJob, method: StartMethod, restarts: int, most_missed: int
    ) -> None:
        self.names = list(job.names)
        self.awaited: dict[str, int] = {}
        self.pipe: Connection
        self.process: BaseProcess
        self._job = job
        self._method: StartMethod = method
        self._restarts = restarts
        self._most_missed = most_missed
        # Ciphertexts are seven times as long as float32, and some algorithms send extras.
        self._most_bytes = 8 * len(job.orders) + _MOST_CONTROL_BYTES
        self._sequence = 0
        self._owed = 0  # replies to earlier calls that have not come yet
        self._num_missed = 0  # calls in a row in which nothing came
        self._unsent: list[bytes] = []
        self._start()

    def begin(self, sequence: int, posts: Sequence[Post]) -> None:
        """Send the orders of a call, or keep them until earlier ones have been answered."""
        if not self._unsent:
            self._owed += len(self.awaited)
        self._sequence, self.awaited, mine = sequence, {}, []
        for post in posts:
            names = [name for name in post.names if name in self.names]
            if names:
                mine.append((post.frame, json.dumps(names).encode()))
                self.awaited |= dict.fromkeys(names, post.order.round)
        self._unsent = [
            frame._replace(is_last=place == len(mine), rest=names + frame.rest).to_bytes()
            for place, (frame, names) in enumerate(mine, start=1)
        ]
        if mine and not self.process.is_alive():
            self._restart()
        if not self._owed:
            self._send_unsent()

    def take(self) -> Iterator[Reply]:
        """Yield the reply that has come; a dead worker's platforms have all failed.

        Whatever bytes come, what is yielded are replies of awaited platforms. A worker that sends
        what cannot be read is out of step, and nobody can say what comes next: it is ended.
        """
        try:
            reply = self._reply()
        except FednerError as error:
            _log.warning("a reply of %s was refused: %s", ", ".join(self.names), error.message)
            self._kill()
            yield from self._failed("malformed")
        except (EOFError, OSError):
            self.process.join(_STOP_SECONDS)
            code = self.process.exitcode
            _log.warning("%s: the worker ended with exit code %s", ", ".join(self.names), code)
            yield from self._failed("worker-died")
        else:
            if reply is not None:
                yield reply

    def give_up(self) -> Iterator[Reply]:
        """Yield a failure for every awaited platform: the time is over. What comes is dropped.

        A worker that was silent in too many calls in a row is ended: the next call starts another.
        """
        late, self.awaited = self.awaited, {}
        self._owed += 0 if self._unsent else len(late)
        self._unsent = []
        self._num_missed += 1
        if self._num_missed >= self._most_missed:
            who, calls = ", ".join(self.names), self._num_missed
            _log.warning("%s: the worker was silent in %d calls in a row; it is ended", who, calls)
            self._kill()
        for name, round_ in late.items():
            yield failure(name, round_, "no-reply")

    def stop(self) -> None:
        """Ask the worker to end."""
        self._send(Frame(STOP).to_bytes())

    def end(self) -> None:
        """Wait for the worker's end, and enforce it."""
        self.pipe.close()
        self.process.join(0.0 if self._owed else _STOP_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _kill(self) -> None:
        self.process.kill()
        self.process.join(_STOP_SECONDS)

    def _start(self) -> None:
        context = torch_multiprocessing.get_context(self._method)  # can hand over tensors
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(  # type: ignore[attr-defined]
            target=work, args=(self._job, theirs), daemon=True, name=f"fedner-{self.names[0]}"
        )
        with warnings.catch_warnings():
            # Newer Pythons warn of forking beside threads; the pools of numpy and torch are idle
            # here, and the worker computes with one thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()

    def _restart(self) -> None:
        """Start a worker that died again, if that was not done too often."""
        if not self._restarts:
            return
        _log.warning("the worker of %s is started again", ", ".join(self.names))
        self._restarts -= 1
        self._owed = self._num_missed = 0
        self.process.join()
        self.pipe.close()
        self._start()

    def _send_unsent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for data in unsent:
            self._send(data)

    def _send(self, data: bytes) -> None:
        """Send something; a dead worker shows when its reply is taken."""
        try:
            self.pipe.send_bytes(data)
        except OSError:
            return

    def _failed(self, code: str) -> Iterator[Reply]:
        """Yield the failure of every awaited platform."""
        failed, self.awaited = self.awaited, {}
        self._owed, self._unsent = 0, []
        for name, round_ in failed.items():
            yield failure(name, round_, code)

    def _reply(self) -> Reply | None:
        """Return the next reply; None where it answers an earlier call.

        Raises:
            FednerError: If what came is not a reply of an awaited platform.
        """
        frame = read_frame(self.pipe.recv_bytes(self._most_bytes))
        self._num_missed = 0
        region = self._region(frame)
        if frame.sequence != self._sequence:
            if not self._owed:
                raise FednerError("a reply to nothing")
            self._owed -= 1
            if not self._owed:
                self._send_unsent()
            return None
        reply = reply_in(region)
        if reply.platform not in self.awaited:
            raise FednerError("a reply of a platform that was not asked")
        del self.awaited[reply.platform]
        return reply

    def _region(self, frame: Frame) -> Tensor:
        """Return a copy of the message that a frame announces, and free its slot."""
        if frame.kind == INLINE:
            return copied_bytes(frame.rest)
        slots = self._job.slots
        if frame.kind != REPLY or frame.slot >= len(slots) or frame.length > len(slots[0]):
            raise FednerError("a reply in a place that does not exist")
        region = slots[frame.slot][: frame.length].clone()
        self._send(Frame(FREE, slot=frame.slot).to_bytes())
        return region
