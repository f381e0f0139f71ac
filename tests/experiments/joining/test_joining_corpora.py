"""What the study is fed with: placebo, duplicates, nested sizes, folds; and how it counts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_world import corpus, sentence, world_of

from fedner.corpus.schemes import decode
from fedner.corpus.sentence import Entity
from fedner.errors import FednerError
from fedner.experiments.joining import corpora
from fedner.experiments.joining.arms import folds, partners_of
from fedner.experiments.joining.corpora import StudyCorpus, moved, without
from fedner.experiments.joining.training import Source, _batches, f1, matches
from fedner.experiments.joining.world import PLACEBO, REAL, World
from fedner.models.features import TagSpace
from fedner.scoring import score

SPACE = TagSpace.of(["a", "b"], "BIO")


@st.composite
def tag_rows(draw: st.DrawFn) -> list[int]:
    """Return tags that the scheme allows: an inside tag follows its own type."""
    tags = [0]
    for wanted in draw(st.lists(st.integers(0, 4), max_size=8)):
        follows = wanted in (2, 4) and tags[-1] in (wanted - 1, wanted)
        tags.append(wanted if follows or wanted in (0, 1, 3) else 0)
    return tags[1:]


@given(st.lists(st.tuples(tag_rows(), tag_rows()), min_size=1, max_size=5))
def test_matches_counts_as_the_products_scores(pairs: list[tuple[list[int], list[int]]]) -> None:
    rows = np.zeros((2, len(pairs), 9), dtype=np.int64)
    gold, found = [], []
    for place, (own, wanted) in enumerate(pairs):
        size = min(len(own), len(wanted))
        rows[0, place, :size], rows[1, place, :size] = own[:size], wanted[:size]
        found.append(decode([SPACE.tags[tag] for tag in own[:size]], "BIO"))
        gold.append(decode([SPACE.tags[tag] for tag in wanted[:size]], "BIO"))
    counted = matches(torch.from_numpy(rows[:1]), torch.from_numpy(rows[1:]))[0].tolist()
    expected = score(gold, found, labels=SPACE.labels, lengths=[9] * len(pairs)).strict_micro
    assert counted == [expected.tp, expected.tp + expected.fp, expected.tp + expected.fn]
    assert f1(*counted) == pytest.approx(100 * expected.f1)


def test_matches_keeps_models_apart() -> None:
    found = torch.tensor([[[1, 2, 0]], [[1, 0, 3]]])
    gold = torch.tensor([[[1, 2, 2]], [[1, 0, 3]]])
    assert matches(found, gold).tolist() == [[0, 1, 1], [2, 2, 2]]


@given(st.integers(0, 1000))
def test_the_placebo_keeps_lengths_and_types_and_never_overlaps(seed: int) -> None:
    before = corpus("psytar", 12, seed).sentences
    for old, new in zip(before, moved(before, seed), strict=True):
        assert new.tokens == old.tokens
        kinds = [sorted((e.end - e.start, e.label) for e in each.entities) for each in (old, new)]
        assert kinds[0] == kinds[1]
        taken = [place for e in new.entities for place in range(e.start, e.end)]
        assert len(taken) == len(set(taken))
        assert all(0 <= place < len(new.tokens) for place in taken)
        assert list(new.entities) == sorted(new.entities, key=lambda each: each.start)


def test_the_placebo_reaches_every_place_and_is_one_of_many() -> None:
    one = sentence(["a", "b", "c", "d", "e"], [(0, 2, "Drug")])
    places = {moved([one], seed)[0].entities[0].start for seed in range(60)}
    assert places == {0, 1, 2, 3}
    assert moved([one], 1) == moved([one], 1)
    full = sentence(["a", "b"], [(0, 2, "Drug")])
    assert moved([full], 1)[0].entities == (Entity(0, 2, "Drug"),)


def test_the_worlds_variants_are_gold_and_placebo(small: World) -> None:
    gold = small.sentences.gold_VN
    assert gold.shape[0] == 2
    assert not torch.equal(gold[REAL], gold[PLACEBO])
    begins = [(each % 2 == 1).sum() for each in gold]
    assert begins[0] == begins[1] > 0
    found, at = [], 0
    for each in small.corpora.values():
        for one in moved(each.sentences, 1):
            found += [(at + e.start, e.end - e.start) for e in one.entities]
            at += len(one.tokens)
    assert torch.equal(
        torch.tensor([start for start, _ in found]), torch.where(gold[PLACEBO] % 2 == 1)[0]
    )


def of(name: str, *texts: str) -> StudyCorpus:
    return StudyCorpus(name, ("Drug",), tuple(sentence(text.split()) for text in texts), "sentence")


def test_sentences_that_the_newcomer_has_are_taken_out_of_partners() -> None:
    newcomer = of("ade", "One two three four five six", "a short one")
    partner = of(
        "twimed",
        "one TWO three four five six",
        "a short one",
        "one two three four five six seven",
        "one two three four five",
    )
    assert without(partner, newcomer).tolist() == [1, 2, 3]
    assert without(newcomer, of("bc5cdr")).tolist() == [0, 1]


@pytest.mark.parametrize("by", ["sentence", "document"])
def test_sizes_are_nested_and_the_test_part_is_apart(by: str) -> None:
    platform = corpus("ade", 60, by=by)
    own, test = platform.parts(3)
    assert sorted([*own, *test]) == list(range(60))
    assert 8 <= len(test) <= 16
    again, same = platform.parts(3)
    assert np.array_equal(own, again)
    assert np.array_equal(test, same)
    assert not np.array_equal(own[:20], platform.parts(4)[0][:20])
    assert not np.array_equal(own, np.sort(own)), "in random order"
    if by == "document":
        documents = [{platform.sentences[each].document for each in part} for part in (own, test)]
        assert not documents[0] & documents[1]


@given(st.integers(3, 40), st.integers(2, 5))
def test_folds_are_disjoint_and_whole(number: int, parts: int) -> None:
    own = np.random.default_rng(number).permutation(number) + 100
    found = folds(own, min(parts, number))
    assert sorted(each for _, held in found for each in held) == sorted(own)
    for trained, held in found:
        assert not set(trained) & set(held)
        assert sorted([*trained, *held]) == sorted(own)
        assert len(held) in (number // len(found), -(-number // len(found)))


def test_partners_are_all_others_of_the_same_field() -> None:
    assert set(partners_of("ade")) == {"psytar", "twimed", "bc5cdr", "ncbi", "maccrobat"}
    assert set(partners_of("btc-e")) == {f"btc-{each}" for each in "abfgh"}
    assert partners_of("ade")[0] == "maccrobat", "the one of most types is the first"


def test_long_sentences_are_cut_and_other_types_left_out() -> None:
    words = [f"w{place}" for place in range(140)]
    one = sentence(words, [(0, 2, "Drug"), (5, 6, "Other"), (127, 130, "Drug"), (135, 136, "Drug")])
    kept = corpora._only(one, {"Drug"})
    assert len(kept.tokens) == len(kept.starts) == len(kept.ends) == corpora.MOST_TOKENS
    assert kept.entities == (Entity(0, 2, "Drug"),)


def test_platforms_that_are_not_there_are_named(tmp_path: object) -> None:
    with pytest.raises(FednerError, match="no platform 'nowhere'"):
        corpora.load(tmp_path, "nowhere")
    with pytest.raises(FednerError, match=r"twimed\.tar\.xz is not there"):
        corpora.load(tmp_path, "twimed")


def test_batches_take_every_sentence_of_an_epoch_once(small: World) -> None:
    lengths = small.sentences.known_lengths
    owns = [np.arange(13), np.arange(30, 50)]
    source = Source(owns, 4, None, torch.ones(2))
    stream = _batches(source, lengths, 1, 0)
    drawn = [next(stream) for _ in range(5)]
    for model, own in enumerate(owns):
        kept = [
            each
            for chosen, share in drawn
            for each, weight in zip(chosen[model], share[model], strict=True)
            if weight
        ]
        assert sorted(kept) == own.tolist()
        for chosen, share in drawn:
            assert share[model].sum() == pytest.approx(1.0)
            assert set(chosen[model]) <= set(own)
    again = _batches(source, lengths, 1, 0)
    assert all(np.array_equal(next(again)[0], chosen) for chosen, _ in drawn)


def test_large_sources_are_drawn_without_repetition() -> None:
    own = np.arange(200)
    world = world_of([corpus("ade", 200)])
    source = Source([own], 4, None, torch.ones(1))
    stream = _batches(source, world.sentences.known_lengths, 1, 0)
    first = [each for _ in range(40) for each in next(stream)[0][0].tolist()]
    assert len(first) == len(set(first)) == 160, "two buckets of twenty batches"
    assert replace(source, batch_size=5).batch_size == 5
