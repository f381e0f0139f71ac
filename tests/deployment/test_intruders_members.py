"""A platform of the study that means ill: what it sends is refused by name, and the run goes on."""

import json
import os
from pathlib import Path

import psutil
import pytest
from live import NAMES, RUN, SERVER, Live, live, quick_keys, tiny_settings

from fedner.engines.flare.processes import members

pytestmark = pytest.mark.deployment
HOOKS = Path(__file__).parent / "intruder_hooks"
INTRUDER = NAMES[2]
ROUNDS = 10
MOST = 900 * 2**20  # bytes that the server's job may ever hold; an honest one holds 300 MB
# What happens to the intruder's answer, by round; the first and the last one are honest.
EXPECTED = {
    2: "malformed",  # a number that is not finite
    3: "shape",
    4: "norm",
    5: "malformed",  # no message at all
    6: "malformed",  # in another's name
    7: "round",  # of another round
    8: "malformed",  # 256 MB of nothing
    9: "no-reply",  # later than the timeout
}


def test_what_a_hostile_platform_sends_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tiny_settings(ROUNDS, participation={"quorum": 2, "timeout": 5.0})
    with quick_keys(), live(tmp_path, settings) as federation:
        federation.start(SERVER, *NAMES[:2])
        with monkeypatch.context() as patch:
            patch.setenv("INTRUDER", INTRUDER)
            patch.setenv("PYTHONPATH", f"{HOOKS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
            federation.start(INTRUDER)
        federation.wait_connected()
        federation.submit()
        federation.wait_round(ROUNDS - 1)
        assert _largest(federation) < MOST
        (job,) = federation.wait_done()
        assert job.is_done
        rounds = _rounds(federation)
    assert {number: code for number, code in rounds.items() if code} == EXPECTED
    said = (tmp_path / f"{SERVER}.log").read_text().splitlines()
    for number in range(1, ROUNDS + 1):
        (line,) = [line for line in said if f" - round {number}: " in line]
        assert (f"; {INTRUDER}: " in line) == (number in EXPECTED), "the log names it"


def _rounds(federation: Live) -> dict[int, str]:
    """Return why the intruder's answer was not taken, by round; everybody else's was."""
    path = federation.homes.server.runs / RUN / "rounds.jsonl"
    found = {}
    for line in map(json.loads, path.read_text().splitlines()):
        told = [*line["refusals"], *line["failures"]]
        assert {each["platform"] for each in told} <= {INTRUDER}
        found[line["round"]] = ", ".join(each["code"] for each in told)
        assert set(NAMES[:2]) <= set(line["losses"])
    assert list(found) == list(range(1, ROUNDS + 1))
    return found


def _largest(federation: Live) -> int:
    """Return the most memory that a process of the server holds."""
    home = federation.homes.server.path
    return max(psutil.Process(pid).memory_info().rss for pid in members(home))
