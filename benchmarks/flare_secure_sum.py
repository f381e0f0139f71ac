"""Seconds of a round over FLARE with and without a secure sum: 3, 6 and 10 platforms, 1 MB.

    python -m benchmarks.flare_secure_sum

Real processes on loopback, as in `flare_scale`: the same tagger, the same machine, one after the
other.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.flare_scale import _settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "deployment"))

from live import RUN, live, quick_keys

from fedner.settings import Settings
from fedner.settings.sections import TransportSettings

PLATFORMS = (3, 6, 10)
MEGABYTES = 1.0
Row = tuple[str, float, str]


def seconds_of_a_round(platforms: int, *, is_secure: bool) -> float:
    """Return the median of a run's rounds, without the first."""
    settings = _settings(MEGABYTES, platforms)
    if not isinstance(settings, Settings):
        raise TypeError("expected settings")
    transport = TransportSettings(secure_sum=is_secure)
    asked = settings.model_copy(update={"transport": transport})
    with (
        quick_keys(),
        tempfile.TemporaryDirectory() as folder,
        live(Path(folder), asked) as federation,
    ):
        federation.start()
        federation.wait_connected(seconds=300)
        federation.submit()
        federation.wait_done(seconds=600)
        lines = (federation.homes.server.runs / RUN / "rounds.jsonl").read_text().splitlines()
    return statistics.median(json.loads(line)["seconds"] for line in lines[1:])


def main(platforms: Sequence[int] = PLATFORMS) -> list[Row]:
    """Measure; return (name, value, unit) rows."""
    rows: list[Row] = []
    for number in platforms:
        plain, secure = (seconds_of_a_round(number, is_secure=each) for each in (False, True))
        found = [
            (f"{number} platforms, in the clear", plain, "s"),
            (f"{number} platforms, secure sum", secure, "s"),
        ]
        for what, value, unit in found:
            print(f"{what:<40} {value:>8.3f} {unit}", flush=True)
        rows += found
    return rows


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or PLATFORMS)
