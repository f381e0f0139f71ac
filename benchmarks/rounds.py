"""What federating costs: rounds beside plain loops doing the same work, and many platforms.

    python -m benchmarks.rounds

1. A round of three platforms (serial engine, FedNER) beside a plain torch loop that takes the same
   three gradient steps, each with torch.optim.Adam over all weights of its tagger (the federation
   steps the shared ones once a round, on the server); interleaved, medians, one thread.
2. Ten platforms x 50 rounds of a small BiLSTM (FedAvg, two local steps): fedner's serial and worker
   engines beside a bare loop and two bare forked processes with pipes, each in a process of its
   own: steady rounds per second, seconds of the whole run with start-up, memory at the last round
   (proportional set size, so that shared pages count once).
3. Seconds per round and memory of the server's process from 3 to 1,000 platforms, states spilled;
   each number of platforms in a process of its own.
"""

import json
import multiprocessing
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks._memory import in_fresh_process
from fedner.corpus.prepare import prepare
from fedner.corpus.synthetic import PLATFORMS, generate
from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.federated.algorithms import FedAvgSettings, LocalTraining, fedavg, fedner
from fedner.federated.algorithms.fedavg import plain_sgd
from fedner.federated.answering import answers
from fedner.federated.engine import Engine
from fedner.federated.learner import TaggerLearner
from fedner.federated.platform import LocalSettings, Platform, platform
from fedner.federated.record import RoundRecord
from fedner.federated.run import RunSettings, run
from fedner.federated.sizes import batch_sizes
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.partition import Partition, partition
from fedner.models.zoo import Recipe, build_tagger, recipe_named, resized
from fedner.scoring import Scores
from fedner.tensors import SharedState
from fedner.training import trainable

Row = tuple[str, float, str]
SEED = 5

# --- 1. a round of three platforms -------------------------------------------------------------

JOINT_BATCH, SENTENCES = 64, 240
SIZES = {"small": (40, 40, 40, 64, 50), "paper": (200, 200, 200, 1024, 300)}


def _recipe(size: str) -> tuple[Recipe, int, int]:
    hidden, filters, characters, context, words = SIZES[size]
    recipe = resized(
        recipe_named("ELMoNER"), hidden=hidden, filters=filters, character_filters=characters
    )
    return recipe, context, words


def _three(size: str) -> dict[str, Platform]:
    recipe, context, dimension = _recipe(size)
    source = HashedWords(5_000, dimension)
    platforms = {}
    for name in sorted(PLATFORMS):
        sentences = prepare(generate(name, SENTENCES, SEED).documents).sentences[:SENTENCES]
        space = TagSpace.of(PLATFORMS[name].labels, "BIO")
        words = WordEmbedding(source)
        tagger = build_tagger(recipe, words, space, context, SEED)
        num_tokens = sum(len(sentence.tokens) for sentence in sentences)
        features = torch.randn(num_tokens, context).half()
        corpus = encode_corpus(sentences, words, space=space, context_TD=features)
        cut = partition(trainable(tagger), "fedner")
        platforms[name] = platform(name, TaggerLearner(tagger, corpus), cut, SEED)
    return platforms


def _plain_steps(
    platforms: Mapping[str, Platform], batches: Mapping[str, int]
) -> Callable[[], None]:
    """Return one plain pass over the platforms: draw, forward, backward, Adam."""
    taggers = {name: each.learner for name, each in platforms.items()}
    adams = {
        name: torch.optim.Adam(list(each.learner.weights().values()))
        for name, each in platforms.items()
    }

    def steps() -> None:
        for name, each in platforms.items():
            learner = taggers[name]
            assert isinstance(learner, TaggerLearner)
            learner.tagger.train()
            batch = collate(learner.corpus, each.sampler.draw(batches[name]))
            loss = learner.tagger.losses(batch).mean()
            adams[name].zero_grad()
            loss.backward()
            adams[name].step()
            float(loss.detach())

    return steps


def _round_ratio(size: str, repeats: int) -> tuple[float, float, float]:
    """Return the median seconds of a round, of the plain steps, and the median ratio of pairs."""
    mine, theirs = _three(size), _three(size)
    names = sorted(mine)
    sizes = dict.fromkeys(names, SENTENCES)
    engine = InProcess(answers(mine.__getitem__, fedner()), names)
    plain = _plain_steps(theirs, batch_sizes(sizes, JOINT_BATCH))
    first = next(iter(mine.values()))
    weights = {name: tensor.detach().clone() for name, tensor in first.learner.weights().items()}
    times: list[tuple[float, float]] = []
    mark = perf_counter()

    def interleave(record: RoundRecord) -> None:
        nonlocal mark
        del record
        middle = perf_counter()
        plain()
        end = perf_counter()
        times.append((middle - mark, end - middle))
        mark = perf_counter()

    settings = RunSettings("bench", repeats + 3, JOINT_BATCH, sizes)
    run(
        fedner(),
        engine,
        first.partition.shared_state(weights),
        settings,
        SEED,
        on_round=interleave,
    )
    kept = times[3:]
    ratio = median(own for own, _ in kept) / median(other for _, other in kept)
    return median(own for own, _ in kept), median(other for _, other in kept), ratio


def round_rows() -> list[Row]:
    rows: list[Row] = []
    for size, repeats in (("small", 60), ("paper", 15)):
        own, other, ratio = _round_ratio(size, repeats)
        rows += [
            (f"round of three platforms, {size} ELMoNER: fedner", 1e3 * own, "ms"),
            (f"round of three platforms, {size} ELMoNER: plain torch steps", 1e3 * other, "ms"),
            (f"round of three platforms, {size} ELMoNER: ratio (at most 1.10)", ratio, "x"),
        ]
    return rows


# --- 2. ten platforms x 50 rounds --------------------------------------------------------------

NUM_PLATFORMS, ROUNDS, WARM_UP, STEPS, BATCH, LENGTH = 10, 50, 5, 2, 32, 25
FEATURES, HIDDEN, TAGS, EXAMPLES, RATE = 100, 100, 9, 128, 0.1


class SmallTagger(nn.Module):
    """A BiLSTM with a softmax for each token, over given features."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, HIDDEN, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of a token."""
        hidden, _ = self.lstm(x)
        scores: Tensor = self.out(hidden)
        return nn.functional.cross_entropy(scores.reshape(-1, TAGS), y.reshape(-1))


class SmallLearner:
    """The small tagger and its examples, as a platform's learner."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(SEED)
        self.model = SmallTagger()
        generator = torch.Generator().manual_seed(int(name))
        self.x = torch.randn(EXAMPLES, LENGTH, FEATURES, generator=generator)
        self.y = torch.randint(TAGS, (EXAMPLES, LENGTH), generator=generator)

    def weights(self) -> Mapping[str, Tensor]:
        """Return the weights themselves."""
        return dict(self.model.named_parameters())

    def drawable(self) -> Any:
        """Return all examples."""
        return np.arange(EXAMPLES)

    def gradients(self, sentences: Any, seed: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss and its gradient."""
        del seed
        rows = torch.from_numpy(sentences)
        loss = self.model(self.x[rows], self.y[rows])
        weights = self.weights()
        computed = torch.autograd.grad(loss, list(weights.values()))
        return loss.detach(), dict(zip(weights, computed, strict=True))

    def scores(self) -> Scores | None:
        """Return nothing: speed is all that is measured here."""
        return None


def small_names(count: int = NUM_PLATFORMS) -> list[str]:
    return [f"{number:04d}" for number in range(count)]


def small_platform(name: str) -> Platform:
    learner = SmallLearner(name)
    names = tuple(sorted(learner.weights()))
    return platform(name, learner, Partition(names, ()), SEED, LocalSettings())


def small_shared() -> SharedState:
    weights = SmallLearner("0000").weights()
    named = {name: tensor.detach().clone() for name, tensor in weights.items()}
    return Partition(tuple(sorted(named)), ()).shared_state(named)


def _fedner_run(workers: int) -> tuple[list[float], float]:
    algorithm = fedavg(FedAvgSettings(LocalTraining(plain_sgd(RATE), steps=STEPS)))
    names, shared = small_names(), small_shared()
    engine: Engine
    if workers:
        engine = Workers(answers(small_platform, algorithm), names, shared, workers=workers)
    else:
        engine = InProcess(answers(small_platform, algorithm), names)
    settings = RunSettings("bench", ROUNDS, BATCH, dict.fromkeys(names, EXAMPLES))
    ends: list[float] = []
    run(algorithm, engine, shared, settings, SEED, on_round=lambda _: ends.append(perf_counter()))
    memory = _memory()
    engine.close()
    return ends, memory


def _local(learner: SmallLearner, state: Mapping[str, Tensor], start: int) -> dict[str, Tensor]:
    """The bare platform: load, two SGD steps, the new weights."""
    with torch.no_grad():
        for name, tensor in learner.model.named_parameters():
            tensor.copy_(state[name])
    # By hand: torch.optim would import a compiler that the bare loops have no use for.
    weights = list(learner.model.parameters())
    for step in range(STEPS):
        rows = torch.arange(start + step * BATCH, start + (step + 1) * BATCH) % EXAMPLES
        computed = torch.autograd.grad(learner.model(learner.x[rows], learner.y[rows]), weights)
        with torch.no_grad():
            torch._foreach_add_(weights, list(computed), alpha=-RATE)
    return {name: tensor.detach().clone() for name, tensor in learner.model.named_parameters()}


def _mean(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([each[name] for each in states]).mean(dim=0) for name in states[0]}


def _bare_loop() -> tuple[list[float], float]:
    learners = [SmallLearner(name) for name in small_names()]
    state: dict[str, Tensor] = dict(small_shared())
    ends = []
    for number in range(ROUNDS):
        start = number * STEPS * BATCH
        state = _mean([_local(learner, state, start) for learner in learners])
        ends.append(perf_counter())
    return ends, _memory()


def _bare_worker(names: Sequence[str], pipe: Any) -> None:
    torch.set_num_threads(1)
    learners = [SmallLearner(name) for name in names]
    for number in range(ROUNDS):
        state = {name: torch.from_numpy(array) for name, array in pipe.recv().items()}
        done = [_local(learner, state, number * STEPS * BATCH) for learner in learners]
        pipe.send([{name: tensor.numpy() for name, tensor in each.items()} for each in done])
    pipe.recv()


def _bare_processes() -> tuple[list[float], float]:
    context = multiprocessing.get_context("fork")
    names = small_names()
    pipes, crew = [], []
    for part in (names[::2], names[1::2]):
        here, there = context.Pipe()
        crew.append(context.Process(target=_bare_worker, args=(part, there), daemon=True))
        crew[-1].start()
        pipes.append(here)
    state: dict[str, Tensor] = dict(small_shared())
    ends = []
    for _ in range(ROUNDS):
        for pipe in pipes:
            pipe.send({name: tensor.numpy() for name, tensor in state.items()})
        got = [each for pipe in pipes for each in pipe.recv()]
        tensors = [{name: torch.from_numpy(a) for name, a in each.items()} for each in got]
        state = _mean(tensors)
        ends.append(perf_counter())
    memory = _memory()
    for pipe, process in zip(pipes, crew, strict=True):
        pipe.send(None)
        process.join()
    return ends, memory


CONTENDERS: dict[str, Callable[[], tuple[list[float], float]]] = {
    "bare loop": _bare_loop,
    "fedner, serial": partial(_fedner_run, 0),
    "two bare processes": _bare_processes,
    "fedner, two workers": partial(_fedner_run, 2),
}


def _memory() -> float:
    """Return the proportional set size of this process and its children, in megabytes."""
    children = [str(child.pid) for child in multiprocessing.active_children()]
    return sum(_pss(pid) for pid in ["self", *children])


def _pss(pid: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def _contend(name: str) -> None:
    """Run one contender in this process and print what it came to."""
    torch.set_num_threads(1)
    ends, memory = CONTENDERS[name]()
    steady = (len(ends) - 1 - WARM_UP) / (ends[-1] - ends[WARM_UP])
    print(json.dumps({"rounds": steady, "memory": memory}))


def _processor_seconds() -> float:
    """Return what finished children used: on a busy machine a fairer measure than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def contest_rows(repeats: int = 3) -> list[Row]:
    results: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    for _ in range(repeats):
        for name in CONTENDERS:
            began, used = perf_counter(), _processor_seconds()
            command = [sys.executable, "-m", "benchmarks.rounds", "--only", name]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            told = json.loads(out.splitlines()[-1])
            spent = {"seconds": perf_counter() - began, "cpu": _processor_seconds() - used}
            results[name].append({**told, **spent})
    rows: list[Row] = []
    for name, told in results.items():
        what = f"10 platforms x 50 rounds, {name}"
        rows += [
            (f"{what}: steady", median(each["rounds"] for each in told), "rounds/s"),
            (f"{what}: whole run, start-up included", median(e["seconds"] for e in told), "s"),
            (f"{what}: processor time of the whole run", median(e["cpu"] for e in told), "s"),
            (f"{what}: memory", median(each["memory"] for each in told), "MB"),
        ]
    pairs = (("fedner, serial", "bare loop"), ("fedner, two workers", "two bare processes"))
    for own, other in pairs:
        ratios = [
            mine["rounds"] / theirs["rounds"]
            for mine, theirs in zip(results[own], results[other], strict=True)
        ]
        rows.append((f"{own} against {other}, by the clock (at least 0.9)", median(ratios), "x"))
        spent = [median(each["cpu"] for each in results[name]) for name in (other, own)]
        rows.append((f"{own} against {other}, by processor time", spent[0] / spent[1], "x"))
    return rows


# --- 3. from 3 to 1,000 platforms --------------------------------------------------------------


@lru_cache(maxsize=1)
def _shared_learner() -> SmallLearner:
    return SmallLearner("0000")


def tiny_platform(name: str) -> Platform:
    """A platform whose weights are all in its state: one model serves all, one after the other."""
    learner = _shared_learner()
    names = tuple(sorted(learner.weights()))
    cut = Partition(
        tuple(each for each in names if each.startswith("lstm.")),
        tuple(each for each in names if each.startswith("out.")),
    )
    return platform(name, learner, cut, SEED, LocalSettings())


def scale_rows(counts: Sequence[int] = (3, 10, 30, 100, 300, 1000)) -> list[Row]:
    rows: list[Row] = []
    for count in counts:
        told = in_fresh_process("benchmarks.rounds", "--server", str(count))
        seconds, memory = told["seconds"], told["memory"]
        rows.append((f"{count} platforms: a round", 1e3 * seconds, "ms"))
        rows.append((f"{count} platforms: a round, for each", 1e3 * seconds / count, "ms"))
        rows.append((f"{count} platforms: memory of the server's process", memory, "MB"))
    return rows


def _serve(count: int) -> None:
    """Take three rounds with so many platforms in this process, and print what it came to."""
    torch.set_num_threads(1)
    algorithm = fedner()
    names = small_names(count)
    weights = {n: t.detach().clone() for n, t in _shared_learner().weights().items()}
    shared = tiny_platform("0000").partition.shared_state(weights)
    engine = InProcess(answers(tiny_platform, algorithm), names, max_live=1)
    seconds: list[float] = []
    settings = RunSettings("bench", 3, 4 * count, dict.fromkeys(names, EXAMPLES))

    def keep(record: RoundRecord) -> None:
        seconds.append(record.seconds)

    run(algorithm, engine, shared, settings, SEED, on_round=keep)
    print(json.dumps({"seconds": min(seconds), "memory": _pss("self")}))
    engine.close()


def main() -> list[Row]:
    """Return all rows."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [*round_rows(), *scale_rows(), *contest_rows()]
    finally:
        torch.set_num_threads(before)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        _contend(sys.argv[2])
    elif sys.argv[1:2] == ["--server"]:
        _serve(int(sys.argv[2]))
    else:
        for label, value, unit in main():
            print(f"{label:<72} {value:>12,.3f} {unit}", flush=True)
