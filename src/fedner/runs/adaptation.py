"""Joining later: a new platform trains its own private part on a finished shared module."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fedner.durable import write_text
from fedner.errors import FednerError
from fedner.federated.checkpoints import owner_folder, read_state, stored_rounds
from fedner.models.checkpoint import EmbeddingPaths, save_tagger
from fedner.models.features import EncodedCorpus, TagSpace, select
from fedner.models.tagger import Tagger
from fedner.runs.annotated_types import IN_OPTIONS, left_out_words
from fedner.runs.blueprint import local_optimizer, shares_tags
from fedner.runs.folder import FACTS, MODEL_CARD, RunFolder
from fedner.runs.outcome import Outcome, intervals_of, outcome_of
from fedner.runs.public_files import path_of
from fedner.runs.records import RunFacts
from fedner.runs.report.adapted_card import Joined, adapted_card
from fedner.runs.simulation import open_sites
from fedner.runs.site import Site
from fedner.runs.verdict import zero_sentence
from fedner.settings import PlatformEntry
from fedner.training import TrainingSettings, TrainingState, hold_out, load, train, trainable

SHARED = "shared/"


@dataclass(frozen=True, slots=True)
class Adapted:
    """A platform that joined a finished run.

    Attributes:
        outcome: Its scores on its own test part.
        epochs: How many epochs it trained.
        trained: How many numbers it trained.
        kept: How many shared numbers are as the federation left them.
        left_out: What of its mentions the tagger never saw, in words; empty if nothing.
        zeros: Where strict F1 is 0.0, in a sentence; empty if nowhere.
        warnings: What its owner should know.
    """

    outcome: Outcome
    epochs: int
    trained: int
    kept: int
    left_out: str = ""
    zeros: str = ""
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can carry it."""
        return {
            "epochs": self.epochs,
            "trained_numbers": self.trained,
            "kept_shared_numbers": self.kept,
            "left_out": self.left_out,
            "zeros": self.zeros,
            "warnings": list(self.warnings),
            "scores": self.outcome.scores.as_dict(),
        }


def adapt(
    run: RunFolder,
    platform: PlatformEntry,
    out: Path,
    *,
    tune_shared: bool = False,
    epochs: int = 60,
    patience: int = 8,
    after_epoch: Callable[[TrainingState], None] | None = None,
) -> Adapted:
    """Train a new platform's private part on the shared module of a finished run; keep the tagger.

    Nothing is transmitted: the run is read, never written.

    Args:
        run: A finished run.
        platform: The new platform's data and how they are read.
        out: The folder for its tagger.
        tune_shared: Whether the platform's copy of the shared module is trained too.
        epochs: How many epochs at most; 1 or more.
        patience: Epochs without a better score on a held-out tenth after which training ends.
        after_epoch: Called after every epoch.

    Raises:
        FednerError: The run is not finished, or the platform's data do not fit it.
    """
    _require(epochs, out)
    site = _newcomer(run, platform, out)
    tagger = site.tagger()
    load(tagger, shared_weights(run))
    if not tune_shared:
        _freeze(tagger, site)
    corpus = site.encoded()
    state = _train(site, tagger, corpus, epochs, patience, after_epoch)
    part = site.evaluation_part(corpus)
    outcome = outcome_of(site.data, part.predictions(tagger), platform.split.by)
    _keep(run, site, out, tagger, outcome, tune_shared=tune_shared)
    adapted = _adapted(site, tagger, outcome, len(state.curve))
    write_text(out / MODEL_CARD, adapted_card(_described(run, platform, site, adapted)))
    return adapted


def _require(epochs: int, out: Path) -> None:
    """Raise unless there is something to train and a free place for it."""
    if epochs < 1:
        raise FednerError(
            f"--epochs {epochs}: a new platform trains its own part, for at least 1 epoch",
            "Leave it out: training stops by itself when the scores no longer rise.",
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FednerError(f"{out} is already there", "Name another folder with --out.")


def _train(
    site: Site,
    tagger: Tagger,
    corpus: EncodedCorpus,
    epochs: int,
    patience: int,
    after_epoch: Callable[[TrainingState], None] | None,
) -> TrainingState:
    """Train what is not frozen, until a held-out tenth no longer improves."""
    study, data = site.study, site.data
    rest, held = hold_out(
        select(corpus, data.train),
        data.train_sentences,
        site.space,
        by=site.own.split.by,
        seed=study.seed,
    )
    plan = TrainingSettings(
        epochs=epochs,
        batch_size=min(study.training.batch_size, max(1, len(rest) // 4)),
        optimizer=local_optimizer(study),
        max_grad_norm=study.local_optimizer.max_grad_norm or None,
        patience=patience,
    )
    return train(tagger, rest, plan, study.seed, held_out=held, after_epoch=after_epoch)


def _adapted(site: Site, tagger: Tagger, outcome: Outcome, epochs: int) -> Adapted:
    """Return what the new platform came to."""
    partition, data = site.blueprint.partition, site.data
    named = {*partition.shared, *partition.private}
    weights = [weight for key, weight in tagger.named_parameters() if key in named]
    return Adapted(
        outcome,
        epochs,
        sum(weight.numel() for weight in weights if weight.requires_grad),
        sum(weight.numel() for weight in weights if not weight.requires_grad),
        left_out_words(data.types.rows(data.labels)),
        zero_sentence({site.name: {"adapted": outcome.scores}}),
        data.warnings,
    )


def _described(run: RunFolder, platform: PlatformEntry, site: Site, adapted: Adapted) -> Joined:
    """Return what the model card of the new tagger shows."""
    outcome, seed, settings = adapted.outcome, site.study.seed, run.settings()
    return Joined(
        settings=settings.model_copy(update={"platforms": (platform,)}),
        run=settings.title,
        labels=site.data.labels,
        intervals=intervals_of(outcome, seed),
        by_label={label: counts.f1 for label, counts in outcome.scores.strict.items()},
        epochs=adapted.epochs,
        kept=adapted.kept,
        left_out=adapted.left_out,
        zeros=adapted.zeros,
        versions=run.read_as(RunFacts, FACTS).versions,
        privacy=run.privacy(),
    )


def _newcomer(run: RunFolder, platform: PlatformEntry, out: Path) -> Site:
    """Return the run's study as the new platform sees it: its own data and nobody else's."""
    settings = run.settings()
    # Nothing of the new platform is transmitted, so it needs no ledger whose key would split its
    # data.
    apart = settings.privacy.model_copy(update={"mechanism": "none"})
    single = settings.model_copy(update={"platforms": (platform,), "privacy": apart})
    site = open_sites(single, out, wording=IN_OPTIONS, knows_types=True)[0]
    if not shares_tags(site.study):
        return site
    held = run.read_as(RunFacts, FACTS).platforms.values()
    union = sorted({label for each in held for label in each.labels})
    strange = sorted(set(site.data.labels) - set(union))
    if strange:
        raise FednerError(
            f"labels {strange} are not among {union}, whose tags this run shares",
            "Leave them out with --labels, or join a run that keeps its tags private.",
        )
    return replace(site, space=TagSpace.of(union, settings.model.tag_scheme))


def shared_weights(run: RunFolder) -> dict[str, Tensor]:
    """Return the shared weights of a finished run.

    Raises:
        FednerError: The run has not stored any.
    """
    rounds = stored_rounds(run.path / "server")
    if not rounds or rounds[-1] != run.read_as(RunFacts, FACTS).rounds:
        raise FednerError(
            f"{run.path} is not finished", f"`fedner train {run.path} --resume` goes on with it."
        )
    tensors, _ = read_state(run.path / "server", rounds[-1])
    return {
        key.removeprefix(SHARED): tensor
        for key, tensor in tensors.items()
        if key.startswith(SHARED)
    }


def _freeze(tagger: Tagger, site: Site) -> None:
    shared = set(site.blueprint.partition.shared)
    if not site.blueprint.partition.private:
        raise FednerError(
            "this run shares everything: a new platform has no private part to train",
            "Add --tune-shared to train a copy of the shared weights.",
        )
    for name, weight in trainable(tagger).items():
        weight.requires_grad_(name not in shared)


def _keep(
    run: RunFolder, site: Site, out: Path, tagger: Tagger, outcome: Outcome, *, tune_shared: bool
) -> None:
    own = site.own.embeddings
    save_tagger(
        owner_folder(out),  # what was trained on a platform's texts may tell of them
        tagger,
        site.blueprint.recipe,
        site.space,
        context=site.blueprint.files.context,
        paths=EmbeddingPaths(path_of(own.words), path_of(own.context)),
        facts={
            "adapted_from": str(run.path),
            "platform": site.name,
            "labels": list(site.data.labels),
            "tuned_shared": tune_shared,
            "strict_f1": outcome.scores.strict_micro.f1,
        },
    )
