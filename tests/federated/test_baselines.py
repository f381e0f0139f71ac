"""The baselines: fair to the platform alone, and per platform what pooling is scored on."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from tagger_platforms import NAMES, UNION, new_tagger, sentences_of, space_of

from fedner.corpus.synthetic import PLATFORMS
from fedner.errors import FednerError
from fedner.federated.baselines import LocalOnlySettings, train_centralized, train_local_only
from fedner.federated.learner import own_scores
from fedner.models.features import encode_corpus
from fedner.models.tagger import Tagger
from fedner.optimizers import OptimizerSettings
from fedner.training import Evaluation, TrainingSettings, TrainingState, trainable

FAST = TrainingSettings(optimizer=OptimizerSettings(learning_rate=0.02))


def test_a_platform_alone_takes_the_better_batch_and_enough_steps() -> None:
    made: list[Tagger] = []

    def make() -> Tagger:
        made.append(new_tagger("social-posts", "fedner", 0.0))
        return made[-1]

    sentences, space = sentences_of("social-posts"), space_of("social-posts", "fedner")
    corpus = encode_corpus(sentences, make().embeddings.words, space=space)
    epochs: Counter[int] = Counter()

    def count(state: TrainingState) -> None:
        epochs[len(state.curve)] += 1

    settings = LocalOnlySettings(
        (16, 4, 16), least_steps=23, training=FAST, patience=2, most_epochs=6
    )
    done = train_local_only(make, corpus, sentences, space, settings, seed=1, after_epoch=count)
    assert len(made) == 1 + 2 + 1
    assert done.tagger is made[-1]
    assert [each.batch_size for each in done.tried] == [16, 4]
    assert done.batch_size == max(done.tried, key=lambda each: each.strict_f1).batch_size
    assert done.steps >= 23
    assert done.epochs >= math.ceil(23 / math.ceil(40 / done.batch_size))
    by_batch = {each.batch_size: each for each in done.tried}
    # 36 sentences are left to train on: 3 steps an epoch of 16, 9 of 4.
    assert by_batch[16].epochs >= 8
    assert by_batch[4].epochs >= 3
    assert epochs.total() == sum(each.epochs for each in done.tried) + done.epochs


def test_a_platform_alone_goes_on_while_it_improves() -> None:
    sentences, space = sentences_of("case-reports"), space_of("case-reports", "fedner")

    def make() -> Tagger:
        return new_tagger("case-reports", "fedner", 0.0)

    corpus = encode_corpus(sentences, make().embeddings.words, space=space)
    settings = LocalOnlySettings((8,), least_steps=1, training=FAST, patience=2, most_epochs=30)
    done = train_local_only(make, corpus, sentences, space, settings, seed=1)
    tried = done.tried[0]
    assert tried.epochs == min(30, tried.best_epoch + 2)
    assert tried.strict_f1 > 0
    assert tried.best_epoch > 1
    assert done.epochs == tried.best_epoch


def test_the_last_training_of_a_baseline_may_end_at_rate_zero() -> None:
    sentences, space = sentences_of("case-reports"), space_of("case-reports", "fedner")

    def make() -> Tagger:
        return new_tagger("case-reports", "fedner", 0.0)

    corpus = encode_corpus(sentences, make().embeddings.words, space=space)
    moved = {}
    for falling in (False, True):
        states: list[TrainingState] = []
        settings = LocalOnlySettings(
            (8,), least_steps=40, training=FAST, patience=1, most_epochs=9, linear_decay=falling
        )
        train_local_only(
            make, corpus, sentences, space, settings, seed=1, after_epoch=states.append
        )
        before, after = states[-2].weights["emissions.weight"], states[-1].weights
        moved[falling] = float((after["emissions.weight"] - before).abs().sum())
    assert moved[True] < moved[False] / 2


def test_a_baseline_without_batches_is_refused() -> None:
    sentences, space = sentences_of("case-reports"), space_of("case-reports", "fedner")
    tagger = new_tagger("case-reports", "fedner")
    corpus = encode_corpus(sentences, tagger.embeddings.words, space=space)
    with pytest.raises(FednerError, match=r"found batches \(\)"):
        train_local_only(lambda: tagger, corpus, sentences, space, LocalOnlySettings((), 1), seed=1)


def test_a_baseline_holds_out_whole_patients() -> None:
    tagger = new_tagger("case-reports", "fedner")
    space = space_of("case-reports", "fedner")
    one = [replace(each, patient="p0") for each in sentences_of("case-reports")]
    corpus = encode_corpus(one, tagger.embeddings.words, space=space)
    by_patient = LocalOnlySettings((8,), 1, by="patient")
    with pytest.raises(FednerError, match="found 1 patient; expected at least 2"):
        train_local_only(lambda: tagger, corpus, one, space, by_patient, seed=1)


@pytest.mark.parametrize("unannotated", ["outside", "marginal"])
def test_pooled_data_are_scored_on_each_platforms_own_types(unannotated: str) -> None:
    parts = {name: sentences_of(name) for name in NAMES}
    joined = [sentence for name in NAMES for sentence in parts[name]]
    annotated = [PLATFORMS[name].labels for name in NAMES for _ in parts[name]]
    tagger = new_tagger(NAMES[0], "everything", 0.0)
    before = list(trainable(tagger))
    corpus = encode_corpus(joined, tagger.embeddings.words, space=UNION)
    settings = TrainingSettings(
        epochs=12, batch_size=16, optimizer=OptimizerSettings(learning_rate=0.02)
    )
    curve = train_centralized(
        tagger,
        corpus,
        UNION,
        annotated,
        settings,
        seed=1,
        unannotated=unannotated,  # type: ignore[arg-type]
    )
    assert curve[-1].loss < curve[0].loss / 2
    assert list(trainable(tagger)) == before
    other = 0
    for name in NAMES:
        held = encode_corpus(parts[name], tagger.embeddings.words, space=UNION)
        scores = own_scores(tagger, Evaluation(held, parts[name], UNION), PLATFORMS[name].labels)
        assert scores.labels == tuple(sorted(PLATFORMS[name].labels))
        assert scores.strict_micro.f1 > 0.2
        other += sum(scores.ignored_predicted.values())
    if unannotated == "marginal":
        # Whoever leaves types open finds them where nobody marked them.
        assert other > 0


def test_readings_of_the_pooled_data_agree_where_everybody_annotates_everything() -> None:
    sentences = sentences_of("forum-posts")
    results = []
    for reading in ("outside", "marginal"):
        tagger = new_tagger("forum-posts", "everything", 0.0)
        corpus = encode_corpus(sentences, tagger.embeddings.words, space=UNION)
        settings = TrainingSettings(epochs=2, batch_size=16)
        every = [UNION.labels] * len(sentences)
        train_centralized(tagger, corpus, UNION, every, settings, seed=1, unannotated=reading)  # type: ignore[arg-type]
        results.append({name: weight.detach() for name, weight in trainable(tagger).items()})
    for name in results[0]:
        torch.testing.assert_close(results[0][name], results[1][name], rtol=1e-4, atol=1e-5)


def test_every_sentence_needs_its_annotated_types() -> None:
    tagger = new_tagger("forum-posts", "everything")
    corpus = encode_corpus(sentences_of("forum-posts"), tagger.embeddings.words, space=UNION)
    with pytest.raises(FednerError, match="annotated types of 1 sentences; the corpus has 40"):
        train_centralized(tagger, corpus, UNION, [UNION.labels], TrainingSettings(), seed=1)
