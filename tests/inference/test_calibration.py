"""A threshold for a wanted recall: refused where it cannot be had, true where it is reported."""

import numpy as np
import pytest

from fedner.errors import FednerError
from fedner.inference.calibration import Wish, calibrate, choose, halves, remain_words
from fedner.inference.removal_scores import ScoredDocument, scores_at
from fedner.scoring.proportions import exact_interval


def drawn(random: np.random.Generator, num_patients: int) -> list[ScoredDocument]:
    """Documents of a tagger that does worse with some patients, and worse with names."""
    documents = []
    for patient in range(num_patients):
        skill = random.normal(0, 1)
        for _ in range(1 + random.poisson(1)):
            labels = random.choice(["NAME", "DATE"], p=[0.6, 0.4], size=random.poisson(4))
            shifts = np.where(labels == "NAME", 3.0, 4.0) + skill
            scores = 1 / (1 + np.exp(-(shifts + random.normal(0, 1.5, len(labels)))))
            others = 1 / (1 + np.exp(-random.normal(-4, 1.5, 30)))
            mentions = tuple(zip(labels.tolist(), scores.tolist(), strict=True))
            documents.append(ScoredDocument(str(patient), mentions, tuple(others.tolist())))
    return documents


@pytest.fixture(scope="module")
def world() -> list[ScoredDocument]:
    """So many documents that shares in them are the truth."""
    return drawn(np.random.default_rng(0), 5_000)


@pytest.fixture(scope="module")
def truth(world: list[ScoredDocument]) -> dict[str, np.ndarray]:
    every: dict[str, list[float]] = {"": [], "NAME": [], "DATE": [], "other": []}
    for document in world:
        every["other"] += document.others
        for label, score in document.mentions:
            every[label].append(score)
            every[""].append(score)
    return {name: np.sort(scores) for name, scores in every.items()}


@pytest.mark.parametrize(
    ("draws", "least"), [(60, 0.9), pytest.param(400, 0.93, marks=pytest.mark.slow)]
)
def test_the_reported_interval_holds_the_true_recall(
    truth: dict[str, np.ndarray], draws: int, least: float
) -> None:
    """The whole report, simulated; the least is 95 % less the error of so many draws."""
    random = np.random.default_rng(1)
    held = dict.fromkeys(("", "NAME", "DATE", "other"), 0)
    recalls = []
    for number in range(draws):
        found = calibrate(drawn(random, 150), Wish(0.95), seed=number)
        recalls.append(1 - _below(truth[""], found.threshold))
        measured = found.measured
        shown = {
            "": measured.overall.share,
            "NAME": measured.by_type["NAME"].share,
            "DATE": measured.by_type["DATE"].share,
        }
        for name, share in shown.items():
            held[name] += share.low <= _below(truth[name], found.threshold) <= share.high
        lost = 1 - _below(truth["other"], found.threshold)
        held["other"] += measured.lost.low <= lost <= measured.lost.high
    assert min(held.values()) >= least * draws, held
    assert np.mean(recalls) == pytest.approx(0.951, abs=0.006), "what was asked for, on average"


def test_the_interval_counts_patients_where_their_mentions_are_missed_together() -> None:
    """The truth is known: one patient of ten keeps all mentions, each has eight."""
    random = np.random.default_rng(11)
    held = naive = 0
    for _ in range(100):
        is_missed = random.random(60) < 0.1
        documents = [
            ScoredDocument(str(n), (("NAME", 0.1 if missed else 0.9),) * 8, ())
            for n, missed in enumerate(is_missed)
        ]
        share = scores_at(documents, 0.5).overall.share
        held += share.low <= 0.1 <= share.high
        low, high = exact_interval(float(8 * is_missed.sum()), 480, 0.95)
        naive += low <= 0.1 <= high
    assert held >= 93
    assert naive < 70, "the simulation tells an interval that counts mentions from one that holds"


def _below(scores: np.ndarray, threshold: float) -> float:
    return float(np.searchsorted(scores, threshold, side="left") / len(scores))


def test_measuring_where_one_chose_would_flatter() -> None:
    """The simulation can fail: on the half that chose, the interval knows only the wish."""
    random = np.random.default_rng(2)
    chosen, measured = [], []
    for number in range(60):
        documents = drawn(random, 40)
        choosing, measuring = halves(documents, number)
        threshold = choose(choosing, Wish(0.9))
        chosen.append(scores_at(choosing, threshold).overall.share.value)
        measured.append(scores_at(measuring, threshold).overall.share.value)
    assert max(chosen) <= 0.1
    assert max(measured) > 0.15


def test_what_is_reported_was_measured_by_those_who_did_not_choose() -> None:
    documents = drawn(np.random.default_rng(7), 80)
    found = calibrate(documents, Wish(0.9), seed=3)
    choosing, measuring = halves(documents, 3)
    assert found.threshold == choose(choosing, Wish(0.9))
    assert found.measured == scores_at(measuring, found.threshold)
    assert found.chosen_on == sum(len(each.mentions) for each in choosing)


def test_halves_keep_patients_together() -> None:
    documents = drawn(np.random.default_rng(0), 30)
    one, other = halves(documents, 5)
    assert len(one) + len(other) == len(documents)
    assert not {each.group for each in one} & {each.group for each in other}
    assert halves(documents, 5) == (one, other) != halves(documents, 6)


def test_a_recall_that_would_take_too_much_is_refused_with_the_one_that_can_be_had() -> None:
    documents = [
        ScoredDocument(str(n), (("NAME", 0.9 if n % 10 else 0.001),), (0.002,) * 9 + (0.5,))
        for n in range(400)
    ]
    with pytest.raises(FednerError, match="99 % cannot be reached") as caught:
        calibrate(documents, Wish(0.99))
    reachable = float(caught.value.hint.split(" %")[0]) / 100
    assert 0.8 < reachable < 0.9
    found = calibrate(documents, Wish(reachable))
    assert found.measured.lost.value <= 0.2
    assert 0.002 < found.threshold <= 0.9
    everything = calibrate(documents, Wish(0.99, most_lost=1.0))
    assert everything.measured.overall.missed == 0
    assert everything.measured.lost.value == 1


def test_too_few_mentions_are_refused_with_the_number_needed() -> None:
    documents = [ScoredDocument(str(n), (("NAME", 0.9),), (0.1,)) for n in range(100)]
    with pytest.raises(
        FednerError, match=r"found 50 mentions in the half .* at least 99"
    ) as caught:
        calibrate(documents, Wish(0.99))
    assert "98 % can be asked for" in caught.value.hint
    assert calibrate(documents, Wish(0.98)).measured.overall.missed == 0
    with pytest.raises(FednerError, match="no mention"):
        calibrate([ScoredDocument(str(n), (), (0.1,)) for n in range(9)], Wish(0.5))


def test_each_type_by_itself_needs_a_lower_threshold() -> None:
    documents = drawn(np.random.default_rng(4), 600)
    together = calibrate(documents, Wish(0.95))
    each = calibrate(documents, Wish(0.95, each_type=True))
    assert each.threshold < together.threshold
    names = each.measured.by_type["NAME"].share.value
    assert names < together.measured.by_type["NAME"].share.value
    rare = [
        *documents,
        ScoredDocument("x", (("AGE", 0.9),), ()),
        ScoredDocument("y", (("AGE", 0.9),), ()),
    ]
    with pytest.raises(FednerError, match="of type AGE"):
        calibrate(rare, Wish(0.95, each_type=True), seed=1)


def test_what_is_likelier_a_mention_than_not_goes_where_that_costs_little() -> None:
    easy = [ScoredDocument(str(n), (("NAME", 0.95),), (0.1, 0.1, 0.6)) for n in range(400)]
    assert choose(easy, Wish(0.9)) > 0.9
    assert choose(easy, Wish(0.9, highest=0.5)) > 0.9, "a third of the other words would go"
    assert choose(easy, Wish(0.9, most_lost=0.4, highest=0.5)) == 0.5
    hard = [ScoredDocument(str(n), (("NAME", 0.2),), (0.1,)) for n in range(400)]
    assert choose(hard, Wish(0.9, highest=0.5)) == choose(hard, Wish(0.9)) <= 0.2


@pytest.mark.parametrize(
    "wrong", [{"recall": 1.0}, {"recall": 0.0}, {"recall": 0.9, "most_lost": 2}]
)
def test_shares_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(FednerError):
        Wish(**wrong)  # type: ignore[arg-type]


def test_people_read_how_many_remain() -> None:
    none = [ScoredDocument(str(n), (("NAME", 0.9),), ()) for n in range(300)]
    assert remain_words("NAME", scores_at(none, 0.5)) == "of 1,000 NAME none remain: 0 to 13"
    rare = [ScoredDocument(str(n), (("NAME", 0.9 if n else 0.1),), ()) for n in range(3_000)]
    assert "fewer than 1 remain" in remain_words("NAME", scores_at(rare, 0.5))
    few = [ScoredDocument(str(n), (("NAME", 0.9 if n % 50 else 0.1),), ()) for n in range(500)]
    assert remain_words("names", scores_at(few, 0.5), "NAME").startswith("of 1,000 names about 20")
