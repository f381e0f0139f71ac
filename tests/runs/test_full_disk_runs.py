"""A platform whose disk is full in the middle of a round: said so, and charged once in the end."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from guarded_sites import code, guarded, order_of, site_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fedner.federated.messages import Update
from fedner.privacy.ledger_owner import ledger_chain
from fedner.runs.disclosure_record import RECORD, read_record
from fedner.settings import Settings
from full_disk import full_disk


# Nothing fits; the ledger's lines do, the witness or the answer or the record does not.
@pytest.mark.parametrize("num_bytes", [0, 300, 900, 1500, 3000, 6000])
def test_no_release_is_charged_twice_and_none_is_lost(
    tiny: Callable[..., Settings],
    ledgers: Callable[..., tuple[str, ...]],
    tmp_path: Path,
    num_bytes: int,
) -> None:
    settings = tiny("privacy.noise_multiplier=1.0", *ledgers(1e6))
    site = site_of(settings, tmp_path / "run")
    answer = guarded(site, tmp_path / "home")
    one, two = order_of(site), order_of(site, round=2)
    assert code(answer(one)) == ""
    with full_disk(num_bytes):
        assert code(answer(two)) == "disk-full"
    first, again = answer(two), answer(two)
    answer.close()
    assert isinstance(first, Update)
    assert isinstance(again, Update)
    assert all((first.tensors[name] == again.tensors[name]).all() for name in first.tensors)
    releases = ledger_chain(Path(str(site.own.ledger))).releases
    assert [each.round for each in releases] == [1, 2]
    assert all(each.answer is not None for each in releases)
    sent = [line.round for line in read_record(tmp_path / "home" / RECORD).lines if line.is_update]
    assert sent == [1, 2, 2]
