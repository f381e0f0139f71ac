"""Algorithm 1 with the real tagger: what it equals, what leaves, what every cut shares."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tagger_platforms import (
    NAMES,
    SEED,
    UNION,
    first_shared,
    new_tagger,
    sentences_of,
    tagger_platform,
)

from fedner.corpus.synthetic import PLATFORMS
from fedner.engines.in_process import InProcess
from fedner.engines.workers import Workers
from fedner.federated.algorithms import FednerSettings, algorithm_named, fedner
from fedner.federated.answering import answers
from fedner.federated.engine import Engine
from fedner.federated.learner import TaggerLearner
from fedner.federated.message_bytes import to_bytes
from fedner.federated.messages import Order, Update
from fedner.federated.platform import LocalSettings, Platform
from fedner.federated.run import RunRecord, RunSettings, run
from fedner.federated.sizes import batch_sizes
from fedner.models.features import collate, encode_corpus
from fedner.models.partition import PRESETS
from fedner.optimizers import Optimizer, OptimizerSettings
from fedner.seeds import seeded
from fedner.training import gradients, trainable

ADAM = OptimizerSettings()
TWO = ["case-reports", "social-posts"]


def federate(
    build: Any, names: list[str], cut: str, rounds: int, batch: int, sizes: dict[str, int]
) -> tuple[RunRecord, dict[str, Platform]]:
    platforms = {name: build(name) for name in names}
    engine = InProcess(answers(platforms.__getitem__, fedner()), names)
    first = first_shared(cut, 0.0)
    record = run(fedner(), engine, first, RunSettings("t", rounds, batch, sizes), SEED)
    return record, platforms


def order_of(name: str, size: int) -> list[int]:
    path = ("platform", name, "slice", 0, "epoch", 0)
    return list(seeded(SEED, *path).permutation(np.arange(size)))


@pytest.mark.parametrize("optimizer", [ADAM, OptimizerSettings(name="sgd", learning_rate=0.1)])
def test_two_platforms_that_share_everything_equal_one_central_step(
    optimizer: OptimizerSettings,
) -> None:
    sizes = {"case-reports": 30, "social-posts": 10}
    algorithm = fedner(FednerSettings(server_optimizer=optimizer))
    engine = InProcess(
        answers(lambda name: tagger_platform(name, "everything", 0.0, size=sizes[name]), algorithm),
        TWO,
    )
    shared = first_shared("everything", 0.0)
    done = run(algorithm, engine, shared, RunSettings("t", 1, 8, sizes), SEED)
    # Central: six of the first and two of the second side by side in one batch.
    joined = [
        sentences_of(name, sizes[name])[at]
        for name, count in batch_sizes(sizes, 8).items()
        for at in order_of(name, sizes[name])[:count]
    ]
    tagger = new_tagger(TWO[0], "everything", 0.0)
    corpus = encode_corpus(joined, tagger.embeddings.words, space=UNION)
    tagger.train()
    weights = trainable(tagger)
    _, gradient = gradients(tagger, collate(corpus, range(8)))
    Optimizer(optimizer).step(weights, gradient)
    for name, weight in weights.items():
        torch.testing.assert_close(done.server.shared[name], weight.detach(), rtol=0, atol=1e-6)


def test_one_platform_that_shares_everything_is_central_training_bit_for_bit() -> None:
    build = partial(tagger_platform, cut="everything", dropout=0.0)
    done, _ = federate(build, ["forum-posts"], "everything", 12, 8, {"forum-posts": 40})
    tagger = new_tagger("forum-posts", "everything", 0.0)
    sentences = sentences_of("forum-posts")
    corpus = encode_corpus(sentences, tagger.embeddings.words, space=UNION)
    weights, optimizer = trainable(tagger), Optimizer(ADAM)
    tagger.train()
    for epoch in range(3):
        path = ("platform", "forum-posts", "slice", 0, "epoch", epoch)
        order = seeded(SEED, *path).permutation(np.flatnonzero(corpus.lengths))
        for start in range(0, 40, 8):
            if 5 * epoch + start // 8 < 12:
                _, gradient = gradients(tagger, collate(corpus, order[start : start + 8]))
                optimizer.step(weights, gradient)
    for name, weight in weights.items():
        assert torch.equal(done.server.shared[name], weight.detach()), name


@pytest.mark.parametrize("cut", sorted(PRESETS))
def test_every_cut_runs_and_only_its_shared_part_moves(cut: str) -> None:
    # The word table is trained, so that there are words to share.
    first = first_shared(cut, trainable_words=True)
    platforms = {name: tagger_platform(name, cut, trainable_words=True) for name in NAMES}
    engine = InProcess(answers(platforms.__getitem__, fedner()), NAMES)
    sizes = dict.fromkeys(NAMES, 40)
    done = run(fedner(), engine, first, RunSettings("t", 2, 12, sizes), SEED)
    assert set(done.server.shared) == set(first)
    assert all(not torch.equal(done.server.shared[name], first[name]) for name in first)
    for name in NAMES:
        one = platforms[name]
        start = tagger_platform(name, cut, trainable_words=True).private()
        assert set(one.private()) == set(start)
        assert all(not torch.equal(one.private()[key], start[key]) for key in start)
    if cut in ("fedner", "encoder"):
        assert {key.split(".")[0] for key in start} >= {"emissions", "decoder"}


def test_what_leaves_is_the_shared_gradient_and_nothing_else() -> None:
    """On the bytes: no private number, no word, no label, no text."""
    one = tagger_platform("case-reports", "fedner")
    learner = one.learner
    assert isinstance(learner, TaggerLearner)
    seen: list[dict[str, torch.Tensor]] = []
    compute = learner.gradients

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(learner, name)

        def gradients(self, sentences: Any, seed: int) -> Any:
            loss, gradient = compute(sentences, seed)
            seen.append(gradient)
            return loss, gradient

    one.learner = Watched()  # type: ignore[assignment]
    private_before = {name: tensor.detach().clone() for name, tensor in one.private().items()}
    broadcast = Order("t", 1, first_shared("fedner"), batches={"case-reports": 16})
    update = one.run_round(fedner(), broadcast)
    data = to_bytes(update)
    assert len(data) < 20_000 + sum(tensor.numel() * 4 for tensor in update.tensors.values())
    gradient = [seen[0][key] for key in private_before]
    hidden = [*one.private().values(), *private_before.values(), *gradient]
    rows = [row for tensor in hidden for row in tensor.detach().reshape(-1).split(4)]
    secrets = [row.numpy().tobytes() for row in rows if len(row) == 4 and bool(row.all())]
    assert len(secrets) > 100
    assert not [secret for secret in secrets if secret in data]
    words = {word for sentence in sentences_of("case-reports") for word in sentence.tokens}
    told = data.lower()
    header = data[8 : 8 + int.from_bytes(data[:8], "little")].decode().lower()
    assert not [word for word in words if len(word) > 8 and word.lower().encode() in told]
    assert not [label for label in PLATFORMS["case-reports"].labels if label.lower() in header]
    # The same search finds what is shared: it would find what is not.
    sent = next(iter(update.tensors.values())).reshape(-1)
    assert sent[sent != 0].numel()
    assert any(row.numpy().tobytes() in data for row in sent.split(4) if bool(row.all()))


def engines(kind: str, folder: Path | None = None) -> Engine:
    if kind == "serial":
        return InProcess(answers(tagger_platform, algorithm_named("fedner"), folder), NAMES)
    return Workers(
        answers(tagger_platform, algorithm_named("fedner"), folder),
        NAMES,
        first_shared(),
        workers=2,
    )


def start(
    kind: str, rounds: int = 6, folder: Path | None = None, *, resume: bool = False
) -> RunRecord:
    settings = RunSettings(
        "t",
        rounds,
        12,
        dict.fromkeys(NAMES, 40),
        evaluate_every=3,
        checkpoint_every=3 if folder else 0,
    )
    engine = engines(kind, folder)
    try:
        return run(
            algorithm_named("fedner"), engine, first_shared(), settings, SEED, folder, resume=resume
        )
    finally:
        engine.close()


def same(one: RunRecord, other: RunRecord) -> bool:
    weights = [(one.server.shared[key], other.server.shared[key]) for key in one.server.shared]
    scores = [(a.scores, b.scores) for a, b in zip(one.rounds, other.rounds, strict=True)]
    return all(torch.equal(a, b) for a, b in weights) and all(a == b for a, b in scores)


def test_workers_and_resumed_runs_have_the_bits_of_the_serial_run(tmp_path: Path) -> None:
    serial = start("serial")
    assert same(start("workers"), serial)
    start("workers", 3, tmp_path / "run")
    assert same(start("serial", 6, tmp_path / "run", resume=True), serial)


def test_the_seed_names_order_and_dropout() -> None:
    def updated(seed: int, dropout: float) -> Update:
        one = tagger_platform("forum-posts", dropout=dropout)
        one.seed = seed
        broadcast = Order("t", 1, first_shared("fedner", dropout), batches={"forum-posts": 40})
        return one.run_round(fedner(), broadcast)

    # The whole epoch in one batch: the order cannot matter, dropout can.
    assert updated(1, 0.5).loss == updated(1, 0.5).loss
    assert updated(1, 0.5).loss != updated(2, 0.5).loss
    assert updated(1, 0.0).loss == updated(2, 0.0).loss


def test_a_federation_learns() -> None:
    settings = LocalSettings(optimizer=OptimizerSettings(learning_rate=0.02), max_grad_norm=5.0)
    build = partial(tagger_platform, settings=settings, dropout=0.0)
    platforms = {name: build(name) for name in NAMES}
    algorithm = fedner(FednerSettings(server_optimizer=OptimizerSettings(learning_rate=0.02)))
    engine = InProcess(answers(platforms.__getitem__, algorithm), NAMES)
    plan = RunSettings("t", 80, 24, dict.fromkeys(NAMES, 40), evaluate_every=80)
    done = run(algorithm, engine, first_shared("fedner", 0.0), plan, SEED)
    first, last = done.rounds[0].loss, done.rounds[-1].loss
    assert first is not None
    assert last is not None
    assert last < first / 5
    found = [done.rounds[-1].scores[name].strict_micro.f1 for name in NAMES]
    assert min(found) > 0.3


def test_a_platform_may_keep_its_loss_at_home() -> None:
    one = tagger_platform("social-posts", settings=LocalSettings(reports_loss=False))
    broadcast = Order("t", 1, first_shared(), batches={"social-posts": 4})
    update = one.run_round(fedner(), broadcast)
    assert isinstance(update, Update)
    assert update.loss is None
