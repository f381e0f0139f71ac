"""The process of the watchdog beside a server: `python -m fedner.runs.deployment.watching HOME`.

A process of its own, because FLARE's sessions change the working folder and outlive a server that
dies; `fedner server start` starts it, and starts it again if it ends.
"""

import os
import signal
import sys
import threading
from datetime import datetime
from pathlib import Path

from fedner.engines.flare.session import AdminKit
from fedner.engines.flare.watchdog import Watchdog
from fedner.runs.deployment.homes import ServerHome


def watch(home: ServerHome) -> None:
    """Look after the runs of a server until SIGTERM."""
    os.chdir(home.path)  # it outlives the folder that it was started in
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    kit = AdminKit(home.watchdog.kit, home.watchdog.name)
    Watchdog(kit, home.runs, say=_say).watch(stopping)


def _say(line: str) -> None:
    moment = f"{datetime.now():%Y-%m-%d %H:%M:%S,%f}"[:-3]
    print(f"{moment} - watchdog - {line}", flush=True)


if __name__ == "__main__":
    watch(ServerHome(Path(sys.argv[1]).resolve()))
