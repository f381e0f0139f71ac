"""The controls of a run: every platform alone, and all data pooled, each as well as can be."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import active_children, get_context
from queue import Empty
from typing import Any

import torch

from fedner.corpus.sentence import Sentence
from fedner.engines.roster import one_thread
from fedner.engines.workers import safe_method
from fedner.errors import FednerError
from fedner.federated.algorithms import FednerSettings, LocalTraining
from fedner.federated.controls import AloneSettings, alone, pooled
from fedner.federated.sizes import batch_sizes
from fedner.models.checkpoint import CARD
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.features import EncodedCorpus, context_tensor, encode_corpus, select
from fedner.runs.assembly import (
    Federation,
    encoded,
    new_tagger,
    num_rounds,
    pieces_of,
    private_optimiser,
    rounds_in_epoch,
)
from fedner.runs.checks import parameters_of
from fedner.runs.finishing import finish
from fedner.runs.folder import RunFolder
from fedner.runs.outcome import ALONE, POOLED
from fedner.runs.taggers import keep_tagger, space_of
from fedner.training import TrainingSettings, TrainingState

CONTROLS = "controls"
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ControlPoint:
    """How far a control is.

    Attributes:
        method: "alone" or "pooled".
        platforms: Whose tagger it is; pooled ones belong to all.
        epoch: Counted from 1, anew for every training.
        strict_f1: On the held-out part of the training data, where there is one.
    """

    method: str
    platforms: tuple[str, ...]
    epoch: int
    strict_f1: float | None


OnPoint = Callable[[ControlPoint], None]
Say = Callable[[str], None]


def train_alone(federation: Federation, folder: RunFolder, say: Say, on_point: OnPoint) -> None:
    """Train every platform by itself, several at a time where the settings have workers.

    Platforms that an earlier call finished are left as they are.
    """
    names = [name for name in federation.names if not _is_done(folder, name, ALONE)]
    if not names:
        return
    say("every platform alone: batch size and length chosen on a tenth of its training part")
    workers = min(federation.settings.engine.workers, len(names))
    if workers < 2:
        for name in names:
            with one_thread():
                _alone(federation, folder, name, on_point)
        return
    _side_by_side(federation, folder, names, workers, on_point)


def _is_done(folder: RunFolder, name: str, method: str) -> bool:
    return (folder.tagger(name, method) / CARD).is_file()


def _alone(federation: Federation, folder: RunFolder, name: str, on_point: OnPoint) -> None:
    settings, data = federation.settings, federation.data[name]
    space = space_of(federation, name, ALONE)
    corpus = select(encoded(federation, name, space), data.train)
    control = AloneSettings(
        batches=_batches(federation, name),
        least_steps=num_rounds(federation) * _steps_per_round(federation, name),
        training=_training(federation),
        patience=settings.training.patience,
        most_epochs=settings.training.control_epochs,
        by=settings.platform(name).split.by,
        falling=settings.private.schedule == "linear",
    )
    result = alone(
        partial(new_tagger, federation, name, space),
        corpus,
        data.train_sentences,
        space,
        control,
        settings.seed,
        after_epoch=partial(_tell, on_point, ALONE, (name,)),
    )
    if settings.training.finish_epochs:
        finish(federation, name, result.tagger, space)
    record = {
        "batch": result.batch,
        "epochs": result.epochs,
        "steps": result.steps,
        "steps_in_federation": control.least_steps,
        "tried": [asdict(each) for each in result.tried],
    }
    folder.write(f"{CONTROLS}/{ALONE}/{name}.json", record)
    keep_tagger(federation, folder, name, ALONE, result.tagger)


def _tell(on_point: OnPoint, method: str, platforms: tuple[str, ...], state: TrainingState) -> None:
    last = state.curve[-1]
    on_point(ControlPoint(method, platforms, last.epoch, last.strict_f1))


def _training(federation: Federation) -> TrainingSettings:
    settings = federation.settings
    return TrainingSettings(
        batch=settings.training.batch,
        optimiser=private_optimiser(settings),
        clip=settings.private.clip or None,
    )


def _batches(federation: Federation, name: str) -> tuple[int, ...]:
    """Return the batch sizes that a platform alone chooses from: N, and its share of it."""
    total = federation.settings.training.batch
    if not isinstance(parameters_of(federation.settings), FednerSettings):
        return (total,)
    sizes = federation.public_sizes
    share = batch_sizes(sizes, max(total, len(sizes)))[name]
    return (total, share)


def _steps_per_round(federation: Federation, name: str) -> int:
    """Return how many optimiser steps a platform takes in a round of the federation."""
    parameters = parameters_of(federation.settings)
    if isinstance(parameters, FednerSettings):
        return parameters.local_steps
    local = getattr(parameters, "local", None)
    if not isinstance(local, LocalTraining):
        return 1
    batch = federation.settings.training.batch
    per_epoch = -(-len(federation.data[name].train) // batch)
    return local.epochs * per_epoch if local.steps is None else local.steps


# Several platforms at a time, each in a process of its own.


def _side_by_side(
    federation: Federation,
    folder: RunFolder,
    names: Sequence[str],
    workers: int,
    on_point: OnPoint,
) -> None:
    context = get_context(safe_method())
    points = context.Queue()
    start = (federation, folder, points)
    with _ending_children(), ProcessPoolExecutor(workers, context, _start, start) as pool:
        # The largest first: it decides when all are done.
        order = sorted(names, key=lambda name: -len(federation.data[name].train))
        waiting: set[Future[None]] = {pool.submit(_work, name) for name in order}
        while waiting:
            done, waiting = wait(waiting, POLL_SECONDS, FIRST_COMPLETED)
            _drain(points, on_point)
            try:
                for each in done:
                    each.result()
            except BrokenProcessPool as error:
                raise FednerError(
                    "a process that trains a platform alone has died",
                    "The machine may be out of memory: set engine.workers to 0 and resume.",
                ) from error


@contextmanager
def _ending_children() -> Iterator[None]:
    """End what was begun when the block is left by an error, as on Ctrl-C."""
    before = set(active_children())
    try:
        yield
    except BaseException:
        for process in set(active_children()) - before:
            process.terminate()
        raise


_here: dict[str, Any] = {}


def _start(federation: Federation, folder: RunFolder, points: Any) -> None:
    """Begin a process: Ctrl-C is the parent's to answer, one thread as in the federation."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _here.update(federation=federation, folder=folder, points=points)


def _work(name: str) -> None:
    _alone(_here["federation"], _here["folder"], name, _here["points"].put)


def _drain(points: Any, on_point: OnPoint) -> None:
    while True:
        try:
            on_point(points.get_nowait())
        except Empty:
            return


# All data in one place.


def train_pooled(federation: Federation, folder: RunFolder, say: Say, on_point: OnPoint) -> None:
    """Train one tagger on the joined data of all platforms: what privacy forbids."""
    if all(_is_done(folder, name, POOLED) for name in federation.names):
        return
    say("all data pooled: what privacy forbids, as a bound")
    settings, names = federation.settings, tuple(federation.names)
    space = space_of(federation, names[0], POOLED)
    corpus, annotated = _joined(federation)
    epochs = max(1, round(num_rounds(federation) / rounds_in_epoch(federation)))
    tagger = new_tagger(federation, names[0], space)
    training = _training(federation)
    with one_thread():
        pooled(
            tagger,
            corpus,
            space,
            annotated,
            TrainingSettings(epochs, training.batch, training.optimiser, training.clip),
            settings.seed,
            after_epoch=partial(_tell, on_point, POOLED, names),
        )
    folder.write(f"{CONTROLS}/{POOLED}.json", {"epochs": epochs, "batch": training.batch})
    for name in names:
        keep_tagger(federation, folder, name, POOLED, tagger)


def _joined(federation: Federation) -> tuple[EncodedCorpus, list[tuple[str, ...]]]:
    """Return the training parts of all platforms as one corpus, and each sentence's types."""
    names = federation.names
    sentences: list[Sentence] = []
    chosen, annotated = [], []
    for name in names:
        data = federation.data[name]
        chosen += [len(sentences) + number for number in data.train]
        annotated += [data.labels] * len(data.train)
        sentences += data.sentences
    context = None
    if federation.features:
        parts = [context_tensor(federation.features[name]) for name in names]
        context = torch.cat(parts)
    corpus = encode_corpus(
        sentences,
        WordEmbedding(federation.source, trainable=federation.settings.embeddings.trained),
        space=space_of(federation, names[0], POOLED),
        context_TD=context,
        pieces=pieces_of(federation, sentences),
        device=federation.device,
    )
    return select(corpus, chosen), annotated
