"""Noise that nobody adds alone: on the sum it is sigma, on the grid, for the least that survive."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from noised_steps import BATCH, BOUND, MULTIPLIER, SOURCES, UNITS, WIDE, clipped_step
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.grid import Grid
from fedner.privacy.entropy import Source, SystemEntropy
from fedner.privacy.mechanisms import (
    DISTRIBUTED,
    UNIT_LOCAL,
    PlatformPrivacy,
    distributed,
)
from fedner.privacy.mechanisms.distributed import discrete
from fedner.privacy.noise import Clipped, clip
from fedner.privacy.noise_shares import JointSum, box, grid_step, largest_count
from fedner.privacy.sum_terms import SumTerms
from sigmas import Z, accepts, only


def terms(source: Source, sum_terms: SumTerms | None = None, **changes: object) -> PlatformPrivacy:
    joint = JointSum(SumTerms(5) if sum_terms is None else sum_terms, WIDE)
    plain = PlatformPrivacy(DISTRIBUTED, BOUND, MULTIPLIER, UNITS, source=source, joint=joint)
    return replace(plain, **changes)  # type: ignore[arg-type]


def released(privacy: PlatformPrivacy, platform: str, value: float = 0.0) -> dict[str, Tensor]:
    source = privacy.source.at("round", 1, "platform", platform)
    assert DISTRIBUTED.on_gradient is not None
    return dict(DISTRIBUTED.on_gradient(privacy, clipped_step(source, value)))


def opened(privacy: PlatformPrivacy, names: str) -> Tensor:
    """What the server learns: the sum of what so many platforms send."""
    return torch.stack([released(privacy, name)["shared"] for name in names]).sum(0)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_sum_of_the_least_that_survive_without_colluders_has_sigma(kind: str) -> None:
    for sum_terms in (SumTerms(5), SumTerms(5, 0), SumTerms(5, 1, 4), SumTerms(5, 2)):
        privacy = terms(SOURCES[kind], sum_terms)
        least = sum_terms.least_survivors - sum_terms.colluding
        assert only(opened(privacy, "abcde"[:least]), MULTIPLIER * BOUND)
        # One share fewer is less noise than the ledger was told, one more is more.
        noise = privacy.discrete()
        assert noise is not None
        assert noise.deviation**2 * least * noise.step**2 >= (MULTIPLIER * BOUND) ** 2
        assert noise.deviation**2 * (least - 1) * noise.step**2 < (MULTIPLIER * BOUND) ** 2


@pytest.mark.parametrize("kind", SOURCES)
def test_the_private_part_has_full_noise_of_its_own(kind: str) -> None:
    privacy = terms(SOURCES[kind], SumTerms(50))
    value = released(privacy, "a")
    assert only(value["private"], MULTIPLIER * BOUND / BATCH)
    assert value["private"].dtype == torch.float32
    assert accepts(value["shared"], MULTIPLIER * BOUND / 49**0.5)


def test_shared_and_private_noise_cover_the_joint_norm_with_its_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A unit of norm C in both parts together: no split of C between them costs more."""
    asked: list[float] = []
    plain = distributed.gaussian
    monkeypatch.setattr(
        distributed, "gaussian", lambda own, m, source: asked.append(m) or plain(own, m, source)
    )
    privacy = terms(SystemEntropy())
    released(privacy, "a")
    noise = privacy.discrete()
    assert noise is not None
    extra = noise.sensitivity(BOUND) * noise.step - BOUND  # what rounding adds
    on_sum = noise.multiplier(BOUND) * (BOUND + extra)
    for share in (0.0, 0.3, 0.9, 1.0):
        shared, private = BOUND * share, BOUND * (1 - share**2) ** 0.5
        moved = ((shared + extra) / on_sum) ** 2 + (private / (asked[0] * BOUND)) ** 2
        assert moved <= (1 / MULTIPLIER) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("kind", SOURCES)
def test_what_leaves_is_whole_multiples_of_the_step_in_range(kind: str) -> None:
    privacy = terms(SOURCES[kind])
    noise, joint = privacy.discrete(), privacy.joint
    assert noise is not None
    assert joint is not None
    assert noise.step == grid_step(BOUND)
    value = released(privacy, "a", 0.123456)["shared"].numpy()
    counts = value / noise.step
    assert (counts == counts.round()).all()
    grid = Grid(noise.step, 64)
    words = grid.encode(value, joint.terms.num_platforms)
    assert (grid.decode(words) == value).all()
    assert largest_count(noise, BOUND) <= grid.largest_count(joint.terms.num_platforms)


def plain_sum(values: Tensor) -> Tensor:
    """What is rounded, without noise, in steps."""
    noise = JointSum(SumTerms(3), len(values)).noise(BOUND, 0.0)
    clipped = Clipped({"x": values}, BOUND)
    return discrete(clipped, noise, SystemEntropy()).value["x"] / noise.step


@given(
    values=st.lists(
        st.floats(-1e-5, 1e-5) | st.floats(-50, 50) | st.floats(-3e5, 3e5), min_size=1, max_size=20
    ),
    moved=st.lists(st.floats(-1, 1) | st.floats(-1e-6, 1e-6), min_size=20, max_size=20),
)
def test_one_unit_moves_rounded_sums_by_no_more_than_the_sensitivity(
    values: list[float], moved: list[float]
) -> None:
    first = torch.tensor(values, dtype=torch.float64)
    unit = torch.tensor(moved[: len(values)], dtype=torch.float64)
    unit = unit * (BOUND / max(BOUND, float(unit.norm())))
    noise = JointSum(SumTerms(3), len(values)).noise(BOUND, 0.0)
    change = plain_sum(first + unit) - plain_sum(first)
    assert float(change.norm()) <= noise.sensitivity(float(unit.norm())) + 1e-3
    assert float(plain_sum(first).abs().max()) <= box(BOUND)


def test_noise_is_not_cut_where_a_sum_is_at_the_end_of_the_grid() -> None:
    noise = JointSum(SumTerms(3), WIDE).noise(BOUND, 1.0)
    huge = Clipped({"x": torch.full((WIDE,), 1e30, dtype=torch.float64)}, BOUND)
    beyond = discrete(huge, noise, SystemEntropy()).value["x"] / noise.step - box(BOUND)
    assert only(beyond, noise.deviation)
    assert abs(float((beyond > 0).double().mean()) - 0.5) < Z * 0.5 / WIDE**0.5


def test_nothing_beyond_the_range_of_the_grid_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def absurd(count: int, *_: object) -> Tensor:
        return torch.full((count,), 10**17)

    monkeypatch.setattr(distributed, "discrete_gaussian", absurd)
    noise = JointSum(SumTerms(3), 4).noise(BOUND, 1.0)
    value = discrete(clip({"x": torch.zeros(4)}, BOUND), noise, SystemEntropy()).value["x"]
    assert (value == largest_count(noise, BOUND) * noise.step).all()
    Grid(noise.step).encode(value.numpy(), 3)  # raises where it does not fit


def test_the_nearest_grid_point_is_taken() -> None:
    step = grid_step(BOUND)
    found = plain_sum(torch.tensor([0.4, -0.6, 1.5], dtype=torch.float64) * step)
    assert found.tolist() == [0.0, -1.0, 2.0]


def test_more_numbers_than_the_noise_was_made_for_are_refused() -> None:
    noise = JointSum(SumTerms(3), 4).noise(BOUND, 1.0)
    with pytest.raises(FednerError, match="a sum of 5 numbers; the noise was made for 4"):
        discrete(clip({"x": torch.zeros(5)}, BOUND), noise, SystemEntropy())
    with pytest.raises(FednerError, match="not a finite"):
        discrete(Clipped({"x": torch.tensor([torch.nan])}, BOUND), noise, SystemEntropy())


def test_rounding_that_went_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "round", torch.Tensor.floor)
    with pytest.raises(FednerError, match="more than half a step"):
        plain_sum(torch.tensor([0.9], dtype=torch.float64) * grid_step(BOUND))


def test_the_server_divides_and_adds_nothing() -> None:
    release = DISTRIBUTED.on_sum
    assert release is not None
    total = release.received({"shared": torch.arange(4.0, dtype=torch.float64)}, BOUND)
    weights, rows = {"shared": torch.zeros(4)}, {"shared": 3}
    stated = replace(terms(SystemEntropy()).terms, padding_rows=rows)
    value = release.noised(stated, total, 2.0, weights, SystemEntropy())["shared"]
    assert value.tolist() == [0.0, 0.5, 1.0, 0.0]
    assert value.dtype == torch.float32
    assert release.divisors({"a": 3}, {"a": 2, "b": 9}, 1) == {"a": 2.0, "b": 1.0}


def test_shares_are_drawn_afresh_for_each_platform_and_round() -> None:
    for source in SOURCES.values():
        privacy = terms(source)
        left, right = released(privacy, "a")["shared"], released(privacy, "b")["shared"]
        both = torch.corrcoef(torch.stack([left, right]))
        assert abs(float(both[0, 1])) < Z / WIDE**0.5
        again = released(privacy, "a")["shared"]
        assert torch.equal(left, again) == source.is_simulation


@pytest.mark.parametrize("kind", SOURCES)
def test_tensors_of_one_update_have_shares_of_their_own(kind: str) -> None:
    noise = JointSum(SumTerms(3), 2 * WIDE).noise(BOUND, 1.0)
    zeros = clip({name: torch.zeros(WIDE) for name in ("x", "y")}, BOUND)
    value = discrete(zeros, noise, SOURCES[kind]).value
    both = torch.corrcoef(torch.stack([value["x"], value["y"]]))
    assert abs(float(both[0, 1])) < Z / WIDE**0.5


def test_the_facts_of_the_sum_are_needed_where_noise_is_shared_and_only_there() -> None:
    with pytest.raises(FednerError, match="joint sum None"):
        terms(SystemEntropy(), joint=None)
    with pytest.raises(FednerError, match="'unit-local' with joint sum JointSum"):
        terms(SystemEntropy(), mechanism=UNIT_LOCAL)


def test_the_ledger_is_told_the_facts_of_the_noise() -> None:
    privacy = terms(SystemEntropy(), SumTerms(7, 2))
    event = privacy.event(BATCH, 1)
    assert event.discrete == privacy.discrete()
    assert event.discrete is not None
    assert (event.discrete.shares, event.discrete.coordinates) == (5, WIDE)
    assert terms(SystemEntropy(), noise_multiplier=0.0).event(BATCH, 1).noise_multiplier == 0
