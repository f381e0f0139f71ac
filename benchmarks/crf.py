"""The CRF beside pytorch-crf: one thread, the same scores, interleaved repeats, medians.

`python -m benchmarks.crf --device cuda` times it on an accelerator; pytorch-crf joins in where it
is installed. That both give the same values, gradients and paths is checked before the clock runs.

Shapes: B sentences, L tokens, K tags.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from fedner.models import crf_kernels, crf_scan
from fedner.models.layers.crf import CRF

Row = tuple[str, float, str]
Calls = dict[str, Callable[[], object]]

CPU_SHAPES = ((32, 25, 11), (64, 60, 23))
DEVICE_SHAPE = (64, 30, 11)
REPEATS = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """A batch and the two CRFs, with the same parameters."""

    emissions_BLK: Tensor
    tags_BL: Tensor
    lengths_B: Tensor
    mask_BL: Tensor
    ours: CRF
    peer: Any


def make_problem(shape: tuple[int, int, int], device: str, is_ragged: bool = False) -> Problem:
    """Return a random batch of full sentences, or of lengths from 1 to L."""
    num_sentences, num_tokens, num_tags = shape
    random = torch.Generator().manual_seed(7)
    emissions_BLK = 2.0 * torch.randn(shape, generator=random)
    tags_BL = torch.randint(num_tags, shape[:2], generator=random)
    lengths_B = torch.full((num_sentences,), num_tokens)
    if is_ragged:
        lengths_B = torch.randint(1, num_tokens + 1, (num_sentences,), generator=random)
        lengths_B[0] = num_tokens
    ours, peer = CRF(num_tags), None
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(0.0, 0.3, generator=random)
    if find_spec("torchcrf") is not None:
        import torchcrf

        peer = torchcrf.CRF(num_tags, batch_first=True).to(device)
        with torch.no_grad():
            peer.start_transitions.copy_(ours.start)
            peer.end_transitions.copy_(ours.end)
            peer.transitions.copy_(ours.transitions)
    mask_BL = torch.arange(num_tokens) < lengths_B[:, None]
    tags_BL, lengths_B, mask_BL = (part.to(device) for part in (tags_BL, lengths_B, mask_BL))
    emissions_BLK = emissions_BLK.to(device).requires_grad_()
    return Problem(emissions_BLK, tags_BL, lengths_B, mask_BL, ours.to(device), peer)


def training_calls(problem: Problem) -> Calls:
    """Return log-likelihood forward and backward, ours and the peer's."""

    def run(module: torch.nn.Module, likelihood: Callable[[], Tensor]) -> list[Tensor]:
        module.zero_grad()
        problem.emissions_BLK.grad = None
        value = likelihood()
        torch.autograd.backward(value)
        gradients = (problem.emissions_BLK.grad, module.get_parameter("transitions").grad)
        return [value.detach(), *(part for part in gradients if part is not None)]

    emissions_BLK, tags_BL = problem.emissions_BLK, problem.tags_BL
    ours, peer = problem.ours, problem.peer
    calls: Calls = {
        "fedner": lambda: run(
            ours, lambda: ours.log_likelihood(emissions_BLK, tags_BL, problem.lengths_B).sum()
        )
    }
    if peer is not None:
        calls["pytorch-crf"] = lambda: run(
            peer, lambda: peer(emissions_BLK, tags_BL, problem.mask_BL)
        )
    return calls


def decoding_calls(problem: Problem) -> Calls:
    """Return Viterbi to lists of tags, ours and the peer's."""
    lengths = problem.lengths_B.tolist()

    def ours() -> list[list[int]]:
        tags_BL, _ = problem.ours.viterbi(problem.emissions_BLK, problem.lengths_B)
        rows = tags_BL.tolist()
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]

    def peer() -> list[list[int]]:
        with torch.no_grad():
            paths: list[list[int]] = problem.peer.decode(problem.emissions_BLK, problem.mask_BL)
            return paths

    return {"fedner": ours} if problem.peer is None else {"fedner": ours, "pytorch-crf": peer}


def medians(calls: Calls, device: str) -> dict[str, float]:
    """Return the median milliseconds of each call, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(-5, REPEATS):  # the first few only warm up
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            if device != "cpu":
                torch.accelerator.synchronize()
            if repeat >= 0:
                times[name].append(1000.0 * (time.perf_counter() - begin))
    return {name: statistics.median(each) for name, each in times.items()}


def check_agreement(training: Calls, decoding: Calls) -> None:
    """Raise if the two disagree: a fast wrong answer is no answer."""
    if len(training) == 2:
        for ours, theirs in zip(*(call() for call in training.values()), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
        ours_best, theirs_best = (call() for call in decoding.values())
        if ours_best != theirs_best:
            raise RuntimeError("the best paths of fedner and pytorch-crf differ")


def measure(shape: tuple[int, int, int], device: str, is_ragged: bool = False) -> list[Row]:
    """Return times and ratios for one shape."""
    problem = make_problem(shape, device, is_ragged)
    training, decoding = training_calls(problem), decoding_calls(problem)
    check_agreement(training, decoding)
    name = "x".join(map(str, shape)) + (" ragged" if is_ragged else "")
    name += "" if device == "cpu" else f" on {device}"
    rows: list[Row] = []
    for what, calls in (("forward + backward", training), ("Viterbi", decoding)):
        times = medians(calls, device)
        rows += [(f"crf {name}, {what}: {who}", value, "ms") for who, value in times.items()]
        if "pytorch-crf" in times:
            ratio = times["pytorch-crf"] / times["fedner"]
            rows.append((f"crf {name}, {what}: faster than pytorch-crf by", ratio, "x"))
    return rows


def measure_kernels(shape: tuple[int, int, int], device: str) -> list[Row]:
    """Return the times of the accelerator's kernels by themselves: which one pays?"""
    problem = make_problem(shape, device)
    chain = problem.ours._chain(problem.emissions_BLK, problem.lengths_B)
    posteriors: Calls = {"scan": lambda: crf_scan.posterior(chain)}
    decoders: Calls = {"scan": lambda: crf_scan.best_paths(chain)}
    if crf_kernels.triton_works(chain.emissions_BLK.device):
        from fedner.models import crf_triton

        posteriors["Triton"] = lambda: crf_triton.posterior(chain)
        decoders["Triton"] = lambda: crf_triton.best_paths(chain)
    return [
        (f"crf {'x'.join(map(str, shape))} on {device}, {what} alone: {who}", value, "ms")
        for what, calls in (("forward-backward", posteriors), ("Viterbi", decoders))
        for who, value in medians(calls, device).items()
    ]


def main(device: str = "cpu") -> list[Row]:
    """Return (name, value, unit) rows: on the CPU with one thread, for the shapes of the bar."""
    if device != "cpu":
        return measure(DEVICE_SHAPE, device) + measure_kernels(DEVICE_SHAPE, device)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [row for shape in CPU_SHAPES for row in measure(shape, device)]
        rows += measure(CPU_SHAPES[1], device, is_ragged=True)
        return rows + measure(DEVICE_SHAPE, device)
    finally:
        torch.set_num_threads(num_threads)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Time the CRF.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    for what, value, unit in main(parser.parse_args().device):
        print(f"{what:<72} {value:>12,.3f} {unit}")
