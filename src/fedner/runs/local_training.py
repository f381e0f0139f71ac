"""What a platform trains by itself: local-only baseline, private part, local fine-tuning.

Nothing of it is transmitted. Fine-tuning (personalization): Algorithm 1 ends at a constant learning
rate, with private weights that saw few sentences a step and a shared part that is everybody's
compromise. A few epochs over a platform's own sentences, all weights trained, with linear decay of
the learning rate to zero, fit both to the platform's own annotation.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial

from fedner.federated.algorithms import Algorithm, baseline_batches
from fedner.federated.baselines import LocalOnlySettings, train_local_only
from fedner.models.features import TagSpace
from fedner.models.tagger import Tagger
from fedner.optimizers import OptimizerSettings
from fedner.runs.blueprint import local_optimizer
from fedner.runs.folder import LOCAL_ONLY
from fedner.runs.schedule import num_rounds
from fedner.runs.site import Site
from fedner.runs.site_taggers import keep_tagger
from fedner.seeds import derive
from fedner.settings import Study
from fedner.training import TrainingSettings, TrainingState, train

# Batches that bear noise are large; at home small ones take more steps.
MOST_SENTENCES = 32
RECORD = f"baselines/{LOCAL_ONLY}.json"


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


def baseline_training(study: Study) -> TrainingSettings:
    """Return how baselines are trained: as the federation steps private weights."""
    return _plan(study, study.training.batch_size, local_optimizer(study))


def _plan(
    study: Study, batch_size: int, optimizer: OptimizerSettings, epochs: int = 1
) -> TrainingSettings:
    return TrainingSettings(
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        max_grad_norm=study.local_optimizer.max_grad_norm or None,
    )


def train_baseline(site: Site, algorithm: Algorithm, on_point: OnPoint) -> None:
    """Train the platform's local-only baseline, as well as its data allow, and keep the tagger.

    Args:
        site: The platform.
        algorithm: The federation's: the baseline takes at least as many optimizer steps.
        on_point: Called after every epoch.
    """
    study, data, space = site.study, site.data, site.own_space
    batch_size = study.training.batch_size
    settings = LocalOnlySettings(
        batches=baseline_batches(algorithm, study.public_sizes, batch_size, site.name),
        least_steps=num_rounds(study, algorithm)
        * algorithm.steps(batch_size, float(len(data.train))),
        training=baseline_training(study),
        patience=study.training.patience,
        most_epochs=study.training.baseline_epochs,
        by=site.own.split.by,
        linear_decay=study.local_optimizer.schedule == "linear",
    )
    result = train_local_only(
        partial(site.tagger, space),
        site.training_part(space),
        data.train_sentences,
        space,
        settings,
        study.seed,
        after_epoch=partial(tell_point, on_point, LOCAL_ONLY, (site.name,)),
    )
    if study.training.finetune_epochs:
        finetune(site, result.tagger, space)
    record = {
        "batch_size": result.batch_size,
        "epochs": result.epochs,
        "steps": result.steps,
        "steps_in_federation": settings.least_steps,
        "tried": [asdict(each) for each in result.tried],
    }
    site.folder.write(RECORD, record)
    keep_tagger(site, LOCAL_ONLY, result.tagger)


def tell_point(
    on_point: OnPoint, method: str, platforms: tuple[str, ...], state: TrainingState
) -> None:
    """Pass on how far a baseline is."""
    last = state.curve[-1]
    on_point(BaselinePoint(method, platforms, last.epoch, last.strict_f1))


def finetune(site: Site, tagger: Tagger, space: TagSpace | None = None) -> None:
    """Train a platform's whole tagger in place, at half the learning rate, with linear decay.

    Args:
        site: The platform; its study says for how many epochs.
        tagger: Its tagger after the last round, or that of a baseline, which gets the same.
        space: Other tags than those of its federated tagger.
    """
    study = site.study
    corpus = site.training_part(space)
    batch_size = min(MOST_SENTENCES, study.training.batch_size)
    epochs = study.training.finetune_epochs
    first = local_optimizer(study)
    decaying = replace(
        first,
        learning_rate=first.learning_rate / 2,
        schedule="linear",
        decay_steps=epochs * -(-int((corpus.lengths > 0).sum()) // batch_size),
    )
    plan = _plan(study, batch_size, decaying, epochs)
    train(tagger, corpus, plan, derive(study.seed, "finish", "platform", site.name))


def train_private_part(site: Site, tagger: Tagger, epochs: int) -> None:
    """Train the private part without noise, after the last update; it is never released."""
    study = site.study
    batch_size = min(MOST_SENTENCES, study.training.batch_size)
    plan = _plan(study, batch_size, local_optimizer(study), epochs)
    with _frozen(tagger, site.blueprint.partition.shared):
        seed = derive(study.seed, "frozen", "platform", site.name)
        train(tagger, site.training_part(), plan, seed)


@contextmanager
def _frozen(tagger: Tagger, names: tuple[str, ...]) -> Iterator[None]:
    """Keep some weights as they are within the block."""
    held = [
        weight
        for name, weight in tagger.named_parameters()
        if name in names and weight.requires_grad
    ]
    try:
        for weight in held:
            weight.requires_grad_(False)
        yield
    finally:
        for weight in held:
            weight.requires_grad_(True)
