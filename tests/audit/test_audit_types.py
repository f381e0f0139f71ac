"""Types of a platform from the gradient of a shared described head."""

import pytest
import torch
from audited import PROTECTION, target

from fedner.audit import described_types
from fedner.audit.described_types import DECOYS, TypesBudget, audit_types, lying_in_rows
from fedner.audit.observation import Observation
from fedner.models.layers.described import DescribedEmissions
from fedner.models.types import TypeVectors, type_vectors

BUDGET = TypesBudget(batch_size=8, rounds=3, trials=3)


def guesses() -> TypeVectors:
    held = target("LSTM-CRF", head="described")
    assert isinstance(held.tagger.emissions, DescribedEmissions)
    every = {**DECOYS, **held.tagger.emissions.descriptions}
    return type_vectors(every, encoder=None, words=held.words)


def test_types_are_named_in_the_clear_and_lost_in_local_noise() -> None:
    held = target("LSTM-CRF", head="described")
    row = {each.defence: each for each in audit_types(held, guesses(), PROTECTION, 1, BUDGET)}
    assert row["none"].result == 1.0
    assert row["none"].verdict == "leak"
    assert row["none"].power_on_planted_leak == 1.0
    assert row["none"].chance == pytest.approx(6 / 22)
    assert row["central"].verdict == "leak"  # the server sees it without noise
    assert row["secure-sum"].verdict == "leak"  # all platforms have the same types here
    assert row["local"].verdict == "no leak found"
    assert "promises nothing" in row["local"].note
    assert row["encryption"].verdict == "as none"


def test_noise_for_single_units_wears_off_over_rounds() -> None:
    held = target("LSTM-CRF", head="described")
    names = described_types._type_maps(held)
    every = guesses()
    named = []
    for rounds in (1, 60):
        budget = TypesBudget(batch_size=32, rounds=rounds)
        seen = described_types._added_up(held, names, "local", PROTECTION, budget, 1)
        found = lying_in_rows(seen, names, every.vectors)
        named.append({every.labels[each] for each in found})
    assert named == [set(), {"ADE", "Dosage", "Drug"}]


def test_rows_of_noise_name_nobody_and_a_part_above_it_is_named() -> None:
    draw = torch.Generator().manual_seed(3)
    vectors = torch.randn(9, 30, generator=draw)
    noise = 0.2 * torch.randn(24, 30, generator=draw)
    part = torch.outer(torch.ones(24), vectors[4])
    names = ["map"]
    for planted, expected in ((0.0, []), (0.2, [4])):
        seen = Observation({"map": noise + planted * part}, 0.2, 1)
        assert lying_in_rows(seen, names, vectors.numpy()) == expected


def test_a_private_or_free_head_has_nothing_to_query() -> None:
    private = target("LSTM-CRF", head="described", shared="encoder")
    free = target("LSTM-CRF")
    for held in (private, free):
        row = audit_types(held, guesses(), PROTECTION, 1, BUDGET)
        assert {each.verdict for each in row} == {"nothing to attack"}


@pytest.mark.parametrize("broken", [[], [0, 1]], ids=["names none", "names all"])
def test_a_broken_attack_has_no_power(monkeypatch: pytest.MonkeyPatch, broken: list[int]) -> None:
    monkeypatch.setattr(described_types, "lying_in_rows", lambda *_: broken)
    held = target("LSTM-CRF", head="described")
    row = {each.defence: each for each in audit_types(held, guesses(), PROTECTION, 1, BUDGET)}
    assert row["none"].power_on_planted_leak == 0.0
    assert {row[each].verdict for each in ("none", "local")} == {"inconclusive"}
