"""Removal by the probability of each token: nested, at least the best path, and what it leaves."""

import pytest
import torch

from fedner.corpus.document import Document, Span
from fedner.corpus.sentence import Entity
from fedner.errors import FednerError
from fedner.inference.confidence import joining
from fedner.inference.predict import Predictor
from fedner.inference.reading import Mention, Predicted, read_documents
from fedner.inference.redact import removed_types
from fedner.inference.removal import (
    Removable,
    best_path_finder,
    joined,
    threshold_finder,
    token_finder,
)
from fedner.inference.removal_scores import score_tokens, scores_at
from fedner.models.checkpoint import LoadedTagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized

LABELS = ("DATE", "NAME")
TEXTS = (
    "Seen by Anna Smith on May 3, 2021.\nMr. Jones was not there, nor was his wife.",
    "No fever. Dr. Lee called at noon and again in the evening of 2020-02-29.",
    "",
)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    """A tagger without training, a little in doubt everywhere."""
    torch.manual_seed(0)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(LABELS, "BIOES")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    with torch.no_grad():
        tagger.emissions.bias[0] = 1.0
        tagger.emissions.weight *= 6
        tagger.decoder.transitions += 2.0 * joining(space)  # so that mentions have several tokens
    return Predictor.of(LoadedTagger(tagger, recipe, space))


def characters(predictor: Predictor, finder: object) -> list[set[int]]:
    documents = [Document(str(at), text) for at, text in enumerate(TEXTS)]
    return [
        {at for mention in found.mentions for at in range(mention.start, mention.end)}
        for found in read_documents(finder, documents)  # type: ignore[arg-type]
    ]


def test_a_lower_threshold_removes_all_that_a_higher_one_does_and_more(
    predictor: Predictor,
) -> None:
    last: list[set[int]] = [set() for _ in TEXTS]
    sizes = []
    for threshold in (0.9, 0.6, 0.4, 0.2, 0.05, 0.0):
        found = characters(predictor, threshold_finder(predictor, LABELS, threshold))
        assert all(before <= now for before, now in zip(last, found, strict=True))
        last = found
        sizes.append(sum(map(len, found)))
    assert sizes[0] < sizes[-2] <= sizes[-1]
    assert all(
        set(range(len(text))) - gone <= {at for at, c in enumerate(text) if not c.isalnum()}
        for text, gone in zip(TEXTS, last, strict=True)
    ), "at zero every word goes"


def test_marginals_find_more_than_the_best_path_which_goes_as_a_whole(predictor: Predictor) -> None:
    best = characters(predictor, best_path_finder(predictor, LABELS))
    low = characters(predictor, threshold_finder(predictor, LABELS, 0.1))
    assert any(best)
    assert all(one <= other for one, other in zip(best, low, strict=True))
    assert sum(map(len, low)) > sum(map(len, best))


def test_token_probabilities_are_sums_of_marginals(predictor: Predictor) -> None:
    """Probabilities of the types add up; of one type alone they are smaller."""
    documents = [Document("0", TEXTS[0])]
    both = next(read_documents(token_finder(predictor, LABELS), documents)).mentions
    names = next(read_documents(token_finder(predictor, ("NAME",)), documents)).mentions
    assert len(both) == len(names) > 10
    assert all(one.confidence >= other.confidence for one, other in zip(both, names, strict=True))
    assert any(one.confidence > other.confidence for one, other in zip(both, names, strict=True))
    assert {each.label for each in names} == {"NAME"}


def test_the_tokens_of_a_mention_share_the_probability_of_the_surest(predictor: Predictor) -> None:
    documents = [Document(str(at), text) for at, text in enumerate(TEXTS)]
    tokens = read_documents(token_finder(predictor, LABELS), documents)
    best = read_documents(best_path_finder(predictor, LABELS), documents)
    shared = 0
    for every, found in zip(tokens, best, strict=True):
        for mention in found.mentions:
            own = [
                each.confidence
                for each in every.mentions
                if mention.start <= each.start and each.end <= mention.end
            ]
            shared += len(own) > 1
            assert len(set(own)) == 1
    assert shared, "there is a mention of several tokens"


def places(removable: Removable, threshold: float) -> list[Entity]:
    return [entity for entity, _ in joined(removable, threshold)]


def test_neighbours_are_joined_unless_the_best_path_parts_them() -> None:
    scores, labels, words = (0.9, 0.9, 0.3, 0.8, 0.85, 0.1), ("NAME",) * 6, (True,) * 6
    removable = Removable(scores, labels, (0, 1, -1, 2, -1, -1), words)
    assert places(removable, 0.5) == [
        Entity(0, 1, "NAME"), Entity(1, 2, "NAME"), Entity(3, 5, "NAME"),
    ]  # fmt: skip
    assert [place[:2] for place in places(removable, 0.2)] == [(0, 1), (1, 3), (3, 5)]


def test_a_token_of_no_mention_joins_whatever_its_type() -> None:
    """The mention gives the type; without one the surest token does."""
    scores, words = (0.4, 0.9, 0.3, 0.1, 0.5, 0.6), (True,) * 6
    labels = ("DATE", "NAME", "DATE", "DATE", "DATE", "NAME")
    with_mention = Removable(scores, labels, (-1, 0, -1, -1, -1, -1), words)
    assert places(with_mention, 0.2) == [Entity(0, 3, "NAME"), Entity(4, 6, "NAME")]
    assert joined(with_mention, 0.2)[0][1] == 0.9


def test_punctuation_goes_only_between_words_that_go() -> None:
    scores, labels = (0.9, 0.9, 0.9, 0.9, 0.1, 0.9), ("NAME",) * 6
    words = (False, True, False, True, True, False)
    assert [place[:2] for place in places(Removable(scores, labels, (-1,) * 6, words), 0.5)] == [
        (1, 4)
    ]
    own = Removable(scores, labels, (0, 0, 0, 0, -1, 1), words)
    assert [place[:2] for place in places(own, 0.5)] == [(0, 4), (5, 6)], "but as part of a mention"


def test_types_to_remove_or_to_keep() -> None:
    assert removed_types(("A", "B", "C")) == ("A", "B", "C")
    assert removed_types(("A", "B", "C"), remove=["B"]) == ("B",)
    assert removed_types(("A", "B", "C"), keep=["B"]) == ("A", "C")
    for wrong in ({"remove": ["D"]}, {"keep": ["D"]}, {"remove": ["A"], "keep": ["B"]}):
        with pytest.raises(FednerError):
            removed_types(("A", "B", "C"), **wrong)
    with pytest.raises(FednerError, match="no type left"):
        removed_types(("A",), keep=["A"])


def test_a_mention_of_which_a_letter_is_left_remains() -> None:
    text = "Seen: Anna Smith, M.D., on May 3."
    spans = (Span.of(6, 16, "NAME"), Span.of(27, 32, "DATE"), Span.of(0, 4, "OTHER"))
    truth = Document("1", text, spans, patient="p")
    tokens = [(6, 10, 0.9), (11, 16, 0.2), (18, 21, 0.6), (27, 30, 0.7), (31, 32, 0.8)]
    found = tuple(Mention(a, b, "NAME", text[a:b], score) for a, b, score in tokens)
    (scored,) = score_tokens([Predicted(truth, found)], [truth], LABELS)
    assert scored.group == "p"
    assert scored.mentions == (("NAME", 0.2), ("DATE", 0.7))
    assert sorted(scored.others) == [0, 0, 0.6, 0.6], "Seen, on, M and D"
    at = scores_at([scored], 0.5)
    assert (at.overall.mentions, at.overall.missed) == (2, 1)
    assert (at.by_type["NAME"].missed, at.by_type["DATE"].missed) == (1, 0)
    assert (at.words, at.lost.value, at.groups) == (4, 0.5, 1)
