"""Scores of a stack are the product's scores; averaged taggers decode the mean of their scores."""

import numpy as np
import pytest
import torch
from product import encoded, space_of
from test_joining_stack import NAMES, stack_of

from fedner.experiments.joining import arms, training
from fedner.experiments.joining.arms import Alone, score_averaged
from fedner.experiments.joining.kinds import DESCRIBED, FREE, PUBLISHED, Kind
from fedner.experiments.joining.training import counts
from fedner.experiments.joining.world import World
from fedner.models.averaged import AveragedTagger
from fedner.models.features import select
from fedner.training import Evaluation

CHOSEN = {"ade": np.arange(24), "bc5cdr": np.asarray([5]), "psytar": np.arange(3, 14)}


@pytest.mark.parametrize("kind", [DESCRIBED, PUBLISHED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("most", [6, 2048])
def test_counts_are_the_products(
    small: World, kind: Kind, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models with few sentences beside models with many, two rows of each at a time."""
    monkeypatch.setattr(training, "MOST_ROWS", most)
    weights, tags, taggers = stack_of(small, kind)
    chosen = [small.numbers(name, CHOSEN[name]) for name in NAMES]
    found = counts([(weights, kind.tokens(small))], small.sentences, tags, chosen)
    for own, name, tagger in zip(found.tolist(), NAMES, taggers, strict=True):
        kept = [small.corpora[name].sentences[place] for place in CHOSEN[name]]
        corpus = select(encoded(small, name), CHOSEN[name])
        scores = Evaluation(corpus, kept, space_of(small, name)).scores(tagger)
        expected = scores.strict_micro
        assert own == [expected.tp, expected.tp + expected.fp, expected.tp + expected.fn]
    assert found[:, 1].sum() > 0


def members_of(world: World, kind: Kind, name: str) -> tuple[arms.Member, torch.Tensor]:
    """Return a platform's member out of a stack, and its counts."""
    weights, tags, _ = stack_of(world, kind)
    model = NAMES.index(name)
    chosen = [world.numbers(each, np.arange(24)) for each in NAMES]
    found = counts([(weights, kind.tokens(world))], world.sentences, tags, chosen)
    return {key: each[model] for key, each in weights.items()}, found[model]


@pytest.mark.parametrize("kind", [DESCRIBED, FREE, PUBLISHED], ids=lambda kind: kind.name)
def test_a_tagger_averaged_with_itself_is_itself(small: World, kind: Kind) -> None:
    """Members out of a stack of more tags lose what they do not use: five of nine tags stay."""
    member, expected = members_of(small, kind, "bc5cdr")
    own = small.numbers("bc5cdr", np.arange(24))
    jobs = [Alone("bc5cdr", own, own, 0.0, 1)]
    found = score_averaged(small, [(kind, [member]), (kind, [member])], jobs)
    assert list(found[0]) == expected.tolist()


def test_averaged_taggers_are_the_products_average(small: World) -> None:
    """The strong recipe and the described head, as `fedner join` averages them."""
    place = NAMES.index("psytar")
    stacks = [stack_of(small, kind) for kind in (FREE, DESCRIBED)]
    members = [
        (kind, [{key: each[place] for key, each in weights.items()}])
        for kind, (weights, _, _) in zip((FREE, DESCRIBED), stacks, strict=True)
    ]
    own = small.numbers("psytar", np.arange(24))
    found = score_averaged(small, members, [Alone("psytar", own, own, 0.0, 1)])
    recipes = [kind.recipe(small) for kind in (FREE, DESCRIBED)]
    taggers = [each[2][place] for each in stacks]
    space = space_of(small, "psytar")
    averaged = AveragedTagger(taggers, recipes, space)
    sentences = small.corpora["psytar"].sentences
    scores = Evaluation(encoded(small, "psytar"), sentences, space).scores(averaged)
    expected = scores.strict_micro
    assert found[0] == (expected.tp, expected.tp + expected.fp, expected.tp + expected.fn)


def test_the_average_lies_between_its_members(small: World) -> None:
    """Scores are averaged before decoding: a member with scores of zero changes nothing."""
    described, expected = members_of(small, DESCRIBED, "ade")
    nothing = {key: torch.zeros_like(each) for key, each in described.items()}
    own = small.numbers("ade", np.arange(24))
    jobs = [Alone("ade", own, own, 0.0, 1)]
    found = score_averaged(small, [(DESCRIBED, [described]), (DESCRIBED, [nothing])], jobs)
    assert list(found[0]) == expected.tolist(), "half of every score: the same best path"
    turned = {**described, "decoder.steps": -described["decoder.steps"]}
    turned["emissions.outside.weight"] = -described["emissions.outside.weight"]
    other = score_averaged(small, [(DESCRIBED, [described]), (DESCRIBED, [turned])], jobs)
    assert list(other[0]) != expected.tolist()


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("emissions.weight", (5, 2), (3, 2)),
        ("emissions.bias", (5,), (3,)),
        ("decoder.transitions", (5, 5), (3, 3)),
        ("decoder.start", (5,), (3,)),
        ("bilstm.lstm.bias_ih_l0", (5,), (5,)),
    ],
)
def test_a_free_head_gets_room_or_loses_unused_tags(
    name: str, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    weight = torch.randn(shape)
    smaller = arms._resized(name, weight, 3)
    assert tuple(smaller.shape) == expected
    back = arms._resized(name, smaller, 5)
    assert tuple(back.shape) == shape
    part = tuple(slice(size) for size in expected)
    assert torch.equal(back[part], weight[part])
    assert int((back != 0).sum()) == weight[part].numel(), "the rest is zero"
