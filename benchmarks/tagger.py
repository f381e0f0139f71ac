"""ELMoNER's training step beside a plain torch loop over the same modules, and fedner's speed.

    python benchmarks/tagger.py [--device cuda] [--full]

The plain loop is what one would write with torch alone: nn.Embedding, nn.Conv1d, nn.LSTM over
packed sentences, nn.Linear, torch.optim.Adam, with fedner's CRF for a decoder; the same frozen
features, the same padded batches. Steps are interleaved, and medians are told.
"""

import argparse
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fedner.corpus.sentence import Entity, Sentence
from fedner.models.embeddings.characters import NUM_CODES
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import Batch, EncodedCorpus, TagSpace, collate, encode_corpus
from fedner.models.graphed import recorded_steps
from fedner.models.layers.crf import CRF
from fedner.models.tagger import Tagger
from fedner.models.zoo import RECIPES, build_tagger
from fedner.optimizers import OptimizerSettings
from fedner.training import (
    bucketed_batches,
    clip_by_norm,
    gradients,
    optimizer_for,
    predict_tags,
    trainable,
)

Row = tuple[str, float, str]

BATCH, LENGTH, WORDS, CONTEXT, HIDDEN, FILTERS, DROPOUT = 64, 30, 300, 2_048, 200, 200, 0.2
SPACE = TagSpace.of(["ADE", "Drug"], "BIO")


class PlainTagger(nn.Module):
    """ELMoNER as one would write it with torch's own layers."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(vectors, freeze=True, padding_idx=0)
        self.characters = nn.Embedding(NUM_CODES, 100, padding_idx=0)
        self.character_cnn = nn.Conv1d(100, FILTERS, 3, padding=1)
        self.word_cnn = nn.Conv1d(WORDS + FILTERS + CONTEXT, FILTERS, 3, padding=1)
        self.lstm = nn.LSTM(FILTERS, HIDDEN, bidirectional=True, batch_first=True)
        self.emissions = nn.Linear(2 * HIDDEN, len(SPACE.tags))
        self.dropout = nn.Dropout(DROPOUT)
        self.crf = CRF(len(SPACE.tags), SPACE.transitions)

    def forward(self, batch: Batch, characters_BLC: Tensor, words_BL: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        num_sentences, num_tokens, num_characters = characters_BLC.shape
        looked_up = self.characters(characters_BLC.view(-1, num_characters)).transpose(1, 2)
        filtered = self.character_cnn(looked_up).max(dim=2).values
        parts = [
            self.words(words_BL),
            filtered.view(num_sentences, num_tokens, -1),
            batch.context_BLD,
        ]
        x = self.dropout(torch.cat(parts, dim=-1))
        x = self.dropout(functional.relu(self.word_cnn(x.transpose(1, 2))).transpose(1, 2))
        packed = pack_padded_sequence(x, batch.lengths_B, batch_first=True)
        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        scores = self.emissions(self.dropout(x))
        return -self.crf.log_likelihood(scores, batch.gold_tags, batch.lengths_B).mean()


def sentences_of(num_sentences: int, low: int, high: int, seed: int) -> list[Sentence]:
    """Return sentences of made-up words, frequent ones more often, with an entity each."""
    generator = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    vocabulary = [
        "".join(generator.choice(letters, generator.integers(2, 12))) for _ in range(9000)
    ]
    made = []
    for _ in range(num_sentences):
        length = int(generator.integers(low, high + 1))
        ranks = np.minimum(generator.zipf(1.3, length) - 1, len(vocabulary) - 1)
        at = int(generator.integers(0, length))
        entity = Entity(at, min(length, at + 2), "ADE" if at % 2 else "Drug")
        made.append(Sentence.of([vocabulary[rank] for rank in ranks], (entity,)))
    return made


def encoded(sentences: list[Sentence], device: str) -> tuple[EncodedCorpus, WordEmbedding]:
    words = WordEmbedding(HashedWords(20_000, WORDS))
    num_tokens = sum(len(sentence.tokens) for sentence in sentences)
    context_TD = torch.randn(num_tokens, CONTEXT, generator=torch.Generator().manual_seed(1)).half()
    corpus = encode_corpus(sentences, words, space=SPACE, context_TD=context_TD, device=device)
    return corpus, words


def own_step(
    tagger: Tagger, corpus: EncodedCorpus, *, mixed_precision: bool = False, graphs: bool = False
) -> Callable[[np.ndarray], None]:
    """Return what `training.train` does with a batch."""
    optimizer = optimizer_for(tagger, OptimizerSettings())
    weights = trainable(tagger)
    recorded = None
    if graphs:
        recorded = recorded_steps(tagger, corpus, "auto", mixed_precision=mixed_precision)

    def step(chosen: np.ndarray) -> None:
        if recorded is not None:
            _, gradient = recorded.gradients(chosen, 1)
        else:
            batch = collate(corpus, chosen)
            _, gradient = gradients(tagger, batch, mixed_precision=mixed_precision)
        optimizer.step(weights, clip_by_norm(gradient, 5.0))

    return step


def plain_step(plain: PlainTagger, corpus: EncodedCorpus) -> Callable[[np.ndarray], None]:
    """Return a plain training step on the same batches; the frozen features are gathered alike."""
    optimizer = torch.optim.Adam([p for p in plain.parameters() if p.requires_grad], lr=1e-3)

    def step(chosen: np.ndarray) -> None:
        batch = collate(corpus, chosen)
        characters_BLC, words_BL = batch.characters_UC[batch.word_BL], batch.rows_U[batch.word_BL]
        optimizer.zero_grad()
        plain(batch, characters_BLC, words_BL).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 5.0)
        optimizer.step()

    return step


def interleaved(steps: list[Callable[[], None]], repeats: int, device: str) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in steps]
    for repeat in range(repeats + 2):
        for position, step in enumerate(steps):
            start = perf_counter()
            step()
            if device == "cuda":
                torch.cuda.synchronize()
            if repeat >= 2:
                times[position].append(perf_counter() - start)
    return times


def step_rows(device: str, low: int, high: int, repeats: int) -> list[Row]:
    """Return the seconds of a step of both, and their ratio in one run."""
    sentences = sentences_of(BATCH, low, high, seed=low)
    corpus, words = encoded(sentences, device)
    torch.manual_seed(0)
    tagger = build_tagger(RECIPES["ELMoNER"], words, SPACE, CONTEXT).to(device).train()
    vectors = torch.from_numpy(words.source.take(np.arange(words.source.num_rows)))
    plain = PlainTagger(vectors).to(device).train()
    chosen = np.arange(BATCH)
    ours, theirs = own_step(tagger, corpus), plain_step(plain, corpus)
    steps = [lambda: ours(chosen), lambda: theirs(chosen)]
    if device == "cuda":
        mixed = own_step(tagger, corpus, mixed_precision=True)
        recorded = own_step(tagger, corpus, graphs=True)
        steps += [lambda: mixed(chosen), lambda: recorded(chosen)]
    times = interleaved(steps, repeats, device)
    name = f"tagger: ELMoNER step, {BATCH} sentences of {low} to {high} tokens, {device}"
    ratios = [own / other for own, other in zip(times[0], times[1], strict=True)]
    rows = [
        (f"{name}, fedner", 1e3 * median(times[0]), "ms"),
        (f"{name}, plain torch", 1e3 * median(times[1]), "ms"),
        (f"{name}, fedner / plain torch", median(ratios), "x"),
    ]
    if device == "cuda":
        rows += [
            (f"{name}, fedner, mixed precision", 1e3 * median(times[2]), "ms"),
            (f"{name}, fedner, recorded graphs", 1e3 * median(times[3]), "ms"),
        ]
    return rows


def throughput_rows(device: str, num_sentences: int) -> list[Row]:
    """Return training sentences and prediction tokens in a second, features at hand."""
    sentences = sentences_of(num_sentences, 4, 45, seed=2)
    corpus, words = encoded(sentences, device)
    rows: list[Row] = []
    for name in ("ELMoNER", "CNN-CLSTM-CRF"):
        recipe = RECIPES[name]
        tagger = build_tagger(recipe, words, SPACE, CONTEXT if recipe.context else 0).to(device)
        step = own_step(tagger.train(), corpus, graphs=device == "cuda")
        batches = bucketed_batches(corpus.lengths, BATCH, 1, 1)
        for chosen in batches if device == "cuda" else batches[:1]:
            step(chosen)  # recordings are made in the first epoch
        start = perf_counter()
        for chosen in batches:
            step(chosen)
        if device == "cuda":
            torch.cuda.synchronize()
        trained = num_sentences / (perf_counter() - start)
        start = perf_counter()
        predict_tags(tagger, corpus)
        predicted = corpus.num_tokens / (perf_counter() - start)
        rows += [
            (f"tagger: {name} training, {device}", trained, "sentences/s"),
            (f"tagger: {name} prediction, {device}", predicted, "tokens/s"),
        ]
    return rows


def main(device: str = "cpu", *, full: bool = False) -> list[Row]:
    torch.set_num_threads(1)
    repeats = 60 if device == "cuda" else (15 if full else 7)
    rows = step_rows(device, LENGTH, LENGTH, repeats)
    rows += step_rows(device, 22, LENGTH, repeats)
    rows += throughput_rows(device, 6_400 if device == "cuda" else (1_280 if full else 320))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    for name, value, unit in main(arguments.device, full=arguments.full):
        sys.stdout.write(f"{name}: {value:,.3f} {unit}\n")
