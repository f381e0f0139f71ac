"""Every check of the house in one script: `make check`, the pre-commit hook and CI all run this.

All checks run, whatever the earlier ones said, so that one look shows everything to fix.
"""

import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
CHECKS = {
    "format": [str(BIN / "ruff"), "format", "--check", "."],
    "lint": [str(BIN / "ruff"), "check", "."],
    "types": [str(BIN / "mypy")],
    "direction of imports": [str(BIN / "lint-imports"), "--no-cache"],
}


def main() -> int:
    root = Path(__file__).resolve().parents[1]
    failed = []
    for name, command in CHECKS.items():
        print(f"== {name}", flush=True)
        if subprocess.run(command, cwd=root, check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
