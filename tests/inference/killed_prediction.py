"""A prediction that kills itself in the middle of its work, as a power cut would.

    python killed_prediction.py WHEN NUMBER ARGUMENTS...

runs `fedner predict ARGUMENTS` and dies by SIGKILL: with `append` halfway through the line of the
NUMBER-th note of this start, with `write` while the output is written, with `placed` after the
output has its name and before anything is tidied up.
"""

import os
import shutil
import signal
import sys
from typing import Any

from fedner.inference import job


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(when: str, number: int) -> None:
    append, write, count = job.append_whole, job.write_found, 0

    def appending(descriptor: int, data: bytes) -> None:
        nonlocal count
        count += 1
        if count == number:
            append(descriptor, data[: len(data) // 2])
            die()
        append(descriptor, data)

    def writing(*arguments: Any) -> None:
        write(*arguments)
        die()

    if when == "append":
        job.append_whole = appending
    elif when == "write":
        job.write_found = writing
    else:
        shutil.rmtree = lambda *_arguments, **_options: die()  # type: ignore[assignment]
    from fedner.cli import main as command

    sys.argv = ["fedner", "predict", *sys.argv[3:]]
    command()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
