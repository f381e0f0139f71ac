"""The clipped sum when an attacker chooses the weights: any finite numbers, every layer and recipe.

What counts is what is actually added, in float64: a unit alone, and the sum with it minus the sum
without it, are at most (1 + 1e-6) times the clip. Stronger, and what the first two follow from: the
difference *is* what the unit adds alone, because no unit's values depend on another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_dpsgd import Case, make, small
from torch import Tensor

from fedner.audit.hostile_weights import KINDS, LARGEST, poison
from fedner.models.features import encode_corpus
from fedner.models.per_unit import products
from fedner.models.per_unit.products import product
from fedner.models.zoo import RECIPES
from fedner.privacy import dpsgd
from fedner.privacy.dpsgd import accumulate

CLIP = 1.5
SLACK = 1e-6
NAMES = [name for name, each in RECIPES.items() if not each.trains_encoder]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU here"))]  # fmt: skip


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # as a platform may have it
    yield request.param
    torch.set_num_threads(before)


def moved(case: Case, device: str) -> Case:
    if device == "cpu":
        return case
    from test_dpsgd import SPACE, sentences

    words = case.tagger.embeddings.words
    lengths = case.corpus.lengths.tolist()
    context = case.corpus.context_TD if case.tagger.embeddings.context_dimension else None
    case.tagger.to(device)
    corpus = encode_corpus(
        sentences(lengths, 3), words, space=SPACE, context_TD=context, device=device
    )
    return replace(case, corpus=corpus)


def flat(case: Case, units: Sequence[Sequence[int]], cells: int) -> Tensor:
    found, _ = accumulate(case.tagger, case.corpus, units, CLIP, cells=cells)
    assert all(each.dtype == torch.float64 for each in found.value.values())
    return torch.cat([each.flatten() for each in found.value.values()]).cpu()


def check(case: Case, units: Sequence[Sequence[int]], gone: int, cells: int) -> None:
    together = flat(case, units, cells)
    without = flat(case, [unit for number, unit in enumerate(units) if number != gone], cells + 9)
    alone = flat(case, [units[gone]], 2048)
    assert bool(together.isfinite().all())
    bound = CLIP * (1.0 + SLACK)
    assert float(alone.norm()) <= bound
    difference = together - without
    assert float(difference.norm()) <= bound
    if case.corpus.device.type == "cpu":
        assert float((difference - alone).norm()) <= 1e-9 * CLIP


DRAWS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from(NAMES),
    "head": st.sampled_from(["free", "described"]),
    "kind": st.sampled_from(sorted(KINDS)),
    "scale": st.one_of(
        st.floats(1.0, LARGEST), st.sampled_from([1e3, 1e9, 1e15, 1e19, 1e30, LARGEST, 1e-30])
    ),
    "seed": st.integers(0, 10_000),
    "only": st.one_of(st.none(), st.integers(0, 40)),
    "trainable": st.booleans(),
    "lengths": st.lists(st.integers(1, 16), min_size=2, max_size=10),
    "gone": st.integers(0, 9),
    "cells": st.sampled_from([1, 20, 64, 2048]),
    "device": st.sampled_from(["cpu", *(["cuda"] if torch.cuda.is_available() else [])]),
}
KNOWN = [
    ("ELMoNER", "free", "one number", LARGEST, 0, 3, True, [9, 4, 7, 2], 0, 2048, "cpu"),
    ("BI-LSTM-CRF", "free", "cancelling", 1e15, 1, None, False, [12, 12, 3], 0, 64, "cpu"),
    ("CNN-CRF", "free", "chaotic", 30.0, 2, None, True, [5, 1, 8, 8, 2], 1, 2048, "cpu"),
    ("CNN-CRF", "described", "huge", 1e15, 3, None, False, [5, 1, 8, 8, 2], 1, 64, "cpu"),
    ("BI-LSTM-TDDL", "described", "of all sizes", 1.0, 6, None, False, [9, 3], 0, 20, "cpu"),
]


@settings(max_examples=50, deadline=None)
@given(**DRAWS)
def test_no_weights_let_a_unit_in_with_more_than_the_clip(**drawn: Any) -> None:
    attack(**drawn)


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(**DRAWS)
def test_no_weights_of_many_more(**drawn: Any) -> None:
    attack(**drawn)


@pytest.mark.parametrize("known", KNOWN, ids=lambda each: f"{each[1]} {each[2]}")
def test_attacks_that_worked_once_and_their_like(known: tuple[Any, ...]) -> None:
    attack(**dict(zip(DRAWS, known, strict=True)))


def attack(
    name: str,
    head: str,
    kind: str,
    scale: float,
    seed: int,
    only: int | None,
    trainable: bool,
    lengths: list[int],
    gone: int,
    cells: int,
    device: str,
) -> None:
    sizes: dict[str, Any] = {
        "hidden": 3 + seed % 30,
        "filters": 3 + seed % 17,
        "lstm_layers": 1 + seed % 2,
    }
    sizes = sizes if RECIPES[name].lstm_layers else {"filters": 3 + seed % 17}
    sizes |= {"head": head, "rank": 1 + seed % 40, "residual": seed % 3 == 0}
    case = moved(make(small(RECIPES[name], **sizes), lengths, trainable=trainable), device)
    poison(case.tagger, kind, scale, seed, only)
    order = np.random.default_rng(seed).permutation(len(lengths)).tolist()
    units = [order[:2], *([each] for each in order[2:])] if seed % 2 else [[i] for i in order]
    check(case, units, gone % len(units), cells)


# The known attacks, each by itself.


def test_a_sentence_that_overflows_takes_nothing_from_shorter_ones(device: str) -> None:
    """Padding used to be filled from the first packed token, that of the longest sentence."""
    case = moved(make(small(RECIPES["ELMoNER"]), [12, 5, 4, 3]), device)
    honest = flat(case, [[1], [2], [3]], 2048)
    codes = case.corpus.characters_VC[case.corpus.word_T[:12]]
    others = set(case.corpus.characters_VC[case.corpus.word_T[12:]].flatten().tolist())
    only_first = next(code for code in codes.flatten().tolist() if code not in others)
    characters = case.tagger.embeddings.characters
    assert characters is not None
    with torch.no_grad():
        characters.embedding.weight[only_first] = LARGEST
        characters.convolution.weight.fill_(2.0)
    expected = flat(case, [[1], [2], [3]], 2048)
    assert not torch.equal(honest, expected)  # the weights did change
    poisoned = flat(case, [[0], [1], [2], [3]], 2048)
    assert bool(poisoned.isfinite().all())
    assert float((poisoned - expected).norm()) <= 1e-9
    assert float(flat(case, [[0]], 2048).norm()) == 0.0


def test_gradients_that_cancel_are_measured_by_what_they_are_made_of() -> None:
    """Of two tokens with opposite huge gradients a norm in float32 sees nothing at all."""
    from fedner.models.per_unit.tap import direct_sizes, gram, gram_sizes

    gradient = torch.tensor([[[1e20, 0.0], [-1e20, 1e-3]]])
    inputs = torch.tensor([[[1.0, 2.0, 0.5], [1.0, 2.0, 0.5]]])
    by_products = gram_sizes(gram(gradient), gram(inputs))
    directly = direct_sizes(gradient, [inputs])
    mass = 2e20 * float(inputs[0, 0].norm())
    for found in (by_products, directly):
        assert float(found.masses) == pytest.approx(mass, rel=1e-6)
    assert float(directly.squares.sqrt()) == pytest.approx(1e-3 * float(inputs[0, 0].norm()))


def test_both_ways_of_measuring_give_the_same_norm_and_mass() -> None:
    from fedner.models.per_unit.tap import direct_sizes, gram, gram_sizes

    draw = torch.Generator().manual_seed(4)
    gradient, x, state = (torch.randn(3, 5, size, generator=draw) for size in (4, 6, 2))
    directly = direct_sizes(gradient, [x, state], 2)
    by_products = gram_sizes(gram(gradient), gram(x) + gram(state) + 2.0)
    torch.testing.assert_close(directly.squares, by_products.squares)
    torch.testing.assert_close(directly.masses, by_products.masses)
    sizes = (gradient.double().norm(dim=2) ** 2) * (
        x.double().norm(dim=2) ** 2 + state.double().norm(dim=2) ** 2 + 2.0
    )
    torch.testing.assert_close(directly.masses, sizes.sqrt().sum(1))


def test_the_mass_of_honest_gradients_is_far_below_the_bound() -> None:
    """Else the bound on the mass would shrink honest gradients too."""
    for name in NAMES:
        case = make(small(RECIPES[name], hidden=24, filters=24), [30, 25, 12, 8, 3], dimension=30)
        batch_ratio = largest_ratio(case, [[0], [1], [2, 3], [4]])
        assert batch_ratio < dpsgd.MASS / 10


def largest_ratio(case: Case, units: Sequence[Sequence[int]]) -> float:
    """Return the largest mass over norm of the units' gradients."""
    numbered = [(number, np.asarray(unit)) for number, unit in enumerate(units)]
    measured = dpsgd._measured_units(case.tagger, case.corpus, numbered, "sum")
    assert measured is not None
    squares = torch.stack([each.sizes_U.squares for each in measured]).sum(0)
    masses = torch.stack([each.sizes_U.masses for each in measured]).sum(0)
    return float((masses / squares.sqrt()).max())


def test_a_unit_that_a_layer_refuses_contributes_nothing_and_the_others_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    case = make(small(RECIPES["LSTM-CRF"]), [9, 5, 4])
    expected = flat(case, [[1], [2]], 2048)
    real = dpsgd.collate

    def refusing(corpus: object, sentences: object) -> object:
        if 0 in np.asarray(sentences):
            raise MemoryError("this sentence is too long")
        return real(corpus, sentences)  # type: ignore[arg-type]

    monkeypatch.setattr(dpsgd, "collate", refusing)
    assert float((flat(case, [[0], [1], [2]], 2048) - expected).norm()) <= 1e-9
    assert "contribute nothing" in caplog.text  # the owner can find out


def test_products_work_with_one_thread_and_give_the_others_back(device: str) -> None:
    assert torch.get_num_threads() == 2
    with products.one_thread(torch.device(device)):
        assert torch.get_num_threads() == (1 if device == "cpu" else 2)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("num_columns", [1, 5, 11, 16, 40, 400])
@pytest.mark.parametrize("num_inputs", [1, 7, 57, 200, 500])
def test_a_row_of_a_product_depends_on_nothing_beside_it(
    num_inputs: int, num_columns: int, device: str
) -> None:
    """To the last bit: chaotic weights would make a whole gradient of it."""
    draw = torch.Generator().manual_seed(num_inputs)
    weight = torch.randn(num_inputs, num_columns, generator=draw).to(device)
    bias = torch.randn(num_columns, generator=draw).to(device)
    x = torch.randn(1200, num_inputs, generator=draw).to(device)
    with products.one_thread(torch.device(device)):
        whole, transposed = product(x, weight, bias), product(x, weight.t().contiguous().t())
        for first, last in ((0, 1), (1, 3), (3, 8), (5, 70), (69, 333), (200, 1199)):
            part = product(x[first:last], weight, bias)
            assert torch.equal(part, whole[first:last])
            assert torch.equal(product(x[first:last], weight.t().contiguous().t()),
                               transposed[first:last])  # fmt: skip
