"""Distributed noise over FLARE: real noise, a ledger at every platform, the server opens sums."""

import json
from pathlib import Path

import pytest
from dp_live import assert_charged_once, dp_settings
from live import RUN, live, quick_keys

from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger_owner import ledger_chain
from fedner.runs.disclosure_record import RECORD, read_record

pytestmark = [pytest.mark.deployment, pytest.mark.slow]


def test_every_ledger_is_charged_and_no_share_leaves_in_the_clear(tmp_path: Path) -> None:
    settings = dp_settings(tmp_path, 2, "distributed", transport={"secure_sum": True})
    with quick_keys(), live(tmp_path, settings) as federation:
        federation.start()
        federation.wait_connected()
        federation.submit()
        (job,) = federation.wait_done()
        assert job.is_done
        assert assert_charged_once(federation, tmp_path, RUN, 2) == 0
        for name, home in federation.homes.platforms.items():
            events = [e.event for e in ledger_chain(tmp_path / "ledgers" / name).releases]
            assert all(isinstance(e, GaussianRelease) for e in events)
            assert [e.discrete.shares for e in events if e.discrete is not None] == [2, 2]  # type: ignore[union-attr]
            lines = [x for x in read_record(home.path / RECORD).lines if x.verb == "round"]
            assert {x.kind for x in lines} == {"SumMessage"}
            assert {t["type"] for x in lines for t in x.tensors} == {"int64"}
        rounds = (federation.homes.server.runs / RUN / "rounds.jsonl").read_text().splitlines()
        assert [json.loads(line)["norms"] for line in rounds] == [{}] * 2
