"""The confidence of a mention against enumeration of all tag sequences."""

from itertools import product

import pytest
import torch

from fedner.corpus.schemes import decode
from fedner.corpus.sentence import Entity
from fedner.inference.confidence import joining, mention_confidences
from fedner.models.features import TagSpace
from fedner.models.layers.crf import CRF
from fedner.models.layers.kind_crf import KindCRF
from fedner.models.layers.linear_chain import LinearChain
from fedner.models.layers.softmax import SoftmaxDecoder

LENGTHS = [4, 3, 1]


def path_probabilities(decoder, emissions_LK, num_tags):
    """Return the probability of every tag sequence of one sentence."""
    length = len(emissions_LK)
    paths = torch.tensor(list(product(range(num_tags), repeat=length)))
    scores = emissions_LK[torch.arange(length), paths].sum(1)
    if isinstance(decoder, LinearChain):
        start, end, transitions = decoder.potentials()
        steps = transitions.masked_fill(decoder.forbidden_transitions, -torch.inf)
        scores = scores + start.masked_fill(decoder.forbidden_start, -torch.inf)[paths[:, 0]]
        scores = scores + end.masked_fill(decoder.forbidden_end, -torch.inf)[paths[:, -1]]
        scores = scores + steps[paths[:, :-1], paths[:, 1:]].sum(1)
    return paths, scores.double().softmax(0)


@pytest.mark.parametrize("kind", ["crf", "kind crf", "softmax"])
@pytest.mark.parametrize("scheme", ["IO", "IOB1", "BIO", "BIOES"])
@torch.no_grad()
def test_against_enumeration(kind: str, scheme: str) -> None:
    space = TagSpace.of(["X"] if scheme == "BIOES" else ["X", "Y"], scheme)
    num_tags = len(space.tags)
    torch.manual_seed(len(space.tags))
    decoder = SoftmaxDecoder(num_tags)
    if kind != "softmax":
        decoder = CRF(num_tags, space.transitions) if kind == "crf" else KindCRF(space)
        for parameter in decoder.parameters():
            parameter.normal_()
    emissions = 2 * torch.randn(3, 4, num_tags)
    lengths = torch.tensor(LENGTHS)
    tags, _ = decoder.viterbi(emissions, lengths)
    mentions = [
        (row, entity)
        for row, length in enumerate(LENGTHS)
        for entity in decode([space.tags[t] for t in tags[row, :length]], scheme)
    ]
    assert mentions
    found = mention_confidences(decoder, emissions, tags, lengths, mentions, joining(space))
    for (row, entity), confidence in zip(mentions, found, strict=True):
        length = LENGTHS[row]
        paths, chances = path_probabilities(decoder, emissions[row, :length], num_tags)
        own = tags[row, entity.start : entity.end]
        holds = torch.tensor(
            [
                entity in decode([space.tags[t] for t in path], scheme)
                and torch.equal(path[entity.start : entity.end], own)
                for path in paths
            ]
        )
        assert confidence == pytest.approx(float(chances[holds].sum()), abs=1e-5)


def test_joining_follows_the_scheme() -> None:
    space = TagSpace.of(["X", "Y"], "BIO")
    joins = joining(space)
    pairs = {(space.tags[i], space.tags[j]) for i, j in joins.nonzero().tolist()}
    assert pairs == {("B-X", "I-X"), ("I-X", "I-X"), ("B-Y", "I-Y"), ("I-Y", "I-Y")}


def test_many_mentions_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    space = TagSpace.of(["X"], "IO")
    decoder = CRF(2, space.transitions)
    emissions = torch.randn(2, 6, 2)
    tags = torch.ones(2, 6, dtype=torch.int64)
    lengths = torch.tensor([6, 6])
    mentions = [(row, Entity(at, at + 1, "X")) for row in range(2) for at in range(6)]
    whole = mention_confidences(decoder, emissions, tags, lengths, mentions, joining(space))
    monkeypatch.setattr("fedner.inference.confidence.CELLS_AT_A_TIME", 13)
    parts = mention_confidences(decoder, emissions, tags, lengths, mentions, joining(space))
    assert parts == pytest.approx(whole)
    assert mention_confidences(decoder, emissions, tags, lengths, [], joining(space)) == []
