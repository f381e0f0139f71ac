"""DP-SGD's clipped sums against the obvious way: plain autograd, one unit at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import Batch, EncodedCorpus, TagSpace, collate, encode_corpus
from fedner.models.layers import LAYERS, LayerForms, Missing, bilstm
from fedner.models.tagger import Tagger
from fedner.models.types import type_vectors
from fedner.models.zoo import RECIPES, Recipe, build_tagger
from fedner.privacy.dpsgd import accumulate, clipped_sample, clipped_sum
from fedner.privacy.noise import Clipped
from fedner.privacy.sampling import PoissonSample

CONTEXT = 7
pytestmark = pytest.mark.usefixtures("_one_thread")


@pytest.fixture(scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SPACE = TagSpace.of(("Drug", "ADE"), "BIO")
VOCABULARY = ("the", "of", "rash", "Aspirin", "5", "µg", "a", "headaches", "—", "vertigo", "", "Ω")
LENGTHS = (9, 1, 4, 7, 4, 2, 12, 1)


@dataclass(frozen=True)
class Case:
    tagger: Tagger
    corpus: EncodedCorpus


def sentences(lengths: Sequence[int], seed: int = 3) -> list[Sentence]:
    generator = np.random.default_rng(seed)
    result = []
    for length in lengths:
        tokens = [VOCABULARY[i] for i in generator.integers(0, len(VOCABULARY), length)]
        entities = [Entity(length // 2, length, "Drug")] if length > 1 else []
        result.append(Sentence.of(tokens, entities))
    return result


def make(
    recipe: Recipe,
    lengths: Sequence[int] = LENGTHS,
    *,
    trainable: bool = False,
    seed: int = 3,
    dimension: int = 10,
    context_layers: int = 1,
) -> Case:
    """Return a small tagger in evaluation mode, none of its parameters at a special value."""
    words = WordEmbedding(HashedWords(50, dimension), trainable=trainable)
    generator = torch.Generator().manual_seed(seed)
    size = CONTEXT * context_layers if recipe.context else 0
    context_TD = torch.randn(sum(lengths), size, generator=generator) if recipe.context else None
    corpus = encode_corpus(sentences(lengths, seed), words, space=SPACE, context_TD=context_TD)
    types = None
    if recipe.head == "described":
        types = type_vectors(dict.fromkeys(SPACE.labels, ""), encoder=None, words=words.source)
    tagger = build_tagger(
        recipe, words, SPACE, size, seed, context_layers=context_layers, types=types
    )
    mix = () if tagger.embeddings.mix is None else tagger.embeddings.mix.parameters()
    with torch.no_grad():
        residual = tagger.emissions.residual if types and recipe.residual else None
        own = () if residual is None else residual.parameters()
        for parameter in (*tagger.decoder.parameters(), *mix, *own):
            parameter.normal_(0.0, 0.5, generator=generator)
    return Case(tagger.eval(), corpus)


def small(recipe: Recipe, **changes: object) -> Recipe:
    sizes = {
        "hidden": 6,
        "filters": 8,
        "character_filters": 5,
        "character_dimension": 4,
        "dropout": 0.0,
    }
    return replace(recipe, **(sizes | changes))  # type: ignore[arg-type]


def trained(tagger: Tagger) -> dict[str, nn.Parameter]:
    return {name: each for name, each in tagger.named_parameters() if each.requires_grad}


def gradient_of(tagger: Tagger, loss: Tensor, retain: bool = False) -> dict[str, Tensor]:
    weights = trained(tagger)
    found = torch.autograd.grad(
        loss, list(weights.values()), allow_unused=True, retain_graph=retain
    )
    dense = [
        torch.zeros_like(weight) if each is None else each.to_dense()
        for weight, each in zip(weights.values(), found, strict=True)
    ]
    return dict(zip(weights, dense, strict=True))


def batch_of(case: Case, chosen: Sequence[int]) -> Batch:
    """Return sentences as a batch in the precision of the tagger."""
    batch = collate(case.corpus, list(chosen))
    dtype = case.tagger.emissions.weight.dtype
    features = {"vectors_UD": batch.vectors_UD, "context_BLD": batch.context_BLD}
    return replace(batch, **{k: v if v is None else v.to(dtype) for k, v in features.items()})


def total_norm(gradient: dict[str, Tensor]) -> float:
    return float(torch.cat([each.double().flatten() for each in gradient.values()]).norm())


def clip_and_add(gradients: list[dict[str, Tensor]], clip: float) -> dict[str, Tensor]:
    factors = [min(1.0, clip / max(total_norm(each), 1e-30)) for each in gradients]
    return {
        name: sum(
            (factor * each[name].double() for factor, each in zip(factors, gradients, strict=True)),
            start=torch.zeros(gradients[0][name].shape, dtype=torch.float64),
        )
        for name in gradients[0]
    }


def one_by_one(
    case: Case, units: Sequence[Sequence[int]], clip: float, loss: str = "sum"
) -> tuple[dict[str, Tensor], list[float]]:
    """Return the clipped sum and the norms: for every unit a batch and a pass of its own."""
    gradients = []
    for unit in units:
        batch = batch_of(case, unit)
        losses_B = case.tagger.losses(batch)
        losses_B = losses_B / batch.lengths_B if loss == "mean" else losses_B
        gradients.append(gradient_of(case.tagger, losses_B.sum()))
    return clip_and_add(gradients, clip), [total_norm(each) for each in gradients]


def assert_same(found: Clipped, expected: dict[str, Tensor], rtol: float = 1e-5) -> None:
    assert set(found.value) == set(expected)
    scale = max(float(each.abs().max()) for each in expected.values())
    for name, tensor in expected.items():
        own = max(float(tensor.abs().max()), 1e-3 * scale)
        difference = float((found.value[name].double() - tensor).abs().max())
        assert difference <= rtol * own, (name, difference / own)


def numbered(batch: Batch, units: Sequence[Sequence[int]]) -> list[int]:
    unit_of = {sentence: number for number, unit in enumerate(units) for sentence in unit}
    return [unit_of[sentence] for sentence in batch.sentences.tolist()]


def check(
    case: Case, units: Sequence[Sequence[int]], clip: float, loss: str = "sum", rtol: float = 1e-5
) -> None:
    batch = batch_of(case, [sentence for unit in units for sentence in unit])
    found, norms_U = clipped_sum(
        case.tagger, batch, numbered(batch, units), clip, loss="mean" if loss == "mean" else "sum"
    )
    expected, norms = one_by_one(case, units, clip, loss)
    assert found.bound == clip
    np.testing.assert_allclose(norms_U.numpy(), norms, rtol=rtol)
    assert_same(found, expected, rtol)


def middle(case: Case, units: Sequence[Sequence[int]]) -> float:
    """Return a clip that some units exceed and others do not."""
    norms = sorted(one_by_one(case, units, 1.0)[1])
    return (norms[len(norms) // 2 - 1] + norms[len(norms) // 2]) / 2


SINGLE = [[index] for index in range(len(LENGTHS))]
JOINED = [[6, 1], [0], [2, 3, 5], [4, 7]]


@pytest.mark.parametrize("trainable", [False, True], ids=["frozen words", "trained words"])
@pytest.mark.parametrize("units", [SINGLE, JOINED], ids=["sentences", "documents"])
@pytest.mark.parametrize("name", [n for n, each in RECIPES.items() if not each.trains_encoder])
def test_every_recipe_equals_the_loop(name: str, units: list[list[int]], trainable: bool) -> None:
    case = make(small(RECIPES[name]), trainable=trainable)
    check(case, units, middle(case, units))


@pytest.mark.parametrize("residual", [False, True], ids=["no residual", "residual"])
@pytest.mark.parametrize("units", [SINGLE, JOINED], ids=["sentences", "documents"])
@pytest.mark.parametrize("name", ["BI-LSTM-CRF", "BI-LSTM-TDDL", "CNN-CRF", "DP-BI-LSTM-CRF"])
def test_a_described_head_equals_the_loop(
    name: str, units: list[list[int]], residual: bool
) -> None:
    recipe = small(RECIPES[name], head="described", rank=9, residual=residual)
    case = make(recipe)
    check(case, units, middle(case, units))
    check(case, units, middle(case, units), loss="mean")


@pytest.mark.parametrize("trains", ["token.B", "type.I", "outside", "residual.bias", "residual"])
def test_a_described_head_in_parts_equals_the_loop(trains: str) -> None:
    case = make(small(RECIPES["CNN-CRF"], head="described", rank=33, residual=True))
    for name, parameter in case.tagger.named_parameters():
        parameter.requires_grad_(name.startswith(f"emissions.{trains}"))
    assert trained(case.tagger)
    check(case, JOINED, middle(case, JOINED))


@pytest.mark.parametrize("units", [SINGLE, JOINED], ids=["sentences", "documents"])
def test_sizes_where_products_of_tokens_are_cheaper(units: list[list[int]]) -> None:
    recipe = small(RECIPES["ELMoNER"], hidden=40, filters=40, widths=(1, 2, 5), lstm_layers=2)
    case = make(recipe, dimension=60)
    check(case, units, middle(case, units))


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 14), min_size=1, max_size=9),
    widths=st.sampled_from([(), (1,), (3,), (2, 5), (1, 3, 5)]),
    layers=st.integers(0, 3),
    hidden=st.integers(1, 24),
    flags=st.tuples(*[st.booleans()] * 4),
    data=st.data(),
)
def test_any_shape_equals_the_loop(
    lengths: list[int],
    widths: tuple[int, ...],
    layers: int,
    hidden: int,
    flags: tuple[bool, bool, bool, bool],
    data: st.DataObject,
) -> None:
    characters, context, trainable, is_crf = flags
    recipe = Recipe(
        name="any",
        paper="",
        reading="",
        characters=characters,
        context=context,
        widths=widths,
        lstm_layers=layers,
        decoder="crf" if is_crf else "softmax",
        character_dimension=data.draw(st.integers(1, 12)),
        character_filters=data.draw(st.integers(1, 9)),
        filters=data.draw(st.integers(1, 9)),
        hidden=hidden,
        dropout=0.0,
        head=data.draw(st.sampled_from(["free", "described"])),
        rank=data.draw(st.integers(1, 40)),
        residual=data.draw(st.booleans()),
    )
    mixed = data.draw(st.integers(1, 4)) if context else 1
    seed = data.draw(st.integers(0, 99))
    case = make(recipe, lengths, trainable=trainable, seed=seed, context_layers=mixed)
    case.tagger.double()  # what differs then is a mistake; the softmax alone stays in float32
    labels = data.draw(st.lists(st.integers(0, 4), min_size=len(lengths), max_size=len(lengths)))
    units = [[i for i, own in enumerate(labels) if own == unit] for unit in sorted(set(labels))]
    clip = data.draw(st.sampled_from([1e-3, 0.5, 3.0, 1e4]))
    check(case, units, clip, "mean" if context else "sum", rtol=1e-8 if is_crf else 1e-5)


@pytest.mark.parametrize("units", [SINGLE, JOINED], ids=["sentences", "documents"])
@pytest.mark.parametrize("frozen", [(), ("weights",), ("factor",), ("weights", "factor")])
@pytest.mark.parametrize("name", ["ELMoNER", "DP-BI-LSTM-CRF"])
def test_a_mix_of_layers_equals_the_loop(
    name: str, frozen: tuple[str, ...], units: list[list[int]]
) -> None:
    case = make(small(RECIPES[name]), context_layers=3)
    assert case.tagger.embeddings.mix is not None
    for each in frozen:
        getattr(case.tagger.embeddings.mix, each).requires_grad_(False)
    names = {name for name in trained(case.tagger) if name.startswith("embeddings.mix.")}
    assert names == {f"embeddings.mix.{each}" for each in {"weights", "factor"} - set(frozen)}
    check(case, units, middle(case, units))
    case.tagger.requires_grad_(False)
    case.tagger.embeddings.mix.requires_grad_(True)
    check(case, units, middle(case, units))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("name", ["LSTM-CRF", "S-LSTM-CRF", "ELMoNER"])
def test_dropout_uses_one_mask_for_norms_and_sum(name: str, layers: int) -> None:
    """Equal lengths: the plain step then draws its masks in the same order."""
    layers = layers if RECIPES[name].context else 1
    case = make(small(RECIPES[name], dropout=0.4), [6] * 5, context_layers=layers)
    case.tagger.train()
    batch = collate(case.corpus, range(5))
    unit_B = [0, 1, 0, 2, 1]
    torch.manual_seed(11)
    found, norms_U = clipped_sum(case.tagger, batch, unit_B, 0.7)
    torch.manual_seed(11)
    losses_B = case.tagger.losses(batch)
    rows = [torch.tensor([unit == own for own in unit_B]) for unit in range(3)]
    gradients = [gradient_of(case.tagger, losses_B[each].sum(), retain=True) for each in rows]
    np.testing.assert_allclose(norms_U, [total_norm(each) for each in gradients], rtol=1e-5)
    assert_same(found, clip_and_add(gradients, 0.7))


@pytest.mark.parametrize("units", [SINGLE, JOINED], ids=["sentences", "documents"])
def test_both_forms_of_the_recurrence_give_the_same(
    units: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an accelerator the directions run side by side."""
    case = make(small(RECIPES["S-LSTM-CRF"]))
    real = bilstm.recurrence

    def side_by_side(*args: Any, is_side_by_side: bool) -> Tensor:
        assert not is_side_by_side  # what a CPU asks for
        return real(*args, is_side_by_side=True)

    monkeypatch.setattr(bilstm, "recurrence", side_by_side)
    check(case, units, 1.0)


FROZEN = [
    ("word_cnn",),
    ("bilstm", "emissions", "decoder"),
    ("embeddings", "word_cnn"),
    ("embeddings.characters.embedding", "decoder.transitions", "emissions.bias"),
    ("embeddings.characters.convolution.weight", "word_cnn.convolutions.0.weight"),
    ("bilstm.lstm.weight_ih_l0", "bilstm.lstm.bias_hh_l0_reverse", "bilstm.lstm.weight_hh_l0"),
    ("embeddings", "word_cnn", "bilstm", "emissions"),
]


@pytest.mark.parametrize("frozen", FROZEN, ids=lambda each: each[0])
def test_what_is_frozen_is_neither_clipped_nor_returned(frozen: tuple[str, ...]) -> None:
    case = make(small(RECIPES["ELMoNER"]))
    for name, parameter in case.tagger.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    check(case, JOINED, middle(case, JOINED))
    check(case, SINGLE, middle(case, SINGLE))


def test_micro_batches_change_nothing() -> None:
    case = make(small(RECIPES["CNN-CLSTM-CRF"]), [*LENGTHS, 0, 3, 5])
    units = [*JOINED, [8], [9, 8], [10], []]
    expected, norms = one_by_one(case, [[6, 1], [0], [2, 3, 5], [4, 7], [9], [10]], 2.0)
    for cells in (1, 20, 10_000):
        found, norms_U = accumulate(case.tagger, case.corpus, units, 2.0, cells=cells)
        assert_same(found, expected)
        norms_by_unit = [*norms[:4], 0.0, norms[4], norms[5], 0.0]
        np.testing.assert_allclose(norms_U, norms_by_unit, rtol=1e-5)


def test_a_draw_keeps_its_units_whatever_the_order_of_the_batch() -> None:
    case = make(small(RECIPES["LSTM-CRF"]))
    draw = PoissonSample(sentences=(1, 6, 0, 5, 2), units_B=(0, 0, 1, 2, 2), num_units=4)
    found, norms_U = clipped_sample(case.tagger, case.corpus, draw, 2.0)
    expected, norms = one_by_one(case, [[1, 6], [0], [5, 2]], 2.0)
    assert_same(found, expected)
    np.testing.assert_allclose(norms_U, [*norms, 0.0], rtol=1e-5)


@pytest.mark.parametrize("units", [[], [[1]], [[1], []]])
def test_an_empty_draw_gives_zeros(units: list[list[int]]) -> None:
    case = make(small(RECIPES["LSTM-CRF"]), [3, 0], trainable=True)
    found, norms_U = accumulate(case.tagger, case.corpus, units, 1.5)
    assert found.bound == 1.5
    assert norms_U.tolist() == [0.0] * len(units)
    assert {name: each.shape for name, each in found.value.items()} == {
        name: each.shape for name, each in trained(case.tagger).items()
    }
    assert not any(each.any() for each in found.value.values())


def test_a_unit_without_a_sentence_has_norm_zero() -> None:
    case = make(small(RECIPES["LSTM-CRF"]), [3, 2])
    batch = collate(case.corpus, [0, 1])
    found, norms_U = clipped_sum(case.tagger, batch, [4, 1], 0.5)
    assert [norm > 0 for norm in norms_U.tolist()] == [False, True, False, False, True]
    assert_same(found, one_by_one(case, [[0], [1]], 0.5)[0])


@settings(max_examples=15, deadline=None)
@given(removed=st.integers(0, 3), clip=st.sampled_from([0.01, 1.0, 20.0]))
def test_removing_a_unit_moves_the_sum_by_at_most_the_clip(removed: int, clip: float) -> None:
    case = make(small(RECIPES["ELMoNER"]), trainable=True)
    everything, _ = accumulate(case.tagger, case.corpus, JOINED, clip)
    rest = [unit for number, unit in enumerate(JOINED) if number != removed]
    without, _ = accumulate(case.tagger, case.corpus, rest, clip)
    moved = {name: each - without.value[name] for name, each in everything.value.items()}
    assert total_norm(moved) <= clip * (1 + 1e-5)


@pytest.mark.parametrize("units", [SINGLE, JOINED], ids=["sentences", "documents"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_gradient_that_is_not_finite_contributes_nothing(
    layers: int, value: float, units: list[list[int]]
) -> None:
    case = make(small(RECIPES["ELMoNER"], lstm_layers=2), context_layers=layers)
    assert case.corpus.context_TD is not None
    lost = next(unit for unit in units if 2 in unit)
    spoiled = case.corpus.context_TD.clone()
    spoiled[int(case.corpus.starts[2])] = value
    corpus = replace(case.corpus, context_TD=spoiled)
    found, norms_U = accumulate(case.tagger, corpus, units, 1.0)
    is_lost = [not np.isfinite(norm) for norm in norms_U.tolist()]
    if value != 1e30:
        assert is_lost == [unit is lost for unit in units]
        assert_same(found, one_by_one(case, [unit for unit in units if unit is not lost], 1.0)[0])
    assert all(bool(each.isfinite().all()) for each in found.value.values())
    assert total_norm(dict(found.value)) <= len(units) * (1 + 1e-5)


def test_nothing_that_is_given_is_changed() -> None:
    case = make(small(RECIPES["ELMoNER"]), trainable=True)
    batch = collate(case.corpus, range(len(LENGTHS)))
    before = {name: each.clone() for name, each in case.tagger.state_dict().items()}
    given = [
        each.clone()
        for each in (batch.word_BL, batch.context_BLD, batch.gold_tags)
        if each is not None
    ]
    with torch.no_grad():  # as a caller may have it
        first, _ = clipped_sum(case.tagger, batch, range(len(LENGTHS)), 1.0)
    second, _ = clipped_sum(case.tagger, batch, range(len(LENGTHS)), 1.0)
    assert all(torch.equal(first.value[name], second.value[name]) for name in first.value)
    assert all(torch.equal(before[name], each) for name, each in case.tagger.state_dict().items())
    now = [each for each in (batch.word_BL, batch.context_BLD, batch.gold_tags) if each is not None]
    assert all(torch.equal(a, b) for a, b in zip(given, now, strict=True))
    assert all(each.grad is None for each in case.tagger.parameters())


class Encoder(nn.Module):
    """A source that gives something behind a sentence's end too."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(CONTEXT, CONTEXT)


def test_a_source_without_a_per_unit_gradient_must_be_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forms = LayerForms(
        "encoder",
        lambda layer, _parts, batch: layer.map(batch.context_features),
        Missing("it is pretrained", "Freeze it."),
        is_source=True,
    )
    monkeypatch.setitem(LAYERS, Encoder, forms)
    case = make(small(RECIPES["ELMoNER"]))
    encoder = Encoder()
    case.tagger.embeddings.context = encoder
    batch = collate(case.corpus, [0, 1])
    wrong = r"embeddings\.context \(Encoder\) has no per-unit gradient, but trains 2 parameters"
    with pytest.raises(FednerError, match=f"{wrong}: it is pretrained") as caught:
        clipped_sum(case.tagger, batch, [0, 1], 1.0)
    assert caught.value.hint == "Freeze it."
    encoder.requires_grad_(False)
    check(case, SINGLE, 1.0)


def test_an_unknown_layer_is_refused() -> None:
    case = make(small(RECIPES["LSTM-CRF"]))
    case.tagger.extra = nn.Linear(2, 2)
    with pytest.raises(FednerError, match=r"extra\.bias, extra\.weight"):
        accumulate(case.tagger, case.corpus, SINGLE, 1.0)


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clip_must_be_a_positive_number(clip: float) -> None:
    case = make(small(RECIPES["LSTM-CRF"]))
    with pytest.raises(FednerError, match="clipping bound"):
        accumulate(case.tagger, case.corpus, SINGLE, clip)


@pytest.mark.parametrize("units", [[0], [0, 1, 2], [0, -1]])
def test_every_sentence_needs_a_unit(units: list[int]) -> None:
    case = make(small(RECIPES["LSTM-CRF"]))
    with pytest.raises(FednerError, match="for 2 sentences"):
        clipped_sum(case.tagger, collate(case.corpus, [0, 1]), units, 1.0)


@pytest.mark.parametrize("units", [[[0, 1], [1]], [[2, 2]]])
def test_a_sentence_in_two_units_is_refused(units: list[list[int]]) -> None:
    case = make(small(RECIPES["LSTM-CRF"]))
    with pytest.raises(FednerError, match="twice, or one of another unit"):
        accumulate(case.tagger, case.corpus, units, 1.0)


def test_a_tagger_that_trains_nothing_is_refused() -> None:
    case = make(small(RECIPES["LSTM-CRF"]))
    case.tagger.requires_grad_(False)
    with pytest.raises(FednerError, match="trains nothing"):
        accumulate(case.tagger, case.corpus, SINGLE, 1.0)
