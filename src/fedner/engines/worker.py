"""One worker process: it holds some platforms and does what the engine's pipe tells it.

Baseline messages are JSON, tensors go through shared buffers; nothing is unpickled after the start.
"""

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedner.engines.allocator import keep_freed_memory
from fedner.engines.buffers import view_tensors, write_tensors
from fedner.engines.roster import Build, Roster, logged_code
from fedner.errors import FednerError
from fedner.federated.aggregate import Reply
from fedner.federated.messages import (
    Broadcast,
    Failure,
    Update,
    failure,
    failure_to_bytes,
    update_to_bytes,
)
from fedner.federated.platform import LocalFunction
from fedner.tensors import SharedState

_PARENT_CHECK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """What a worker is started with.

    Attributes:
        build: Makes a platform of its name.
        names: The worker's platforms.
        local: What a platform does in a round.
        folder: The run folder, or None.
        max_live: How many platforms are held in memory.
        broadcast: The buffer that the engine writes broadcasts to.
        slots: The buffers that this worker writes its updates to.
    """

    build: Build
    names: Sequence[str]
    local: LocalFunction
    folder: Path | None
    max_live: int | None
    broadcast: Tensor
    slots: Sequence[Tensor]


class ParentGoneError(Exception):
    """The engine's process is no more."""


def work(job: WorkerJob, pipe: Connection) -> None:
    """Serve the engine until it says stop or is gone."""
    # Ctrl-C reaches the whole group: the engine's process decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()
    worker = _Worker(job, pipe)
    try:
        worker.serve()
    except (ParentGoneError, EOFError, OSError):
        pass  # nobody is left to tell
    finally:
        worker.roster.close()


class _Worker:
    """The serving loop and which slots are free."""

    def __init__(self, job: WorkerJob, pipe: Connection) -> None:
        self.job = job
        self.pipe = pipe
        self.parent = os.getppid()
        self.roster = Roster(job.build, job.names, job.local, job.folder, job.max_live)
        self.free = list(range(len(job.slots)))

    def serve(self) -> None:
        """Take one order after the other."""
        while True:
            order = self._receive()
            if order["do"] == "stop":
                return
            if order["do"] == "free":
                self.free.append(order["slot"])
            elif order["do"] == "round":
                self._round(order)
            else:
                self._send(self._manage(order))

    def _round(self, order: dict[str, Any]) -> None:
        """Let the chosen platforms of an order work."""
        names = [name for name in order["platforms"] if name in self.job.names]
        try:
            broadcast = self._broadcast(order)
        except FednerError as error:
            logged_code(error, "an order")
            for name in names:
                self._send_reply(failure(name, 0, "order-refused"))
            return
        for name in names:
            self._send_reply(self.roster.run_round(name, broadcast))

    def _manage(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what is not a round; of an error the engine gets the code, the log gets the text."""
        try:
            if order["do"] == "evaluate":
                broadcast = self._broadcast(order)
                scored = {name: self.roster.scores(name, broadcast) for name in self.job.names}
                return {"scores": {name: s.as_dict() for name, s in scored.items() if s}}
            if order["do"] == "save":
                self.roster.save(order["round"])
            else:
                self.roster.load(order["round"])
        except Exception as error:  # noqa: BLE001 - its text may hold data
            return {"error": logged_code(error, f"platforms {', '.join(self.job.names)}")}
        return {}

    def _broadcast(self, order: dict[str, Any]) -> Broadcast:
        # Copies: what was checked must be what is used, and the server can write to the buffer.
        views = view_tensors(self.job.broadcast, order["layout"])
        tensors = {name: tensor.clone() for name, tensor in views.items()}
        return Broadcast(
            order["run"],
            order["round"],
            _part(tensors, "tensors"),
            _part(tensors, "extra"),
            order["batches"],
        )

    def _send_reply(self, reply: Reply) -> None:
        if isinstance(reply, Failure):
            self._send({"failure": failure_to_bytes(reply).decode()})
            return
        while not self.free:
            self.free.append(self._receive()["slot"])
        slot = self.free.pop()
        layout = write_tensors(self.job.slots[slot], _flat(reply))
        if layout is None:
            self.free.append(slot)
            self._send({"platform": reply.platform, "round": reply.round, "bytes": True})
            self.pipe.send_bytes(update_to_bytes(reply))
            return
        facts_of = {
            "platform": reply.platform,
            "round": reply.round,
            "loss": reply.loss,
            "scores": reply.scores,
            "event": reply.event,
        }
        self._send({**facts_of, "slot": slot, "layout": layout})

    def _send(self, message: dict[str, Any]) -> None:
        self.pipe.send_bytes(json.dumps(message).encode())

    def _receive(self) -> dict[str, Any]:
        while not self.pipe.poll(_PARENT_CHECK_SECONDS):
            # A sibling may hold a copy of the pipe's other end, so that it never reads as closed.
            if os.getppid() != self.parent:
                raise ParentGoneError
        order: dict[str, Any] = json.loads(self.pipe.recv_bytes())
        return order


def _flat(update: Update) -> dict[str, Tensor]:
    return {
        **{f"tensors/{name}": tensor for name, tensor in update.tensors.items()},
        **{f"extra/{name}": tensor for name, tensor in update.extra.items()},
    }


def _part(tensors: dict[str, Tensor], part: str) -> SharedState:
    prefix = part + "/"
    return SharedState(
        {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    )
