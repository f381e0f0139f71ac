"""The described head: emissions by the descriptions of types, transitions by kinds of tags."""

from dataclasses import replace

import pytest
import torch
from tests.models.small_platform import context_size, small, small_platform

from fedner.corpus.schemes import SCHEMES
from fedner.errors import FednerError
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.layers.crf import CRF
from fedner.models.layers.kind_crf import KindCRF, step_kinds
from fedner.models.partition import partition, shares_tags
from fedner.models.types import type_vectors
from fedner.models.zoo import RECIPES, Recipe, build_tagger
from fedner.optimizers import OptimizerSettings
from fedner.training import TrainingSettings, train

WORDS = HashedWords(40, 6)
DESCRIPTIONS = {"Drug": "a medicine", "ADE": "an unwanted effect of a medicine"}


def described(name: str = "LSTM-CRF", **changes: object) -> Recipe:
    return replace(small(RECIPES[name]), **{"head": "described", "rank": 16, **changes})


def tagger_of(
    space: TagSpace, *, recipe: Recipe | None = None, seed: int = 0, constrained: bool = True
):
    types = type_vectors(dict.fromkeys(space.labels, ""), encoder=None, words=WORDS)
    words = WordEmbedding(WORDS)
    recipe = recipe or described()
    return build_tagger(recipe, words, space, seed=seed, types=types, constrained=constrained)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_emission_is_the_bilinear_score_of_its_kind_and_type(scheme: str) -> None:
    head = tagger_of(TagSpace.of(["Drug", "ADE", "Dose"], scheme)).emissions
    space = TagSpace.of(["Drug", "ADE", "Dose"], scheme)
    x_D = torch.randn(head.outside.in_features, generator=torch.Generator().manual_seed(1))
    emissions_K = head(x_D)
    assert emissions_K.shape == (len(space.tags),)
    for column, tag in enumerate(space.tags):
        if tag == "O":
            expected = head.outside.weight[0] @ x_D
        else:
            kind, label = tag.split("-")
            e_E = head.vectors[space.labels.index(label)]
            p_RD, q_RE = head.token[kind].weight, head.type[kind].weight
            expected = (p_RD @ x_D) @ (q_RE @ e_E) / 16**0.5
        torch.testing.assert_close(emissions_K[column], expected)


def test_the_parameters_have_the_names_and_shapes_of_the_contract() -> None:
    tagger = tagger_of(TagSpace.of(["a", "b", "c"], "BIO"), recipe=described(residual=True))
    shapes = {
        name: tuple(each.shape)
        for name, each in tagger.named_parameters()
        if name.startswith(("emissions", "decoder"))
    }
    assert shapes == {
        "emissions.token.B.weight": (16, 80),
        "emissions.token.I.weight": (16, 80),
        "emissions.type.B.weight": (16, 6),
        "emissions.type.I.weight": (16, 6),
        "emissions.outside.weight": (1, 80),
        "emissions.residual.weight": (7, 80),
        "emissions.residual.bias": (7,),
        "decoder.steps": (8,),
    }
    assert tagger.get_parameter("emissions.type.B.weight") is tagger.emissions.type["B"].weight
    assert not tagger.emissions.residual.weight.any()


def test_all_but_the_residual_begins_alike_whatever_the_types() -> None:
    one = tagger_of(TagSpace.of(["a"], "BIO"), seed=3).state_dict()
    other = tagger_of(TagSpace.of(["b", "c"], "BIO"), seed=3).state_dict()
    for name in one:
        if name != "emissions.vectors":
            assert torch.equal(one[name], other[name]), name


def test_the_kinds_of_steps_of_every_scheme() -> None:
    assert step_kinds("BIO") == (
        ("O", "O", False),
        ("O", "B", False),
        ("B", "O", False),
        ("B", "B", False),
        ("B", "I", True),
        ("I", "O", False),
        ("I", "B", False),
        ("I", "I", True),
    )
    assert [len(step_kinds(scheme)) for scheme in ("IO", "IOB1", "BIOES", "BILOU")] == [
        5,
        10,
        13,
        13,
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("constrained", [True, False])
def test_a_kind_crf_is_the_crf_of_its_expanded_scores(scheme: str, constrained: bool) -> None:
    space = TagSpace.of(["x", "y", "z"], scheme)
    generator = torch.Generator().manual_seed(2)
    kinds = KindCRF(space, constrained=constrained)
    kinds.steps.data.normal_(generator=generator)
    crf = CRF(len(space.tags), space.transitions if constrained else None)
    crf.transitions.data.copy_(kinds.potentials().transitions_KK)
    emissions_BLK = torch.randn(3, 6, len(space.tags), generator=generator, requires_grad=True)
    lengths_B = torch.tensor([6, 4, 1])
    tags_BL, score_B = crf.viterbi(emissions_BLK, lengths_B)
    found = kinds.viterbi(emissions_BLK, lengths_B)
    for each, expected in zip(found, (tags_BL, score_B), strict=True):
        assert torch.equal(each, expected)
    assert torch.equal(
        kinds.marginals(emissions_BLK, lengths_B), crf.marginals(emissions_BLK, lengths_B)
    )
    losses = []
    for decoder in (kinds, crf):
        loss = decoder.log_likelihood(emissions_BLK, tags_BL, lengths_B).sum()
        losses.append((loss, *torch.autograd.grad(loss, [emissions_BLK, *decoder.parameters()])))
    assert torch.equal(losses[0][0], losses[1][0])
    assert torch.equal(losses[0][1], losses[1][1])
    steps_S, transitions_KK = losses[0][2], losses[1][4]
    torch.testing.assert_close(steps_S, (kinds.which_SKK * transitions_KK).sum((1, 2)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_kind_crf_on_a_gpu_is_that_of_the_cpu(scheme: str) -> None:
    space = TagSpace.of(["x", "y"], scheme)
    generator = torch.Generator().manual_seed(5)
    decoder = KindCRF(space)
    decoder.steps.data.normal_(generator=generator)
    emissions_BLK = torch.randn(4, 7, len(space.tags), generator=generator)
    lengths_B = torch.tensor([7, 5, 2, 1])
    tags_BL, _ = decoder.viterbi(emissions_BLK, lengths_B)
    found = []
    for device in ("cpu", "cuda"):
        moved = decoder.to(device)
        loss = moved.log_likelihood(emissions_BLK.to(device), tags_BL.to(device), lengths_B).sum()
        found.append((loss.detach().cpu(), torch.autograd.grad(loss, moved.steps)[0].cpu()))
    torch.testing.assert_close(found[0], found[1])


def test_an_open_annotation_is_that_of_the_expanded_crf() -> None:
    space = TagSpace.of(["x", "y"], "BIO")
    generator = torch.Generator().manual_seed(3)
    kinds, crf = KindCRF(space), CRF(len(space.tags), space.transitions)
    kinds.steps.data.normal_(generator=generator)
    crf.transitions.data.copy_(kinds.potentials().transitions_KK)
    emissions_BLK = torch.randn(2, 5, len(space.tags), generator=generator)
    allowed_BLK = torch.rand(emissions_BLK.shape, generator=generator) < 0.7
    allowed_BLK[..., 0] = True
    lengths_B = torch.tensor([5, 3])
    values, counts = [], []
    for decoder in (kinds, crf):
        values.append(decoder.partial_log_likelihood(emissions_BLK, allowed_BLK, lengths_B))
        counts.append(torch.autograd.grad(values[-1].sum(), list(decoder.parameters())))
    assert torch.equal(values[0], values[1])
    folded_S = (kinds.which_SKK * counts[1][2]).sum((1, 2))
    torch.testing.assert_close(counts[0][0], folded_S)


def test_every_allowed_step_has_exactly_one_number() -> None:
    for scheme in SCHEMES:
        space = TagSpace.of(["x", "y", "z"], scheme)
        decoder = KindCRF(space)
        counted_KK = decoder.which_SKK.sum(0)
        assert torch.equal(counted_KK > 0, torch.tensor(space.transitions.step)), scheme
        assert counted_KK.max() == 1


@pytest.mark.parametrize("decoder", ["crf", "softmax"])
@pytest.mark.parametrize("name", ["LSTM-CRF", "ELMoNER"])
def test_a_described_head_learns_fifty_sentences(name: str, decoder: str) -> None:
    platform = small_platform()
    recipe = described(name, decoder=decoder, residual=name == "ELMoNER")
    types = type_vectors(
        dict.fromkeys(platform.space.labels, ""), encoder=None, words=platform.words.source
    )
    tagger = build_tagger(recipe, platform.words, platform.space, context_size(recipe), types=types)
    corpus = platform.encoded(recipe)
    settings = TrainingSettings(epochs=25, batch_size=10, optimizer=OptimizerSettings("adam", 1e-2))
    state = train(tagger, corpus, settings, seed=1)
    assert state.curve[-1].loss < 0.2 * state.curve[0].loss
    vectors = torch.from_numpy(types.of(platform.space.labels).vectors)
    assert torch.equal(tagger.emissions.vectors, vectors)


def test_a_tagger_of_unknown_vectors_has_the_same_weights_and_keeps_no_vectors() -> None:
    space = TagSpace.of(["a", "b"], "BIO")
    known = tagger_of(space)
    unknown = build_tagger(described(), WordEmbedding(WORDS), space, types=WORDS.dimension)
    ours, theirs = dict(known.named_parameters()), dict(unknown.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert "emissions.vectors" in known.state_dict()
    assert "emissions.vectors" not in unknown.state_dict()
    with pytest.raises(FednerError, match="without the vectors of its types"):
        unknown.emissions(torch.zeros(1, 1, 80))


def test_half_precision_is_for_the_tokens_not_for_folding() -> None:
    head = tagger_of(TagSpace.of(["a", "b"], "BIO"), recipe=described(residual=True)).emissions
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(head.weight, head.weight.float())
        folded_KD = head.weight
        assert head(torch.ones(1, 1, 80)).dtype == torch.bfloat16
    assert torch.equal(folded_KD, head.weight)


def test_head_and_types_must_fit() -> None:
    space = TagSpace.of(["a"], "BIO")
    words = WordEmbedding(WORDS)
    types = type_vectors({"b": ""}, encoder=None, words=WORDS)
    with pytest.raises(FednerError, match="needs described types, but none"):
        build_tagger(described(), words, space)
    with pytest.raises(FednerError, match="has a free head, but some"):
        build_tagger(small(RECIPES["LSTM-CRF"]), words, space, types=types)
    with pytest.raises(FednerError, match=r"\['a'\] have no description; described are \['b'\]"):
        build_tagger(described(), words, space, types=types)
    with pytest.raises(FednerError, match="rank 0"):
        build_tagger(described(rank=0), words, space, types=6)


def test_everything_shares_the_head_and_never_its_residual() -> None:
    tagger = tagger_of(TagSpace.of(["a"], "BIO"), recipe=described(residual=True))
    names = [name for name, _ in tagger.named_parameters()]
    own = ("emissions.residual.bias", "emissions.residual.weight")
    assert partition(names, "everything").private == own
    assert {"emissions.type.B.weight", "decoder.steps"} <= set(
        partition(names, "everything").shared
    )
    assert partition(names, ["emissions", "decoder"]).shared == tuple(
        sorted(n for n in names if n.startswith(("emissions", "decoder")) and n not in own)
    )
    assert not [n for n in partition(names, "encoder").shared if n.startswith("emissions")]
    with pytest.raises(FednerError, match="belongs to the tags of one platform"):
        partition(names, ["emissions.residual"])


def test_a_described_head_shares_no_tags() -> None:
    assert shares_tags("everything")
    assert not shares_tags("everything", "described")
    assert not shares_tags(["emissions"], "described")


def test_an_empty_tag_space_gives_o_alone() -> None:
    tagger = tagger_of(TagSpace.of([], "BIO"))
    assert tagger.emissions(torch.zeros(1, 2, 80)).shape == (1, 2, 1)
