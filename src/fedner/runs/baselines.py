"""The baselines of a run, local-only and centralized, each as well as can be."""

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
from fedner.federated.baselines import LocalOnlySettings, train_centralized, train_local_only
from fedner.federated.sizes import batch_sizes
from fedner.models.checkpoint import CARD
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.features import EncodedCorpus, context_tensor, encode_corpus, select
from fedner.runs.assembly import (
    Federation,
    encoded,
    local_optimizer,
    new_tagger,
    num_rounds,
    pieces_of,
    rounds_in_epoch,
)
from fedner.runs.checks import parameters_of
from fedner.runs.finetuning import finetune
from fedner.runs.folder import RunFolder
from fedner.runs.outcome import CENTRALIZED, LOCAL_ONLY
from fedner.runs.taggers import keep_tagger, space_of
from fedner.training import TrainingSettings, TrainingState

BASELINES = "baselines"
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class BaselinePoint:
    """How far a baseline is.

    Attributes:
        method: "local-only" or "centralized".
        platforms: Whose tagger it is; a centralized one belongs to all.
        epoch: Counted from 1, anew for every training.
        strict_f1: On the held-out part of the training data, where there is one.
    """

    method: str
    platforms: tuple[str, ...]
    epoch: int
    strict_f1: float | None


OnPoint = Callable[[BaselinePoint], None]
Say = Callable[[str], None]


def run_local_only(federation: Federation, folder: RunFolder, say: Say, on_point: OnPoint) -> None:
    """Train every platform by itself, several at a time where the settings have workers.

    Platforms that an earlier call finished are left as they are.
    """
    names = [name for name in federation.names if not _is_done(folder, name, LOCAL_ONLY)]
    if not names:
        return
    say("local-only: batch size and length chosen on a tenth of its training part")
    workers = min(federation.settings.engine.workers, len(names))
    if workers < 2:
        for name in names:
            with one_thread():
                _local_only(federation, folder, name, on_point)
        return
    _side_by_side(federation, folder, names, workers, on_point)


def _is_done(folder: RunFolder, name: str, method: str) -> bool:
    return (folder.tagger(name, method) / CARD).is_file()


def _local_only(federation: Federation, folder: RunFolder, name: str, on_point: OnPoint) -> None:
    settings, data = federation.settings, federation.data[name]
    space = space_of(federation, name, LOCAL_ONLY)
    corpus = select(encoded(federation, name, space), data.train)
    baseline = LocalOnlySettings(
        batches=_batches(federation, name),
        least_steps=num_rounds(federation) * _steps_per_round(federation, name),
        training=_training(federation),
        patience=settings.training.patience,
        most_epochs=settings.training.baseline_epochs,
        by=settings.platform(name).split.by,
        linear_decay=settings.local_optimizer.schedule == "linear",
    )
    result = train_local_only(
        partial(new_tagger, federation, name, space),
        corpus,
        data.train_sentences,
        space,
        baseline,
        settings.seed,
        after_epoch=partial(_tell, on_point, LOCAL_ONLY, (name,)),
    )
    if settings.training.finetune_epochs:
        finetune(federation, name, result.tagger, space)
    record = {
        "batch_size": result.batch_size,
        "epochs": result.epochs,
        "steps": result.steps,
        "steps_in_federation": baseline.least_steps,
        "tried": [asdict(each) for each in result.tried],
    }
    folder.write(f"{BASELINES}/{LOCAL_ONLY}/{name}.json", record)
    keep_tagger(federation, folder, name, LOCAL_ONLY, result.tagger)


def _tell(on_point: OnPoint, method: str, platforms: tuple[str, ...], state: TrainingState) -> None:
    last = state.curve[-1]
    on_point(BaselinePoint(method, platforms, last.epoch, last.strict_f1))


def _training(federation: Federation) -> TrainingSettings:
    settings = federation.settings
    return TrainingSettings(
        batch_size=settings.training.batch_size,
        optimizer=local_optimizer(settings),
        max_grad_norm=settings.local_optimizer.max_grad_norm or None,
    )


def _batches(federation: Federation, name: str) -> tuple[int, ...]:
    """Return the batch sizes that the local-only baseline chooses from: N, and its share of it."""
    total = federation.settings.training.batch_size
    if not isinstance(parameters_of(federation.settings), FednerSettings):
        return (total,)
    sizes = federation.public_sizes
    share = batch_sizes(sizes, max(total, len(sizes)))[name]
    return (total, share)


def _steps_per_round(federation: Federation, name: str) -> int:
    """Return how many optimizer steps a platform takes in a round of the federation."""
    parameters = parameters_of(federation.settings)
    if isinstance(parameters, FednerSettings):
        return parameters.local_steps
    local = getattr(parameters, "local", None)
    if not isinstance(local, LocalTraining):
        return 1
    batch = federation.settings.training.batch_size
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
                    "a process that trains a local-only baseline has died",
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
    _local_only(_here["federation"], _here["folder"], name, _here["points"].put)


def _drain(points: Any, on_point: OnPoint) -> None:
    while True:
        try:
            on_point(points.get_nowait())
        except Empty:
            return


# All data in one place.


def run_centralized(federation: Federation, folder: RunFolder, say: Say, on_point: OnPoint) -> None:
    """Train one tagger on the joined data of all platforms: what privacy forbids."""
    if all(_is_done(folder, name, CENTRALIZED) for name in federation.names):
        return
    say("centralized: all data in one place, which privacy forbids; as a bound")
    settings, names = federation.settings, tuple(federation.names)
    space = space_of(federation, names[0], CENTRALIZED)
    corpus, annotated = _joined(federation)
    epochs = max(1, round(num_rounds(federation) / rounds_in_epoch(federation)))
    tagger = new_tagger(federation, names[0], space)
    training = _training(federation)
    with one_thread():
        train_centralized(
            tagger,
            corpus,
            space,
            annotated,
            TrainingSettings(
                epochs, training.batch_size, training.optimizer, training.max_grad_norm
            ),
            settings.seed,
            after_epoch=partial(_tell, on_point, CENTRALIZED, names),
        )
    folder.write(
        f"{BASELINES}/{CENTRALIZED}.json", {"epochs": epochs, "batch_size": training.batch_size}
    )
    for name in names:
        keep_tagger(federation, folder, name, CENTRALIZED, tagger)


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
        WordEmbedding(federation.source, trainable=federation.settings.embeddings.trainable),
        space=space_of(federation, names[0], CENTRALIZED),
        context_TD=context,
        pieces=pieces_of(federation, sentences),
        device=federation.device,
    )
    return select(corpus, chosen), annotated
