"""A clipped DP-SGD step beside the plain one, and beside Opacus where that is installed.

BiLSTM-CRF, 300 -> 2x200, 11 tags, sentences of 25 tokens: batch 32 on one thread of a CPU, counted
in CPU seconds, or batch 1,024 on an accelerator (`python -m benchmarks.dpsgd --device cuda`).
Calls take turns, values are medians. Opacus runs the same weights through its own DPLSTM, with a
grad sampler for the CRF made of ours; that both give the same clipped sum is checked first.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedner.corpus.sentence import Entity, Sentence
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import Batch, TagSpace, collate, encode_corpus
from fedner.models.layers.crf import CRF
from fedner.models.tagger import Tagger
from fedner.models.zoo import RECIPES, build_tagger
from fedner.privacy.dpsgd import clipped_sum
from fedner.privacy.entropy import SeededSimulation, Source, SystemEntropy
from fedner.privacy.noise import gaussian
from fedner.training import gradients, trainable

Row = tuple[str, float, str]
Calls = dict[str, Callable[[], object]]

LENGTH, WORDS, CONTEXT = 25, 300, 512
CPU_BATCH, DEVICE_BATCH = 32, 1024
CLIP, NOISE, RATE = 1.0, 1.0, 1e-6
REPEATS = 30
SPACE = TagSpace.of(("A", "B", "C", "D", "E"), "BIO")


@dataclass(frozen=True, slots=True)
class Problem:
    """A tagger and one batch for it."""

    tagger: Tagger
    batch: Batch
    device: str


def make_problem(name: str, num_sentences: int, device: str, is_ragged: bool = False) -> Problem:
    """Return a recipe of the zoo at the paper's sizes and random sentences for it."""
    generator = np.random.default_rng(5)
    vocabulary = [f"{'word'[: 1 + i % 4]}{i}{'ing'[: i % 3]}" for i in range(5000)]
    lengths = np.full(num_sentences, LENGTH)
    if is_ragged:
        lengths = generator.integers(5, 2 * LENGTH - 5, num_sentences)
    sentences = [
        Sentence.of(
            [vocabulary[i] for i in generator.integers(0, len(vocabulary), length)],
            (Entity(0, 2, "A"), Entity(3, 4, "C")),
        )
        for length in lengths
    ]
    words = WordEmbedding(HashedWords(20_000, WORDS))
    recipe = RECIPES[name]
    num_context = CONTEXT if recipe.context else 0
    context_TD = torch.randn(int(lengths.sum()), CONTEXT).half() if num_context else None
    corpus = encode_corpus(sentences, words, space=SPACE, context_TD=context_TD, device=device)
    tagger = build_tagger(recipe, words, SPACE, num_context, seed=1).to(device).train()
    return Problem(tagger, collate(corpus, np.arange(num_sentences)), device)


def step_calls(problem: Problem) -> Calls:
    """Return whole steps with SGD: plain, clipped, and clipped and noised from either source."""
    tagger, batch = problem.tagger, problem.batch
    weights = trainable(tagger)
    units_B = np.arange(batch.num_sentences)

    @torch.no_grad()
    def descend(gradient: Mapping[str, Tensor]) -> None:
        ordered = [gradient[name] for name in weights]
        torch._foreach_add_(list(weights.values()), ordered, alpha=-RATE)

    def plain() -> None:
        descend(gradients(tagger, batch)[1])

    def clipped() -> None:
        descend(clipped_sum(tagger, batch, units_B, CLIP)[0].value)

    def noised(source: Source) -> None:
        total, _ = clipped_sum(tagger, batch, units_B, CLIP)
        descend(gaussian(total, NOISE, source).value)

    return {
        "plain": plain,
        "clipped": clipped,
        "clipped, noised (simulation)": lambda: noised(SeededSimulation(1)),
        "clipped, noised (system entropy)": lambda: noised(SystemEntropy()),
    }


class OpacusTagger(nn.Module):
    """The same BiLSTM-CRF of Opacus's layers."""

    def __init__(self, tagger: Tagger) -> None:
        from opacus.layers import DPLSTM

        super().__init__()
        lstm = tagger.get_submodule("bilstm.lstm")
        assert isinstance(lstm, nn.LSTM)
        self.lstm = DPLSTM(lstm.input_size, lstm.hidden_size, batch_first=True, bidirectional=True)
        self.lstm.load_state_dict(lstm.state_dict())
        self.emissions = nn.Linear(2 * lstm.hidden_size, tagger.decoder.num_tags)
        self.emissions.load_state_dict(tagger.emissions.state_dict())
        self.crf = OpacusCRF(tagger.decoder.num_tags, SPACE.transitions)
        self.crf.load_state_dict(tagger.decoder.state_dict())

    def forward(self, x_BLD: Tensor, tags_BL: Tensor) -> Tensor:
        """Return the loss of each sentence."""
        encoded_BLH, _ = self.lstm(x_BLD)
        losses_B: Tensor = self.crf(self.emissions(encoded_BLH), tags_BL)
        return losses_B


class OpacusCRF(CRF):
    """Our CRF as a module that Opacus can hook."""

    def forward(self, emissions_BLK: Tensor, tags_BL: Tensor) -> Tensor:
        """Return the loss of each sentence."""
        return -self.log_likelihood(emissions_BLK, tags_BL, _full_lengths(emissions_BLK))


def _full_lengths(emissions_BLK: Tensor) -> Tensor:
    return torch.full((len(emissions_BLK),), emissions_BLK.shape[1])


def sample_crf(layer: OpacusCRF, activations: list[Tensor], backprops: Tensor) -> Any:
    """Return the CRF's gradients of each sentence, as Opacus asks for them."""
    emissions_BLK, tags_BL = activations
    found = layer.sentence_gradients(emissions_BLK, tags_BL, _full_lengths(emissions_BLK))
    weights_B = -backprops.double()
    start_BK, end_BK, transitions_BKK = found.parameters
    return {
        layer.start: (start_BK * weights_B[:, None]).float(),
        layer.end: (end_BK * weights_B[:, None]).float(),
        layer.transitions: (transitions_BKK * weights_B[:, None, None]).float(),
    }


def opacus_calls(problem: Problem, noise: float) -> Calls:
    """Return the step of Opacus with hooks and with ghost clipping; nothing if it is not there."""
    if find_spec("opacus") is None:
        return {}
    warnings.simplefilter("ignore")
    from opacus.grad_sample import (
        GradSampleModule,
        GradSampleModuleFastGradientClipping,
        register_grad_sampler,
    )
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    register_grad_sampler(OpacusCRF)(sample_crf)
    batch = problem.batch
    assert batch.vectors_UD is not None
    x_BLD = batch.vectors_UD[batch.word_BL]
    settings: Any = {
        "noise_multiplier": noise,
        "max_grad_norm": CLIP,
        "expected_batch_size": 1,
        "loss_reduction": "sum",
    }

    def model() -> OpacusTagger:
        return OpacusTagger(problem.tagger).to(problem.device).train()

    hooked = GradSampleModule(model(), loss_reduction="sum", strict=False)
    by_hooks = DPOptimizer(torch.optim.SGD(hooked.parameters(), RATE), **settings)
    ghostly = GradSampleModuleFastGradientClipping(
        model(), loss_reduction="sum", strict=False, max_grad_norm=CLIP, use_ghost_clipping=True
    )
    by_ghost = DPOptimizerFastGradientClipping(
        torch.optim.SGD(ghostly.parameters(), RATE), **settings
    )

    def hooks() -> list[Tensor]:
        by_hooks.zero_grad()
        hooked(x_BLD, batch.gold_tags).sum().backward()
        by_hooks.step()
        return [each.grad for each in hooked.parameters()]

    def ghost() -> list[Tensor]:
        by_ghost.zero_grad()
        losses_B = ghostly(x_BLD, batch.gold_tags)
        DPTensorFastGradientClipping(ghostly, by_ghost, losses_B, "sum").backward()
        by_ghost.step()
        return [each.grad for each in ghostly.parameters()]

    return {"Opacus, hooks": hooks, "Opacus, ghost clipping": ghost}


def check_agreement(problem: Problem) -> None:
    """Raise unless Opacus finds the same clipped sum: a fast wrong answer is no answer."""
    problem.tagger.eval()
    ours, _ = clipped_sum(
        problem.tagger, problem.batch, np.arange(problem.batch.num_sentences), CLIP
    )
    problem.tagger.train()
    ours_norm = torch.cat([each.flatten() for each in ours.value.values()]).norm()
    for name, call in opacus_calls(problem, noise=0.0).items():
        theirs_norm = torch.cat([each.flatten() for each in call()]).norm()  # type: ignore[attr-defined]
        # Opacus divides by the norm plus 1e-6.
        torch.testing.assert_close(theirs_norm, ours_norm, rtol=1e-4, atol=0.0, msg=name)


def clock(device: str) -> float:
    """Return CPU seconds on a CPU; on an accelerator seconds, once it is done."""
    if device == "cpu":
        return time.thread_time()
    torch.accelerator.synchronize()
    return time.perf_counter()


def medians(calls: Calls, device: str, repeats: int = REPEATS) -> dict[str, float]:
    """Return the median milliseconds of each call, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(-3, repeats):  # the first few only warm up
        for name, call in calls.items():
            begin = clock(device)
            call()
            if repeat >= 0:
                times[name].append(1000.0 * (clock(device) - begin))
    return {name: statistics.median(each) for name, each in times.items()}


def peak_bytes(call: Callable[[], object], device: str) -> int:
    """Return how much memory for tensors a call needs at most beyond what is there before it."""
    if device != "cpu":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        call()
    results: Any = recorded.profiler.kineto_results  # type: ignore[union-attr]
    events = [event for event in results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return int(np.cumsum([event.nbytes() for event in events]).max())


def measure(name: str, num_sentences: int, device: str, is_ragged: bool = False) -> list[Row]:
    """Return times, ratios to the plain step, and memory of one recipe."""
    problem = make_problem(name, num_sentences, device, is_ragged)
    calls = step_calls(problem)
    times = medians(calls, device)
    title = f"DP-SGD, {name}, batch {num_sentences}{', ragged' if is_ragged else ''}"
    rows: list[Row] = [(f"{title}: {who}", value, "ms") for who, value in times.items()]
    plain = times.pop("plain")
    rows += [(f"{title}: {who} / plain", value / plain, "x") for who, value in times.items()]
    peaks = {who: peak_bytes(calls[who], device) for who in ("plain", "clipped")}
    rows += [(f"{title}: memory, {who}", value / 2**20, "MiB") for who, value in peaks.items()]
    rows.append((f"{title}: memory, clipped / plain", peaks["clipped"] / peaks["plain"], "x"))
    return rows


def measure_opacus(num_sentences: int, device: str) -> list[Row]:
    """Return the times of Opacus beside ours, all of them noised.

    Opacus draws its noise from torch's generator: beside it stands our simulation, and by itself
    what a deployed platform pays for the operating system's entropy.
    """
    if find_spec("opacus") is None:
        return []
    problem = make_problem("BI-LSTM-CRF", num_sentences, device)
    check_agreement(problem)
    problem.tagger.eval()  # the model of Opacus's layers has no dropout either
    ours = {who: call for who, call in step_calls(problem).items() if "noised" in who}
    theirs = opacus_calls(problem, NOISE)
    times = medians({**ours, **theirs}, device, repeats=10)
    title = f"DP-SGD, BI-LSTM-CRF, batch {num_sentences}"
    rows: list[Row] = [(f"{title}: {who}", times[who], "ms") for who in theirs]
    rows += [
        (f"{title}: {other} / {who}", times[other] / times[who], "x")
        for other in theirs
        for who in ours
    ]
    return rows


def main(device: str = "cpu") -> list[Row]:
    """Return (name, value, unit) rows."""
    if device != "cpu":
        rows = []
        for is_tf32 in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = is_tf32
            torch.backends.cudnn.allow_tf32 = is_tf32
            kind = "TF32" if is_tf32 else "float32"
            found = measure("BI-LSTM-CRF", DEVICE_BATCH, device)
            rows += [(f"{kind} on {device}, {what}", value, unit) for what, value, unit in found]
        return rows + measure_opacus(DEVICE_BATCH, device)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = measure("BI-LSTM-CRF", CPU_BATCH, device)
        rows += measure("BI-LSTM-CRF", CPU_BATCH, device, is_ragged=True)
        rows += measure("S-LSTM-CRF", CPU_BATCH, device)
        rows += measure("ELMoNER", CPU_BATCH, device)
        return rows + measure_opacus(CPU_BATCH, device)
    finally:
        torch.set_num_threads(num_threads)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Time clipped steps.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    for what, value, unit in main(parser.parse_args().device):
        print(f"{what:<84} {value:>12,.3f} {unit}")
