"""Adds points that were measured before `fedner reproduce` was there to the folder of a study.

python -m scripts.import_points OUT POINTS "machine, versions, date"
"""

import sys
from pathlib import Path

from fedner.errors import FednerError
from fedner.reproduce.beyond.earlier import import_points


def main(arguments: list[str]) -> int:
    """Import the points that the arguments name."""
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        number = import_points(Path(arguments[0]), Path(arguments[1]), arguments[2])
    except FednerError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{number:,} cells imported")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
