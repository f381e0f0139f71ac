"""DP-SGD of stacks: every sentence clipped as the product's tagger would have it, noise once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from product import encoded
from test_joining_stack import CHOSEN, NAMES, numbers, stack_of

from fedner.experiments.joining import private, stacked_private
from fedner.experiments.joining.kinds import DESCRIBED
from fedner.experiments.joining.stack import Weights
from fedner.experiments.joining.stacked_private import (
    Platform,
    PrivatePlan,
    add_clipped,
    train_private,
)
from fedner.experiments.joining.world import World
from fedner.models.features import collate
from fedner.optimizers import Optimizer, OptimizerSettings
from fedner.settings.policy import NoisePlace
from fedner.training import clip_by_norm, gradients, trainable


def norm_of(gradient: dict[str, torch.Tensor]) -> float:
    return float(torch.stack([each.norm() for each in gradient.values()]).norm())


@pytest.mark.parametrize(
    ("bound", "frozen"),
    [
        (0.7, ()),
        (1e6, ()),
        (0.7, ("bilstm.",)),
        (0.7, ("emissions.type.",)),
        (0.3, ("bilstm.lstm.weight_ih",)),
        (0.3, ("bilstm.lstm.weight_hh", "bilstm.lstm.bias_ih")),
    ],
)
def test_each_sentence_is_clipped_by_itself(
    small: World, bound: float, frozen: tuple[str, ...]
) -> None:
    weights, tags, taggers = stack_of(small, DESCRIBED)
    rows = small.sentences.rows(numbers(small))
    gold = small.sentences.gold_VN[0][rows.token_MBL] * rows.mask
    real = torch.ones(3, 4)
    real[1, 2] = 0.0  # a row that only fills
    totals: Weights = {
        name: torch.zeros_like(each)
        for name, each in weights.items()
        if not name.startswith(frozen)
    }
    norms = add_clipped(totals, weights, small.described, rows, gold, tags, bound, real)
    for model, (name, tagger) in enumerate(zip(NAMES, taggers, strict=True)):
        corpus = encoded(small, name)
        expected = {key: torch.zeros_like(trainable(tagger)[key]) for key in totals}
        for place, sentence in enumerate(CHOSEN[model]):
            _, whole = gradients(tagger, collate(corpus, [sentence]))
            gradient = {key: whole[key] for key in totals}
            assert norms[model, place].item() == pytest.approx(norm_of(gradient), rel=1e-4)
            if real[model, place]:
                for key, each in clip_by_norm(gradient, bound).items():
                    expected[key] += each
        for key, each in expected.items():
            torch.testing.assert_close(totals[key][model], each, atol=2e-5, rtol=1e-4, msg=key)


def plan_of(steps: int, noise: list[float], probability: float = 1.0) -> PrivatePlan:
    return PrivatePlan(steps, probability, noise, [0.01, 0.02], 0.5, [1, 2])


def two(world: World) -> tuple[Weights, list[Platform]]:
    """Return two models of two platforms each."""
    weights, _, _ = stack_of(world, DESCRIBED)
    tags = [stacked_private.Tags.bio([world.vectors[name]] * 2, world.device) for name in NAMES[:2]]
    platforms = [
        Platform([world.numbers(name, np.arange(6 + slot))] * 2, tags[slot])
        for slot, name in enumerate(NAMES[:2])
    ]
    return {
        name: each[:1].repeat(2, *[1] * (each.dim() - 1)) for name, each in weights.items()
    }, platforms


def test_steps_without_noise_are_the_products_adam_over_clipped_sums(small: World) -> None:
    weights, platforms = two(small)
    found = train_private(
        weights, small.described, small.sentences, platforms, plan_of(3, [0.0, 0.0])
    )
    taggers = stack_of(small, DESCRIBED)[2]
    own = trainable(taggers[0])
    settings = OptimizerSettings(learning_rate=0.02, schedule="linear", decay_steps=3)
    optimizer = Optimizer(settings)
    for _ in range(3):
        total = {key: torch.zeros_like(each) for key, each in own.items()}
        for slot, name in enumerate(NAMES[:2]):
            for key, weight in trainable(taggers[slot]).items():
                weight.data.copy_(own[key].data)
            for sentence in range(6 + slot):
                _, gradient = gradients(taggers[slot], collate(encoded(small, name), [sentence]))
                for key, each in clip_by_norm(gradient, 0.5).items():
                    total[key] += each / 13
        optimizer.step(own, total)
    for key, expected in own.items():
        torch.testing.assert_close(found[key][1], expected.detach(), atol=1e-4, rtol=1e-3, msg=key)
    assert not torch.equal(found["decoder.steps"][0], found["decoder.steps"][1]), "own rates"


def test_frozen_weights_stay_and_pieces_change_nothing(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, platforms = two(small)
    plan = replace(plan_of(2, [0.0, 0.0]), frozen=("bilstm.",))
    found = train_private(weights, small.described, small.sentences, platforms, plan)
    for name, each in found.items():
        assert torch.equal(each, weights[name]) == name.startswith("bilstm."), name
    monkeypatch.setattr(stacked_private, "TOKENS_AT_ONCE", 40)
    again = train_private(weights, small.described, small.sentences, platforms, plan)
    for name, each in found.items():
        torch.testing.assert_close(again[name], each, atol=1e-4, rtol=1e-3, msg=name)


def test_the_ema_counts_later_steps_more_and_the_rates_stay(small: World) -> None:
    weights, platforms = two(small)
    plan = plan_of(3, [0.0, 0.0])

    def after(steps: int, decay: float | None) -> torch.Tensor:
        chosen = replace(plan, steps=steps, ema_decay=decay)
        return train_private(weights, small.described, small.sentences, platforms, chosen)[
            "decoder.steps"
        ]

    first, second, third = (after(steps, 1e-9) for steps in (1, 2, 3))  # as good as no EMA
    expected = (0.81 * first + 0.9 * second + third) / 2.71
    torch.testing.assert_close(after(3, 0.9), expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(third, after(3, None)), "without an EMA the rates fall"


def test_pieces_have_their_room_and_leave_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked_private, "TOKENS_AT_ONCE", 60)
    lengths = [np.asarray([1, 2, 5, 9, 30]), np.asarray([3, 3, 4])]
    pieces = stacked_private._pieces(lengths)
    assert pieces == [(0, 3), (3, 4), (4, 5)], "2 models x 3 rows x 5 tokens, then 1 x 9, 1 x 30"


def test_noise_has_the_deviation_that_was_asked_for() -> None:
    """Accepts sigma; 2/3 and 3/2 of it would be refused."""
    plan = plan_of(1, [2.0, 0.0])
    total = torch.zeros(2, 100, 200)
    several = [torch.Generator().manual_seed(3) for _ in range(2)]
    stacked_private._add_noise(total, several, plan, 1.0)
    assert float(total[0].std()) == pytest.approx(1.0, rel=0.02), "noise_multiplier x bound"
    assert abs(float(total[0].mean())) < 0.03
    assert not total[1].any()


def test_samples_are_poisson_and_named_by_the_seed(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, platforms = two(small)
    seen = []

    def remember(*given: object) -> torch.Tensor:
        seen.append(given[-1].sum(1).tolist())
        return given[-1]

    monkeypatch.setattr(stacked_private, "add_clipped", remember)
    platform = replace(platforms[0], sentences=[small.numbers("ade", np.arange(24))] * 2)
    plan = replace(plan_of(40, [0.0, 0.0], 0.25), steps=40)
    train_private(weights, small.described, small.sentences, [platform], plan)
    sizes = np.asarray(seen)
    assert len(set(sizes[:, 0].tolist())) > 3, "a sample is not of one size"
    assert sizes.mean() == pytest.approx(6.0, abs=1.0)
    assert not np.array_equal(sizes[:, 0], sizes[:, 1])


def test_federations_are_trained_and_scored_side_by_side(small: World) -> None:
    splits = [private.split_of(small, NAMES, seed) for seed in (1, 2)]
    for split in splits:
        for own, test in zip(split.own, split.test, strict=True):
            assert not set(own.tolist()) & set(test.tolist())
    how = private.Strength(3.0, 2, 0.5, 1.0)
    jobs = [private.PrivateJob(split, 1.0, seed, 0.01) for seed, split in enumerate(splits)]
    noised = private.train_privately(small, jobs, how)
    again = private.train_privately(small, jobs, how)
    assert all(torch.equal(noised[1][name], again[1][name]) for name in noised[1])
    plain = private.train_plainly(small, splits, [1, 2], steps=2, batch_size=3)
    for members in (noised, plain):
        found = private.scores(small, members, splits)
        assert [set(each) for each in found] == [{*NAMES, "all"}] * 2
        assert all(0 <= value <= 100 for each in found for value in each.values())


def test_public_sentences_join_every_step_without_noise_or_share(small: World) -> None:
    weights, platforms = two(small)
    plan = replace(plan_of(1, [0.0, 0.0]), learning_rates=[1.0, 1.0])
    totals = {name: torch.zeros_like(each) for name, each in weights.items()}
    guided = replace(plan, public=platforms[1:], public_weight=0.5, public_batch=10**6)
    stacked_private._add_public(totals, weights, small.described, small.sentences, guided, 0)
    expected = {name: torch.zeros_like(each) for name, each in weights.items()}
    sample = stacked_private._Sample(1.0, ("sample", 0, 0))
    stacked_private._add_platform(
        expected, weights, small.described, small.sentences, platforms[1], plan, sample
    )
    count = len(platforms[1].sentences[0])
    for name, each in totals.items():
        torch.testing.assert_close(each, 0.5 * expected[name] / count, msg=name)
    data = (small.described, small.sentences, platforms[:1])
    with_public = train_private(weights, *data, guided)
    without = train_private(weights, *data, plan)
    assert any((with_public[name] != without[name]).any() for name in weights)


def test_a_pull_leads_back_to_the_first_weights(small: World) -> None:
    weights, platforms = two(small)
    data = (small.described, small.sentences, platforms)
    plan = replace(plan_of(1, [0.0, 0.0]), frozen=("bilstm.",))
    free = train_private(weights, *data, plan)
    # A learning rate of 0.01 or 0.02 times a pull of 25: a quarter, or half of the way.
    held = train_private(weights, *data, replace(plan, pull=25.0))
    for name, first in weights.items():
        for model, kept in enumerate((0.75, 0.5)):
            expected = first[model] + kept * (free[name][model] - first[model])
            torch.testing.assert_close(held[name][model], expected, msg=name)


@pytest.mark.parametrize(("place", "factor"), [("central", 1.0), ("local", 2**0.5)])
def test_noise_of_every_platform_adds_up(
    small: World, monkeypatch: pytest.MonkeyPatch, place: NoisePlace, factor: float
) -> None:
    weights, platforms = two(small)
    factors = []
    monkeypatch.setattr(stacked_private, "_add_noise", lambda *given: factors.append(given[-1]))
    plan = replace(plan_of(1, [1.0, 1.0]), place=place)
    train_private(weights, small.described, small.sentences, platforms, plan)
    assert set(factors) == {factor}
