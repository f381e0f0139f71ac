"""Hostile orders: all refused; a check that lets one pass is a leak, one that refuses all none."""

import pytest
from audited import target

from fedner.audit import hostile_orders
from fedner.audit.finding import DEFENCES
from fedner.audit.hostile_orders import audit_hostile_orders
from fedner.federated.messages import Order
from fedner.federated.orders import Expected, OrderRefusedError, checked_order


def test_hostile_orders_are_refused_and_an_honest_one_is_not() -> None:
    row = audit_hostile_orders(target())
    assert [each.defence for each in row] == list(DEFENCES)
    assert row[0].result == 0.0
    assert row[0].power_on_planted_leak == 1.0
    assert row[0].verdict == "no leak found"
    assert {each.verdict for each in row[1:]} == {"as none"}


def test_a_check_that_forgets_rounds_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(order: Order, expected: Expected) -> Order:
        return order if order.round < 1 else checked_order(order, expected)

    monkeypatch.setattr(hostile_orders, "checked_order", forgetful)
    row = audit_hostile_orders(target())
    assert row[0].verdict == "leak"
    assert row[0].note == "taken: round 0, round -1"


def test_a_platform_that_refuses_everything_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_order: Order, _expected: Expected) -> Order:
        raise OrderRefusedError("no")

    monkeypatch.setattr(hostile_orders, "checked_order", closed)
    assert audit_hostile_orders(target())[0].verdict == "inconclusive"
