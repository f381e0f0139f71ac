"""The centralized baseline: all texts in one place, which privacy forbids. Simulations only."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from fedner.corpus.sentence import Sentence
from fedner.federated.algorithms import Algorithm
from fedner.federated.annotation import union_space
from fedner.federated.answering import one_thread
from fedner.federated.baselines import train_centralized
from fedner.models.features import EncodedCorpus, TagSpace, context_tensor, encode_corpus, select
from fedner.runs.folder import CENTRALIZED, RunFolder
from fedner.runs.local_training import OnPoint, baseline_training, tell_point
from fedner.runs.schedule import num_rounds, rounds_in_epoch
from fedner.runs.site import Site
from fedner.runs.site_taggers import finished_methods, keep_tagger
from fedner.tensors import SharedState
from fedner.training import load

RECORD = f"baselines/{CENTRALIZED}.json"


def train_joined(
    sites: Sequence[Site],
    algorithm: Algorithm,
    folder: RunFolder,
    on_point: OnPoint,
    beginning: SharedState | None = None,
) -> None:
    """Train one tagger on the joined data of all platforms and keep a copy with each.

    It begins like the federated tagger, so that both differ in where the texts are and in nothing
    else.

    Args:
        sites: All platforms, sorted by name; only a simulation has them in one place.
        algorithm: The federation's: the baseline trains for as many epochs.
        folder: The run folder.
        on_point: Called after every epoch.
        beginning: The shared weights of the initial model; None begins from scratch.
    """
    if all(CENTRALIZED in finished_methods(site) for site in sites):
        return
    first, names = sites[0], tuple(site.name for site in sites)
    study = first.study
    space = union_space([site.data.labels for site in sites], study.model.tag_scheme)
    corpus, annotated = _joined(sites, space)
    epochs = max(1, round(num_rounds(study, algorithm) / rounds_in_epoch(study, algorithm)))
    # Of two platforms that describe a type of one name the first by name counts.
    described = {
        label: text for site in reversed(sites) for label, text in site.descriptions().items()
    }
    tagger = first.blueprint.describing(described).tagger(space)
    if beginning is not None:
        with torch.no_grad():
            load(tagger, beginning)
    plan = replace(baseline_training(study), epochs=epochs)
    with one_thread():
        train_centralized(
            tagger,
            corpus,
            space,
            annotated,
            plan,
            study.seed,
            after_epoch=partial(tell_point, on_point, CENTRALIZED, names),
        )
    folder.write(RECORD, {"epochs": epochs, "batch_size": plan.batch_size})
    for site in sites:
        keep_tagger(site, CENTRALIZED, tagger, space)


def _joined(sites: Sequence[Site], space: TagSpace) -> tuple[EncodedCorpus, list[tuple[str, ...]]]:
    """Return the training parts of all platforms as one corpus, and each sentence's types."""
    sentences: list[Sentence] = []
    chosen, annotated = [], []
    for site in sites:
        chosen += [len(sentences) + number for number in site.data.train]
        annotated += [site.data.labels] * len(site.data.train)
        sentences += site.data.sentences
    plan = sites[0].blueprint
    features = [site.features for site in sites if site.features is not None]
    trained = plan.files.trained
    corpus = encode_corpus(
        sentences,
        plan.word_embedding(),
        space=space,
        context_TD=torch.cat([context_tensor(each) for each in features]) if features else None,
        pieces=None if trained is None else trained.pieces([each.tokens for each in sentences]),
        device=plan.device,
    )
    return select(corpus, chosen), annotated
