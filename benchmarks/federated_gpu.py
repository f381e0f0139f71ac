"""Rounds of three platforms on one GPU, with recorded graphs and without, and where the time goes.

    python -m benchmarks.federated_gpu [--rounds 400] [--device cuda]

Platforms of the sizes of ADE, PsyTAR and TwiMed (3,416, 4,800 and 800 synthetic sentences of 20
tokens on average), ELMoNER at its full size with 384 context features, a joint batch of 64 split by
size. A run of 15 epochs takes some 2,100 such rounds. Needs torch, numpy, safetensors and pydantic.

Three ways: "plain" launches the kernels of unpadded batches, "launched" those of padded ones,
"recorded" replays those. The last two must agree but for rounding, dropout included.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch

from fedner.corpus.sentence import Entity, Sentence
from fedner.engines.in_process import InProcess
from fedner.federated.aggregate import combine, shared_norm
from fedner.federated.algorithms import fedner
from fedner.federated.answering import answers
from fedner.federated.learner import TaggerLearner
from fedner.federated.messages import Order, Update, all_finite, nothing_shared
from fedner.federated.platform import Gradient, LocalSettings, Platform, platform
from fedner.federated.run import RunSettings, run
from fedner.federated.sizes import batch_sizes
from fedner.models import crf_kernels, graphed
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, encode_corpus
from fedner.models.graphed import RecordedSteps
from fedner.models.partition import partition
from fedner.models.zoo import RECIPES, build_tagger
from fedner.seeds import derive
from fedner.tensors import SharedState
from fedner.training import clip_by_norm, trainable

Row = tuple[str, float, str]
SIZES = {"ade": 3416, "psytar": 4800, "twimed": 800}
LABELS = {"ade": ("ADE", "Drug"), "psytar": ("ADR", "EF", "SSI", "WD"), "twimed": ("Drug", "SE")}
JOINT_BATCH, CONTEXT, WORDS, SEED = 64, 384, 100, 5
ROUNDS_OF_RUN = 15 * -(-sum(SIZES.values()) // JOINT_BATCH)
WAYS = ("plain", "launched", "recorded")


def _sentences(name: str) -> list[Sentence]:
    """Return sentences of varied length, 20 tokens on average, with two entities each."""
    generator = np.random.default_rng(len(name))
    vocabulary = [f"word{number}x"[: 3 + number % 8] + str(number) for number in range(8000)]
    sentences = []
    for length in np.clip(generator.gamma(4.0, 5.0, SIZES[name]), 4, 80).astype(int):
        chosen = np.minimum(generator.zipf(1.3, length), 8000) - 1
        entities = tuple(
            Entity(2 * place, 2 * place + 2, label) for place, label in enumerate(LABELS[name][:2])
        )
        sentences.append(Sentence.of([vocabulary[word] for word in chosen], entities))
    return sentences


def _platform(name: str, way: str, device: str) -> Platform:
    sentences = _sentences(name)
    space = TagSpace.of(LABELS[name], "BIO")
    words = WordEmbedding(HashedWords(20_000, WORDS))
    num_tokens = sum(len(sentence.tokens) for sentence in sentences)
    features = torch.randn(num_tokens, CONTEXT, generator=torch.Generator().manual_seed(1)).half()
    corpus = encode_corpus(sentences, words, space=space, context_TD=features, device=device)
    tagger = build_tagger(RECIPES["ELMoNER"], words, space, CONTEXT, SEED).to(device)
    recorded = None
    if way != "plain":
        recorded = RecordedSteps(tagger, corpus, is_recording=way == "recorded")
    cut = partition(trainable(tagger), "fedner")
    learner = TaggerLearner(tagger, corpus, recorded=recorded)
    return platform(name, learner, cut, SEED, LocalSettings(max_grad_norm=5.0))


def _first_shared(platforms: Mapping[str, Platform]) -> SharedState:
    first = platforms["ade"]
    weights = {name: each.detach().clone() for name, each in first.learner.weights().items()}
    return first.partition.shared_state(weights)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _whole(way: str, rounds: int, device: str) -> Iterator[Row]:
    """Run a federation; yield the milliseconds of its rounds, and of their parts."""
    platforms = {name: _platform(name, way, device) for name in SIZES}
    algorithm = fedner()
    engine = InProcess(answers(platforms.__getitem__, algorithm), list(SIZES))
    settings = RunSettings("bench", rounds, JOINT_BATCH, SIZES)
    seconds: list[float] = []
    begun = time.perf_counter()
    done = run(
        algorithm,
        engine,
        _first_shared(platforms),
        settings,
        SEED,
        on_round=lambda record: seconds.append(record.seconds),
    )
    _wait(device)
    total = time.perf_counter() - begun
    late = seconds[len(seconds) // 2 :]
    yield from (
        (f"{way}: a round, all {rounds} with recording", 1e3 * total / rounds, "ms"),
        (f"{way}: a round, median of the second half", 1e3 * median(late), "ms"),
        (f"{way}: slowest round of the second half", 1e3 * max(late), "ms"),
        (
            f"{way}: a run of {ROUNDS_OF_RUN} rounds, estimated",
            total + (ROUNDS_OF_RUN - rounds) * sum(late) / len(late),
            "s",
        ),
    )
    for name, each in platforms.items():
        learner = each.learner
        if isinstance(learner, TaggerLearner) and learner.recorded is not None:
            recorded = learner.recorded
            yield f"{way}: recordings of {name}", len(recorded.recordings), ""
            yield f"{way}: {name} is still recording", float(recorded.is_recording), ""
    yield from _parts(way, platforms, done.server.shared, device)
    yield from _launches(way, platforms, done.server.shared, device)


def _parts(
    way: str, platforms: Mapping[str, Platform], shared: SharedState, device: str, repeats: int = 40
) -> list[Row]:
    """Take rounds part by part, waiting for the device after each; return the medians."""
    times: dict[str, list[float]] = {}

    def timed(part: str, work: Callable[..., Any], *given: Any) -> Any:
        begun = time.perf_counter()
        result = work(*given)
        _wait(device)
        spent[part] = spent.get(part, 0.0) + time.perf_counter() - begun
        return result

    algorithm = fedner()
    server = algorithm.init(shared)
    batches = batch_sizes(SIZES, JOINT_BATCH)
    for repeat in range(repeats):
        spent: dict[str, float] = {}
        order = Order("bench", 10_000 + repeat, server.shared, nothing_shared(), batches)
        updates = []
        for name, each in platforms.items():
            updates.append(_timed_platform(timed, each, order, batches[name]))
        for update in updates:
            timed("server: norms", shared_norm, update.tensors)
        weights = {name: float(size) for name, size in SIZES.items()}
        combined = timed("server: mean", combine, updates, weights)
        server = timed("server: optimizer", algorithm.advance, server, combined)
        for part, seconds in spent.items():
            times.setdefault(part, []).append(seconds)
    return [(f"{way}, {part}, a round", 1e3 * median(each), "ms") for part, each in times.items()]


def _timed_platform(timed: Callable[..., Any], each: Platform, order: Order, batch: int) -> Update:
    """Do what `fedner`'s local part does, part by part."""
    learner = each.learner
    timed("platforms: all finite", all_finite, order.shared)
    timed("platforms: load shared", each.load_shared, order.shared)
    sentences = each.sampler.draw(batch)
    seed = derive(SEED, "round", order.round, "platform", each.name, "step", 0, "dropout")
    if isinstance(learner, TaggerLearner) and learner.recorded is not None:
        timed("platforms: indices (also in gradient)", learner.recorded._indices, sentences)
    loss, gradient = timed("platforms: gradient", learner.gradients, sentences, seed)
    clipped = timed("platforms: clip", clip_by_norm, gradient, 5.0)
    private = each.partition.private_state(clipped)
    timed(
        "platforms: optimizer",
        each.step_private,
        Gradient(loss, each.partition.shared_state(clipped), private),
    )
    told = timed("platforms: loss to the host", float, loss)
    return Update(each.name, order.round, each.partition.shared_state(clipped), loss=told)


def _launches(
    way: str, platforms: Mapping[str, Platform], shared: SharedState, device: str
) -> list[Row]:
    """Count what one whole round asks of the device, and how long the device works for it."""
    if device != "cuda":
        return []
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    algorithm, rounds = fedner(), 4
    engine = InProcess(answers(platforms.__getitem__, algorithm), list(SIZES))
    for each in platforms.values():
        each.run, each.last_round = None, 0
    settings = RunSettings("profiled", rounds, JOINT_BATCH, SIZES)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        run(algorithm, engine, shared, settings, SEED)
        torch.cuda.synchronize()
    events = found.key_averages()
    calls = {each.key: each.count / rounds for each in events}
    names = ("cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaStreamSynchronize")
    rows: list[Row] = [(f"{way}: {name}, a round", calls.get(name, 0.0), "") for name in names]
    rows.append((f"{way}: cuLaunchKernel(Ex), a round", _sum(calls, "cuLaunchKernel"), ""))
    # Host operations carry the time of their kernels too: those would count twice.
    kernels = [each for each in events if each.device_type == DeviceType.CUDA]
    busy = sum(each.self_device_time_total for each in kernels)
    rows.append((f"{way}: device at work, a round", busy / 1e3 / rounds, "ms"))
    by_device = sorted(kernels, key=lambda each: -each.self_device_time_total)[:8]
    rows += [
        (f"{way}: device, {each.key[:44]}", each.self_device_time_total / 1e3 / rounds, "ms")
        for each in by_device
    ]
    by_host = sorted(events, key=lambda each: -each.self_cpu_time_total)[:14]
    rows += [
        (
            f"{way}: host, {each.key[:44]} x{each.count / rounds:.0f}",
            each.self_cpu_time_total / 1e3 / rounds,
            "ms",
        )
        for each in by_host
    ]
    return rows


def _sum(calls: Mapping[str, float], prefix: str) -> float:
    return sum(count for name, count in calls.items() if name.startswith(prefix))


def main(device: str | None = None, rounds: int = 400) -> Iterator[Row]:
    """Yield all rows; none without a GPU, unless a device is named."""
    chosen = device or ("cuda" if torch.cuda.is_available() else "")
    if not chosen:
        return
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
    if chosen == "cuda":
        works = crf_kernels.triton_works(torch.device("cuda", torch.cuda.current_device()))
        yield "Triton does the CRF", float(works), ""
    ways = WAYS if chosen == "cuda" else WAYS[:2]
    yield from _agreement(ways, chosen)
    for way in ways:
        yield from _whole(way, rounds, chosen)


def _agreement(ways: Sequence[str], device: str, rounds: int = 12) -> Iterator[Row]:
    """Yield how far the weights of every way are from those of the way before, after few rounds."""
    usual, graphed.FIRST_RECORDED_VISIT = graphed.FIRST_RECORDED_VISIT, 1
    algorithm, last = fedner(), None
    for way in ways:
        platforms = {name: _platform(name, way, device) for name in SIZES}
        engine = InProcess(answers(platforms.__getitem__, algorithm), list(SIZES))
        settings = RunSettings("bench", rounds, JOINT_BATCH, SIZES)
        done = run(algorithm, engine, _first_shared(platforms), settings, SEED).server.shared
        if last is not None:
            what = f"{way}: largest difference from the way before, {rounds} rounds"
            yield what, max(float((done[key] - last[key]).abs().max()) for key in done), ""
        last = done
    graphed.FIRST_RECORDED_VISIT = usual


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--device", default=None)
    asked = parser.parse_args()
    for label, value, unit in main(asked.device, asked.rounds):
        print(f"{label:<72} {value:>12,.4f} {unit}", flush=True)
