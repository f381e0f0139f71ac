"""Types that a platform does not annotate: against the sum over all tag sequences."""

import itertools
import math

import pytest
import torch
from tagger_platforms import UNION, new_tagger, sentences_of

from fedner.corpus.schemes import allowed_transitions
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.synthetic import PLATFORMS
from fedner.errors import FednerError
from fedner.federated.annotation import allowed_tags, marginalised_losses, union_space
from fedner.federated.learner import gold_losses
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.tagger import Tagger
from fedner.models.zoo import build_tagger, recipe_named, resized

SPACE = TagSpace.of(["Drug", "ADE"], "BIO")


def small_tagger(name: str) -> Tagger:
    chosen = resized(recipe_named(name), hidden=4, filters=4, character_filters=4)
    words = WordEmbedding(HashedWords(50, 6))
    tagger = build_tagger(chosen, words, SPACE, seed=2)
    with torch.no_grad():
        for index, parameter in enumerate(tagger.decoder.parameters()):
            generator = torch.Generator().manual_seed(index)
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return tagger.eval()


def by_enumeration(tagger: Tagger, sentence: Sentence, annotated: set[str]) -> float:
    """The slow obvious version: every tag sequence that the scheme and the annotation allow."""
    corpus = encode_corpus([sentence], tagger.embeddings.words, space=SPACE)
    batch = collate(corpus, [0])
    emissions = tagger(batch)[0].detach().double()
    gold = [SPACE.tags[tag] for tag in batch.gold_tags[0].tolist()]
    rules = allowed_transitions(SPACE.tags, "BIO")
    decoder = tagger.decoder.requires_grad_(False)
    within, everything = [], []
    for path in itertools.product(range(len(SPACE.tags)), repeat=len(gold)):
        total = sum(float(emissions[at, tag]) for at, tag in enumerate(path))
        if hasattr(decoder, "transitions"):
            steps = list(itertools.pairwise(path))
            is_legal = (
                rules.start[path[0]]
                and rules.end[path[-1]]
                and all(rules.step[one][two] for one, two in steps)
            )
            if not is_legal:
                continue
            total += float(decoder.start[path[0]]) + float(decoder.end[path[-1]])
            total += sum(float(decoder.transitions[one, two]) for one, two in steps)
        everything.append(math.exp(total))
        if all(
            _may_be(SPACE.tags[tag], mark, annotated) for tag, mark in zip(path, gold, strict=True)
        ):
            within.append(math.exp(total))
    return -math.log(sum(within) / sum(everything))


def _may_be(tag: str, gold: str, annotated: set[str]) -> bool:
    return tag == gold or (gold == "O" and tag != "O" and tag[2:] not in annotated)


@pytest.mark.parametrize("model", ["BI-LSTM-CRF", "BI-LSTM-TDDL"])
@pytest.mark.parametrize("annotated", [{"ADE"}, {"Drug"}, {"ADE", "Drug"}, set()])
def test_unannotated_types_are_marginalised_out(model: str, annotated: set[str]) -> None:
    tagger = small_tagger(model)
    marks = [Entity(0, 2, "ADE"), Entity(3, 4, "Drug")]
    kept = tuple(mark for mark in marks if mark.label in annotated)
    sentence = Sentence.of(["bad", "rash", "from", "aspirin"], kept)
    corpus = encode_corpus([sentence], tagger.embeddings.words, space=SPACE)
    losses = marginalised_losses(SPACE, annotated)(tagger, collate(corpus, [0]))
    expected = by_enumeration(tagger, sentence, annotated)
    assert float(losses[0].detach()) == pytest.approx(expected, abs=1e-4)


def test_a_platform_that_annotates_everything_has_the_plain_loss() -> None:
    tagger = new_tagger("case-reports", "everything", 0.0)
    sentences = sentences_of("forum-posts")[:8]
    corpus = encode_corpus(sentences, tagger.embeddings.words, space=UNION)
    batch = collate(corpus, range(8))
    plain = gold_losses(tagger, batch)
    torch.testing.assert_close(marginalised_losses(UNION, UNION.labels)(tagger, batch), plain)
    # Leaving types open can only make the annotation more likely.
    less = marginalised_losses(UNION, PLATFORMS["forum-posts"].labels)(tagger, batch)
    assert bool((less < plain).all())


def test_the_table_of_allowed_tags() -> None:
    table = allowed_tags(SPACE, ["ADE"])
    assert SPACE.tags == ("O", "B-ADE", "I-ADE", "B-Drug", "I-Drug")
    assert table.int().tolist() == [
        [1, 0, 0, 1, 1],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]


def test_the_union_of_label_sets() -> None:
    assert union_space([("Drug", "ADE"), ("Disease", "ADE")], "BIO").labels == (
        "ADE",
        "Disease",
        "Drug",
    )
    with pytest.raises(FednerError, match=r"annotated types \['Dose'\]"):
        allowed_tags(SPACE, ["Dose"])
