"""What a run came to: units of the bootstrap, gains, counts that are kept."""

from pathlib import Path

import pytest

from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError
from fedner.runs.folder import COUNTS, RunFolder
from fedner.runs.outcome import (
    outcome_of,
    platform_scores,
    read_counts,
    unit_counts,
    unit_numbers,
)
from fedner.runs.platform_data import PlatformData
from fedner.runs.records import RunScores
from fedner.scoring import Counts, RelaxedCounts


def sentence(document: str, patient: str | None, *entities: Entity) -> Sentence:
    return Sentence(document, 0, ("a", "b", "c"), (0, 2, 4), (1, 3, 5), entities, patient)


SENTENCES = (
    sentence("d1", "p1", Entity(0, 1, "X")),
    sentence("d1", "p1", Entity(1, 3, "X")),
    sentence("d2", "p1", Entity(0, 1, "Y")),
    sentence("d3", None),
)
DATA = PlatformData("here", ("X", "Y"), SENTENCES, (), (0, 1, 2, 3))


def test_units_are_what_the_split_kept_together() -> None:
    assert unit_numbers(SENTENCES, "sentence") == [0, 1, 2, 3]
    assert unit_numbers(SENTENCES, "document") == [0, 0, 1, 2]
    assert unit_numbers(SENTENCES, "patient") == [0, 0, 0, 1]


def test_counts_add_up_within_a_unit() -> None:
    found = [[Entity(0, 1, "X")], [Entity(1, 2, "X")], [], [Entity(0, 1, "Y")]]
    outcome = outcome_of(DATA, found, "document")
    assert outcome.strict == (Counts(1, 1, 1), Counts(0, 0, 1), Counts(0, 1, 0))
    assert outcome.relaxed[0] == RelaxedCounts(2, 2, 2, 2)
    assert sum(outcome.strict, Counts()) == outcome.scores.strict_micro


def test_types_that_the_platform_does_not_annotate_count_for_nothing() -> None:
    outcome = outcome_of(DATA, [[Entity(2, 3, "Z")], [], [], []], "sentence")
    assert outcome.scores.strict_micro.predicted == 0
    assert outcome.scores.ignored_predicted == {"Z": 1}


def test_a_gain_is_clear_only_where_its_interval_is() -> None:
    many = PlatformData("here", ("X", "Y"), SENTENCES * 20, (), tuple(range(80)))
    gold = [list(each.entities) for each in many.test_sentences]
    nothing: list[list[Entity]] = [[] for _ in gold]
    right, wrong = outcome_of(many, gold, "sentence"), outcome_of(many, nothing, "sentence")

    def verdict(alone: object, federated: object) -> str:
        outcomes = {"local-only": alone, "federated": federated}
        gain = platform_scores(outcomes, "sentence", 1).gain  # type: ignore[arg-type]
        assert gain is not None
        return gain.verdict

    assert verdict(wrong, right) == "yes"
    assert verdict(right, wrong) == "no"
    assert verdict(right, right) == "not clear"


def test_without_a_baseline_there_is_no_gain() -> None:
    outcome = outcome_of(DATA, [[], [], [], []], "sentence")
    here = platform_scores({"federated": outcome}, "sentence", 1)
    record = RunScores("t", 1, synthetic=False, platforms={"here": here})
    assert here.gain is None
    assert list(record.mean) == ["federated"]


def test_counts_are_kept_and_read_back(tmp_path: Path) -> None:
    outcome = outcome_of(DATA, [[Entity(0, 1, "X")], [], [], []], "sentence")
    folder = RunFolder(tmp_path)
    folder.site("here").write(
        COUNTS, unit_counts(DATA, "sentence", {"federated": outcome}).as_dict()
    )
    strict, relaxed, digest = read_counts(folder, "here", "federated")
    assert tuple(strict) == outcome.strict
    assert tuple(relaxed) == outcome.relaxed
    assert digest == DATA.test_digest
    with pytest.raises(FednerError, match="local-only"):
        read_counts(folder, "here", "local-only")
