"""The command line: thin commands over the library. Heavy imports happen inside the commands."""

import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C while it still loads ends it like any later one."""
    try:
        from fedner.cli.app import main as run
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    run()
