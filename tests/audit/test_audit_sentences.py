"""Sentences from gradients of small batches, through the reference LSTM and CRF."""

import numpy as np
import pytest
import torch
from audited import PROTECTION, tags, target

from fedner.audit import reference, sentences
from fedner.audit.finding import DEFENCES, Defence
from fedner.audit.gradient_matching import (
    Recovered,
    SentenceBudget,
    recover,
    token_features,
)
from fedner.audit.observation import Observation, Target, drawn_batches, observe
from fedner.audit.sentences import audit_sentences
from fedner.models.features import collate
from fedner.runs.report.audit_words import power
from fedner.training import trainable

BUDGET = SentenceBudget(longest=8, steps=100, restarts=2, trials=2, tries=2_000)
ROW = SentenceBudget(longest=5, steps=20, restarts=2, trials=3, tries=3_000)
TINY = SentenceBudget(longest=4, steps=5, restarts=1, trials=2, tries=400)


@pytest.mark.parametrize(
    ("name", "head"),
    [("LSTM-CRF", "free"), ("CNN-CLSTM-CRF", "described"), ("BI-LSTM-TDDL", "free"),
     ("S-LSTM-CRF", "free")],
)  # fmt: skip
def test_the_reference_has_the_gradient_of_training(name: str, head: str) -> None:
    held = target(name, head=head)
    with torch.no_grad():
        for weight in held.tagger.decoder.parameters():
            weight.normal_(0.0, 0.5)
    number = int(held.sentences[3])
    weights = {k: v for k, v in trainable(held.tagger).items() if not k.startswith("embeddings")}
    batch = collate(held.corpus, [number])
    expected = torch.autograd.grad(held.tagger.eval().losses(batch).sum(), list(weights.values()))
    start, length = int(held.corpus.starts[number]), int(held.corpus.lengths[number])
    words = held.corpus.word_T[start : start + length].tolist()
    assert held.corpus.tags_T is not None
    gold = torch.nn.functional.one_hot(held.corpus.tags_T[start : start + length], len(tags().tags))
    loss = reference.loss(held.tagger, token_features(held, words), gold.float())
    found = torch.autograd.grad(loss, list(weights.values()))
    for name_, one, other in zip(weights, found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5, msg=lambda m, n=name_: n + m)


@pytest.mark.parametrize("trains_words", [True, False], ids=["trained table", "frozen table"])
def test_a_sentence_is_recovered_word_by_word_with_its_entities(trains_words: bool) -> None:
    held = sentences._short(target("LSTM-CRF", trains_words=trains_words), BUDGET, 3)
    batches = drawn_batches(held, 3, 1, 4)
    seen = observe(held, batches, "none", PROTECTION, 4)
    number = batches[0][0]
    start, length = int(held.corpus.starts[number]), int(held.corpus.lengths[number])
    (found,) = recover(held, seen, [length], BUDGET, 4)
    rows = held.corpus.rows_V.numpy()
    assert rows[list(found.words)].tolist() == rows[held.corpus.word_T[start:][:length]].tolist()
    assert held.corpus.tags_T is not None
    assert list(found.tags) == held.corpus.tags_T[start : start + length].tolist()
    assert found.distance < 1e-6


@pytest.mark.parametrize("defence", ["none", "central"])
def test_small_batches_that_the_server_sees_without_noise_are_read(defence: Defence) -> None:
    held = sentences._short(target("LSTM-CRF", head="described", hidden=8), ROW, 3)
    cell = sentences._cell(held, tags(), PROTECTION, ROW, 1, defence, 1.0)
    assert cell.result is not None
    assert cell.result >= 0.9
    assert cell.verdict == "leak"


def test_every_defence_has_a_result_and_noise_hides_sentences() -> None:
    held = target("LSTM-CRF", head="described", hidden=6, num=60)
    row = {each.defence: each for each in audit_sentences(held, tags(), PROTECTION, 1, TINY)}
    assert all(row[each].result is not None for each in DEFENCES if each != "encryption")
    assert row["none"].power_on_planted_leak is not None
    assert row["none"].power_on_planted_leak >= 0.75
    assert row["local"].verdict == row["distributed"].verdict == "no leak found"
    assert row["encryption"].verdict == "as none"


def test_a_broken_attack_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(
        _held: object, _seen: object, lengths: list[int], *_: object, **__: object
    ) -> list[Recovered]:
        return [Recovered((0,) * each, (0,) * each, 1.0) for each in lengths]

    monkeypatch.setattr(sentences, "recover", nothing)
    row = audit_sentences(target("LSTM-CRF"), tags(), PROTECTION, 1, BUDGET)
    assert {each.verdict for each in row if each.status == "run"} == {"inconclusive"}


def test_an_attack_that_fails_on_sums_is_inconclusive_on_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = sentences.recover

    def single(held: Target, seen: Observation, lengths: list[int], *rest, **more):
        if seen.num_batches > 1:
            return [Recovered((0,) * each, (0,) * each, 1.0) for each in lengths]
        return real(held, seen, lengths, *rest, **more)

    monkeypatch.setattr(sentences, "recover", single)
    held = target("LSTM-CRF", head="described", hidden=6, num=60)
    row = {each.defence: each for each in audit_sentences(held, tags(), PROTECTION, 1, TINY)}
    assert row["secure-sum"].verdict == "inconclusive"
    assert not row["none"].is_inconclusive
    assert power(list(row.values())) == "0% to 100%"


def test_a_model_that_cannot_be_followed_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "can_read", lambda _tagger: False)
    row = audit_sentences(target("LSTM-CRF"), tags(), PROTECTION, 1, BUDGET)
    assert {each.verdict for each in row} == {"inconclusive"}
    nothing_shared = target("LSTM-CRF", shared="words")
    monkeypatch.undo()
    row = audit_sentences(nothing_shared, tags(), PROTECTION, 1, BUDGET)
    assert {each.verdict for each in row} == {"inconclusive"}


def test_sentences_are_paired_with_those_that_fit_best() -> None:
    held = target("LSTM-CRF")
    numbers = [int(each) for each in held.sentences[:2]]
    starts, lengths = held.corpus.starts[numbers], held.corpus.lengths[numbers]
    true = [held.corpus.word_T[a : a + n].tolist() for a, n in zip(starts, lengths, strict=True)]
    found = [Recovered(tuple(each), (0,) * len(each), 0.0) for each in reversed(true)]
    score = sentences._scored(held.corpus, tags(), numbers, found)
    assert score.in_place == 1.0
    assert np.isfinite(score.blind)
