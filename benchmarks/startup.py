"""How long `fedner --help` takes beyond a bare interpreter: at most 0.5 s, and no torch import."""

import statistics
import subprocess
import sys
import time

REPEATS = 9


def _seconds(command: list[str]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> list[tuple[str, float, str]]:
    run_help = "import sys; sys.argv = ['fedner', '--help']; from fedner.cli import main; main()"
    bare = _seconds([sys.executable, "-c", "pass"])
    shown = _seconds([sys.executable, "-c", run_help])
    return [
        ("bare interpreter", bare, "s"),
        ("fedner --help", shown, "s"),
        ("fedner --help beyond a bare interpreter (at most 0.5)", shown - bare, "s"),
    ]


if __name__ == "__main__":
    for row in main():
        print(*row)
