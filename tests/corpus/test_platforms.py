"""One corpus among platforms: disjoint and total, as equal or as skewed as asked, slices."""

from collections import Counter
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus import platforms
from fedner.corpus.groups import Grouping, take
from fedner.corpus.platforms import by_source, dominant_label, source_of_id
from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError

LABELS = ("ADE", "Drug", "none")
HOWS = st.sampled_from(["equal", "size-skew", "label-skew"])
UNITS = st.sampled_from(["sentence", "document", "patient"])
SEEDS = st.integers(0, 2**32)


def sentence(at: int, document: str = "d", labels: tuple[str, ...] = ()) -> Sentence:
    """A sentence with one token, unlike any other, or one token for each mention."""
    tokens = tuple(f"w{at}-{place}" for place in range(max(len(labels), 1)))
    entities = tuple(Entity(place, place + 1, label) for place, label in enumerate(labels))
    starts = tuple(range(0, 100 * len(tokens), 100))
    ends = tuple(start + len(token) for start, token in zip(starts, tokens, strict=True))
    return Sentence(document, at, tokens, starts, ends, entities, patient=f"p-{document[:2]}")


@st.composite
def corpora(draw, min_size=1):
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 30), st.lists(st.sampled_from(LABELS), max_size=3).map(tuple)),
            min_size=min_size,
            max_size=60,
        )
    )
    return tuple(
        sentence(at, f"{document:03}", labels) for at, (document, labels) in enumerate(rows)
    )


def divide(sentences, **asked):
    """Divide, and select the sentences."""
    return tuple(take(sentences, part) for part in platforms.divide(sentences, **asked))


def slices(sentences, share, seed, *, by="sentence"):
    parts = platforms.slices(Grouping.of(sentences, by), share, seed)
    return tuple(take(sentences, part) for part in parts)


def owners(part, by):
    if by == "sentence":
        return {s.index for s in part}
    return {s.document if by == "document" else s.patient for s in part}


@given(corpora(), HOWS, UNITS, st.integers(1, 6), st.floats(0.01, 100), SEEDS)
def test_a_division_is_disjoint_total_ordered_repeatable_and_keeps_groups_whole(
    sentences, how, by, into, alpha, seed
):
    asked = {"into": into, "how": how, "by": by, "alpha": alpha, "seed": seed}
    if len(owners(sentences, by)) < into:
        with pytest.raises(FednerError, match=rf"among {into} platforms: expected at least"):
            divide(sentences, **asked)
        return
    parts = divide(sentences, **asked)
    assert len(parts) == into
    assert all(parts)
    assert sorted((s for part in parts for s in part), key=lambda s: s.index) == list(sentences)
    for part in parts:
        assert [s.index for s in part] == sorted(s.index for s in part)
    whose = Counter(owner for part in parts for owner in owners(part, by))
    assert set(whose.values()) == {1}
    assert parts == divide(list(sentences), **asked)


@given(corpora(), st.integers(1, 8), SEEDS)
def test_equal_parts_differ_by_at_most_one_sentence(sentences, into, seed):
    if len(sentences) >= into:
        sizes = [len(part) for part in divide(sentences, into=into, how="equal", seed=seed)]
        assert max(sizes) - min(sizes) <= 1


@given(corpora(min_size=20), HOWS, st.integers(1, 4), st.integers(1, 5), SEEDS)
def test_every_platform_has_its_minimum_however_strong_the_skew(
    sentences, how, into, minimum, seed
):
    parts = divide(sentences, into=into, how=how, seed=seed, alpha=0.001, minimum=minimum)
    assert min(map(len, parts)) >= minimum


def test_a_minimum_that_whole_documents_cannot_give_is_an_error():
    sentences = [sentence(at, "big" if at < 8 else f"s{at}") for at in range(10)]
    with pytest.raises(FednerError, match=r"gets 1 sentences; expected at least 3") as caught:
        divide(sentences, into=3, how="equal", seed=0, minimum=3, by="document")
    assert "Lower the minimum" in caught.value.hint


def spread(sizes: list[int]) -> float:
    """How unequal sizes are: the sum of squared shares, 1/n for equal ones and at most 1."""
    return sum((size / sum(sizes)) ** 2 for size in sizes)


def test_sizes_are_more_unequal_the_smaller_alpha_and_as_unequal_as_dirichlet_says():
    sentences = [sentence(at) for at in range(2000)]
    n, num_seeds = 5, 60
    found = {}
    for alpha in (0.1, 0.5, 2, 50):
        draws = [
            divide(sentences, into=n, how="size-skew", seed=seed, alpha=alpha)
            for seed in range(num_seeds)
        ]
        found[alpha] = mean(spread([len(part) for part in parts]) for parts in draws)
        # The expected sum of squared shares of a symmetric Dirichlet: (alpha + 1) / (n alpha + 1).
        assert found[alpha] == pytest.approx((alpha + 1) / (n * alpha + 1), abs=0.08)
    assert found[0.1] > found[0.5] > found[2] > found[50]


def test_labels_are_more_unequally_spread_the_smaller_alpha_and_no_mention_is_a_label():
    kinds = ("ADE", "Drug", None)
    sentences = [
        sentence(at, labels=(kind,) if kind else ()) for at in range(200) for kind in kinds
    ]
    n, found = 4, {}
    for alpha in (0.1, 0.5, 5):
        spreads = {kind: [] for kind in kinds}
        for seed in range(60):
            parts = divide(sentences, into=n, how="label-skew", seed=seed, alpha=alpha)
            counts = [Counter(dominant_label([s]) for s in part) for part in parts]
            for kind in kinds:
                spreads[kind].append(spread([count[kind] for count in counts]))
        for kind in kinds:
            found[kind, alpha] = mean(spreads[kind])
            assert found[kind, alpha] == pytest.approx((alpha + 1) / (n * alpha + 1), abs=0.1)
    assert all(found[kind, 0.1] > found[kind, 0.5] > found[kind, 5] for kind in kinds)


def test_the_shares_of_one_label_do_not_follow_those_of_another():
    sentences = [sentence(at, labels=(LABELS[at % 2],)) for at in range(400)]
    same = 0
    for seed in range(40):
        parts = divide(sentences, into=4, how="label-skew", seed=seed, alpha=0.1)
        most = [
            max(range(4), key=lambda at: sum(s.entities[0].label == label for s in parts[at]))
            for label in LABELS[:2]
        ]
        same += most[0] == most[1]
    assert same < 25, "independent draws agree in about a quarter of the cases"


def test_extreme_alphas_give_a_division_or_a_clear_error():
    sentences = [sentence(at) for at in range(30)]
    assert sorted(map(len, divide(sentences, into=3, how="size-skew", seed=1, alpha=5e-324))) == [
        1,
        1,
        28,
    ]
    assert sorted(map(len, divide(sentences, into=3, how="size-skew", seed=1, alpha=1e6))) == [
        10,
        10,
        10,
    ]
    for alpha in (0, -1, float("nan"), float("inf")):
        with pytest.raises(FednerError, match="Concentration alpha: found"):
            divide(sentences, into=3, how="label-skew", seed=1, alpha=alpha)


@pytest.mark.parametrize("into", [None, 0, -2])
def test_a_number_of_platforms_is_needed(into):
    with pytest.raises(FednerError, match=f"Number of platforms: found {into}"):
        divide([sentence(0)], into=into, how="equal", seed=0)


def test_unknown_ways_and_minima_are_refused():
    with pytest.raises(FednerError, match="found 'fair'"):
        divide([sentence(0)], into=1, how="fair", seed=0)
    with pytest.raises(FednerError, match="found 0; expected 1 sentence or more"):
        divide([sentence(0)], into=1, how="equal", seed=0, minimum=0)


def test_the_dominant_label_is_the_most_frequent_then_the_first_of_the_alphabet():
    assert dominant_label([sentence(0, labels=("Drug", "ADE", "Drug"))]) == "Drug"
    assert dominant_label([sentence(0, labels=("Drug",)), sentence(1, labels=("ADE",))]) == "ADE"
    assert dominant_label([sentence(0)]) is None
    assert dominant_label([sentence(0, labels=("none",))]) == "none"


@pytest.mark.parametrize(
    ("document", "source"),
    [
        ("ARTHROTEC.12", "ARTHROTEC"),
        ("DICLOFENAC-SODIUM.7", "DICLOFENAC-SODIUM"),
        ("btc/a/17", "btc/a"),
        ("forum_003", "forum"),
        ("review", "review"),
        ("15939911", ""),
    ],
)
def test_the_source_is_read_off_the_id_of_the_document(document, source):
    assert source_of_id(sentence(0, document)) == source


def test_by_source_there_are_as_many_platforms_as_sources_in_order_of_name():
    sentences = [sentence(at, f"{'zab'[at % 3]}.{at}") for at in range(9)]
    parts = divide(sentences, how="source", seed=0)
    assert [[s.index for s in part] for part in parts] == [[1, 4, 7], [2, 5, 8], [0, 3, 6]]
    assert list(by_source(sentences)) == ["a", "b", "z"]
    assert divide(sentences, into=3, how="source", seed=5) == parts
    halves = divide(sentences, how="source", seed=0, source=lambda s: str(s.index >= 4))
    assert [len(part) for part in halves] == [4, 5]
    with pytest.raises(FednerError, match="found 3 sources; expected 2"):
        divide(sentences, into=2, how="source", seed=0)
    with pytest.raises(FednerError, match="Platform 1 of 3 gets 3 sentences; expected at least 4"):
        divide(sentences, how="source", seed=0, minimum=4)


def test_sentences_without_a_source_or_with_torn_groups_are_refused():
    with pytest.raises(FednerError, match=r"document '123' has no source"):
        divide([sentence(0, "a.1"), sentence(1, "123")], how="source", seed=0)
    torn = [sentence(0, "pa.1"), sentence(1, "pab.1")]
    assert len(divide(torn, how="source", seed=0, by="document")) == 2
    with pytest.raises(FednerError, match=r"has several sources \(pa, pab\)"):
        divide(torn, how="source", seed=0, by="patient")
    with pytest.raises(FednerError, match="no sentences"):
        divide([], how="source", seed=0)


@given(corpora(), st.floats(0.05, 1), UNITS, SEEDS)
def test_slices_are_disjoint_and_total(sentences, share, by, seed):
    if len(owners(sentences, by)) < int(1 / share + 1e-9):
        with pytest.raises(FednerError, match=f"expected at least one {by} for each"):
            slices(sentences, share, seed, by=by)
        return
    parts = slices(sentences, share, seed, by=by)
    assert all(parts)
    assert len(parts) == int(1 / share + 1e-9)
    assert sorted((s for part in parts for s in part), key=lambda s: s.index) == list(sentences)
    assert set(Counter(o for part in parts for o in owners(part, by)).values()) == {1}
    assert parts == slices(sentences, share, seed, by=by)


@pytest.mark.parametrize(
    ("share", "sizes"),
    [
        (0.1, [10] * 10),
        (0.2, [20] * 5),
        (0.3, [30, 30, 40]),
        (1 / 3, [33, 34, 33]),
        (0.6, [100]),
        (1, [100]),
        (0.01, [1] * 100),
    ],
)
def test_the_last_slice_takes_the_remainder(share, sizes):
    parts = slices([sentence(at) for at in range(100)], share, 1)
    assert [len(part) for part in parts] == sizes


def test_slices_are_random_and_impossible_ones_are_refused():
    sentences = [sentence(at) for at in range(50)]
    assert slices(sentences, 0.1, 1) != slices(sentences, 0.1, 2)
    with pytest.raises(FednerError, match=r"found 50 sentences for 1,000,000,000 slices"):
        slices(sentences, 1e-9, 1)
    with pytest.raises(FednerError, match="found 50 sentences for"):
        slices(sentences, 5e-324, 1)
    with pytest.raises(FednerError, match="found 0 sentences for 2 slices"):
        slices([], 0.5, 1)
    with pytest.raises(FednerError, match=r"found 1\.5; expected a share above 0"):
        slices(sentences, 1.5, 1)
