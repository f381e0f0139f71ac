"""A layer from outside the package: one class, one record of forms, one call to register it.

Two layers are added. `Highway` (Srivastava et al. 2015) looks at each token by itself; `Neighbours`
looks at the tokens beside it, so that what lies behind a sentence's end must be zero before it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedner.corpus.prepare import prepare
from fedner.corpus.synthetic import generate
from fedner.errors import FednerError
from fedner.federated.dp_steps import padding_rows
from fedner.inference.onnx_export import export_onnx
from fedner.inference.onnx_tagger import OnnxTagger
from fedner.models.checkpoint import LoadedTagger, load_tagger, save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import Batch, EncodedCorpus, TagSpace, collate, encode_corpus
from fedner.models.layers import LAYERS, LayerForms, Missing, joined, register_layer, tap_linear
from fedner.models.onnx_writer import GraphWriter
from fedner.models.partition import partition
from fedner.models.per_unit.products import elementwise
from fedner.models.per_unit.tap import Tap
from fedner.models.stages import StageRecipe
from fedner.models.tagger import Tagger
from fedner.models.zoo import RECIPES, Recipe, build_tagger
from fedner.privacy.dpsgd import accumulate, clipped_sum
from fedner.training import TrainingSettings, gradients, train

Parts = Sequence[Tensor]


class Highway(nn.Module):
    """y = gate * change + (1 - gate) * x, with gate = sigmoid(G x + g), change = relu(C x + c)."""

    def __init__(self, dimension: int, bias: float = 0.0) -> None:
        super().__init__()
        self.dimension_out = dimension
        self.bias = bias
        self.gate = nn.Linear(dimension, dimension)
        self.change = nn.Linear(dimension, dimension)


def mixed(x: Tensor, opened: Tensor, change: Tensor) -> Tensor:
    return opened * torch.relu(change) + (1.0 - opened) * x


def highway_forward(layer: Highway, parts: Parts, _batch: Batch) -> Tensor:
    x_BLD = joined(parts)
    return mixed(x_BLD, torch.sigmoid(layer.gate(x_BLD) + layer.bias), layer.change(x_BLD))


def highway_per_unit(
    layer: Highway, name: str, parts: Parts, batch: Batch
) -> tuple[Tensor, list[Tap]]:
    gate_BLD, gate_taps = tap_linear(layer.gate, f"{name}.gate", parts, batch)
    change_BLD, change_taps = tap_linear(layer.change, f"{name}.change", parts, batch)
    opened_BLD = elementwise(torch.sigmoid, gate_BLD + layer.bias)
    return mixed(joined(parts), opened_BLD, change_BLD), gate_taps + change_taps


def highway_onnx(layer: Highway, graph: GraphWriter, parts: Sequence[str]) -> str:
    x = graph.joined(parts)
    gate = graph.linear(x, layer.gate.weight, layer.gate.bias + layer.bias)
    opened = graph.op("Sigmoid", gate)
    change = graph.op("Relu", graph.linear(x, layer.change.weight, layer.change.bias))
    difference = graph.op("Mul", opened, graph.op("Sub", change, x))
    return graph.op("Add", x, difference)


class Neighbours(nn.Module):
    """A linear map of the sum of both neighbours of a token."""

    def __init__(self, dimension: int, size: int) -> None:
        super().__init__()
        self.dimension_out = size
        self.map = nn.Linear(dimension, size)


def beside(x_BLD: Tensor) -> Tensor:
    padded = functional.pad(x_BLD, (0, 0, 1, 1))
    return padded[:, :-2] + padded[:, 2:]


def neighbours_forward(layer: Neighbours, parts: Parts, _batch: Batch) -> Tensor:
    mapped: Tensor = layer.map(beside(joined(parts)))
    return mapped


def neighbours_per_unit(
    layer: Neighbours, name: str, parts: Parts, batch: Batch
) -> tuple[Tensor, list[Tap]]:
    return tap_linear(layer.map, f"{name}.map", [beside(joined(parts))], batch)


def neighbours_onnx(layer: Neighbours, graph: GraphWriter, parts: Sequence[str]) -> str:
    padded = graph.op("Pad", graph.joined(parts), graph.constant([0, 1, 0, 0, 1, 0]))
    axis = graph.constant([1])
    left = graph.op("Slice", padded, graph.constant([0]), graph.constant([-2]), axis)
    right = graph.op("Slice", padded, graph.constant([2]), graph.constant([2**62]), axis)
    return graph.linear(graph.op("Add", left, right), layer.map.weight, layer.map.bias)


class Halved(nn.Module):
    """A layer of which only the forward pass is written."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension_out = dimension


HIGHWAY = LayerForms("test highway", highway_forward, highway_per_unit, highway_onnx, build=Highway)
NEIGHBOURS = LayerForms(
    "test neighbours",
    neighbours_forward,
    neighbours_per_unit,
    neighbours_onnx,
    window=lambda _layer: 3,
    build=Neighbours,
)
HALVED = LayerForms("test halved", lambda _layer, parts, _batch: joined(parts) / 2, build=Halved)

CORPUS = generate("social-posts", 30, seed=2)
SENTENCES = [each for each in prepare(CORPUS.documents).sentences if each.tokens][:24]
SPACE = TagSpace.of(CORPUS.labels, "BIO")
STAGES = {
    "token by token": (StageRecipe("highway", "test highway", {"bias": 0.5}),),
    "behind a CNN": (StageRecipe("beside", "test neighbours", {"size": 6}, after="word_cnn"),),
    "first of all": (StageRecipe("beside", "test neighbours", {"size": 9}, after="embeddings"),),
    "both": (
        StageRecipe("highway", "test highway", after="word_cnn"),
        StageRecipe("beside", "test neighbours", {"size": 5}),
    ),
}


@contextmanager
def added(layer: type[nn.Module], forms: LayerForms) -> Iterator[None]:
    """Register a layer for a while; elsewhere it is unknown."""
    register_layer(layer, forms)
    try:
        yield
    finally:
        del LAYERS[layer]


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with added(Highway, HIGHWAY), added(Neighbours, NEIGHBOURS), added(Halved, HALVED):
        yield


def recipe_of(stages: tuple[StageRecipe, ...], name: str = "CNN-CLSTM-CRF") -> Recipe:
    sizes = {"hidden": 7, "filters": 8, "character_filters": 5, "character_dimension": 4}
    return replace(RECIPES[name], **sizes, dropout=0.0, extra_stages=stages)  # type: ignore[arg-type]


def made(recipe: Recipe) -> tuple[Tagger, EncodedCorpus]:
    words = WordEmbedding(HashedWords(200, 10))
    corpus = encode_corpus(SENTENCES, words, space=SPACE)
    return build_tagger(recipe, words, SPACE, seed=3).eval(), corpus


def emissions(tagger: Tagger, corpus: EncodedCorpus, chosen: Sequence[int]) -> dict[int, Tensor]:
    with torch.no_grad():
        batch = collate(corpus, list(chosen))
        rows = tagger(batch)
    lengths = batch.lengths_B.tolist()
    return {
        int(sentence): rows[row, : lengths[row]]
        for row, sentence in enumerate(batch.sentences.tolist())
    }


every_place = pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)


@every_place
def test_it_is_trained(stages: tuple[StageRecipe, ...]) -> None:
    tagger, corpus = made(recipe_of(stages))
    before = {name: each.clone() for name, each in tagger.state_dict().items()}
    state = train(tagger, corpus, TrainingSettings(epochs=3), 1)
    losses = [epoch.loss for epoch in state.curve]
    assert losses[-1] < losses[0]
    own = [name for name in before if name.partition(".")[0] in {each.name for each in stages}]
    assert len(own) == sum(4 if each.name == "highway" else 2 for each in stages)
    assert all(not torch.equal(before[name], tagger.state_dict()[name]) for name in own)


@every_place
def test_a_sentence_is_read_by_itself(stages: tuple[StageRecipe, ...]) -> None:
    """What stands behind a shorter sentence's end changes nothing."""
    tagger, corpus = made(recipe_of(stages))
    together = emissions(tagger, corpus, range(len(SENTENCES)))
    for sentence, found in together.items():
        alone = emissions(tagger, corpus, [sentence])[sentence]
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-5)


@every_place
@pytest.mark.parametrize("size", [1, 3], ids=["sentences", "documents"])
def test_its_per_unit_gradients_are_those_of_one_pass_for_each_unit(
    stages: tuple[StageRecipe, ...], size: int
) -> None:
    tagger, corpus = made(recipe_of(stages))
    units = [list(range(start, start + size)) for start in range(0, len(SENTENCES), size)]
    alone = [gradients(tagger, collate(corpus, unit))[1] for unit in units]
    counts = [len(unit) for unit in units]
    # The plain step has the mean over its sentences; a unit's gradient is the sum.
    summed = [
        {name: each.double() * count for name, each in one.items()}
        for one, count in zip(alone, counts, strict=True)
    ]
    norms = [float(torch.cat([each.flatten() for each in one.values()]).norm()) for one in summed]
    bound = sorted(norms)[len(norms) // 2]
    found, norms_U = accumulate(tagger, corpus, units, bound, cells=200)
    np.testing.assert_allclose(norms_U.numpy(), norms, rtol=1e-4)
    assert set(found.value) == set(summed[0])
    for name, total in found.value.items():
        clipped = [one[name] * min(1.0, bound / n) for one, n in zip(summed, norms, strict=True)]
        expected = torch.stack(clipped).sum(0)
        scale = float(expected.abs().max())
        assert float((total - expected).abs().max()) <= 2e-4 * max(scale, 1e-3), name


def test_a_frozen_stage_lets_gradients_through_and_has_none() -> None:
    tagger, corpus = made(recipe_of(STAGES["both"]))
    tagger.get_submodule("highway").requires_grad_(False)
    found, norms_U = accumulate(tagger, corpus, [[0], [1]], 1.0)
    assert not [name for name in found.value if name.startswith("highway")]
    alone = [gradients(tagger, collate(corpus, [unit]))[1] for unit in (0, 1)]
    norms = [float(torch.cat([g.flatten() for g in one.values()]).norm()) for one in alone]
    np.testing.assert_allclose(norms_U.numpy(), norms, rtol=1e-4)


@every_place
def test_a_unit_is_measured_alike_whoever_stands_beside_it(
    stages: tuple[StageRecipe, ...],
) -> None:
    tagger, corpus = made(recipe_of(stages))
    chosen = [0, 5, 9]
    batch = collate(corpus, chosen)
    _, norms = clipped_sum(tagger, batch, range(3), 1.0)
    for row, sentence in enumerate(batch.sentences.tolist()):
        _, alone = clipped_sum(tagger, collate(corpus, [sentence]), [0], 1.0)
        assert float(alone[0]) == pytest.approx(float(norms[row]), rel=1e-12)


@every_place
def test_its_export_gives_the_same_emissions(
    stages: tuple[StageRecipe, ...], tmp_path: Path
) -> None:
    recipe = recipe_of(stages)
    tagger, corpus = made(recipe)
    export_onnx(LoadedTagger(tagger, recipe, SPACE), tmp_path / "export")
    exported = OnnxTagger.load(tmp_path / "export", num_threads=1).emissions(SENTENCES)
    ours = emissions(tagger, corpus, range(len(SENTENCES)))
    for sentence, theirs in enumerate(exported):
        np.testing.assert_allclose(theirs, ours[sentence].numpy(), rtol=1e-4, atol=1e-5)


def test_it_comes_back_from_disk(tmp_path: Path) -> None:
    recipe = recipe_of(STAGES["both"])
    tagger, corpus = made(recipe)
    train(tagger, corpus, TrainingSettings(epochs=1), 1)
    save_tagger(tmp_path / "tagger", tagger.eval(), recipe, SPACE)
    loaded = load_tagger(tmp_path / "tagger")
    assert loaded.recipe == recipe
    assert "test highway" in loaded.recipe.composition
    ours, theirs = (emissions(each, corpus, range(9)) for each in (tagger, loaded.tagger))
    assert all(torch.equal(ours[sentence], theirs[sentence]) for sentence in ours)
    del LAYERS[Highway]
    with pytest.raises(FednerError, match="no layer 'test highway'") as caught:
        load_tagger(tmp_path / "tagger")
    assert "register_layer" in caught.value.hint
    register_layer(Highway, HIGHWAY)


def test_presets_of_the_partition_share_it_where_they_share_what_stands_around_it() -> None:
    tagger, _ = made(recipe_of(STAGES["both"]))
    names = [name for name, each in tagger.named_parameters() if each.requires_grad]
    own = {name for name in names if name.startswith(("highway.", "beside."))}
    assert own <= set(partition(names, "everything").shared)
    assert not partition(names, "everything").private
    assert own <= set(partition(names, "encoder").shared)
    assert own <= set(partition(names, "fedner").private)
    assert partition(names, ["highway"]).shared == tuple(
        sorted(name for name in own if name.startswith("highway."))
    )


def test_forms_that_are_not_written_are_refused_by_name(tmp_path: Path) -> None:
    recipe = recipe_of((StageRecipe("halved", "test halved"),))
    tagger, corpus = made(recipe)
    gradients(tagger, collate(corpus, [0, 1]))  # the plain step needs the forward pass alone
    with pytest.raises(FednerError, match=r"halved.* \(Halved\) has no per-unit gradient"):
        accumulate(tagger, corpus, [[0], [1]], 1.0)
    with pytest.raises(FednerError, match=r"halved \(Halved\) has no ONNX form") as caught:
        export_onnx(LoadedTagger(tagger, recipe, SPACE), tmp_path / "export")
    assert "LayerForms" in caught.value.hint
    assert not (tmp_path / "export").exists()


def test_a_layer_may_say_why_it_has_no_form() -> None:
    class Excused(Halved):
        pass

    reason = Missing("it halves too much", "Double it.")
    forms = replace(HALVED, name="test excused", build=Excused, per_unit=reason)
    with added(Excused, forms):
        tagger, corpus = made(recipe_of((StageRecipe("halved", "test excused"),)))
        with pytest.raises(FednerError, match="per-unit gradient: it halves too much") as caught:
            accumulate(tagger, corpus, [[0]], 1.0)
    assert caught.value.hint == "Double it."


class Scaled(nn.Module):
    """Every feature times a factor of its own, 1 to begin with."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension_out = dimension
        self.factors = nn.Parameter(torch.ones(dimension))


class Bounded(Scaled):
    """Its factors are drawn."""

    bound = 0.25


def test_its_first_values_are_its_own_or_drawn_by_a_rule() -> None:
    recipe = recipe_of((StageRecipe("scaled", "test scaled"),))
    forms = LayerForms("test scaled", lambda each, parts, _batch: joined(parts) * each.factors)
    with added(Scaled, replace(forms, build=Scaled, keeps_first_values=True)):
        assert bool((made(recipe)[0].get_parameter("scaled.factors") == 1.0).all())
    with (
        added(Scaled, replace(forms, build=Scaled)),
        pytest.raises(FednerError, match="no rule to initialize a Scaled") as caught,
    ):
        made(recipe)
    assert "keeps_first_values" in caught.value.hint
    with added(Bounded, replace(forms, build=Bounded)):
        drawn = made(recipe)[0].get_parameter("scaled.factors")
    assert 0.0 < float(drawn.detach().abs().max()) <= 0.25


def test_its_row_for_padding_is_never_noised() -> None:
    class Padded(Highway):
        pass

    forms = replace(HIGHWAY, name="test padded", build=Padded, padding_rows={"gate.weight": 2})
    with added(Padded, forms):
        tagger, _ = made(recipe_of((StageRecipe("highway", "test padded"),)))
        rows = {"embeddings.characters.embedding.weight": 0, "highway.gate.weight": 2}
        assert padding_rows(tagger) == rows
        tagger.get_submodule("highway").requires_grad_(False)
        assert "highway.gate.weight" not in padding_rows(tagger)


def test_rows_of_the_table_are_not_overwritten() -> None:
    with pytest.raises(FednerError, match="is in the table already"):
        register_layer(Highway, HIGHWAY)
    with pytest.raises(FednerError, match="Highway is in the table already"):
        register_layer(nn.Identity, replace(HALVED, name="test highway"))


@pytest.mark.parametrize(
    ("stage", "wrong"),
    [
        (StageRecipe("bilstm", "test highway"), "cannot have another stage 'bilstm'"),
        (StageRecipe("decoder", "test highway"), "cannot have another stage 'decoder'"),
        (StageRecipe("high.way", "test highway"), "cannot have another stage"),
        (StageRecipe("highway", "test highway", after="nothing"), "follow 'nothing'"),
        (StageRecipe("highway", "linear"), "no layer 'linear' can be built"),
        (StageRecipe("highway", "test highway", {"depth": 3}), "cannot be built with"),
    ],
)
def test_a_stage_that_cannot_be_is_refused(stage: StageRecipe, wrong: str) -> None:
    with pytest.raises(FednerError, match=wrong):
        made(recipe_of((stage,)))


def test_a_subclass_is_a_layer_of_its_own() -> None:
    class Steeper(Highway):
        pass

    tagger, corpus = made(recipe_of(STAGES["token by token"]))
    tagger.add_module("highway", Steeper(14))
    with pytest.raises(FednerError, match=r"highway \(Steeper\) is a type of layer"):
        tagger(collate(corpus, [0]))
    tagger.add_module("highway", WordEmbedding(HashedWords(5, 2)))
    with pytest.raises(FednerError, match=r"do not fit together: highway \(WordEmbedding\)"):
        tagger(collate(corpus, [0]))
