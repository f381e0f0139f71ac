"""Splits: exact sizes, nothing lost, no group on both sides, nested samples, leakage."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus import splits
from fedner.corpus.groups import Grouping, take
from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import Split, fixed, leakage, normalised
from fedner.errors import FednerError

UNITS = st.sampled_from(["sentence", "document", "patient"])
SEEDS = st.integers(0, 2**32)
OWNER = {"document": lambda s: s.document, "patient": lambda s: s.patient}


def numbered(documents_per_patient: list[list[int]]) -> tuple[Sentence, ...]:
    """Distinct sentences: for each patient, the sizes of the documents."""
    sentences = []
    for patient, sizes in enumerate(documents_per_patient):
        for document, size in enumerate(sizes):
            for index in range(size):
                word = f"w{patient}-{document}-{index}"
                sentences.append(
                    Sentence(
                        f"d{patient}-{document}",
                        index,
                        (word,),
                        (0,),
                        (len(word),),
                        patient=f"p{patient}",
                    )
                )
    return tuple(sentences)


CORPORA = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=2, max_size=8).map(
    numbered
)


class Sides(NamedTuple):
    """The sentences of a split."""

    train: tuple[Sentence, ...]
    test: tuple[Sentence, ...]


def split(sentences, *, by, test=0.2, seed):
    """Split, check that positions ascend, and select."""
    return sides(splits.split(Grouping.of(sentences, by), test=test, seed=seed), sentences)


def holdout(sentences, *, by, share=0.1, seed):
    return sides(splits.holdout(Grouping.of(sentences, by), share=share, seed=seed), sentences)


def k_folds(sentences, k, by, seed):
    return tuple(
        sides(fold, sentences) for fold in splits.k_folds(Grouping.of(sentences, by), k, seed)
    )


def subsample(sentences, share, by, seed):
    return take(sentences, splits.subsample(Grouping.of(sentences, by), share, seed))


def sides(found: Split, sentences) -> Sides:
    for side in (found.train, found.test):
        assert all(before < after for before, after in pairwise(side))
    return Sides(*found.select(sentences))


def in_order(part: tuple[Sentence, ...], whole: tuple[Sentence, ...]) -> bool:
    places = [whole.index(sentence) for sentence in part]
    return places == sorted(places)


@given(CORPORA.filter(lambda c: len(c) >= 5), UNITS, st.floats(0.15, 0.85), SEEDS)
def test_a_split_is_disjoint_total_ordered_repeatable_and_keeps_groups_whole(
    sentences, by, share, seed
):
    parts = split(sentences, by=by, test=share, seed=seed)
    assert Counter(parts.train) + Counter(parts.test) == Counter(sentences)
    assert parts.train
    assert parts.test
    assert in_order(parts.train, sentences)
    assert in_order(parts.test, sentences)
    assert parts == split(list(sentences), by=by, test=share, seed=seed)
    if by == "sentence":
        assert len(parts.test) == round(share * len(sentences))
    else:
        owner = OWNER[by]
        assert not {owner(s) for s in parts.train} & {owner(s) for s in parts.test}


@given(st.lists(st.integers(1, 12), min_size=2, max_size=8), st.floats(0.1, 0.9), SEEDS)
def test_by_document_no_choice_of_whole_documents_is_nearer_to_the_share(sizes, share, seed):
    sentences = numbered([sizes])
    target = round(share * len(sentences))
    if not 0 < target < len(sentences):
        return
    sums = [sum(c) for n in range(1, len(sizes)) for c in combinations(sizes, n)]
    parts = split(sentences, by="document", test=share, seed=seed)
    assert abs(len(parts.test) - target) == min(abs(total - target) for total in sums)


def test_every_sentence_has_the_same_chance_of_being_tested():
    sentences, num_seeds, tested = numbered([[50]]), 600, Counter()
    for seed in range(num_seeds):
        tested.update(split(sentences, by="sentence", test=0.2, seed=seed).test)
    # 5 standard deviations of a share of 600 draws
    allowed = 5 * (0.2 * 0.8 / num_seeds) ** 0.5
    assert max(abs(tested[s] / num_seeds - 0.2) for s in sentences) < allowed


def test_filling_up_with_documents_favours_neither_small_nor_large_ones():
    sentences, num_seeds, tested = numbered([[1, 2, 3, 10, 11, 12] * 10]), 200, Counter()
    for seed in range(num_seeds):
        test = split(sentences, by="document", test=0.2, seed=seed).test
        assert len(test) == 78
        tested.update(len([s for s in test if s.document == d]) for d in {s.document for s in test})
    shares = {size: tested[size] / (10 * num_seeds) for size in (1, 2, 3, 10, 11, 12)}
    assert all(abs(share - 0.2) < 0.05 for share in shares.values()), shares


def test_seeds_and_units_give_different_splits():
    sentences = numbered([[1] * 50])
    first = split(sentences, by="sentence", seed=1)
    assert first != split(sentences, by="sentence", seed=2)
    assert len(first.test) == 10


def test_degenerate_splits_are_refused_with_what_was_found():
    two = numbered([[1, 1]])
    with pytest.raises(FednerError, match="found 0 sentences; expected at least 2"):
        split((), by="sentence", seed=0)
    with pytest.raises(FednerError, match="found 1 patient; expected at least 2") as caught:
        split(two, by="patient", seed=0)
    assert "finer unit" in caught.value.hint
    with pytest.raises(FednerError, match=r"0\.2 of 2 sentences leaves the test side empty"):
        split(two, by="sentence", seed=0)
    with pytest.raises(FednerError, match=r"0\.9 of 2 sentences leaves the train side empty"):
        split(two, by="document", test=0.9, seed=0)
    with pytest.raises(FednerError, match=r"found 1\.0; expected a share between 0 and 1"):
        split(two, by="sentence", test=1.0, seed=0)


def test_a_patient_split_without_patients_says_how_many_lack_one():
    sentences = list(numbered([[3], [3]]))
    sentences[1] = replace(sentences[1], patient=None)
    with pytest.raises(FednerError, match="1 of 6 sentences have no patient id"):
        split(sentences, by="patient", seed=0)


def test_the_nearest_non_empty_side_is_taken_where_documents_are_large():
    parts = split(numbered([[10, 12]]), by="document", test=0.1, seed=0)
    assert len(parts.test) == 10


@given(CORPORA, UNITS, st.integers(2, 5), SEEDS)
def test_in_folds_every_sentence_is_tested_exactly_once(sentences, by, k, seed):
    owner = OWNER.get(by, lambda s: s.tokens)
    if len({owner(s) for s in sentences}) < k:
        with pytest.raises(FednerError, match=f"found k = {k} with"):
            k_folds(sentences, k, by, seed)
        return
    folds = k_folds(sentences, k, by, seed)
    assert len(folds) == k
    assert Counter(s for fold in folds for s in fold.test) == Counter(sentences)
    for fold in folds:
        assert fold.test
        assert Counter(fold.train) + Counter(fold.test) == Counter(sentences)
        assert not {owner(s) for s in fold.train} & {owner(s) for s in fold.test}
        assert in_order(fold.train, sentences)
    if by == "sentence":
        sizes = [len(fold.test) for fold in folds]
        assert max(sizes) - min(sizes) <= 1
    assert folds == k_folds(sentences, k, by, seed)


@pytest.mark.parametrize("k", [-1, 0, 1, 7])
def test_impossible_numbers_of_folds_are_refused(k):
    with pytest.raises(FednerError, match="expected k of at least 2"):
        k_folds(numbered([[6]]), k, "sentence", 0)


def test_holding_out_takes_a_tenth_by_a_stream_of_its_own():
    sentences = numbered([[80]])
    parts = holdout(sentences, by="sentence", seed=3)
    assert (len(parts.train), len(parts.test)) == (72, 8)
    assert parts != split(sentences, by="sentence", test=0.1, seed=3)
    with pytest.raises(FednerError, match="leaves the dev side empty"):
        holdout(sentences[:4], by="sentence", seed=3)


@given(CORPORA, UNITS, st.floats(0.1, 0.5), SEEDS)
def test_holding_out_tears_no_unit_apart(sentences, by, share, seed):
    owner = OWNER.get(by, lambda s: s.tokens)
    if len({owner(s) for s in sentences}) < 2 or not round(share * len(sentences)):
        return
    parts = holdout(sentences, by=by, share=share, seed=seed)
    assert parts.test
    assert Counter(parts.train) + Counter(parts.test) == Counter(sentences)
    assert not {owner(s) for s in parts.train} & {owner(s) for s in parts.test}


def test_holding_out_patients_takes_whole_ones():
    sentences = numbered([[3, 2], [4, 1], [5], [2, 3]])  # five sentences of each of four patients
    parts = holdout(sentences, by="patient", share=0.1, seed=3)
    assert len(parts.test) == 5
    assert len({sentence.patient for sentence in parts.test}) == 1


def test_fixed_files_become_a_split_and_empty_ones_are_refused():
    assert fixed(2, 1) == Split((0, 1), (2,))
    with pytest.raises(FednerError, match="no sentences in train and test"):
        fixed(0, 0)


@given(CORPORA, UNITS, st.lists(st.floats(0.2, 1), min_size=2, max_size=5), SEEDS)
def test_samples_are_nested_and_of_the_asked_size(sentences, by, shares, seed):
    samples = [
        subsample(sentences, share, by, seed)
        for share in sorted(shares)
        if round(share * len(sentences))
    ]
    for smaller, larger in pairwise(samples):
        assert set(smaller) <= set(larger)
    for sample, share in zip(samples[::-1], sorted(shares, reverse=True), strict=False):
        assert sample
        assert in_order(sample, sentences)
        if by == "sentence":
            assert len(sample) == round(share * len(sentences))
        else:
            taken = {OWNER[by](s) for s in sample}
            assert sample == tuple(s for s in sentences if OWNER[by](s) in taken)
            largest = max(Counter(OWNER[by](s) for s in sentences).values())
            assert abs(len(sample) - share * len(sentences)) <= largest
    assert subsample(sentences, 1, by, seed) == sentences


def test_an_empty_sample_is_refused():
    with pytest.raises(FednerError, match=r"Sample of 0\.01 of 6 sentences: it would be empty"):
        subsample(numbered([[6]]), 0.01, "document", 0)
    with pytest.raises(FednerError, match="found 0; expected a share above 0"):
        subsample(numbered([[6]]), 0, "sentence", 0)


def said(*tokens: str, document: str = "", patient: str | None = None) -> Sentence:
    return replace(Sentence.of(tokens), document=document, patient=patient)


def test_leakage_counts_texts_documents_and_patients_on_both_sides():
    train = [
        said("No", "pain", ".", document="a", patient="p"),
        said("no", "PAIN", ".", document="b"),
        said("Unique", document="c"),
        said(),
    ]
    test = [
        said("no", "pain ", ".", document="a", patient="p"),
        said("other", document="d", patient="q"),
        said("no", "pain", ".", document="e"),
        said(),
    ]
    found = leakage(train, test)
    assert asdict(found) == {
        "texts": 1,
        "train_sentences": 2,
        "test_sentences": 2,
        "share_of_test": 0.5,
        "examples": ("no pain .",),
        "documents": ("a",),
        "patients": ("p",),
    }
    assert json.loads(json.dumps(asdict(found)))["texts"] == 1
    assert not found.is_clean


@given(CORPORA.filter(lambda c: len(c) >= 5), SEEDS)
def test_patient_splits_of_distinct_texts_are_clean(sentences, seed):
    by_patient = split(sentences, by="patient", test=0.4, seed=seed)
    assert leakage(by_patient.train, by_patient.test).is_clean
    doubled = leakage(sentences, sentences)
    assert doubled.texts == doubled.test_sentences == len(sentences)
    assert doubled.share_of_test == 1
    assert len(doubled.examples) <= 5


def test_leakage_into_nothing_is_clean():
    assert leakage(numbered([[3]]), ()).is_clean
    assert leakage((), ()).share_of_test == 0


def test_normalising_folds_case_and_white_space():
    assert normalised(["Aspirin\u00a0 100", " MG\t"]) == "aspirin 100 mg"


SCRIPT = """
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.groups import Grouping, take
from fedner.corpus.splits import k_folds, leakage, split, subsample
from fedner.corpus.platforms import divide, slices
from fedner.corpus.shared_entities import mask_shared, overlap
def sentence(i):
    entities = (Entity(0, 1, "AB"[i % 2]),)
    return Sentence(f"d{i % 17}", i, (f"w{i % 29}",), (0,), (2,), entities, f"p{i % 5}")
c = [sentence(i) for i in range(90)]
documents, patients = Grouping.of(c, "document"), Grouping.of(c, "patient")
s = split(documents, seed=1)
a, b = (take(c, part) for part in divide(c, into=2, how="label-skew", seed=1))
print(s, k_folds(patients, 3, 2), subsample(documents, 0.3, 4), leakage(*s.select(c)))
print([(x.document, x.index, x.tokens, tuple(map(tuple, x.entities)), x.patient) for x in a])
print(divide(c, into=3, how="size-skew", seed=3, by="document"), slices(documents, 0.3, 1))
print(overlap({"a": a, "b": b}))
masked = mask_shared({"a": a, "b": b}, 0.5, 1, "unknown word")
print(masked, [(x.index, x.tokens) for part in masked.platforms.values() for x in part])
"""


def test_results_do_not_depend_on_the_hash_seed_of_the_interpreter():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "12345")
    }
    assert len(outputs) == 1
    assert len(next(iter(outputs))) > 10_000


def test_importing_the_splits_loads_neither_numpy_nor_torch():
    code = (
        "import sys, fedner.corpus.splits, fedner.corpus.platforms, fedner.corpus.shared_entities;"
        "print([m for m in ('numpy', 'torch') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "[]"
