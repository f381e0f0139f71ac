"""Scores of tags and entities against slow references, seqeval, nervaluate and scikit-learn."""

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import nervaluate
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from seqeval.metrics import classification_report, f1_score, precision_score, recall_score
from sklearn.metrics import classification_report as token_report

from fedner.corpus.sentence import Entity
from fedner.errors import FednerError
from fedner.scoring import (
    Counts,
    RelaxedCounts,
    Scores,
    macro,
    relaxed_by_sentence,
    score,
    score_tags,
    strict_by_sentence,
)

LABELS = ("ADE", "Drug", "Co-Drug")
Tags = list[list[str]]
Entities = list[list[Entity]]

# ----------------------------------------------------------- slow references


def conlleval_chunks(tags: Sequence[str]) -> list[Entity]:
    """The rules of conlleval.pl for B, I and O, tag by tag."""
    found: list[Entity] = []
    start, open_label = 0, ""
    previous, previous_label = "O", ""
    for at, tag in enumerate([*tags, "O"]):
        prefix, _, label = tag.partition("-")
        ends = (previous, prefix) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")} or (
            previous != "O" and previous_label != label
        )
        begins = (previous, prefix) in {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")} or (
            prefix != "O" and previous_label != label
        )
        if ends:
            found.append(Entity(start, at, open_label))
        if begins:
            start, open_label = at, label
        previous, previous_label = prefix, label
    return found


def touches(one: Entity, other: Entity) -> bool:
    return bool(set(range(one.start, one.end)) & set(range(other.start, other.end)))


def slow_scores(
    gold: Entities, predicted: Entities, label: str
) -> tuple[Counts, RelaxedCounts, RelaxedCounts]:
    """Strict, relaxed and type-blind counts of one label: everything against everything."""
    strict, relaxed, blind = Counts(), RelaxedCounts(), RelaxedCounts()
    for golds, predictions in zip(gold, predicted, strict=True):
        g = [each for each in golds if each.label == label]
        p = [each for each in predictions if each.label == label]
        right = len(set(g) & set(p))
        strict += Counts(right, len(p) - right, len(g) - right)
        relaxed += RelaxedCounts(
            len(p),
            sum(any(touches(each, other) for other in g) for each in p),
            len(g),
            sum(any(touches(each, other) for other in p) for each in g),
        )
        blind += RelaxedCounts(
            len(p),
            sum(any(touches(each, other) for other in golds) for each in p),
            len(g),
            sum(any(touches(each, other) for other in predictions) for each in g),
        )
    return strict, relaxed, blind


# --------------------------------------------------------------- random input

any_tag = st.one_of(
    st.just("O"), st.builds("{}-{}".format, st.sampled_from("BI"), st.sampled_from(LABELS))
)
any_bioes_tag = st.one_of(
    st.just("O"), st.builds("{}-{}".format, st.sampled_from("BIES"), st.sampled_from(LABELS))
)


@st.composite
def tag_pairs(draw: st.DrawFn, tag: st.SearchStrategy[str] = any_tag) -> tuple[Tags, Tags]:
    """Two taggings of the same sentences, legal or not; the second often agrees with the first."""
    gold: Tags = draw(st.lists(st.lists(tag, max_size=12), max_size=6))
    other = [[draw(st.one_of(st.just(each), tag)) for each in sentence] for sentence in gold]
    return gold, other


def decoded(tags: Tags) -> Entities:
    return [conlleval_chunks(sentence) for sentence in tags]


def quietly(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """seqeval and scikit-learn warn of empty denominators; the zeros are what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


# ----------------------------------------------------------------- references


@given(tag_pairs())
def test_tags_and_entities_equal_the_slow_reference(pair: tuple[Tags, Tags]) -> None:
    gold, predicted = pair
    entities = decoded(gold), decoded(predicted)
    lengths = [len(sentence) for sentence in gold]
    by_tags = score_tags(gold, predicted, LABELS)
    assert by_tags.labels == tuple(sorted(LABELS))
    for label in LABELS:
        expected = slow_scores(*entities, label)
        found = by_tags.strict[label], by_tags.relaxed[label], by_tags.relaxed_any_type[label]
        assert found == expected
    by_entities = score(*entities, LABELS, lengths=lengths)
    assert by_entities.strict == by_tags.strict
    assert by_entities.relaxed == by_tags.relaxed
    assert by_entities.relaxed_any_type == by_tags.relaxed_any_type
    assert by_entities.tokens.num_tokens == by_tags.tokens.num_tokens == sum(lengths)


@given(tag_pairs())
def test_sentences_add_up_to_the_whole(pair: tuple[Tags, Tags]) -> None:
    gold, predicted = decoded(pair[0]), decoded(pair[1])
    whole = score(gold, predicted)
    assert sum(strict_by_sentence(gold, predicted), Counts()) == whole.strict_micro
    assert sum(relaxed_by_sentence(gold, predicted), RelaxedCounts()) == whole.relaxed_micro
    blind = relaxed_by_sentence(gold, predicted, any_type=True)
    assert sum(blind, RelaxedCounts()) == whole.relaxed_any_type_micro
    each = [score([g], [p]).strict_micro for g, p in zip(gold, predicted, strict=True)]
    assert strict_by_sentence(gold, predicted) == each
    each_relaxed = [score([g], [p]).relaxed_micro for g, p in zip(gold, predicted, strict=True)]
    assert relaxed_by_sentence(gold, predicted) == each_relaxed


@given(tag_pairs(any_bioes_tag), st.integers(0, 6))
def test_merged_parts_equal_the_whole(pair: tuple[Tags, Tags], cut: int) -> None:
    gold, predicted = pair
    before = copy.deepcopy(pair)
    parts = [score_tags(gold[:cut], predicted[:cut]), score_tags(gold[cut:], predicted[cut:])]
    assert sum(parts, Scores()) == parts[1] + parts[0] == score_tags(gold, predicted)
    assert pair == before


@given(tag_pairs())
def test_entities_may_come_in_any_order(pair: tuple[Tags, Tags]) -> None:
    gold, predicted = decoded(pair[0]), decoded(pair[1])
    lengths = [len(sentence) for sentence in pair[0]]
    backwards = [sentence[::-1] for sentence in gold]
    before = copy.deepcopy(backwards)
    assert score(backwards, predicted, lengths=lengths) == score(gold, predicted, lengths=lengths)
    assert backwards == before


@given(tag_pairs())
def test_exchanging_the_sides_exchanges_precision_and_recall(pair: tuple[Tags, Tags]) -> None:
    one, other = score_tags(*pair), score_tags(pair[1], pair[0])
    assert one.strict_micro.precision == other.strict_micro.recall
    assert one.relaxed_micro.precision == other.relaxed_micro.recall
    assert one.relaxed_any_type_micro.recall == other.relaxed_any_type_micro.precision
    for label in one.labels:  # each measure forgives more than the one before
        strict, relaxed = one.strict[label], one.relaxed[label]
        blind = one.relaxed_any_type[label]
        assert strict.precision <= relaxed.precision <= blind.precision
        assert strict.recall <= relaxed.recall <= blind.recall


# ---------------------------------------------------------------------- peers


@given(tag_pairs(any_bioes_tag))
def test_strict_scores_equal_seqeval(pair: tuple[Tags, Tags]) -> None:
    gold, predicted = pair
    scores = score_tags(gold, predicted)
    assume(scores.labels)  # seqeval cannot average over nothing
    for average, ours in (
        ("micro", scores.strict_micro.measures),
        ("macro", macro(scores.strict.values())),
    ):
        theirs = tuple(
            quietly(function, gold, predicted, average=average)
            for function in (precision_score, recall_score, f1_score)
        )
        assert ours == pytest.approx(theirs)
    report = quietly(classification_report, gold, predicted, output_dict=True)
    assert set(report) - {"micro avg", "macro avg", "weighted avg"} == set(scores.labels)
    for label in scores.labels:
        row = report[label]
        assert scores.strict[label].measures == pytest.approx(
            (row["precision"], row["recall"], row["f1-score"])
        )
        assert scores.strict[label].gold == row["support"]


@given(tag_pairs())
def test_strict_scores_equal_nervaluate(pair: tuple[Tags, Tags]) -> None:
    # Of nervaluate's four measures only "strict" is one of ours: its "partial" gives half a point
    # for a touching span whatever the type, "ent_type" and "exact" look at one half of a mention.
    gold, predicted = pair
    assume(gold and gold[0])  # nervaluate looks at the first tag
    scores = score_tags(gold, predicted)
    evaluated = nervaluate.Evaluator(gold, predicted, tags=list(LABELS), loader="list").evaluate()
    rows = {"": evaluated["overall"]["strict"]}
    rows |= {label: each["strict"] for label, each in evaluated["entities"].items()}
    ours = {"": scores.strict_micro, **scores.strict}
    assert set(rows) == set(ours)
    for label, row in rows.items():
        counts = ours[label]
        assert (row.correct, row.actual, row.possible) == (
            counts.tp,
            counts.predicted,
            counts.gold,
        )
        assert row.f1 == pytest.approx(counts.f1)


@given(tag_pairs(any_bioes_tag))
def test_token_scores_equal_sklearn(pair: tuple[Tags, Tags]) -> None:
    gold, predicted = ([tag for sentence in side for tag in sentence] for side in pair)
    assume(gold)
    tokens = score_tags(*pair).tokens
    report = quietly(token_report, gold, predicted, output_dict=True, zero_division=0)
    row = report["weighted avg"]
    assert tokens.weighted == pytest.approx((row["precision"], row["recall"], row["f1-score"]))
    assert tokens.gold == {tag: gold.count(tag) for tag in sorted({*gold, *predicted})}
    silent = quietly(token_report, gold, ["O"] * len(gold), output_dict=True, zero_division=0)
    row = silent["weighted avg"]
    assert tokens.always_o == pytest.approx((row["precision"], row["recall"], row["f1-score"]))


@given(tag_pairs())
def test_token_scores_of_entities_are_those_of_their_bio_tags(pair: tuple[Tags, Tags]) -> None:
    entities = [decoded(side) for side in pair]
    lengths = [len(sentence) for sentence in pair[0]]
    legal = []
    for side in entities:
        tags = [["O"] * length for length in lengths]
        for sentence, found in zip(tags, side, strict=True):
            for start, end, label in found:
                sentence[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
        legal.append(tags)
    assert score(*entities, lengths=lengths) == score_tags(*legal)


# ------------------------------------------------------------------ behaviour


def test_bilou_reads_like_bioes() -> None:
    bioes = [["S-Drug", "O", "B-ADE", "I-ADE", "E-ADE", "E-ADE", "I-Drug"]]
    bilou = [[tag.replace("S-", "U-").replace("E-", "L-") for tag in bioes[0]]]
    gold = [["B-Drug", "O", "B-ADE", "I-ADE", "I-ADE", "B-ADE", "B-Drug"]]
    assert score_tags(gold, bilou).strict == score_tags(gold, bioes).strict
    assert score_tags(gold, bilou).strict_micro == Counts(tp=4)


def test_mentions_end_with_their_sentence() -> None:
    tags = [["B-Drug"], [], ["I-Drug", "I-Drug"], []]
    assert score_tags(tags, tags).strict_micro == Counts(tp=2)


def test_one_long_prediction_touches_many() -> None:
    gold = [[Entity(0, 1, "Drug"), Entity(2, 3, "Drug"), Entity(4, 5, "ADE")]]
    predicted = [[Entity(0, 5, "Drug")]]
    scores = score(gold, predicted)
    assert scores.strict_micro == Counts(0, 1, 3)
    assert scores.relaxed_micro == RelaxedCounts(1, 1, 3, 2)
    assert scores.relaxed_any_type_micro == RelaxedCounts(1, 1, 3, 3)
    assert scores.relaxed_any_type["ADE"] == RelaxedCounts(0, 0, 1, 1)


def test_always_o_tagger() -> None:
    gold = [["B-Drug", "I-Drug", "O", "O"], ["O"] * 4]
    silent = [["O"] * 4, ["O"] * 4]
    scores = score_tags(gold, silent)
    assert scores.strict_micro == Counts(fn=1)
    assert scores.strict_micro.f1 == 0
    assert scores.tokens.weighted == pytest.approx(scores.tokens.always_o)
    assert scores.tokens.weighted.recall == 0.75


def test_unannotated_labels_are_unknown_not_wrong() -> None:
    gold = [["B-Drug", "O", "O", "O"]]
    predicted = [["B-Drug", "O", "B-Symptom", "I-Symptom"]]
    scores = score_tags(gold, predicted, labels=("Drug", "Dosage"))
    assert scores.labels == ("Dosage", "Drug")
    assert scores.strict == {"Dosage": Counts(), "Drug": Counts(tp=1)}
    assert scores.ignored_predicted == {"Symptom": 1}
    assert scores.relaxed_any_type_micro == RelaxedCounts(1, 1, 1, 1)
    assert scores.tokens.weighted == (1, 1, 1)
    assert macro(scores.strict.values()) == (1, 1, 1)
    # Where nobody says what is annotated, all that occurs is.
    assert score_tags(gold, predicted).strict["Symptom"] == Counts(fp=1)


def test_an_unknown_label_over_a_gold_mention_leaves_it_missed() -> None:
    scores = score([[Entity(0, 1, "Drug")]], [[Entity(0, 1, "Brand")]], labels=("Drug",))
    assert scores.strict_micro == Counts(fn=1)
    assert scores.relaxed_any_type_micro == RelaxedCounts(0, 0, 1, 0)
    assert strict_by_sentence([[]], [[Entity(0, 1, "Brand")]], labels=("Drug",)) == [Counts()]


def test_gold_labels_not_asked_for_are_counted() -> None:
    gold = [[Entity(0, 1, "Drug"), Entity(1, 2, "ADE")]]
    scores = score(gold, gold, labels=("Drug",), lengths=[2])
    assert scores.strict == {"Drug": Counts(tp=1)}
    assert scores.ignored_gold == scores.ignored_predicted == {"ADE": 1}
    assert scores.tokens.gold == {"B-Drug": 1, "O": 1}


def test_many_different_tags() -> None:
    # More than fit into a byte.
    gold = [[f"B-L{number}" for number in range(700)]]
    predicted = [gold[0][:600] + ["O"] * 100]
    scores = score_tags(gold, predicted)
    assert scores.strict_micro == Counts(tp=600, fn=100)
    assert Counter(scores.tokens.both.values())[1] == 600


def test_nothing_to_score() -> None:
    assert score([], []) == score_tags([], []) == Scores()
    assert score_tags([[]], [[]], ["Drug"]).strict == {"Drug": Counts()}
    assert strict_by_sentence([[], []], [[], []]) == [Counts(), Counts()]


@pytest.mark.parametrize("tag", ["B", "B-", "X-Drug", "Drug", "-", "", "b-Drug", "o"])
def test_unknown_tags_are_refused(tag: str) -> None:
    with pytest.raises(FednerError, match="unknown tag"):
        score_tags([["O"]], [[tag]])


def test_sides_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FednerError, match="1 gold sentences but 2"):
        score_tags([["O"]], [["O"], ["O"]])
    with pytest.raises(FednerError, match="sentence 1 has 1 gold tags but 2"):
        score_tags([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(FednerError, match="1 gold sentences but 0"):
        score([[]], [])
    with pytest.raises(FednerError, match="1 sentences but 2 lengths"):
        score([[]], [[]], lengths=[1, 2])


@pytest.mark.parametrize("wrong", [Entity(-1, 1, "Drug"), Entity(2, 2, "Drug"), Entity(3, 2, "D")])
def test_impossible_entities_are_refused(wrong: Entity) -> None:
    with pytest.raises(FednerError, match=r"predicted entity .* of sentence 1"):
        score([[], []], [[Entity(0, 5, "Drug")], [wrong]])


def test_entities_beyond_the_sentence_are_refused() -> None:
    with pytest.raises(FednerError, match=r"gold entity \[0, 3\) of sentence 0"):
        score([[Entity(0, 3, "Drug")]], [[]], lengths=[2])


def test_overlapping_entities_are_refused() -> None:
    nested = [[], [Entity(0, 3, "Drug"), Entity(1, 2, "ADE")]]
    with pytest.raises(FednerError, match="gold entities of sentence 1 overlap"):
        score(nested, [[], []])
