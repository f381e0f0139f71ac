"""Kinds of mistakes: every gold and every found mention is accounted for once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.sentence import Entity
from fedner.runs.report.mistakes import mistakes_section
from fedner.scoring import MISTAKE_KINDS, by_kind, count_mistakes, pair_mistakes
from run_records import platform_of, run_scores, scores_of

PLACES = [(0, 1), (0, 2), (1, 3), (3, 4), (4, 6), (5, 6)]
ENTITIES = st.builds(
    lambda place, label: Entity(*place, label), st.sampled_from(PLACES), st.sampled_from("XYZ")
)
MENTIONS = st.lists(ENTITIES, unique=True, max_size=5)


@given(MENTIONS, MENTIONS)
def test_mistakes_add_up_to_what_strict_scores_count(
    gold: list[Entity], found: list[Entity]
) -> None:
    right = len({*gold} & {*found})
    kinds = by_kind(count_mistakes([gold], [found], "XYZ"))
    assert kinds["missed"] + kinds["border"] + kinds["type"] == len(gold) - right
    assert kinds["spurious"] + kinds["border"] + kinds["type"] == len(found) - right
    for each in pair_mistakes(gold, found):
        if each.gold is not None and each.found is not None:
            assert each.found.start < each.gold.end
            assert each.gold.start < each.found.end


def test_a_gold_mention_takes_what_fits_best() -> None:
    gold = [Entity(2, 5, "X")]
    found = [Entity(1, 3, "Y"), Entity(3, 4, "X"), Entity(2, 5, "Y")]
    told = list(pair_mistakes(gold, found))
    assert ("type", gold[0], found[2]) in told
    assert ("border", gold[0], found[1]) in pair_mistakes(gold, found[:2])
    assert [each.kind for each in pair_mistakes([], found[:1])] == ["spurious"]


def test_types_that_the_platform_does_not_annotate_are_left_out() -> None:
    counts = count_mistakes([[]], [[Entity(0, 1, "X"), Entity(1, 2, "Y")]], ["X", "Z"])
    assert counts["X"]["spurious"] == 1
    assert counts["Z"] == dict.fromkeys(MISTAKE_KINDS, 0)
    assert "Y" not in counts


def test_the_report_has_counts_by_platform_and_type() -> None:
    counts = count_mistakes([[Entity(0, 1, "X")]], [[Entity(4, 6, "<Y>")]], ["X", "<Y>"])
    held = replace(platform_of(federated=scores_of(("X", 0, 1))), mistakes={"federated": counts})
    text = mistakes_section(run_scores(clinic=held))
    assert "<td>clinic</td><td>X</td><td>1</td><td>0</td><td>0</td><td>0</td>" in text
    assert "<td>clinic</td><td>&lt;Y&gt;</td><td>0</td><td>0</td><td>0</td><td>1</td>" in text
    assert "<td>all types</td><td>1</td><td>0</td><td>0</td><td>1</td>" in text
    assert mistakes_section(run_scores(clinic=platform_of(federated=scores_of(("X", 0, 1))))) == ""
