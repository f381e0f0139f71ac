"""Words from a trained table's gradient: found in the clear, hidden by noise, never "safe"."""

import pytest
from audited import PROTECTION, target

from fedner.audit import words
from fedner.audit.finding import DEFENCES
from fedner.audit.words import WordsBudget, audit_words

BUDGET = WordsBudget(batch_size=4, trials=4)


def test_words_of_an_unprotected_batch_are_read_and_local_noise_hides_them() -> None:
    row = {each.defence: each for each in audit_words(target(), PROTECTION, 1, BUDGET)}
    assert tuple(row) == DEFENCES
    clear = row["none"]
    assert clear.result == pytest.approx(1.0)
    assert clear.power_on_planted_leak == 1.0
    assert clear.verdict == "leak"
    assert clear.chance is not None
    assert clear.chance < 0.8
    # Clipping alone names words as well: the server adds the noise later.
    assert row["central"].result == pytest.approx(1.0)
    assert row["local"].result is not None
    assert row["local"].result < clear.chance
    assert row["local"].verdict == "no leak found"
    assert row["distributed"].verdict == "no leak found"
    # A sum names the words of all.
    assert row["secure-sum"].result is not None
    assert 0.3 < row["secure-sum"].result < 0.9
    assert row["encryption"].verdict == "as none"
    assert row["encryption"].result is None


def test_a_frozen_table_has_nothing_to_read() -> None:
    row = audit_words(target(trains_words=False), PROTECTION, 1, BUDGET)
    assert {each.verdict for each in row} == {"nothing to attack"}
    private = audit_words(target(shared="nothing"), PROTECTION, 1, BUDGET)
    assert {each.verdict for each in private} == {"nothing to attack"}


def test_a_broken_attack_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "named_rows", lambda _seen: set())
    row = [each for each in audit_words(target(), PROTECTION, 1, BUDGET) if each.status == "run"]
    assert row
    assert {each.verdict for each in row} == {"inconclusive"}


def test_a_table_without_a_free_row_takes_no_plant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_free_rows", lambda *_: [-1])
    row = {each.defence: each for each in audit_words(target(), PROTECTION, 1, BUDGET)}
    assert row["none"].power_on_planted_leak == 0.0
    assert row["local"].verdict == row["none"].verdict == "inconclusive"
