"""`python -m fedner`: the command line."""

from fedner.cli import main

main()
