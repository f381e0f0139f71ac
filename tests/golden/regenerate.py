"""Write the golden records anew: `python tests/golden/regenerate.py [NAME ...]`.

Only after a change that is meant to move them. What moves is printed: say in the commit why. Names
of example federations need the development corpora (FEDNER_DATA) and the encoder's package; without
names they are written anew where these are found.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import example_runs
import golden_runs
from golden_curve import curves
from golden_runs import differences, recorded

from fedner.federated.answering import one_thread

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def main(names: list[str]) -> int:
    known = [*golden_runs.RUNS, *example_runs.RUNS]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no golden runs {unknown}; expected some of {known}", file=sys.stderr)
        return 2
    for name in (each for each in golden_runs.RUNS if not names or each in names):
        with tempfile.TemporaryDirectory() as folder, one_thread():
            values = golden_runs.computed(name, Path(folder) / "run")
        write(golden_runs.FOLDER, name, golden_runs.RUNS[name], golden_runs.TOLERANCES, values)
    examples = [each for each in example_runs.RUNS if not names or each in names]
    code = write_examples(examples, is_asked_for=bool(names))
    for file, text in curves().items():
        (golden_runs.FOLDER / file).write_text(text)
    return code


def write_examples(names: list[str], *, is_asked_for: bool) -> int:
    """Write the records of example federations; they are left as they are without their data."""
    data, encoder = Path(os.environ.get("FEDNER_DATA", DATA)), example_runs.encoder()
    if names and (encoder is None or not data.is_dir()):
        print(f"{', '.join(names)}: needs {data} and {example_runs.ENCODER}", file=sys.stderr)
        return 2 if is_asked_for else 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder, one_thread():
            place = example_runs.laid_out(data, Path(str(encoder)), Path(folder) / "examples")
            values = example_runs.computed(name, place, Path(folder) / "run")
        write(example_runs.FOLDER, name, example_runs.RUNS[name], example_runs.TOLERANCES, values)
    return 0


def write(
    folder: Path,
    name: str,
    settings: tuple[str, ...],
    tolerances: Mapping[str, Any],
    values: Mapping[str, Mapping[str, float]],
) -> None:
    """Write a record; say what moved."""
    folder.mkdir(parents=True, exist_ok=True)
    is_new = not (folder / f"{name}.json").is_file()
    for line in ["new"] if is_new else differences(values, recorded(name, folder)):
        print(f"{name}: {line}")
    record = {"settings": list(settings), "tolerances": tolerances, "values": values}
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"{name}: written")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
