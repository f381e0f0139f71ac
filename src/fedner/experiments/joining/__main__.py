"""python -m fedner.experiments.joining --data FOLDER --words FILE --context FOLDER --out FOLDER."""

import sys

from fedner.experiments.joining.running import main

if __name__ == "__main__":
    sys.exit(main())
