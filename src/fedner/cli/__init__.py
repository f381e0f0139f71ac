"""The command line: thin commands over the library. Heavy imports happen inside the commands."""

from fedner.cli.app import main

__all__ = ["main"]
