"""A secure sum over FLARE: signed with the homes' keys, and a platform killed in each phase."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from live import (
    NAMES,
    RUN,
    SERVER,
    Live,
    assert_same_tensors,
    live,
    quick_keys,
    reference,
    tiny_settings,
)

from fedner.runs.disclosure_record import RECORD, read_record
from fedner.settings import Settings

pytestmark = pytest.mark.deployment
HOOKS = Path(__file__).resolve().parent / "kill_hooks"
VICTIM = "ward"


def secure_settings(rounds: int, **changes: Any) -> Settings:
    platforms = [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40} for name in NAMES
    ] + [{"name": VICTIM, "data": "synthetic:case-reports", "num_sentences": 30}]
    return tiny_settings(
        rounds, transport={"secure_sum": True}, platforms=platforms,
        participation={"quorum": 3}, **changes,
    )  # fmt: skip


def opened(federation: Live, name: str) -> list[dict[str, Any]]:
    path = federation.homes.platforms[name].path / "secure-sums.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_same_bits_as_in_one_process_and_what_left_is_on_record(tmp_path: Path) -> None:
    with quick_keys(), live(tmp_path, secure_settings(3)) as federation:
        for name, path in federation.settings.items():
            if name == VICTIM:  # takes part only where the server sees nothing but sums
                path.write_text(path.read_text() + "\n[policy]\nsecure_sum = true\n")
        federation.start()
        federation.wait_connected()
        federation.submit()
        (job,) = federation.wait_done()
        assert job.is_done
        assert_same_tensors(federation, reference(federation, tmp_path / "reference"))
        for name, home in federation.homes.platforms.items():
            lines = [each for each in read_record(home.path / RECORD).lines if each.round == 2]
            told = [(each.verb, each.kind, bool(each.tensors)) for each in lines if each.code == ""]
            assert told[:5] == [
                ("sum", "SumMessage", False),
                ("sum", "SumMessage", False),
                ("round", "SumMessage", True),
                ("sum", "SumMessage", False),
                ("sum", "SumMessage", False),
            ], name
            assert {t["type"] for each in lines for t in each.tensors} == {"int64"}
            assert [each["entry"] for each in opened(federation, name)] == ["sent", "opened"] * 3
        rounds = (federation.homes.server.runs / RUN / "rounds.jsonl").read_text().splitlines()
        assert [json.loads(line)["norms"] for line in rounds] == [{}] * 3


@pytest.mark.slow
def test_platforms_killed_in_each_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 of a job in phase k of round k + 1: the run goes on, and comes to the same bits."""
    names, box = (*NAMES, VICTIM), tmp_path / "box"
    for phase in range(1, 6):
        killed = box / names[phase % len(names)]
        killed.mkdir(parents=True, exist_ok=True)
        (killed / f"{phase + 1}-{phase}").touch()
    with quick_keys(), live(tmp_path, secure_settings(7)) as federation:
        federation.start(SERVER)
        for name in names:
            with monkeypatch.context() as patch:
                patch.setenv("KILL_BOX", str(box / name))
                path = f"{HOOKS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
                patch.setenv("PYTHONPATH", path)
                federation.start(name)
        federation.watch()
        federation.wait_connected()
        federation.submit()
        jobs = federation.wait_done(seconds=400)
        assert not list(box.glob("*/*")), "a job was killed in each phase"
        assert len(jobs) >= 6
        assert_same_tensors(federation, reference(federation, tmp_path / "reference"))
        for name in names:
            lines = [each for each in opened(federation, name) if each["entry"] == "opened"]
            lists = {(each["round"], each["members"]) for each in lines}
            assert len({number for number, _ in lists}) == len(lists), "one list in each round"
