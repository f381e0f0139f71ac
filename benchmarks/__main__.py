"""Run every benchmark, or those named: `python -m benchmarks [NAME ...]`.

Each module has `main() -> list[(name, value, unit)]`. The machine, the date and the versions are
printed first, because a number without them means nothing.
"""

import datetime
import importlib
import os
import pkgutil
import platform
import sys

import benchmarks


def machine() -> str:
    """Return what the numbers were measured on."""
    import numpy
    import torch

    return (
        f"{datetime.date.today()}, {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}"
    )


def main(names: list[str]) -> int:
    """Run the benchmarks and print one line per result."""
    found = pkgutil.iter_modules(benchmarks.__path__)
    known = [each.name for each in found if not each.ispkg and each.name[0] != "_"]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no such benchmark: {unknown}; there are {known}", file=sys.stderr)
        return 2
    print(machine(), flush=True)
    for name in names or known:
        print(f"\n== {name}", flush=True)
        for what, value, unit in importlib.import_module(f"benchmarks.{name}").main():
            print(f"{what:<72} {value:>12,.3f} {unit}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
