"""Write the golden records anew: `python tests/golden/regenerate.py [NAME ...]`.

Only after a change that is meant to move them. What moves is printed: say in the commit why.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from golden_curve import curves
from golden_runs import FOLDER, RUNS, TOLERANCES, computed, differences, recorded

from fedner.engines.roster import one_thread


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(RUNS))
    if unknown:
        print(f"no golden runs {unknown}; expected some of {list(RUNS)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name in names or RUNS:
        with tempfile.TemporaryDirectory() as folder, one_thread():
            values = computed(name, Path(folder) / "run")
        for line in _moved(name, values):
            print(f"{name}: {line}")
        record = {"settings": list(RUNS[name]), "tolerances": TOLERANCES, "values": values}
        (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(f"{name}: written")
    for file, text in curves().items():
        (FOLDER / file).write_text(text)
    return 0


def _moved(name: str, values: dict[str, Any]) -> list[str]:
    if not (FOLDER / f"{name}.json").is_file():
        return ["new"]
    return list(differences(values, recorded(name)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
