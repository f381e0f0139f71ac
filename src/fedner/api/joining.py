"""Joining later, from a corpus in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fedner.api.tables import IN_MEMORY
from fedner.api.tagger import Tagger
from fedner.corpus.document import Corpus
from fedner.corpus.groups import Unit
from fedner.errors import FednerError
from fedner.inference.predict import Predictor
from fedner.runs.joining.join import JoinOptions, JoinProgress
from fedner.runs.joining.join import join as join_platform
from fedner.settings import PlatformEntry

OnTraining = Callable[[int, int], None]


def join(
    model: Path | str,
    corpus: Corpus,
    out: Path | str | None = None,
    *,
    types: Mapping[str, str] | None = None,
    labels: Sequence[str] | None = None,
    label_map: Mapping[str, str] | None = None,
    test: float | None = None,
    test_corpus: Corpus | None = None,
    by: Unit = "sentence",
    own: int | None = None,
    epochs: int | None = None,
    workers: int = 1,
    words: Path | str | None = None,
    context: Path | str | None = None,
    device: str = "cpu",
    seed: int = 1,
    name: str = "new-platform",
    on_training: OnTraining | None = None,
) -> Tagger:
    """Receive a shared model, send nothing, and return the tagger that serves the corpus best.

    Cross-validation on the corpus chooses between the fine-tuned received model, local-only, and
    the average of both. `tagger.facts["joining"]` has the outcome: `results` are scores on a test
    part that took no part in the choice, `selection` are scores of the choice itself, `worth` says
    how many of your own sentences joining is worth.

    >>> import fedner
    >>> names = ("case-reports", "forum-posts")
    >>> corpora = {name: fedner.synthetic_corpus(name, 30, seed=1) for name in names}
    >>> small = {"hidden": 8, "filters": 8, "character_filters": 8}
    >>> study = fedner.study_for(corpora, training={"rounds": 2}, model=small)
    >>> run = fedner.simulate(study, corpora, "run")
    >>> own = fedner.synthetic_corpus("social-posts", 20, seed=1)
    >>> tagger = fedner.join("run", own, epochs=1)
    >>> found = tagger.facts["joining"]
    >>> found["sent"], found["train_sentences"], found["test_sentences"]
    ('nothing', 16, 4)

    Args:
        model: The folder of a shared model (RUN/model), or of a finished run; it is only read.
        corpus: The platform's own annotated texts.
        out: The folder for the tagger, its model card and its record; a call that was stopped
            goes on there. None keeps nothing on disk.
        types: Descriptions of its types by name; by default those of the shared model, or the name.
        labels: The types that it annotates; by default all of the corpus.
        label_map: New names of its types; an empty one leaves a type out.
        test: The share of its sentences for the test part, 0.2 by default; 0 trains on everything
            and claims no result.
        test_corpus: A separate test part in place of a share; the whole corpus is then trained on.
        by: The unit that is never split: "sentence", "document" or "patient".
        own: How many of its training sentences are used; by default all.
        epochs: The number of epochs; by default it depends on the number of sentences.
        workers: How many trainings run in parallel, each in its own process.
        words: The model's word vectors, if they are not found automatically.
        context: The model's context encoder, likewise.
        device: "cpu", "cuda" or "auto".
        seed: Names every random choice.
        name: What the platform is called in the record.
        on_training: Called after every training with how many are done, and of how many.

    Raises:
        FednerError: The model, the corpora or the folder do not fit, or both `test` and
            `test_corpus` are given.
    """
    if test is not None and test_corpus is not None:
        raise FednerError(
            f"test {test:g} and a test corpus; expected at most one of them",
            "Leave test out: with a corpus to test on, all of the other one trains.",
        )
    entry = {
        "name": name,
        "data": IN_MEMORY,
        "labels": None if labels is None else list(labels),
        "label_map": dict(label_map or {}),
        "split": {"by": by, "test": test or None},
    }
    options = JoinOptions(
        types=dict(types or {}),
        has_test=test_corpus is not None or test != 0,
        own=own,
        seed=seed,
        epochs=epochs,
        workers=workers,
        device=device,
        vectors=None if words is None else Path(words),
        context=None if context is None else Path(context),
    )
    progress = JoinProgress()
    if on_training is not None:
        progress = JoinProgress(job=lambda done, total, _: on_training(done, total))
    with _folder(out) as place:
        _, kept = join_platform(
            Path(model),
            PlatformEntry.model_validate(entry),
            place,
            options,
            corpus=corpus,
            test_corpus=test_corpus,
            progress=progress,
        )
    return Tagger(Predictor.of(kept))


@contextmanager
def _folder(out: Path | str | None) -> Iterator[Path]:
    """Yield the folder that was asked for, or one that is gone afterwards."""
    if out is not None:
        yield Path(out)
        return
    with TemporaryDirectory(prefix="fedner-") as held:
        yield Path(held) / "joined"
