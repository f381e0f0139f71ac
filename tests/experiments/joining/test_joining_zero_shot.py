"""Types that are left out: their gold tags are "O" for that model and no other."""

import pytest
import torch
from tiny_study import shrink, tiny_world

from fedner.experiments.joining import zero_shot
from fedner.experiments.joining.corpora import DESCRIPTIONS, MEDICAL
from fedner.experiments.joining.world import World

PAIRS = [
    (("ade", "Drug"), ("bc5cdr", "Chemical")),
    (("ade", "Dosage"),),
    (("ncbi", "Disease"),),
]


@pytest.fixture(scope="module")
def world() -> World:
    return tiny_world()


def test_every_type_is_left_out_once() -> None:
    found = [pair for pairs in zero_shot.groups().values() for pair in pairs]
    expected = {(platform, label) for platform in MEDICAL for label in DESCRIPTIONS[platform]}
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_gold_tags_of_a_left_out_type_are_outside_for_that_model_alone(world: World) -> None:
    found = zero_shot.without_types(world, PAIRS)
    before = world.sentences.gold_VN[0].clone()
    assert found.gold_VN.shape == (3, len(before))
    at = 0
    for name, corpus in world.corpora.items():
        for sentence in corpus.sentences:
            for model, pairs in enumerate(PAIRS):
                left_out = {label for platform, label in pairs if platform == name}
                expected = before[at : at + len(sentence.tokens)].clone()
                for entity in sentence.entities:
                    if entity.label in left_out:
                        expected[entity.start : entity.end] = 0
                own = found.gold_VN[model, at : at + len(sentence.tokens)]
                assert torch.equal(own, expected), (name, model)
            at += len(sentence.tokens)
    assert torch.equal(world.sentences.gold_VN[0], before), "the world stays as it is"
    assert not torch.equal(found.gold_VN[0], before)


def test_a_model_has_no_tags_of_what_is_left_out(world: World) -> None:
    source = zero_shot._source(world, "ade", PAIRS, 1)
    labels = world.corpora["ade"].labels
    for model, label in ((0, "Drug"), (1, "Dosage"), (2, None)):
        expected = [True] * 7
        if label is not None:
            begin = 2 * labels.index(label) + 1
            expected[begin : begin + 2] = [False, False]
        assert source.tags.is_own_MK[model].tolist() == expected
    only_outside = zero_shot._source(world, "ncbi", PAIRS, 1)
    assert only_outside.tags.is_own_MK[2].tolist() == [True, False, False]
    held = set(world.numbers("ade", world.corpora["ade"].parts(1)[1]).tolist())
    assert not held & set(source.sentences[0].tolist()), "types are scored on the rest"


def test_every_type_is_scored_on_its_own_mentions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch)
    found = zero_shot.leave_one_out(world, 1)
    assert {(each.platform, each.type) for each in found} == {
        (platform, label) for platform in MEDICAL for label in DESCRIPTIONS[platform]
    }
    for each in found:
        corpus = world.corpora[each.platform]
        _, test = corpus.parts(1)
        labels = [e.label for place in test for e in corpus.sentences[place].entities]
        assert each.mentions == labels.count(each.type)
        assert 0.0 <= each.f1 <= 100.0
        assert (each.platform, each.type) in zero_shot.groups()[each.group]
    assert found == zero_shot.leave_one_out(world, 1)


def test_only_the_type_itself_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tagger that finds all gold entities has F1 100 for every type."""
    gold = world.sentences.gold_VN[0]
    seen = []

    def perfect(*_given: object) -> torch.Tensor:
        return gold[seen[-1].token_MBL].flatten(0, 1)

    def remember(_member: object, _tokens: object, rows: object) -> torch.Tensor:
        seen.append(rows)
        return torch.zeros(1)

    monkeypatch.setattr(zero_shot, "hidden_states", remember)
    monkeypatch.setattr(zero_shot, "potentials", lambda *_given: None)
    monkeypatch.setattr(zero_shot.stacked_crf, "best_paths", perfect)
    chosen = world.numbers("ade", world.corpora["ade"].parts(1)[1])
    right, predicted, mentions = zero_shot._counts(world, {}, "ade", "Drug", chosen)
    assert right == predicted == mentions > 0
