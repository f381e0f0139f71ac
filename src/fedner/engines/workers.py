"""Platforms side by side in long-lived worker processes on the CPU, one thread each.

Same bits as the serial engine: what a platform computes depends on its name and the seed alone, and
the round loop takes replies in canonical order. Workers are forked, where that is safe: no import
is repeated, and pages of torch and of the data are shared until somebody writes to them.
"""

import json
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import multiprocessing as torch_multiprocessing

from fedner.engines.buffers import (
    StartMethod,
    room_for,
    shared_buffer,
    write_tensors,
)
from fedner.engines.in_process import common_rounds
from fedner.engines.replies import (
    MOST_CONTROL_BYTES,
    failure_in,
    read_message,
    require_done,
    scores_in,
    slot_in,
    update_in,
)
from fedner.engines.roster import Build
from fedner.engines.worker import WorkerJob, work
from fedner.errors import FednerError
from fedner.federated.aggregate import Reply
from fedner.federated.messages import Broadcast, failure, update_from_bytes
from fedner.federated.platform import LocalFunction
from fedner.privacy.scores import NoisedScores
from fedner.scoring import Scores
from fedner.tensors import SharedState

SLOTS = 2  # one update is on its way while the next is computed
_SLOT_BYTES = 32 * 2**20  # for more slots of a worker, so that it need not wait for a busy engine
_STOP_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Workers:
    """The engine of several processes; use it as a context manager, or close it."""

    def __init__(
        self,
        build: Build,
        names: Sequence[str],
        local: LocalFunction,
        initial: SharedState,
        *,
        workers: int = 2,
        folder: Path | None = None,
        max_live: int | None = None,
        loads: Mapping[str, int] | None = None,
        start: StartMethod | None = None,
    ) -> None:
        """Start the workers.

        Args:
            build: Makes a platform, at its beginning, of its name. It runs in the workers; where
                they are spawned and not forked it must be picklable.
            names: The platforms.
            local: What a platform does in a round (`Algorithm.local`).
            initial: The first shared weights: the shared buffers get their size.
            workers: How many processes.
            folder: The run folder, where platforms store their states.
            max_live: How many platforms each worker holds in memory; the others are spilled.
            loads: How much work each platform is, as its public size; platforms are dealt by it.
            start: How processes begin; None forks where that is safe.
        """
        if workers < 1:
            raise FednerError(f"workers: found {workers}; expected at least 1")
        self._names = sorted(names)
        self._folder = folder
        method = start or safe_method()
        room = 2 * room_for([initial])
        self._broadcast = shared_buffer(room, method)
        self._crew: list[_Member] = []
        parts = deal_platforms(self._names, loads or {}, min(workers, len(self._names)))
        try:
            for part in parts:
                slots = [shared_buffer(room, method) for _ in range(num_slots(part, room, method))]
                job = WorkerJob(build, part, local, folder, max_live, self._broadcast, slots)
                self._crew.append(_Member(job, method))
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

    def round(self, broadcast: Broadcast, chosen: Sequence[str]) -> Iterator[Reply]:
        """Let the chosen platforms work, and give replies as they come."""
        self._drain()
        order = self._order("round", broadcast)
        for member in self._crew:
            mine = [name for name in member.names if name in set(chosen)]
            member.begin({**order, "platforms": mine}, mine, broadcast.round)
        while any(member.awaited for member in self._crew):
            yield from self._arrivals()

    def evaluate(self, broadcast: Broadcast) -> Mapping[str, Scores | NoisedScores]:
        """Return what every platform tells of its scores; those that tell nothing are left out."""
        answers = self._manage(self._order("evaluate", broadcast))
        found: dict[str, Scores | NoisedScores] = {}
        for member, answer in zip(self._crew, answers, strict=True):
            try:
                found |= scores_in(answer, member.names)
            except FednerError as error:
                _log.warning("no scores of %s: %s", ", ".join(member.names), error.message)
        return {name: found[name] for name in sorted(found)}

    def save(self, round_: int) -> None:
        """Store every platform's state under a round."""
        self._manage({"do": "save", "round": round_})

    def saved(self) -> Sequence[int]:
        """Return the rounds that every platform has stored."""
        return common_rounds(self._folder, self._names)

    def load(self, round_: int) -> None:
        """Go on from a stored round; 0 is the beginning."""
        self._manage({"do": "load", "round": round_})

    def close(self) -> None:
        """End the workers; may be called twice."""
        for member in self._crew:
            member.stop()
        for member in self._crew:
            member.end()
        self._crew = []

    def _order(self, what: str, broadcast: Broadcast) -> dict[str, Any]:
        flat = {
            **{f"tensors/{name}": tensor for name, tensor in broadcast.shared.items()},
            **{f"extra/{name}": tensor for name, tensor in broadcast.extra.items()},
        }
        layout = write_tensors(self._broadcast, flat)
        if layout is None:
            raise FednerError(
                f"the broadcast of round {broadcast.round} takes {room_for([flat]):,} bytes; the "
                f"workers were started with room for {len(self._broadcast):,}",
                "Start the engine with the first shared weights of this very model.",
            )
        return {
            "do": what,
            "run": broadcast.run,
            "round": broadcast.round,
            "batches": dict(broadcast.batches),
            "layout": layout,
        }

    def _arrivals(self) -> Iterator[Reply]:
        """Wait for something to happen and yield the replies that came of it."""
        busy = {member.pipe: member for member in self._crew if member.awaited}
        for pipe in wait(list(busy)):
            yield from busy[pipe].take()  # type: ignore[index]  # `wait` forgets what it was given

    def _drain(self) -> None:
        """Take and drop what a round that was given up still has to come."""
        while any(member.awaited for member in self._crew):
            for _ in self._arrivals():
                pass

    def _manage(self, order: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Give an order to all workers and return their answers."""
        self._drain()
        for member in self._crew:
            member.send(order)
        answers = [member.answer() for member in self._crew]
        for member, answer in zip(self._crew, answers, strict=True):
            require_done(answer, member.names)
        return answers


class _Member:
    """A worker as the engine sees it."""

    def __init__(self, job: WorkerJob, method: StartMethod) -> None:
        context = torch_multiprocessing.get_context(method)  # knows how to hand over tensors
        self.names = list(job.names)
        self.slots = job.slots
        self.most_bytes = 4 * len(job.broadcast) + MOST_CONTROL_BYTES
        self.awaited: list[str] = []
        self.round = 0
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=work, args=(job, theirs), daemon=True, name=f"fedner-{self.names[0]}"
        )
        with warnings.catch_warnings():
            # Newer Pythons warn of forking beside threads; the pools of numpy and torch are idle
            # here, and the worker computes with one thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()

    def begin(self, order: Mapping[str, Any], platforms: list[str], round_: int) -> None:
        """Start a round of the worker's chosen platforms."""
        self.awaited, self.round = list(platforms), round_
        if platforms:
            self.send(order)

    def send(self, order: Mapping[str, Any]) -> None:
        """Send an order; a dead worker shows when its answer is taken."""
        try:
            self.pipe.send_bytes(json.dumps(order).encode())
        except OSError:
            return

    def take(self) -> Iterator[Reply]:
        """Yield the reply that has come; a dead worker's platforms have all failed.

        Whatever bytes come, what is yielded are replies of awaited platforms. A worker that sends
        what cannot be read is out of step, and nobody can say what comes next: it is ended.
        """
        try:
            yield self._reply()
        except FednerError as error:
            _log.warning("a reply of %s was refused: %s", ", ".join(self.names), error.message)
            self.process.kill()
            yield from self._failed("malformed")
        except (EOFError, OSError):
            _log.warning("%s: %s", ", ".join(self.names), self._epitaph())
            yield from self._failed("worker-died")

    def _failed(self, code: str) -> Iterator[Reply]:
        """Yield the failure of every awaited platform."""
        failed, self.awaited = self.awaited, []
        for name in failed:
            yield failure(name, self.round, code)

    def answer(self) -> dict[str, Any]:
        """Return the answer to an order that is not a round.

        Raises:
            FednerError: If the worker is dead, or its answer is no message.
        """
        try:
            return read_message(self.pipe.recv_bytes(MOST_CONTROL_BYTES))
        except (EOFError, OSError):
            raise FednerError(
                f"platforms {', '.join(self.names)}: {self._epitaph()}",
                "Resume the run from its last checkpoint.",
            ) from None

    def stop(self) -> None:
        """Ask the worker to end."""
        self.send({"do": "stop"})

    def end(self) -> None:
        """Wait for the worker's end, and enforce it."""
        self.pipe.close()
        self.process.join(_STOP_SECONDS)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()

    def _reply(self) -> Reply:
        """Return the next reply.

        Raises:
            FednerError: If what came is not a reply of an awaited platform.
        """
        message = read_message(self.pipe.recv_bytes(MOST_CONTROL_BYTES))
        reply: Reply
        if "failure" in message:
            reply = failure_in(message)
        elif "bytes" in message:
            if not self.pipe.poll(_STOP_SECONDS):
                raise FednerError("an update was announced and did not come")
            reply = update_from_bytes(self.pipe.recv_bytes(self.most_bytes))
        else:
            slot = slot_in(message, len(self.slots))
            try:
                reply = update_in(message, self.slots[slot])
            finally:
                self.send({"do": "free", "slot": slot})
        if reply.platform not in self.awaited:
            raise FednerError("a reply of a platform that was not asked")
        self.awaited.remove(reply.platform)
        return reply

    def _epitaph(self) -> str:
        self.process.join(_STOP_SECONDS)
        return f"its worker process ended with exit code {self.process.exitcode}"


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
