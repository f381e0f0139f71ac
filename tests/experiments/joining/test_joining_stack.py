"""A member of a stack is the product's tagger: same scores, gradients, paths and training."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from product import encoded, tagger_of
from torch import Tensor

from fedner.experiments.joining import kinds, stacked_crf, training
from fedner.experiments.joining.arms import Member, _padded
from fedner.experiments.joining.kinds import (
    DESCRIBED,
    DESCRIBED_PUBLISHED,
    FREE,
    PUBLISHED,
    Kind,
)
from fedner.experiments.joining.stack import (
    Rows,
    Tags,
    Tokens,
    Weights,
    hidden_states,
    potentials,
)
from fedner.experiments.joining.training import Indices, Labelled, Plan, Source, joint_loss, train
from fedner.experiments.joining.world import World
from fedner.models.features import Batch, collate
from fedner.models.initialise import initialise_by
from fedner.models.tagger import Tagger
from fedner.optimizers import Optimizer, OptimizerSettings
from fedner.training import TrainingSettings, clip_by_norm, gradients, trainable

NAMES = ("ade", "bc5cdr", "psytar")  # seven, five and nine tags
KINDS = [DESCRIBED, PUBLISHED, FREE, DESCRIBED_PUBLISHED]
CHOSEN = [[3, 0, 7, 11], [1, 2, 20, 5], [9, 9, 4, 6]]  # a row of each platform's sentences


def stack_of(world: World, kind: Kind) -> tuple[Weights, Tags, list[Tagger]]:
    """Return three platforms' taggers of different tags, side by side."""
    taggers = [tagger_of(world, kind, name, seed) for seed, name in enumerate(NAMES)]
    tags = Tags.bio([world.vectors[name] for name in NAMES], world.device)
    members: list[Member] = [
        {name: weight.detach() for name, weight in trainable(each).items()} for each in taggers
    ]
    return _padded(members, tags.is_own_MK.shape[1], kind), tags, taggers


def numbers(world: World, chosen: Sequence[Sequence[int]] = CHOSEN) -> Indices:
    """Return sentences of each platform by global number."""
    return np.asarray(
        [world.numbers(name, np.asarray(own)) for name, own in zip(NAMES, chosen, strict=True)]
    )


def batch_of(world: World, name: str, chosen: Sequence[int]) -> tuple[Batch, list[int]]:
    """Return the product's batch, and which row of the stack each of its rows is."""
    batch = collate(encoded(world, name), chosen)
    rows, left = [], list(enumerate(chosen))
    for sentence in batch.sentences.tolist():
        place = next(each for each in left if each[1] == sentence)
        left.remove(place)
        rows.append(place[0])
    return batch, rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_emissions_losses_and_paths_are_the_taggers(small: World, kind: Kind) -> None:
    weights, tags, taggers = stack_of(small, kind)
    rows = small.sentences.rows(numbers(small))
    found = potentials(weights, hidden_states(weights, kind.tokens(small), rows), rows, tags)
    gold = (small.sentences.gold_VN[0][rows.token_MBL] * rows.mask).flatten(0, 1)
    losses = stacked_crf.losses(found, gold).view(3, -1)
    paths = stacked_crf.best_paths(found).view(rows.token_MBL.shape)
    emissions = found.emissions_NLK.view(*rows.token_MBL.shape, -1)
    for model, (name, tagger) in enumerate(zip(NAMES, taggers, strict=True)):
        batch, order = batch_of(small, name, CHOSEN[model])
        expected = tagger(batch).detach()
        longest, num_tags = expected.shape[1:]
        mask = batch.mask_BL
        own = emissions[model, order, :longest]
        torch.testing.assert_close(own[..., :num_tags][mask], expected[mask], atol=1e-5, rtol=1e-5)
        assert bool((own[..., num_tags:] == stacked_crf.FORBIDDEN).all())
        torch.testing.assert_close(
            losses[model, order], tagger.losses(batch).detach(), atol=1e-5, rtol=1e-5
        )
        assert torch.equal(paths[model, order, :longest][mask], tagger.best_tags(batch)[mask])
        assert torch.equal(
            gold.view(paths.shape)[model, order, :longest][mask], batch.gold_tags[mask]
        )


def test_a_sentence_scores_the_same_beside_longer_ones(small: World) -> None:
    weights, tags, _ = stack_of(small, PUBLISHED)
    every = numbers(small)
    together = small.sentences.rows(every)
    states = hidden_states(weights, small.published, together)
    for place in range(every.shape[1]):
        rows = small.sentences.rows(every[:, place : place + 1])
        alone = hidden_states(weights, small.published, rows)
        inside = rows.mask
        length = inside.shape[2]
        torch.testing.assert_close(
            states[:, place : place + 1, :length][inside], alone[inside], atol=1e-6, rtol=1e-5
        )
    assert tags.is_own_MK.sum(1).tolist() == [7, 5, 9]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_gradients_are_the_taggers(small: World, kind: Kind) -> None:
    weights, tags, taggers = stack_of(small, kind)
    weights = {name: each.clone().requires_grad_() for name, each in weights.items()}
    rows = small.sentences.rows(numbers(small))
    gold = small.sentences.gold_VN[0][rows.token_MBL] * rows.mask
    source = Source([], 4, tags, torch.ones(3))
    states = hidden_states(weights, kind.tokens(small), rows)
    loss = joint_loss(weights, states, [source], Labelled(rows, gold, torch.full((3, 4), 0.25)))
    found = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
    for model, (name, tagger) in enumerate(zip(NAMES, taggers, strict=True)):
        _, expected = gradients(tagger, batch_of(small, name, CHOSEN[model])[0])
        for key, gradient in expected.items():
            torch.testing.assert_close(
                part_of(found[key][model], gradient), gradient, atol=1e-5, rtol=1e-4, msg=key
            )


def part_of(padded: Tensor, own: Tensor) -> Tensor:
    """Return the part of a padded weight that is the platform's own; the rest is zero."""
    part = padded[tuple(slice(size) for size in own.shape)]
    assert bool((padded.abs().sum() - part.abs().sum()).abs() <= 1e-4), "nothing outside of it"
    return part


def given(monkeypatch: pytest.MonkeyPatch, batches: Sequence[Sequence[Indices]], size: int) -> None:
    """Let the stack train on these batches (M, B), for each source; short ones are filled."""

    def stream(
        _source: Source, _lengths: Indices, _seed: int, number: int
    ) -> Iterator[tuple[Indices, Indices]]:
        for chosen in batches[number]:
            more = ((0, 0), (0, size - chosen.shape[1]))
            share = np.full(chosen.shape, 1 / chosen.shape[1], np.float32)
            yield np.pad(chosen, more, "edge"), np.pad(share, more)

    monkeypatch.setattr(training, "_batches", stream)


@pytest.mark.parametrize("kind", [DESCRIBED, PUBLISHED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("bound", [100.0, 0.5])
def test_training_is_the_products_adam_with_linear_decay(
    small: World, kind: Kind, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, tags, taggers = stack_of(small, kind)
    steps, rates = 5, [1e-2, 3e-3, 2e-2]
    draw = np.random.default_rng(0)
    batches = [[draw.choice(24, 4).tolist() for _ in NAMES] for _ in range(steps)]
    given(monkeypatch, [[numbers(small, each) for each in batches]], 4)
    monkeypatch.setattr(training, "MAX_GRAD_NORM", bound)
    before = {name: each.clone() for name, each in weights.items()}
    source = Source([np.arange(24)] * 3, 4, tags, torch.ones(3))
    after = train(
        weights, kind.tokens(small), small.sentences, [source], Plan(steps, rates, 0.0, 1)
    )
    assert all(torch.equal(weights[name], before[name]) for name in weights), "given ones stay"
    for model, (name, tagger) in enumerate(zip(NAMES, taggers, strict=True)):
        settings = OptimizerSettings(
            learning_rate=rates[model], schedule="linear", decay_steps=steps
        )
        optimizer, norms = Optimizer(settings), []
        for step in range(steps):
            batch, _ = batch_of(small, name, batches[step][model])
            _, gradient = gradients(tagger, batch)
            norms.append(torch.stack([each.norm() for each in gradient.values()]).norm())
            optimizer.step(trainable(tagger), clip_by_norm(gradient, bound))
        assert (max(norms) > bound) == (bound == 0.5), "one bound bites, the other does not"
        for key, expected in trainable(tagger).items():
            own = after[key][model][tuple(slice(size) for size in expected.shape)]
            torch.testing.assert_close(own, expected.detach(), atol=2e-5, rtol=1e-4, msg=key)


def test_the_gradient_norm_is_bounded_as_in_the_product() -> None:
    assert TrainingSettings().max_grad_norm == training.MAX_GRAD_NORM


def test_the_pull_holds_weights_to_their_first_values() -> None:
    """A step is -rate (Adam's step + pull (w - first)): checked with numbers by hand."""
    plan = Plan(4, [0.1, 0.1], 0.0, 0, pulls=[0.0, 2.0])
    flat = torch.tensor([[1.0, -1.0], [1.0, -1.0]])
    begun = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    adam = training._Adam(flat, plan, torch.device("cpu"))
    adam.step(flat, torch.tensor([[3.0, 4.0], [3.0, 4.0]]), 0, begun)
    # Adam's first step is the sign of the gradient; the rate of the first of four steps is 0.1.
    torch.testing.assert_close(flat[0], torch.tensor([0.9, -1.1]))
    torch.testing.assert_close(flat[1], torch.tensor([0.9 - 0.2, -1.1 + 0.2]))
    adam.step(flat, torch.tensor([[3.0, 4.0], [3.0, 4.0]]), 1, begun)
    torch.testing.assert_close(flat[0], torch.tensor([0.825, -1.175]))
    torch.testing.assert_close(
        flat[1], torch.tensor([0.7 - 0.075 * (1 + 2 * 0.7), -0.9 - 0.075 * (1 - 2 * 0.9)])
    )


def test_a_pull_leaves_the_first_weights_as_they_were(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, tags, _ = stack_of(small, DESCRIBED)
    batches = [numbers(small)] * 3
    given(monkeypatch, [batches], 4)
    source = Source([np.arange(24)] * 3, 4, tags, torch.ones(3))
    rates = [1e-2] * 3
    found = [
        train(weights, small.described, small.sentences, [source], Plan(3, rates, 0.0, 1, pulls))
        for pulls in (None, [0.0, 0.0, 50.0])
    ]
    name = "bilstm.lstm.weight_hh_l0"
    moved = [(each[name] - weights[name]).norm(dim=(1, 2)) for each in found]
    torch.testing.assert_close(moved[0][:2], moved[1][:2])
    assert moved[1][2] < 0.9 * moved[0][2]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_first_weights_follow_the_products_rules(small: World, kind: Kind) -> None:
    found = kinds.first_weights(small, kind, [5, 6, 5, *range(10, 30)], num_tags=7)
    product = tagger_of(small, kind, "ade")
    initialise_by(product, lambda _name, shape, bound: torch.full(shape, bound))
    highest = trainable(product)
    assert {name: tuple(each.shape[1:]) for name, each in found.items()} == {
        name: tuple(each.shape) for name, each in highest.items()
    }
    for name, each in found.items():
        assert torch.equal(each[0], each[2]), "the seed alone decides"
        if name.startswith("decoder."):
            assert not each.any()
            continue
        assert not torch.equal(each[0], each[1])
        top = highest[name].detach().abs()
        assert bool((each.abs() <= top).all()), name
        assert bool((each.abs().amax(0) >= 0.5 * top).float().mean() > 0.95), name
    bias = found["bilstm.lstm.bias_ih_l0_reverse"]
    assert bool((bias[:, 6:12] == 1.0).all())
    assert bool((found["bilstm.lstm.bias_hh_l0"][:, 6:12] == 0.0).all())
    if kind.published:
        assert not found["embeddings.characters.embedding.weight"][:, 0].any()


def test_a_head_of_its_own_has_its_prefix_and_the_same_values(small: World) -> None:
    one = kinds.first_weights(small, FREE, [5], num_tags=5)
    other = kinds.first_weights(small, FREE, [5], num_tags=5, prefix="2/")
    assert set(other) == {
        f"2/{name}" if name.startswith(("emissions", "decoder")) else name for name in one
    }
    assert torch.equal(one["emissions.weight"], other["2/emissions.weight"])
    assert set(training.head_of(other, "2/")) == {
        name for name in one if name.startswith(("emissions", "decoder"))
    }


def test_dropout_is_drawn_while_training_alone(small: World) -> None:
    weights, _, _ = stack_of(small, PUBLISHED)
    rows = small.sentences.rows(numbers(small))
    still = [hidden_states(weights, small.published, rows) for _ in range(2)]
    assert torch.equal(still[0], still[1])
    torch.manual_seed(0)
    dropped = hidden_states(weights, small.published, rows, 0.5)
    share = float((dropped == 0).float().mean())
    assert 0.4 < share < 0.6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_states_and_gradients_on_a_gpu_are_those_of_the_cpu(small: World, kind: Kind) -> None:
    found = []
    for device in ("cpu", "cuda"):
        weights, _, _ = stack_of(small, kind)
        weights = {
            name: each.to(device).requires_grad_()
            for name, each in weights.items()
            if not name.startswith(("emissions.", "decoder."))
        }
        rows = small.sentences.rows(numbers(small))
        rows = Rows(rows.token_MBL.to(device), rows.length_MB.to(device))
        held = kind.tokens(small)
        codes = None if held.codes_NC is None else held.codes_NC.to(device)
        tokens = Tokens(held.features_ND.to(device), codes, held.num_words)
        states = hidden_states(weights, tokens, rows) * rows.mask[..., None]
        into = torch.autograd.grad(states.square().sum(), list(weights.values()))
        found.append([states.detach().cpu(), *(each.cpu() for each in into)])
    for own, expected in zip(*found, strict=True):
        torch.testing.assert_close(own, expected, atol=1e-4, rtol=1e-3)
