"""Kills a platform's job where a phase of a secure sum is answered: KILL_BOX is set.

Python runs this file in every process whose PYTHONPATH begins with its folder. KILL_BOX is a
folder; a file ROUND-PHASE in it kills the job once (kill -9), after the answer was worked out and
recorded, before it leaves.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

BOX = "KILL_BOX"


def main(box: Path) -> None:
    from fedner.federated.message_bytes import order_from_bytes
    from fedner.runs.deployment import platform_job

    honest = platform_job.answer_bytes

    def killed(roster: Any, name: str, data: bytes) -> bytes:
        order = order_from_bytes(data)
        answer = honest(roster, name, data)
        mark = box / f"{order.round}-{order.phase}"
        if order.verb in ("round", "sum") and mark.exists():
            mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    platform_job.answer_bytes = killed


if os.environ.get(BOX) and "worker_process" in " ".join(sys.orig_argv):
    main(Path(os.environ[BOX]))
