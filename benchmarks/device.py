"""A training step of ELMoNER at the paper's sizes on whatever accelerator there is, in ms.

Batch 64, 30 tokens a sentence, 100-d words, 2,048 context features, 7 tags. On a machine without
an accelerator there is nothing to measure here.
"""

import statistics
import time

import numpy as np
import torch

from fedner.corpus.sentence import Entity, Sentence
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.zoo import RECIPES, build_tagger
from fedner.optimizers import OptimizerSettings
from fedner.training import clip_by_norm, gradients, optimizer_for, trainable

BATCH, LENGTH, CONTEXT, STEPS = 64, 30, 2048, 60


def _sentences(num: int) -> list[Sentence]:
    generator = np.random.default_rng(1)
    vocabulary = [f"word{i}x"[: 3 + i % 8] + str(i) for i in range(4000)]
    return [
        Sentence.of(
            [vocabulary[i] for i in generator.integers(0, 4000, LENGTH)],
            (Entity(2, 4, "Drug"), Entity(9, 12, "ADE")),
        )
        for _ in range(num)
    ]


def main(device: str | None = None) -> list[tuple[str, float, str]]:
    device = device or ("cuda" if torch.cuda.is_available() else "")
    if not device:
        return []
    sentences = _sentences(BATCH * 8)
    space = TagSpace.of(("ADE", "Drug", "Dosage"), "BIO")
    words = WordEmbedding(HashedWords(20_000, 100))
    context_TD = torch.randn(len(sentences) * LENGTH, CONTEXT).half()
    corpus = encode_corpus(sentences, words, space=space, context_TD=context_TD, device=device)
    rows = []
    for mixed in (False, True):
        tagger = build_tagger(RECIPES["ELMoNER"], words, space, CONTEXT, 1).to(device)
        weights = trainable(tagger)
        optimizer = optimizer_for(tagger, OptimizerSettings())
        parts: dict[str, list[float]] = {"collate": [], "gradient": [], "optimizer": [], "step": []}
        for step in range(STEPS):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            batch = collate(corpus, np.arange(BATCH) + BATCH * (step % 8))
            torch.cuda.synchronize()
            collated = time.perf_counter()
            _, gradient = gradients(tagger, batch, mixed_precision=mixed)
            torch.cuda.synchronize()
            computed = time.perf_counter()
            optimizer.step(weights, clip_by_norm(gradient, 5.0))
            torch.cuda.synchronize()
            ended = time.perf_counter()
            times = (collated - begun, computed - collated, ended - computed, ended - begun)
            for name, seconds in zip(parts, times, strict=True):
                parts[name].append(1000 * seconds)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for step in range(STEPS):
            batch = collate(corpus, np.arange(BATCH) + BATCH * (step % 8))
            _, gradient = gradients(tagger, batch, mixed_precision=mixed)
            optimizer.step(weights, clip_by_norm(gradient, 5.0))
        torch.cuda.synchronize()
        kind = "bfloat16 products" if mixed else "float32"
        unbroken = 1000 * (time.perf_counter() - begun) / STEPS
        rows.append((f"ELMoNER step, {kind}, without waits between parts", unbroken, "ms"))
        rows += [
            (f"ELMoNER {name}, {kind}", statistics.median(values[10:]), "ms")
            for name, values in parts.items()
        ]
    return rows


if __name__ == "__main__":
    for row in main():
        print(*row)
