"""How quickly `fedner serve` answers at a given rate, and whether its memory grows.

    python -m benchmarks.serve_load --words DATA/glove-6b/glove.6B.50d.txt --minilm FOLDER
    python -m benchmarks.serve_load --requests 100000 --rate 0     # as fast as answers come: memory

Every model is trained for one epoch on built-in synthetic text (its speed does not depend on what
it learned), saved, and served by `fedner serve` in a process of its own. Requests go to 127.0.0.1
alone. They are sent at fixed times whether or not answers have come (an open loop), so that a slow
answer is not hidden by the next request waiting for it; a time is counted from when the request was
due. At most 64 are on their way at once.

Notes: 200 words of a synthetic case report, ten of which no other note has, so that whatever the
service remembered by word or by text would show in its memory.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

NUM_WORDS = 200
NEW_WORDS = 10  # in every note
MOST_AT_ONCE = 64
MEMORY_POINTS = 20
SIZES = {"cnn-lstm": {"recipe": "CNN-CLSTM-CRF"}, "minilm": {"recipe": "ELMoNER"}}


@dataclass
class Load:
    """What a run of requests came to: milliseconds of each, counts by status, memory."""

    milliseconds: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    megabytes: list[tuple[int, float]] = field(default_factory=list)
    processor_seconds: float = 0.0


def note_words() -> list[str]:
    """Return the words of a note of 200."""
    from fedner.corpus.synthetic import stream

    words: list[str] = []
    documents = stream("case-reports", 1)
    while len(words) < NUM_WORDS:
        words += next(documents).text.split()
    return words[:NUM_WORDS]


def body_of(words: list[str], number: int) -> bytes:
    """Return the request of a note with words of its own."""
    own = [f"{word}{number}x" for word in words[:: len(words) // NEW_WORDS]]
    changed = list(words)
    changed[:: len(words) // NEW_WORDS] = own
    return json.dumps({"text": " ".join(changed)}).encode()


def train(folder: Path, words: str, context: str | None) -> None:
    """Train and save a tagger of the usual size, for one epoch."""
    import fedner

    corpus = fedner.synthetic_corpus("case-reports", 100, seed=1)
    kind = "minilm" if context else "cnn-lstm"
    tagger = fedner.Tagger.train(corpus, words=words, context=context, epochs=1, model=SIZES[kind])
    tagger.save(folder)


@contextlib.contextmanager
def served(model: Path, log: Path, precision: str) -> Iterator[tuple[str, int, int]]:
    """Serve a model in a process of its own; yields host, port and process."""
    command = [sys.executable, "-m", "fedner", "serve", str(model), "--port", "0", "--json"]
    command += ["--precision", precision]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line:
                raise SystemExit(f"the service did not start: {log.read_text()}")
            host, port = json.loads(line)["address"].removeprefix("http://").rstrip("/").split(":")
            yield host, int(port), server.pid
        finally:
            server.terminate()


def resident_megabytes(process: int) -> float:
    """Return the memory that a process holds now (Linux)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return float("nan")


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used (Linux): the same on a busy machine."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """Connections to a service, kept and used again."""

    def __init__(self, host: str, port: int) -> None:
        self._place = (host, port)
        self._head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, body: bytes) -> int:
        """Send one request and return the status of its answer."""
        if not self._free:
            self._free.append(await asyncio.open_connection(*self._place))
        reader, writer = self._free.pop()
        writer.write(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        (length,) = (int(each.split(":")[1]) for each in lines if each.startswith("content-length"))
        await reader.readexactly(length)
        self._free.append((reader, writer))
        return int(lines[0].split()[1])

    def close(self) -> None:
        """Close what is open."""
        for _, writer in self._free:
            writer.close()


async def load(place: tuple[str, int, int], words: list[str], number: int, rate: float) -> Load:
    """Send requests at a rate (0: two at a time, as fast as answers come)."""
    host, port, process = place
    client, done = Client(host, port), Load()
    places = asyncio.Semaphore(MOST_AT_ONCE if rate else 2)
    tasks: set[asyncio.Task[None]] = set()

    async def one(due: float, which: int) -> None:
        try:
            body = body_of(words, which)
            begun = time.perf_counter()
            status = await client.ask(body)
            done.milliseconds.append(1000 * (time.perf_counter() - due))
            done.late.append(1000 * (begun - due))
            done.statuses[status] = done.statuses.get(status, 0) + 1
        finally:
            places.release()

    for which in range(20):  # what is read and compiled once
        await client.ask(body_of(words, -which))
    used = processor_seconds(process)
    start = time.perf_counter()
    for sent in range(number):
        if sent % max(1, number // MEMORY_POINTS) == 0:
            done.megabytes.append((sent, resident_megabytes(process)))
        due = start + sent / rate if rate else time.perf_counter()
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await places.acquire()
        task = asyncio.create_task(one(due if rate else time.perf_counter(), sent))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    done.processor_seconds = processor_seconds(process) - used
    done.megabytes.append((number, resident_megabytes(process)))
    client.close()
    return done


def rows_of(name: str, done: Load) -> list[tuple[str, float, str]]:
    """Return the rows of one run: percentiles, refusals, memory, how late the client was."""
    p50, p95, p99 = np.percentile(done.milliseconds, [50, 95, 99])
    seen = [megabytes for _, megabytes in done.megabytes[1:]]
    count = len(done.milliseconds)
    others = count - done.statuses.get(200, 0)
    return [
        (f"{name}: p50", float(p50), "ms"),
        (f"{name}: p95", float(p95), "ms"),
        (f"{name}: p99", float(p99), "ms"),
        (f"{name}: answers other than 200", others, f"of {count:,}"),
        (f"{name}: memory after a twentieth of the requests", seen[0], "MB"),
        (f"{name}: memory half-way", seen[len(seen) // 2], "MB"),
        (f"{name}: memory at the end", seen[-1], "MB"),
        (f"{name}: most memory seen after the first twentieth", max(seen), "MB"),
        (f"{name}: processor time of a request", 1000 * done.processor_seconds / count, "ms"),
        (f"{name}: the client itself was late (p95)", float(np.percentile(done.late, 95)), "ms"),
    ]


def measured(
    name: str, words: str, context: str | None, number: int, rate: float, precision: str
) -> list[tuple[str, float, str]]:
    """Train, serve and load one model."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "tagger"
        train(model, words, context)
        with served(model, Path(folder) / "serve.log", precision) as place:
            done = asyncio.run(load(place, note_words(), number, rate))
    pace = f"{rate:g} requests/s" if rate else "as fast as answers come"
    return rows_of(f"{name}, {pace}", done)


def main(arguments: list[str] | None = None) -> list[tuple[str, float, str]]:
    """Measure what the arguments ask for; without any, hashed words for ten seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", help="word vectors, such as glove.6B.50d.txt; default: hashed")
    parser.add_argument("--minilm", help="the folder of MiniLM; without it only word vectors")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second; 0: no pause")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    asked = parser.parse_args(arguments or [])
    words = asked.words or "hashed"
    if asked.requests > 1_000_000 or asked.rate > 1_000:
        raise SystemExit("at most 1,000,000 requests, at most 1,000 a second")
    name = "hashed words" if words == "hashed" else Path(words).name
    rows = measured(name, words, None, asked.requests, asked.rate, asked.precision)
    if asked.minilm:
        label = f"{name} and MiniLM"
        rows += measured(label, words, asked.minilm, asked.requests, asked.rate, asked.precision)
    return rows


if __name__ == "__main__":
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors", flush=True)
    for row in main(sys.argv[1:]):
        print("{:<72} {:>12,.1f} {}".format(*row), flush=True)
