"""What every recipe reaches local-only: strict and relaxed F1 by corpus, mean over seeds.

python -m fedner.experiments.recipes DATA --vectors FILE --context FLAIR --out results.json
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from fedner.corpus.sentence import Sentence
from fedner.durable import write_text
from fedner.experiments.development import load_corpus
from fedner.models.embeddings.context import cached_features
from fedner.models.embeddings.opening import AnyEncoder, open_context_encoder
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.words import WordEmbedding, WordVectors
from fedner.models.features import EncodedCorpus, TagSpace, context_tensor, encode_corpus
from fedner.models.zoo import RECIPES, build_tagger, recipe_named
from fedner.optimizers import OptimizerSettings
from fedner.scoring import mean_interval
from fedner.training import Evaluation, TrainingSettings, train

# A trained encoder wants a learning rate of its own (--recipes transformer --learning-rate 1e-4).
FROZEN = [name for name, recipe in RECIPES.items() if not recipe.trains_encoder]


@dataclass(frozen=True, slots=True)
class Job:
    """One training run: a recipe on a corpus under a seed.

    Attributes:
        recipe: The recipe's name.
        corpus: The development corpus's name.
        seed: Names split, initial weights and batches.
        data: The folder of development corpora.
        vectors: The word vectors.
        context: The context encoder: a Hugging Face folder, or Flair weights.
        cache: Where context features are kept.
        device: Where to train.
        epochs: How many epochs.
        batch_size: Sentences in a batch.
        learning_rate: Adam's.
    """

    recipe: str
    corpus: str
    seed: int
    data: Path
    vectors: Path
    context: Path
    cache: Path
    device: str
    epochs: int
    batch_size: int
    learning_rate: float


@dataclass(frozen=True, slots=True)
class Result:
    """The scores of one run on the test part."""

    recipe: str
    corpus: str
    seed: int
    strict_f1: float
    relaxed_f1: float
    seconds: float


def encoded_parts(
    job: Job,
    parts: tuple[Sequence[Sentence], Sequence[Sentence]],
    space: TagSpace,
    words: WordEmbedding,
    encoder: AnyEncoder | PretrainedEncoder | None,
) -> tuple[EncodedCorpus, Evaluation]:
    """Return the training part and the test part as tensors, with context where wanted."""

    def encode(sentences: Sequence[Sentence]) -> EncodedCorpus:
        context_TD, pieces = None, None
        tokens = [sentence.tokens for sentence in sentences]
        if isinstance(encoder, PretrainedEncoder):
            pieces = encoder.pieces(tokens)
        elif encoder is not None:
            features = cached_features(encoder, tokens, job.cache)
            context_TD = context_tensor(features, job.device)
        return encode_corpus(
            sentences,
            words,
            space=space,
            context_TD=context_TD,
            pieces=pieces,
            device=job.device,
        )

    training, test = parts
    return encode(training), Evaluation(encode(test), test, space)


def run(job: Job) -> Result:
    """Train one recipe on one split and score it on the test part."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    corpus = load_corpus(job.data, job.corpus)
    space = TagSpace.of(corpus.labels, "BIO")
    words = WordEmbedding(WordVectors.open(job.vectors))
    recipe = recipe_named(job.recipe)
    trained = PretrainedEncoder.open(job.context) if recipe.trains_encoder else None
    encoder: AnyEncoder | PretrainedEncoder | None = trained
    if recipe.context and trained is None:
        encoder = open_context_encoder(job.context, job.device)
    parts = corpus.split(job.seed).select(corpus.sentences)
    training, test = encoded_parts(job, parts, space, words, encoder)
    dimension = encoder.dimension if encoder is not None else 0
    layers = encoder.origin.layers if encoder is not None else 1
    tagger = build_tagger(
        recipe, words, space, dimension, job.seed, encoder=trained, context_layers=layers
    )
    tagger = tagger.to(job.device)
    settings = TrainingSettings(
        epochs=job.epochs,
        batch_size=job.batch_size,
        optimizer=OptimizerSettings("adam", job.learning_rate),
    )
    train(tagger, training, settings, job.seed)
    scores = test.scores(tagger)
    seconds = time.perf_counter() - start
    found = (100 * scores.strict_micro.f1, 100 * scores.relaxed_micro.f1)
    return Result(job.recipe, job.corpus, job.seed, *found, seconds)


def table(results: Sequence[Result]) -> str:
    """Return mean and 95 % interval over seeds as a Markdown table, a row for each recipe."""
    corpora = sorted({result.corpus for result in results})
    lines = ["| recipe | " + " | ".join(corpora) + " |", "|---" * (len(corpora) + 1) + "|"]
    for recipe in dict.fromkeys(result.recipe for result in results):
        cells = []
        for corpus in corpora:
            runs = [r for r in results if (r.recipe, r.corpus) == (recipe, corpus)]
            strict = [run.strict_f1 for run in runs]
            relaxed = sum(run.relaxed_f1 for run in runs) / max(1, len(runs))
            if len(strict) > 1:
                interval = mean_interval(strict)
                spread = (interval.high - interval.low) / 2
                cells.append(f"{interval.value:.2f} ± {spread:.2f} / {relaxed:.2f}")
            else:
                cells.append(f"{strict[0]:.2f} / {relaxed:.2f}" if strict else "-")
        lines.append(f"| {recipe} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all jobs, several at a time where asked, and write the results."""
    options = _options(arguments)
    seeds = range(1, options.seeds + 1)
    jobs = [
        Job(recipe, corpus, seed, options.data, options.vectors, options.context, options.cache,
            options.device, options.epochs, options.batch_size, options.learning_rate)
        for recipe in options.recipes.split(",")
        for corpus in options.corpora.split(",")
        for seed in seeds
    ]  # fmt: skip
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        results = []
        for result in pool.map(run, jobs):
            print(result, flush=True)
            results.append(result)
    settings: dict[str, Any] = {name: str(value) for name, value in vars(options).items()}
    record = {"settings": settings, "results": [asdict(result) for result in results]}
    write_text(options.out, json.dumps(record, indent=2))
    print(table(results))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What every recipe reaches local-only.")
    parser.add_argument("data", type=Path, help="the folder of development corpora")
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument(
        "--context",
        type=Path,
        required=True,
        help="a context encoder: Hugging Face folder or Flair weights",
    )
    parser.add_argument("--cache", type=Path, default=Path("runs/features"))
    parser.add_argument("--out", type=Path, default=Path("runs/recipes.json"))
    parser.add_argument("--recipes", default=",".join(FROZEN))
    parser.add_argument("--corpora", default="ade,btc,bc5cdr")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
